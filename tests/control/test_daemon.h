// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_TEST_DAEMON_H_
#define TESTS_CONTROL_TEST_DAEMON_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "broker/control/configuration.h"
#include "broker/control/configuration_reload.h"
#include "broker/control/control_server.h"
#include "broker/control/remote_access.h"
#include "broker/control/tcp_port.h"
#include "broker/fabric/fake/fake_fabric.h"
#include "broker/policy/policy.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "broker/survival/survival.h"
#include "tests/control/network_thread.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker {

// A configuration whose sockets every user may use.
Configuration TestConfiguration();

// A fake device in the network namespace `id`, with the address 192.0.2.`id` and the name "fake`id`".
FakeDevice TestDevice(uint64_t id);
// As TestDevice, where clients fetch the transport of a connection from the hand-off socket.
FakeDevice TestHandoffDevice(uint64_t id);
// 192.0.2.`id`, with `port`.
SocketAddress TestAddress(uint64_t id, uint16_t port = 0);

// As a daemon's first start has it: complaints of its certificates and its TCP port included.
absl::StatusOr<std::optional<RemoteAccess::Port>> OpenTcpPort(const Configuration& configuration);

// A server whose process nobody supervises and whose core nobody stores.
absl::StatusOr<std::unique_ptr<ControlServer>> StartAlone(const Configuration& configuration,
                                                          const TcpBounds& tcp_bounds = {});

// rdma-brokerd in this process: the control layer and the core, over fake devices on `network`, with its loop on a
// thread of its own and its sockets in a folder of its own. Several may share a network. Its core is stored where the
// configuration names a state directory. A daemon that cannot start ends the test's process.
class TestDaemon {
 public:
  explicit TestDaemon(NetworkThread& network, std::vector<FakeDevice> devices = {TestDevice(1)},
                      Configuration configuration = TestConfiguration(), const TcpBounds& tcp_bounds = {});
  ~TestDaemon() { Stop(); }
  TestDaemon(const TestDaemon&) = delete;
  TestDaemon& operator=(const TestDaemon&) = delete;

  // Stops it and waits until everything of it is gone. A second call does nothing.
  void Stop();
  // After Stop: starts a new one in the same folder, with the same devices and configuration.
  void Start();

  const std::string& folder() const { return folder_.path(); }
  std::string control_path() const { return folder() + "/control.sock"; }
  std::string handoff_path() const { return folder() + "/handoff.sock"; }
  // As gRPC wants it.
  std::string target() const { return "unix:" + control_path(); }

  // IP:PORT of its TCP port; "" where the configuration has none.
  std::string tcp_address() const { return server_->tcp_address(); }

  // The configuration has changed, in what may change while it runs.
  void Apply(const LoadedConfiguration& loaded);

  // Runs `task` on the loop thread and waits for its end. Not after Stop.
  void OnLoop(const std::function<void(const Broker&)>& task);
  // As OnLoop, with all of it.
  void OnServer(const std::function<void(ControlServer&)>& task);
  // As OnLoop, with what clients may fetch.
  void OnHandoffs(const std::function<void(const Broker&, HandoffTable&)>& task);
  // As a reload of the configuration does.
  void ReplacePolicy(const Policy& policy);
  // Runs `task` on the network's thread and waits for its end. Not after Stop.
  void OnFabric(const std::function<void(FakeFabric&)>& task);
  // What holds of the core is asked for again and again until it is so. False where it is not so after a while.
  bool Eventually(const std::function<bool(const Records&)>& condition);

 private:
  absl::StatusOr<std::unique_ptr<ControlServer>> StartStored();

  NetworkThread& network_;
  TemporaryFolder folder_;
  const std::vector<FakeDevice> devices_;
  Configuration configuration_;
  const TcpBounds tcp_bounds_;
  FakeSupervisor nobody_{false};
  DescriptorKeep keep_{nobody_};
  std::unique_ptr<Survival> survival_;  // Where it is stored.
  std::unique_ptr<ControlServer> server_;
  FabricRelay* relay_ = nullptr;
  std::thread thread_;
};

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_TEST_DAEMON_H_
