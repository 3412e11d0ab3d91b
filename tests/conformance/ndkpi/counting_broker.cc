// SPDX-License-Identifier: Apache-2.0

// rdma-brokerd with a single fabric, whose operations it counts.
//
//   counting_broker fake|iwarp|rxe|siw --config FILE
//
// Answers each line of its input with one: "count": how many operations the fabric has been asked for. With the fake
// fabric also FakeSurroundings' commands. Ends at the end of its input.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "broker/control/configuration_reload.h"
#include "broker/control/control_server.h"
#include "broker/fabric/fabric_records.h"
#include "broker/fabric/fake/fake_fabric.h"
#include "broker/fabric/iwarp/iwarp_fabric.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/fabric/rdmacm/testing/no_past.h"
#include "broker/log/log.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "tests/conformance/ndkpi/fake_surroundings.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

constexpr DeviceId kDevice(1);

// Counts what it passes on.
class CountingFabric final : public Fabric {
 public:
  CountingFabric(std::unique_ptr<Fabric> fabric, std::atomic<uint64_t>& count)
      : fabric_(std::move(fabric)), count_(count) {}

  void Start(ReportSink sink) override { fabric_->Start(std::move(sink)); }
  void Perform(const FabricRequest& request) override {
    ++count_;
    fabric_->Perform(request);
  }
  void MakeWay() override { fabric_->MakeWay(); }
  bool HasHandshakes() const override { return fabric_->HasHandshakes(); }

 private:
  const std::unique_ptr<Fabric> fabric_;
  std::atomic<uint64_t>& count_;
};

void Require(bool fine, const std::string& what) {
  if (fine) return;
  std::cerr << "counting_broker: " << what << "\n";
  std::exit(1);
}

template <typename Opened>
auto Required(Opened opened) {
  Require(opened.ok(), std::string(opened.status().message()));
  return *std::move(opened);
}

class CountingBroker {
 public:
  CountingBroker(const std::string& adapter, const Configuration& configuration)
      : server_(Required(StartAlone(configuration))) {
    std::vector<std::unique_ptr<Fabric>> fabrics;
    fabrics.push_back(std::make_unique<CountingFabric>(Open(adapter, configuration), count_));
    server_->Recover(std::move(fabrics));
    loop_ = std::thread([this] { server_->Run(); });
  }
  ~CountingBroker() {
    server_->Stop();
    loop_.join();
    server_.reset();
  }

  std::string Answer(const std::string& line) {
    if (line == "count") return std::to_string(count_);
    Require(fake_ != nullptr, "only the fake does this: " + line);
    return fake_->Answer(line);
  }

 private:
  std::unique_ptr<Fabric> Open(const std::string& adapter, const Configuration& configuration) {
    if (adapter == "iwarp") {
      return Required(IwarpFabric::Open(kDevice, {.crc = configuration.iwarp_crc}, server_->loop(), server_->handoffs(),
                                        keep_, fabric_records_));
    }
    if (adapter != "fake") {
      return Required(RdmaCmFabric::Open(kDevice, {.trust_qp_numbers = configuration.trust_qp_numbers}, no_past_.past(),
                                         server_->loop()));
    }
    fake_ = std::make_unique<ndkpi::FakeSurroundings>();
    return std::make_unique<FabricRelay>(fake_->network(), std::vector<FakeDevice>{ndkpi::TheFakeDevice()},
                                         server_->loop(), server_->handoffs());
  }

  std::atomic<uint64_t> count_ = 0;
  std::unique_ptr<ndkpi::FakeSurroundings> fake_;
  FakeSupervisor supervisor_{false};
  DescriptorKeep keep_{supervisor_};
  FabricRecords fabric_records_;
  NoPast no_past_;
  std::unique_ptr<ControlServer> server_;
  std::thread loop_;
};

void Serve(const std::string& adapter, const std::string& file) {
  // Debian's Abseil ends the process where it thinks that gRPC's locks might lead to a deadlock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // The answers have the standard output to themselves.
  StartLogging("counting_broker", LogFormat::kText, LogLevel::kError);
  CountingBroker broker(adapter, Required(LoadConfigurationFile(file)).configuration);
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << "answer: " << broker.Answer(line) << std::endl;
  }
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  rdmabroker::Serve(argv[1], argv[3]);
}
