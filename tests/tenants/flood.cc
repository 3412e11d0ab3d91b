// SPDX-License-Identifier: Apache-2.0

#include "tests/tenants/flood.h"

#include <poll.h>

#include <cstdint>

namespace rdmabroker::tenants {

void ExchangeAll(const std::vector<std::unique_ptr<HostileConnection>>& clients) {
  constexpr int kLookMs = 10;
  std::vector<pollfd> ready;
  for (const auto& client : clients) {
    if (client == nullptr || client->over()) continue;
    client->Exchange();
    ready.push_back({client->fd(), static_cast<int16_t>(POLLIN | (client->writes() ? POLLOUT : 0)), 0});
  }
  ::poll(ready.data(), ready.size(), kLookMs);
}

void Run(Attacker& attacker, const Flood& flood) {
  std::vector<std::unique_ptr<HostileConnection>> clients(flood.connections);
  while (attacker.GoesOn()) {
    for (auto& client : clients) {
      if (client == nullptr || client->over()) client = flood.connect(attacker);
      if (client == nullptr) attacker.Count("not connected");
      while (client != nullptr && client->HasRoom() && flood.send(*client)) {
      }
    }
    ExchangeAll(clients);
    uint64_t sent = 0;
    for (const auto& client : clients) sent += client == nullptr ? 0 : client->sent();
    if (sent >= flood.octets) attacker.SetsOn();
  }
}

void RunWith(Attacker& attacker, const std::string& octets) {
  Run(attacker, {.send = [octets](HostileConnection& client) {
        client.Send(octets);
        return true;
      }});
}

void Hold(Attacker& attacker, size_t connections,
          const std::function<std::unique_ptr<HostileConnection>(Attacker&)>& connect) {
  Run(attacker,
      {.connect = connect, .send = [](HostileConnection&) { return false; }, .connections = connections, .octets = 0});
}

}  // namespace rdmabroker::tenants
