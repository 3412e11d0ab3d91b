// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_REMOTE_ACCESS_H_
#define BROKER_CONTROL_REMOTE_ACCESS_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "broker/control/accepting_thread.h"
#include "broker/control/configuration.h"
#include "broker/control/configuration_reload.h"
#include "broker/control/gate.h"
#include "broker/control/lasting_complaint.h"
#include "broker/control/remote_callers.h"
#include "broker/control/services.h"
#include "broker/control/tcp_port.h"
#include "broker/control/user_costs.h"
#include "broker/monitoring/metrics.h"
#include "broker/runtime/background_read.h"
#include "broker/runtime/loop.h"

namespace rdmabroker {

// Inspection and administration from off the node: the TCP port, its certificates, which it reads again as they change,
// and who may do what. Loop thread only, but for Open.
class RemoteAccess {
 public:
  // What there is before there is a server.
  struct Port {
    UniqueFd listener;
    ServerCertificates certificates;
    TcpBounds bounds;
  };
  // Nothing where the configuration has no TCP port. Errors as ListenOnTcp's.
  static absl::StatusOr<std::optional<Port>> Open(const LoadedConfiguration& loaded);

  // All of these must outlive it.
  struct Parts {
    const Services& services;
    AcceptingThread& accepting;
    UserCosts& costs;
    Loop& loop;
    Gate& gate;
    Metrics& metrics;
  };
  RemoteAccess(std::optional<Port> port, const Configuration& configuration, const Parts& parts);
  RemoteAccess(const RemoteAccess&) = delete;
  RemoteAccess& operator=(const RemoteAccess&) = delete;

  void StartAccepting();
  void StopAccepting();

  // A configuration that is new in part, with the certificates that its file has for a port. Its rights hold for the
  // next call; streams that it would refuse end soon. Gives what is in use then: where the file has no port any more,
  // this one's certificates are still those of the former files.
  Configuration Apply(Configuration configuration, const std::optional<ServerCertificates>& certificates);

  // As TcpPort's.
  void Drain();
  [[nodiscard]] bool HasConnections() const { return port_ != nullptr && port_->HasConnections(); }
  // IP:PORT where it listens; "" where it does not.
  std::string address() const { return port_ == nullptr ? "" : port_->address(); }

 private:
  using CertificateReader = BackgroundRead<absl::StatusOr<ServerCertificates>>;

  void WatchFiles(const CertificateFiles& files);
  void LookLater();
  void Take(const absl::StatusOr<ServerCertificates>& read);
  void Use(const ServerCertificates& certificates);
  // Identifies the caller as RemoteCallers does. Counts and logs a refusal.
  rpc::Status Admit(const PresentedChain& chain, const IpAddress& peer, absl::string_view action,
                    std::shared_ptr<const Caller>* caller);

  const Parts parts_;
  RemoteCallers callers_;
  Configuration configuration_;
  ServerCertificates in_use_;
  LastingComplaint complaint_;
  LastingComplaint overdue_;
  std::unique_ptr<CertificateReader> reader_;
  std::unique_ptr<TcpPort> port_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_REMOTE_ACCESS_H_
