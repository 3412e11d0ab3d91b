// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_TENANTS_ATTACKER_H_
#define TESTS_TENANTS_ATTACKER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::tenants {

// Where an attack finds what it attacks.
struct Places {
  std::string control_socket;
  std::string handoff_socket;
  std::string tcp;           // The TCP port, IP:PORT.
  std::string listener;      // The honest user's, IP:PORT: a port of user-space iWARP.
  std::string certificates;  // A folder: NAME.pem has certificates, NAME.key the private key of the first.
  std::string host;          // The attack comes from this address, and those behind it, to TCP ports.
};

// The process of a hostile user: where it strikes, for how long, and what has come of it. MayCall is for one thread,
// all else for any.
class Attacker {
 public:
  // Reads its standard input to the end, which ends the attack.
  explicit Attacker(Places places);
  ~Attacker() { input_.join(); }
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  const Places& places() const { return places_; }
  bool GoesOn() const { return goes_on_; }
  // Says, once, that the attack is under way.
  void SetsOn();
  // What it did and what it saw: "connections", "goaway 11".
  void Count(const std::string& what, uint64_t times = 1);
  // Whether so many calls more keep within a number a second. The broker ends connections of a user who makes more than
  // 50,000, or 2,000 at once (rpc::FrameBudget).
  bool MayCall(double a_second, double calls = 1);
  // "WHAT: TIMES" a line.
  void PrintCounts();

  // Connections, which do not block. Empty where it is refused.
  UniqueFd ConnectToUnix(const std::string& path, int type) const;
  // From the host `places().host`, or so many after it.
  UniqueFd ConnectToTcp(const std::string& address, int host = 0) const;

 private:
  const Places places_;
  std::atomic<bool> goes_on_ = true;
  std::atomic<bool> set_on_ = false;
  double calls_left_ = 0;  // Of MayCall, when it was asked last.
  absl::Time called_ = absl::Now();
  std::mutex mutex_;
  std::map<std::string, uint64_t> counts_;  // Guarded by mutex_.
  std::thread input_;
};

}  // namespace rdmabroker::tenants

#endif  // TESTS_TENANTS_ATTACKER_H_
