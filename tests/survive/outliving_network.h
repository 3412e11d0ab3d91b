// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_OUTLIVING_NETWORK_H_
#define TESTS_SURVIVE_OUTLIVING_NETWORK_H_

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "dataplane/unique_fd.h"
#include "tests/conformance/ndkpi/fake_surroundings.h"
#include "tests/control/network_thread.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker {

// A fake network with the fake adapter's host, in the test's process, which outlives the broker's processes, as a
// kernel does. They reach it by DistantFabric, one after the other.
class OutlivingNetwork {
 public:
  OutlivingNetwork();
  ~OutlivingNetwork();
  OutlivingNetwork(const OutlivingNetwork&) = delete;
  OutlivingNetwork& operator=(const OutlivingNetwork&) = delete;

  // Where a broker connects.
  std::string path() const { return folder_.path() + "/network.sock"; }
  // FakeSurroundings' commands.
  std::string Answer(const std::string& command) { return surroundings_.Answer(command); }

 private:
  void Serve();
  void Attend(UniqueFd broker);
  // On the network's thread, like the rest. Nothing: that was all so far.
  void Tell(const std::optional<HostReport>& report, const UniqueFd& transport = UniqueFd());
  void Join(std::shared_ptr<UniqueFd> broker, bool goes_on);
  void Carry(const HostRequest& request);
  void Leave();

  const TemporaryFolder folder_;
  ndkpi::FakeSurroundings surroundings_;
  NetworkThread& network_ = surroundings_.network();
  FakeHost host_{network_, {ndkpi::TheFakeDevice()}};
  // On the network's thread only.
  std::shared_ptr<UniqueFd> broker_;
  bool adopts_ = false;  // The broker has still to say that it has adopted what there was.
  bool ending_ = false;

  const UniqueFd listening_;
  std::thread server_;
};

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_OUTLIVING_NETWORK_H_
