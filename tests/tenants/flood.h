// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_TENANTS_FLOOD_H_
#define TESTS_TENANTS_FLOOD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/tenants/attacker.h"
#include "tests/tenants/hostile_connection.h"

namespace rdmabroker::tenants {

// Several connections, each of which sends as fast as the broker takes it, and is made anew where the broker has ended
// it.
struct Flood {
  std::function<std::unique_ptr<HostileConnection>(Attacker&)> connect = [](Attacker& attacker) {
    return HostileConnection::Connect(attacker);
  };
  // Has the client send some more; false where that is enough until something has come back.
  std::function<bool(HostileConnection&)> send;
  size_t connections = 4;
  // The attack is under way once so many octets have been sent.
  uint64_t octets = 1;
};
void Run(Attacker& attacker, const Flood& flood);
// The same octets again and again.
void RunWith(Attacker& attacker, const std::string& octets);
// So many connections, each of which is made by `connect` and made anew once it has ended, and says nothing more.
void Hold(Attacker& attacker, size_t connections,
          const std::function<std::unique_ptr<HostileConnection>(Attacker&)>& connect);

// Exchanges what there is on all of them, and waits a little while where there is nothing.
void ExchangeAll(const std::vector<std::unique_ptr<HostileConnection>>& clients);

}  // namespace rdmabroker::tenants

#endif  // TESTS_TENANTS_FLOOD_H_
