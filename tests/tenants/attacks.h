// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_TENANTS_ATTACKS_H_
#define TESTS_TENANTS_ATTACKS_H_

#include <cstdint>
#include <limits>
#include <ostream>
#include <vector>

#include "tests/tenants/attacker.h"

namespace rdmabroker::tenants {

// A bound for one of an attack's counts (Attacker::Count): what it must have done, and what must have become of it.
struct Expected {
  const char* what = "";
  uint64_t least = 1;
  uint64_t most = std::numeric_limits<uint64_t>::max();
};

// What a hostile user does.
struct Attack {
  const char* name = "";
  // Goes on for as long as Attacker::GoesOn says, and says when it is under way.
  void (*run)(Attacker& attacker) = nullptr;
  std::vector<Expected> expected;
  // As how many users the broker sees it: over TCP each host is one.
  int users = 1;
  // The broker must end connections for what they hold or send, and count them as an excess.
  bool excessive = false;
};

// For GoogleTest.
inline void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.name; }

// The hosts that attacks over TCP come from: with them, as many connections as the port has for all.
inline constexpr int kHosts = 8;

// By what they abuse.
std::vector<Attack> FrameAttacks();
std::vector<Attack> HeaderAttacks();
std::vector<Attack> SessionAttacks();
std::vector<Attack> BatchAttacks();
std::vector<Attack> WaitingAttacks();
std::vector<Attack> TlsAttacks();
std::vector<Attack> SocketAttacks();

// All of them.
std::vector<Attack> Attacks();

}  // namespace rdmabroker::tenants

#endif  // TESTS_TENANTS_ATTACKS_H_
