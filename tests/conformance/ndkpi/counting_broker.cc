// SPDX-License-Identifier: Apache-2.0

// rdma-brokerd with a single fabric, whose operations it counts.
//
//   counting_broker fake|iwarp|rxe|siw --config FILE
//
// Answers each line of its input with one: "count": how many operations the fabric has been asked for. Of the fake
// fabric only: "occupy ADDRESS", "vacate ADDRESS": a process outside takes the address, and gives it back; "fail STEP
// STATUS": the next such request of its device fails so; "ask ADDRESS": a process outside, whose device has more than
// the broker's, asks to connect there; "stand", "go": nothing happens at the fabric from the one to the other. Ends at
// the end of its input.

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "broker/control/configuration.h"
#include "broker/control/control_server.h"
#include "broker/fabric/fabric_records.h"
#include "broker/fabric/fake/fake_fabric.h"
#include "broker/fabric/iwarp/iwarp_fabric.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/fabric/rdmacm/testing/no_past.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

constexpr DeviceId kDevice(1);
constexpr uint64_t kNetwork = 1;

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

IpAddress Ip(const char* text) { return *IpAddress::Parse(text); }

// Queue pairs on it are user-space iWARP's, over sockets of this machine.
FakeDevice TheFakeDevice() {
  FakeDevice fake = {.device =
                         MakeFakeDevice(kDevice, "fake0", kNetwork,
                                        {Ip("192.0.2.1"), Ip("192.0.2.2"), Ip("2001:db8::1"), Ip("2001:db8::2")})};
  fake.device.info.technology = RdmaTechnology::kIwarp;
  fake.device.client_ends_connections = true;
  return fake;
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
    Go();
    if (network_ != nullptr) {
      network_->Do([this](FakeNetwork&) { stranger_.reset(); });
    }
    server_->Stop();
    loop_.join();
    server_.reset();
  }

  std::string Answer(const std::string& line) {
    std::istringstream words(line);
    std::string command, object, what;
    words >> command >> object >> what;
    if (command == "count") return std::to_string(count_);
    Require(relay_ != nullptr, "only the fake does this: " + line);
    if (command == "stand") return Stand();
    if (command == "go") return Go();
    std::string answer = "done";
    network_->Do([&](FakeNetwork& network) {
      if (command == "occupy" || command == "vacate") {
        const PortClaim port = {kNetwork, PortSpace::kRdmaCm, *SocketAddress::Parse(object)};
        if (command == "vacate") {
          network.Vacate(port);
        } else if (!network.Occupy(port)) {
          answer = "occupied";
        }
      } else if (command == "ask") {
        Ask(network, *SocketAddress::Parse(object));
      } else if (command == "fail") {
        static const std::map<std::string, FakeFabric::Step> kSteps = {{"bind", FakeFabric::Step::kBind},
                                                                       {"connect", FakeFabric::Step::kConnect},
                                                                       {"complete", FakeFabric::Step::kComplete},
                                                                       {"accept", FakeFabric::Step::kAccept}};
        relay_->fake().FailNext(kDevice, kSteps.at(object), {.status = *StatusFromName(what)});
      } else {
        Require(false, "there is no command " + line);
      }
    });
    return answer;
  }

 private:
  std::string Stand() {
    standing_.emplace();
    network_->Post([go = standing_->get_future().share()] { go.wait(); });
    return "done";
  }
  std::string Go() {
    if (standing_) standing_->set_value();
    standing_.reset();
    return "done";
  }

  // On the network's thread.
  void Ask(FakeNetwork& network, const SocketAddress& destination) {
    constexpr EndpointId kEndpoint(1);
    const SocketAddress own = {Ip("192.0.2.3"), 1};
    const FakeDevice device = {.device = MakeFakeDevice(kDevice, "other", kNetwork, {own.ip})};
    const uint32_t more = 2 * device.device.info.max_inbound_read_limit;
    stranger_.reset();
    stranger_ = std::make_unique<FakeFabric>(network, std::vector<FakeDevice>{device});
    stranger_->Start([](const FabricReport&) {});
    stranger_->Perform(FabricBind{kDevice, kEndpoint, EndpointUse::kDedicated, {own.ip}, own.port});
    stranger_->Perform(FabricConnect{.device = kDevice,
                                     .connection = ConnectionId(1),
                                     .endpoint = kEndpoint,
                                     .session = SessionId(1),
                                     .qp = {1},
                                     .local = own,
                                     .peer = destination,
                                     .limits = {more, more}});
  }

  std::unique_ptr<Fabric> Open(const std::string& adapter, const Configuration& configuration) {
    if (adapter == "iwarp") {
      return Required(IwarpFabric::Open(kDevice, {.crc = configuration.iwarp_crc}, server_->watcher(),
                                        server_->handoffs(), keep_, fabric_records_));
    }
    if (adapter != "fake") {
      return Required(RdmaCmFabric::Open(kDevice, {.trust_qp_numbers = configuration.trust_qp_numbers}, no_past_.past(),
                                         server_->executor(), server_->watcher()));
    }
    network_ = std::make_unique<NetworkThread>();
    network_->Do([](FakeNetwork& network) {
      network.SetSilent(Ip("192.0.2.250"), true);
      network.SetUnreachable(Ip("203.0.113.1"), NdkStatus::kNetworkUnreachable);
    });
    auto relay = std::make_unique<FabricRelay>(*network_, std::vector<FakeDevice>{TheFakeDevice()}, server_->executor(),
                                               server_->handoffs());
    relay_ = relay.get();
    return relay;
  }

  std::atomic<uint64_t> count_ = 0;
  std::unique_ptr<NetworkThread> network_;
  FabricRelay* relay_ = nullptr;
  std::unique_ptr<FakeFabric> stranger_;        // On the network's thread only.
  std::optional<std::promise<void>> standing_;  // As long as nothing happens at the fabric.
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
  const auto log = spdlog::stderr_logger_mt("counting_broker");
  log->set_level(spdlog::level::err);
  spdlog::set_default_logger(log);
  CountingBroker broker(adapter, Required(ReadConfiguration(file)));
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
