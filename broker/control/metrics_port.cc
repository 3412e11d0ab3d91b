// SPDX-License-Identifier: Apache-2.0

#include "broker/control/metrics_port.h"

#include <utility>

#include "broker/log/log.h"
#include "broker/runtime/tcp_listener.h"

namespace rdmabroker {
namespace {

absl::StatusOr<UniqueFd> ListenAt(const std::string& address) {
  return ListenOnTcp("metrics.address", address, ScrapeServer::kMostConnections);
}

void LogNotServed(absl::string_view cause) {
  LogError("metrics not served", {{"cause", cause}, {"retry_seconds", absl::ToInt64Seconds(MetricsPort::kRetry)}});
}

}  // namespace

absl::StatusOr<UniqueFd> ListenForScrapes(const std::string& address, bool takes_over) {
  if (address.empty()) return UniqueFd();
  absl::StatusOr<UniqueFd> listener = ListenAt(address);
  if (listener.ok() || !takes_over) return listener;
  LogNotServed(listener.status().message());
  return UniqueFd();
}

MetricsPort::MetricsPort(UniqueFd listener, Settings settings, const Broker& broker, Metrics& metrics, Loop& loop)
    : settings_(std::move(settings)), broker_(broker), metrics_(metrics), loop_(loop) {
  if (settings_.address.empty()) return;
  if (listener) {
    Serve(std::move(listener));
  } else {
    TryAgain();
  }
}

MetricsPort::~MetricsPort() {
  loop_.CancelTimer(retry_);
  // A page that waits for the loop thread would wait for the one that is here.
  if (exposition_ != nullptr) exposition_->Close();
}

void MetricsPort::Serve(UniqueFd listener) {
  const std::string address = AddressOf(listener).ToString();
  lag_.emplace(metrics_, loop_);
  exposition_ = std::make_unique<Exposition>(
      loop_,
      [this] {
        Snapshot snapshot = TakeSnapshot(broker_.core());
        if (settings_.complete) settings_.complete(snapshot);
        return snapshot;
      },
      metrics_, settings_.directories);
  server_ = ScrapeServer::Start(std::move(listener), [this] { return exposition_->Page(); });
  if (server_ != nullptr) return LogInfo("metrics served", {{"address", address}});
  LogNotServed("this process gets no descriptor or no thread: raise its limits");
  TryAgain();
}

void MetricsPort::TryAgain() {
  retry_ = loop_.StartTimer(Loop::Now() + settings_.retry, [this] {
    retry_ = TimerId::kNone;
    absl::StatusOr<UniqueFd> listener = ListenAt(settings_.address);
    if (listener.ok()) return Serve(*std::move(listener));
    TryAgain();
  });
}

}  // namespace rdmabroker
