// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_TESTING_FORMER_LIVES_H_
#define BROKER_FABRIC_IWARP_TESTING_FORMER_LIVES_H_

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "broker/fabric/iwarp/testing/fabric_life.h"
#include "broker/fabric/iwarp/testing/raw_peer.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// What a process says before it dies.
class LastWords {
 public:
  // `channel` is a SOCK_SEQPACKET socket and outlives it.
  explicit LastWords(int channel) : channel_(channel) {}

  // The records are stored as they are, and with Commit the supervisor is told what is needed no longer.
  void Store(FabricLife& life);
  void Commit(FabricLife& life);
  // The peer outlives the process.
  void Leave(const RawPeer& peer) { Send('p', {}, peer.fd()); }
  template <typename Value>
  void Tell(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    Send('t', {reinterpret_cast<const char*>(&value), sizeof value});
  }

 private:
  friend class FormerLives;
  friend class ChannelSupervisor;

  // One record: what it is, its bytes, and a descriptor unless that is -1.
  void Send(char kind, std::string_view bytes, int fd = -1) const;

  const int channel_;
};

// The lives of a fabric, each in a process of its own that dies of SIGKILL, and what outlives them: descriptors with
// the supervisor that this is, records that were committed, peers.
class FormerLives {
 public:
  using Script = std::function<void(FabricLife&, LastWords&)>;

  explicit FormerLives(IpFamily family, const IwarpOptions& options = {}) : family_(family), options_(options) {}
  FormerLives(const FormerLives&) = delete;
  FormerLives& operator=(const FormerLives&) = delete;

  // Runs `script` in the next process, which dies where it ends. This one has no other thread.
  void Live(const Script& script);
  // The next life, in this process.
  std::unique_ptr<FabricLife> GoOn();

  // In the order in which they were left and told.
  RawPeer TakePeer();
  template <typename Value>
  Value Told() {
    Value value = {};
    const std::string bytes = NextTold();
    if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  FakeSupervisor& supervisor() { return supervisor_; }
  // The names under which descriptors are kept, in order.
  std::vector<std::string> KeptNames() const;
  FabricRecords& records() { return records_; }

 private:
  [[noreturn]] void LiveAndDie(int channel, const Script& script);
  // False: the process has ended.
  bool Hear(int channel);
  std::string NextTold();

  const IpFamily family_;
  const IwarpOptions options_;
  FakeSupervisor supervisor_;
  FabricRecords records_;
  uint64_t last_id_ = 0;
  std::deque<UniqueFd> peers_;
  std::deque<std::string> told_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_TESTING_FORMER_LIVES_H_
