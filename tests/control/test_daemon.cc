// SPDX-License-Identifier: Apache-2.0

#include "tests/control/test_daemon.h"

#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "tests/control/patience.h"

namespace rdmabroker {
namespace {

void Require(bool fine, const std::string& what) {
  if (fine) return;
  std::fprintf(stderr, "test daemon: %s\n", what.c_str());
  std::abort();
}

IpAddress AddressOf(uint64_t id) { return {.bytes = {192, 0, 2, static_cast<uint8_t>(id)}}; }

}  // namespace

Configuration TestConfiguration() {
  Configuration configuration;
  configuration.socket_mode = 0666;
  configuration.socket_group = "";
  return configuration;
}

FakeDevice TestDevice(uint64_t id) {
  return {.device = MakeFakeDevice(DeviceId(id), "fake" + std::to_string(id), id, {AddressOf(id)})};
}

FakeDevice TestHandoffDevice(uint64_t id) {
  FakeDevice device = TestDevice(id);
  device.device.client_ends_connections = true;
  return device;
}

SocketAddress TestAddress(uint64_t id, uint16_t port) { return {AddressOf(id), port}; }

absl::StatusOr<std::optional<RemoteAccess::Port>> OpenTcpPort(const Configuration& configuration) {
  LoadedConfiguration loaded;
  loaded.configuration = configuration;
  if (configuration.tcp_address.empty()) return std::nullopt;
  const auto certificates = ReadServerCertificates(CertificateFilesOf(configuration), absl::Now());
  if (!certificates.ok()) return certificates.status();
  loaded.certificates = *certificates;
  return RemoteAccess::Open(loaded);
}

absl::StatusOr<std::unique_ptr<ControlServer>> StartAlone(const Configuration& configuration,
                                                          const TcpBounds& tcp_bounds) {
  auto port = OpenTcpPort(configuration);
  if (!port.ok()) return port.status();
  if (*port) (*port)->bounds = tcp_bounds;
  FakeSupervisor nobody(false);
  DescriptorKeep keep(nobody);
  return ControlServer::Start(
      {.configuration = configuration}, BrokerCore(configuration.limits), [](BrokerCore&) { return true; }, keep,
      *std::move(port));
}

TestDaemon::TestDaemon(NetworkThread& network, std::vector<FakeDevice> devices, Configuration configuration,
                       const TcpBounds& tcp_bounds)
    : network_(network),
      devices_(std::move(devices)),
      configuration_(std::move(configuration)),
      tcp_bounds_(tcp_bounds) {
  // Debian's Abseil ends the process where it thinks that gRPC's locks might lead to a deadlock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // spdlog makes its logger when it is first asked for. Done before there are loop threads: two that ask at once look
  // like a race to ThreadSanitizer, which does not see the library's locks.
  spdlog::default_logger_raw();
  configuration_.socket_directory = folder();
  Start();
}

absl::StatusOr<std::unique_ptr<ControlServer>> TestDaemon::StartStored() {
  auto survival = Survival::Open(configuration_.state_directory, configuration_.limits, keep_);
  if (!survival.ok()) return survival.status();
  survival_ = *std::move(survival);
  return ControlServer::Start(
      {.configuration = configuration_}, survival_->TakeCore(),
      [this](BrokerCore& core) { return survival_->Commit(core); }, keep_);
}

void TestDaemon::Start() {
  auto server = configuration_.state_directory.empty() ? StartAlone(configuration_, tcp_bounds_) : StartStored();
  Require(server.ok(), server.status().ToString());
  server_ = *std::move(server);
  auto relay = std::make_unique<FabricRelay>(network_, devices_, server_->loop(), server_->handoffs());
  relay_ = relay.get();
  std::vector<std::unique_ptr<Fabric>> fabrics;
  fabrics.push_back(std::move(relay));
  server_->Recover(std::move(fabrics));
  auto scrapes = ListenForScrapes(configuration_.metrics_address, false);
  Require(scrapes.ok(), scrapes.status().ToString());
  server_->ServeMetrics(*std::move(scrapes),
                        {configuration_.metrics_address, {configuration_.state_directory}, nullptr});
  thread_ = std::thread([this] { server_->Run(); });
}

void TestDaemon::Stop() {
  if (!thread_.joinable()) return;
  server_->Stop();
  thread_.join();
  server_.reset();
  survival_.reset();
}

void TestDaemon::Apply(const LoadedConfiguration& loaded) {
  OnLoop([&](const Broker&) { configuration_ = server_->Apply(loaded, loaded.configuration); });
}

void TestDaemon::OnLoop(const std::function<void(const Broker&)>& task) {
  std::promise<void> done;
  server_->loop().Post([&] {
    task(server_->broker());
    done.set_value();
  });
  done.get_future().wait();
}

void TestDaemon::OnServer(const std::function<void(ControlServer&)>& task) {
  OnLoop([&](const Broker&) { task(*server_); });
}

void TestDaemon::OnHandoffs(const std::function<void(const Broker&, HandoffTable&)>& task) {
  OnLoop([&](const Broker& broker) { task(broker, server_->handoffs()); });
}

void TestDaemon::ReplacePolicy(const Policy& policy) {
  LoadedConfiguration loaded{.configuration = configuration_};
  loaded.configuration.policy = policy;
  Apply(loaded);
}

void TestDaemon::OnFabric(const std::function<void(FakeFabric&)>& task) {
  network_.Do([&](FakeNetwork&) { task(relay_->fake()); });
}

bool TestDaemon::Eventually(const std::function<bool(const Records&)>& condition) {
  return Becomes([&] {
    bool holds = false;
    OnLoop([&](const Broker& broker) { holds = condition(broker.core().records()); });
    return holds;
  });
}

}  // namespace rdmabroker
