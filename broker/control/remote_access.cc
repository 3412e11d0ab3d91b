// SPDX-License-Identifier: Apache-2.0

#include "broker/control/remote_access.h"

#include <sys/socket.h>

#include <utility>

#include "absl/time/clock.h"
#include "broker/log/log.h"
#include "broker/runtime/tcp_listener.h"

namespace rdmabroker {
namespace {

// Between two looks at the files; a few small ones, read on another thread.
constexpr absl::Duration kBetweenLooks = absl::Seconds(2);

}  // namespace

absl::StatusOr<std::optional<RemoteAccess::Port>> RemoteAccess::Open(const LoadedConfiguration& loaded) {
  if (!loaded.certificates) return std::nullopt;
  absl::StatusOr<UniqueFd> listener = ListenOnTcp("tcp.address", loaded.configuration.tcp_address, SOMAXCONN);
  if (!listener.ok()) return listener.status();
  return Port{*std::move(listener), *loaded.certificates, TcpBounds()};
}

RemoteAccess::RemoteAccess(std::optional<Port> port, const Configuration& configuration, const Parts& parts)
    : parts_(parts), configuration_(configuration) {
  callers_.Set(configuration.tcp_administrators, configuration.tcp_inspectors);
  if (!port) return;
  in_use_ = port->certificates;
  callers_.Set(in_use_.revocations);
  port_ = std::make_unique<TcpPort>(
      std::move(port->listener), parts_.services, parts_.accepting, parts_.costs, parts_.loop, parts_.metrics,
      port->bounds,
      [this](const PresentedChain& chain, const IpAddress& peer, absl::string_view action,
             std::shared_ptr<const Caller>* caller) { return Admit(chain, peer, action, caller); });
  port_->Use(in_use_.tls);
}

void RemoteAccess::StartAccepting() {
  if (port_ == nullptr) return;
  LogInfo("serving over tcp", {{"address", port_->address()}});
  port_->StartAccepting();
  WatchFiles(CertificateFilesOf(configuration_));
  LookLater();
}

void RemoteAccess::StopAccepting() {
  if (port_ != nullptr) port_->StopAccepting();
}

void RemoteAccess::Drain() {
  if (port_ != nullptr) port_->Drain();
}

rpc::Status RemoteAccess::Admit(const PresentedChain& chain, const IpAddress& peer, absl::string_view action,
                                std::shared_ptr<const Caller>* caller) {
  Caller remote;
  rpc::Status admitted = callers_.Admit(chain, absl::Now(), &remote);
  remote.peer = peer;
  if (admitted.ok()) {
    *caller = std::make_shared<const Caller>(std::move(remote));
    return admitted;
  }
  const bool revoked = admitted.code == absl::StatusCode::kUnauthenticated;
  parts_.metrics.CountRefusedCaller(revoked ? CallerRefusal::kRevoked : CallerRefusal::kNotNamed);
  AuditEntry entry{
      .action = action, .caller = remote.IsRemote() ? &remote : nullptr, .rule = revoked ? "tcp.revoked" : "tcp"};
  entry.use.destination = peer;
  parts_.gate.Administered(false, entry, Loop::Now());
  return admitted;
}

Configuration RemoteAccess::Apply(Configuration configuration, const std::optional<ServerCertificates>& certificates) {
  callers_.Set(configuration.tcp_administrators, configuration.tcp_inspectors);
  if (port_ != nullptr && !certificates) {
    configuration.tcp_certificate = configuration_.tcp_certificate;
    configuration.tcp_private_key = configuration_.tcp_private_key;
    configuration.tcp_client_authorities = configuration_.tcp_client_authorities;
    configuration.tcp_revoked = configuration_.tcp_revoked;
  }
  const Configuration former = std::exchange(configuration_, configuration);
  if (port_ == nullptr) return configuration;
  if (former.tcp_administrators != configuration.tcp_administrators ||
      former.tcp_inspectors != configuration.tcp_inspectors) {
    port_->EndConnections();
  }
  if (CertificateFilesOf(former) != CertificateFilesOf(configuration)) WatchFiles(CertificateFilesOf(configuration));
  if (certificates) Use(*certificates);
  return configuration;
}

void RemoteAccess::WatchFiles(const CertificateFiles& files) {
  complaint_ = {};
  reader_ = std::make_unique<CertificateReader>(
      parts_.loop, [files] { return ReadServerCertificates(files, absl::Now()); },
      [this](const absl::StatusOr<ServerCertificates>& read) { Take(read); });
}

void RemoteAccess::LookLater() {
  parts_.loop.StartTimer(Loop::Now() + kBetweenLooks, [this] {
    reader_->Ask();
    LookLater();
  });
}

void RemoteAccess::Take(const absl::StatusOr<ServerCertificates>& read) {
  // A look in the middle of a renewal sees a certificate with the former key: the next one sees the rest.
  const std::string complaint(read.status().message());
  if (complaint_.Note(complaint)) LogError("certificates not replaced", {{"cause", complaint}});
  if (read.ok()) Use(*read);
  const std::string overdue = in_use_.revocations->Overdue(absl::Now());
  if (overdue_.Note(overdue)) {
    LogWarning("revocation list expired", {{"file", configuration_.tcp_revoked}, {"cause", overdue}});
  }
}

void RemoteAccess::Use(const ServerCertificates& certificates) {
  if (certificates == in_use_) return;
  const ServerCertificates former = std::exchange(in_use_, certificates);
  if (former.revoked != in_use_.revoked) {
    LogInfo("revocation lists replaced",
            {{"file", configuration_.tcp_revoked}, {"lists", in_use_.revocations->lists()}});
  }
  // Also where only the authorities have changed: which of them the lists revoke is decided when both are read.
  callers_.Set(in_use_.revocations);
  port_->EndConnections([this](const PresentedChain& chain) {
    return in_use_.revocations->Check(chain) != Revocations::Verdict::kNotRevoked;
  });
  if (former.chain == in_use_.chain && former.private_key == in_use_.private_key &&
      former.client_authorities == in_use_.client_authorities) {
    return;
  }
  LogInfo("certificates replaced", {{"certificate", configuration_.tcp_certificate}});
  port_->Use(in_use_.tls);
  if (former.client_authorities != in_use_.client_authorities) port_->EndConnections();
}

}  // namespace rdmabroker
