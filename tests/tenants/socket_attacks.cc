// SPDX-License-Identifier: Apache-2.0

// The hand-off socket, and the honest user's own listener: peers of user-space iWARP are anybody.

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proto/rdmabroker/v1/handoff.pb.h"
#include "tests/random_seed.h"
#include "tests/tenants/attacks.h"
#include "tests/tenants/flood.h"
#include "tests/tenants/hostile_connection.h"
#include "tests/tenants/wire.h"

namespace rdmabroker::tenants {
namespace {

// The first octets of MPA's request (RFC 5044, section 7.1).
constexpr char kRequestKey[] = "MPA ID Req Frame";

std::unique_ptr<HostileConnection> PeerThatSays(Attacker& attacker, const std::string& words) {
  UniqueFd socket = attacker.ConnectToTcp(attacker.places().listener);
  if (!socket) return nullptr;
  return std::make_unique<HostileConnection>(attacker, std::make_unique<PlainWire>(std::move(socket)), words);
}

// More peers than may be in the middle of MPA's handshake at a listener.
void HalfRequests(Attacker& attacker) {
  Hold(attacker, 5000, [](Attacker& by) { return PeerThatSays(by, kRequestKey); });
}

void SilentPeers(Attacker& attacker) {
  Hold(attacker, 5000, [](Attacker& by) { return PeerThatSays(by, ""); });
}

// What is no MPA.
void NoiseForPeers(Attacker& attacker) {
  const uint32_t seed = RandomSeed();
  attacker.Count("seed", seed);
  std::mt19937_64 random(seed);
  const auto connect = [&](Attacker& by) {
    std::string octets(600, '\0');
    std::generate(octets.begin(), octets.end(), [&] { return static_cast<char>(random()); });
    return PeerThatSays(by, random() % 2 == 0 ? kRequestKey + octets : octets);
  };
  Hold(attacker, 64, connect);
}

// Guesses the secrets of others' connections.
void HandoffGuesses(Attacker& attacker) {
  const uint32_t seed = RandomSeed();
  attacker.Count("seed", seed);
  std::mt19937_64 random(seed);
  while (attacker.GoesOn()) {
    const UniqueFd socket = attacker.ConnectToUnix(attacker.places().handoff_socket, SOCK_SEQPACKET);
    v1::HandoffRequest request;
    request.set_session_id(1 + random() % 8);
    request.set_connector_id(1 + random() % 256);
    for (auto* const secret : {request.mutable_session_secret(), request.mutable_handoff_secret()}) {
      secret->resize(16);
      std::generate(secret->begin(), secret->end(), [&] { return static_cast<char>(random()); });
    }
    const std::string record = request.SerializeAsString();
    ::send(socket.get(), record.data(), record.size(), MSG_NOSIGNAL);
    constexpr int kLookMs = 10;
    pollfd ready = {socket.get(), POLLIN, 0};
    std::string answer(131072, '\0');
    ssize_t size = -1;
    if (::poll(&ready, 1, kLookMs) == 1) size = ::recv(socket.get(), answer.data(), answer.size(), 0);
    v1::HandoffReply reply;
    const bool answered = size > 0 && reply.ParseFromArray(answer.data(), static_cast<int>(size));
    attacker.Count(!answered                                              ? "not answered"
                   : reply.outcome().status() == v1::STATUS_ACCESS_DENIED ? "denied"
                                                                          : "given");
    attacker.SetsOn();
  }
}

// More than a user may have, who ask for nothing, and more all the time.
void SilentFetchers(Attacker& attacker) {
  constexpr size_t kFetchers = 300;
  std::vector<UniqueFd> fetchers(kFetchers);
  for (size_t next = 0; attacker.GoesOn(); next = (next + 1) % kFetchers) {
    fetchers[next] = attacker.ConnectToUnix(attacker.places().handoff_socket, SOCK_SEQPACKET);
    attacker.Count(fetchers[next] ? "connections" : "not connected");
    if (next + 1 == kFetchers) attacker.SetsOn();
  }
}

}  // namespace

std::vector<Attack> SocketAttacks() {
  return {
      {"HalfRequests", HalfRequests, {{"connections", 1000}, {"octets", 16 * 4096}}},
      {"SilentPeers", SilentPeers, {{"connections", 1000}}},
      {"NoiseForPeers", NoiseForPeers, {{"octets", 10'000}, {"ended", 100}}},
      {"HandoffGuesses", HandoffGuesses, {{"denied", 10}, {"given", 0, 0}}},
      {"SilentFetchers", SilentFetchers, {{"connections", 300}}},
  };
}

}  // namespace rdmabroker::tenants
