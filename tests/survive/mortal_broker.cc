// SPDX-License-Identifier: Apache-2.0

// rdma-brokerd with a single fabric, which kills itself when it is told to; rdma-broker-keeper starts it anew.
//
//   mortal_broker iwarp|rxe|siw|PATH --config FILE
//
// PATH is an OutlivingNetwork's, whose fake adapter it has then.
//
// "die before COUNT" and "die after COUNT" on its input make it die before or after that commit from then on, by
// SIGKILL. Where that would end a handshake (docs/reliability.md) it waits for a later commit, unless "anyhow" follows.
// "live" takes that back.
// Each line is answered by one. Ends at the end of its input.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "broker/control/configuration_reload.h"
#include "broker/control/control_server.h"
#include "broker/fabric/iwarp/iwarp_fabric.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/log/log.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/systemd_supervisor.h"
#include "broker/survival/survival.h"
#include "tests/survive/distant_fabric.h"

namespace rdmabroker {
namespace {

constexpr DeviceId kDevice(1);

void Require(bool fine, const std::string& what) {
  if (fine) return;
  std::cerr << "mortal_broker: " << what << "\n";
  std::exit(1);
}

template <typename Opened>
auto Required(Opened opened) {
  Require(opened.ok(), std::string(opened.status().message()));
  return *std::move(opened);
}

bool HasHandshake(const Records& records) {
  return std::any_of(records.connectors.begin(), records.connectors.end(), [](const auto& entry) {
    const ConnectorState state = entry.second.state;
    return state != ConnectorState::kIdle && state != ConnectorState::kDead && state < ConnectorState::kEstablished;
  });
}

// A byte, after those of the processes before.
void Note(const std::string& file) { std::ofstream(file, std::ios::app).put('.'); }

// Over iWARP a handshake ends with the process. Elsewhere it goes on, unless its Connect is stored and not yet what the
// fabric has noted of it.
bool EndsHandshakes(const std::string& adapter) { return adapter == "iwarp" || adapter == "siw"; }

// When the process dies.
class Death {
 public:
  // `within_handshakes`: where such deaths are noted.
  Death(bool ends_handshakes, std::string within_handshakes)
      : ends_handshakes_(ends_handshakes), within_handshakes_(std::move(within_handshakes)) {}
  // Any thread. No commits: it lives.
  void Await(bool after, bool anyhow, uint64_t commits) {
    after_ = after;
    anyhow_ = anyhow;
    commits_ = commits;
  }
  // Around each commit, on one thread.
  void Before(const Records& records) {
    const uint64_t last_connect = std::exchange(last_connect_, records.counters.connection);
    const bool within_one = IsNear(HasHandshake(records), &had_handshake_);
    const bool near_connect = IsNear(records.counters.connection != last_connect, &had_connect_);
    uint64_t left = commits_;
    if (left > 1) commits_.compare_exchange_strong(left, left - 1);
    due_ = left == 1 && (anyhow_ || !(ends_handshakes_ ? within_one : near_connect));
    if (due_ && within_one) Note(within_handshakes_);
    if (due_ && !after_) Die();
  }
  void After() {
    if (due_) Die();
  }

 private:
  static void Die() { ::kill(::getpid(), SIGKILL); }
  // Of what this commit has, or the one before, if the process is to die before this one.
  bool IsNear(bool has, bool* had) const {
    const bool before = std::exchange(*had, has);
    return has || (before && !after_);
  }

  const bool ends_handshakes_;
  const std::string within_handshakes_;
  std::atomic<bool> after_ = false;
  std::atomic<bool> anyhow_ = false;
  std::atomic<uint64_t> commits_ = 0;  // 0: none is to come.
  uint64_t last_connect_ = 0;          // The number of the last attempt to connect.
  bool had_handshake_ = false;
  bool had_connect_ = false;
  bool due_ = false;
};

std::unique_ptr<Fabric> Open(const std::string& adapter, const Configuration& configuration, ControlServer& control,
                             Survival& survival) {
  if (adapter == "iwarp") {
    return Required(IwarpFabric::Open(kDevice, {.crc = configuration.iwarp_crc}, control.loop(), control.handoffs(),
                                      survival.descriptors(), survival.of_fabrics()));
  }
  const auto& known = control.broker().core().records().devices;
  if (adapter.find('/') != std::string::npos) {
    return Required(DistantFabric::Open(adapter, known.contains(kDevice), control.loop(), control.handoffs()));
  }
  std::vector<RdmaCmPast::Device> devices;
  for (const auto& [id, record] : known) {
    devices.push_back({id, record.device.name, record.removed});
  }
  return Required(RdmaCmFabric::Open(kDevice, {.trust_qp_numbers = configuration.trust_qp_numbers},
                                     {survival.descriptors(), survival.of_fabrics(), devices, survival.begins_anew()},
                                     control.loop()));
}

void TakeLines(Death& death) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string die, when, how;
    uint64_t commits = 0;
    words >> die >> when >> commits >> how;
    const bool dies = die == "die" && (when == "before" || when == "after") && commits > 0;
    Require(dies || line == "live", "there is no command " + line);
    death.Await(when == "after", how == "anyhow", commits);
    std::cout << "answer: done" << std::endl;
  }
  std::_Exit(0);
}

void Serve(const std::string& adapter, const std::string& file) {
  // Debian's Abseil ends the process where it thinks that gRPC's locks might lead to a deadlock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // The answers have the standard output to themselves.
  StartLogging("mortal_broker", LogFormat::kText, LogLevel::kError);
  const auto supervisor = Required(SystemdSupervisor::FromEnvironment());
  DescriptorKeep keep(*supervisor);
  const LoadedConfiguration loaded = Required(LoadConfigurationFile(file));
  const Configuration& configuration = loaded.configuration;
  // So that tests can count them (new_mortal_broker.h).
  Note(configuration.socket_directory + "/lives");
  const auto survival = Required(Survival::Open(configuration.socket_directory + "/state", configuration.limits, keep));
  Death death(EndsHandshakes(adapter), configuration.socket_directory + "/deaths_within_handshakes");
  const auto commit = [&](BrokerCore& core) {
    death.Before(core.records());
    const bool stored = survival->Commit(core);
    death.After();
    return stored;
  };
  const auto control = Required(ControlServer::Start(loaded, survival->TakeCore(), commit, keep));
  std::vector<std::unique_ptr<Fabric>> fabrics;
  fabrics.push_back(Open(adapter, configuration, *control, *survival));
  control->Recover(std::move(fabrics));
  keep.ForgetTheRest();
  control->loop().Post([&supervisor] { Require(supervisor->Ready().ok(), "nobody supervises it"); });
  std::thread(TakeLines, std::ref(death)).detach();
  control->Run();
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  rdmabroker::Serve(argv[1], argv[3]);
}
