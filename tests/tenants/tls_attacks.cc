// SPDX-License-Identifier: Apache-2.0

// Strangers at the TCP port, who come from several hosts.

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/rpc/testing/frames.h"
#include "tests/tenants/attacks.h"
#include "tests/tenants/flood.h"
#include "tests/tenants/hostile_connection.h"
#include "tests/tenants/wire.h"

namespace rdmabroker::tenants {
namespace {

// The next host's connection to the port; empty where it is refused.
UniqueFd NextSocket(Attacker& attacker) {
  static int last = 0;
  return attacker.ConnectToTcp(attacker.places().tcp, ++last % kHosts);
}

std::unique_ptr<TlsWire> NextWire(Attacker& attacker, const std::string& certificate,
                                  const std::function<void(SSL_CTX*)>& change = nullptr) {
  UniqueFd socket = NextSocket(attacker);
  if (!socket) return nullptr;
  return std::make_unique<TlsWire>(attacker, std::move(socket), certificate, change);
}

std::unique_ptr<HostileConnection> NextClient(Attacker& attacker, const std::string& certificate) {
  auto wire = NextWire(attacker, certificate);
  return wire == nullptr ? nullptr : std::make_unique<HostileConnection>(attacker, std::move(wire));
}

// Handshakes that begin and do not go on.
void HalfHandshakes(Attacker& attacker) {
  // A record's header, and a part of a ClientHello.
  const std::string begin("\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03", 11);
  Hold(attacker, 32 * kHosts, [begin](Attacker& by) -> std::unique_ptr<HostileConnection> {
    UniqueFd socket = NextSocket(by);
    if (!socket) return nullptr;
    return std::make_unique<HostileConnection>(by, std::make_unique<PlainWire>(std::move(socket)), begin);
  });
}

// What is no TLS.
void PlainOctets(Attacker& attacker) {
  const auto connect = [](Attacker& by) -> std::unique_ptr<HostileConnection> {
    UniqueFd socket = NextSocket(by);
    if (!socket) return nullptr;
    return std::make_unique<HostileConnection>(by, std::make_unique<PlainWire>(std::move(socket)));
  };
  Run(attacker, {.connect = connect, .send = [](HostileConnection& client) {
                   client.Send(std::string(1024, 'x'));
                   return true;
                 }});
}

// Each does its handshake, makes a call that is refused, and comes again.
void CallOnce(Attacker& attacker, const std::vector<std::string>& certificates) {
  size_t next = 0;
  const auto connect = [&](Attacker& by) { return NextClient(by, certificates[next++ % certificates.size()]); };
  const auto send = [](HostileConnection& client) {
    if (client.begun() == 0) {
      client.Call("/rdmabroker.v1.Inspection/ListSessions", "");
      return true;
    }
    if (client.open() == 0) client.Leave();
    return false;
  };
  Run(attacker, {.connect = connect, .send = send, .connections = 8});
}

void UnlistedCertificates(Attacker& attacker) { CallOnce(attacker, {"unlisted"}); }

void OddCertificates(Attacker& attacker) {
  CallOnce(attacker,
           {"expired", "early", "of-another-authority", "long-chain", "many-uris", "no-uri", "short-key", "revoked"});
}

// A field whose value is to be 200 MB long, of a client that may call nothing.
void AStringOverTls(Attacker& attacker) {
  const auto connect = [](Attacker& by) {
    auto client = NextClient(by, "unlisted");
    if (client != nullptr) {
      const std::string field("\0\1x\x7F\x81\x83\xAF\x5F", 8);
      client->Send(rpc::Frame(NGHTTP2_HEADERS, 0, 1, rpc::HeaderBlock(rpc::CallHeaders("/x")) + field));
    }
    return client;
  };
  const std::string frame = rpc::Frame(NGHTTP2_CONTINUATION, 0, 1, std::string(16384, 'a'));
  Run(attacker, {.connect = connect, .send = [frame](HostileConnection& client) {
                   client.Send(frame);
                   return true;
                 }});
}

void PingsOverTls(Attacker& attacker) {
  const std::string ping = rpc::Frame(NGHTTP2_PING, 0, 0, "whatever");
  Run(attacker, {.connect = [](Attacker& by) { return NextClient(by, "listed"); },
                 .send =
                     [ping](HostileConnection& client) {
                       client.Send(ping);
                       return true;
                     }});
}

// Connections whose handshakes are done and which do one thing again and again, until the broker ends them.
void AfterHandshakes(Attacker& attacker, int version, const std::function<bool(TlsWire&)>& act) {
  while (attacker.GoesOn()) {
    const auto wire = NextWire(attacker, "unlisted", [version](SSL_CTX* context) {
      SSL_CTX_set_min_proto_version(context, version);
      SSL_CTX_set_max_proto_version(context, version);
    });
    if (wire == nullptr) {
      attacker.Count("not connected");
      continue;
    }
    ssize_t done = 0;
    while (done == 0 && attacker.GoesOn()) done = wire->Shake();
    attacker.Count(done == 1 ? "handshakes" : "refused");
    uint64_t acts = 0;
    while (done == 1 && attacker.GoesOn() && act(*wire)) ++acts;
    attacker.Count("acts", acts);
    if (done != 1 || !attacker.GoesOn()) continue;
    attacker.Count("ended");
    attacker.SetsOn();
  }
}

// Whether the connection lives.
bool Reads(TlsWire& wire) {
  char octets[16384];
  ssize_t size = 1;
  while (size > 0) size = wire.Read(octets, sizeof octets);
  return size == 0;
}

void Renegotiations(Attacker& attacker) {
  AfterHandshakes(attacker, TLS1_2_VERSION, [&attacker](TlsWire& wire) {
    SSL_renegotiate(wire.tls());
    const ssize_t done = wire.Shake();
    attacker.Count("negotiated again", done == 1 ? 1 : 0);
    return done >= 0 && Reads(wire);
  });
}

void KeyUpdates(Attacker& attacker) {
  AfterHandshakes(attacker, TLS1_3_VERSION, [](TlsWire& wire) {
    SSL_key_update(wire.tls(), SSL_KEY_UPDATE_REQUESTED);
    return wire.Shake() >= 0 && Reads(wire);
  });
}

}  // namespace

std::vector<Attack> TlsAttacks() {
  std::vector<Attack> attacks = {
      {"HalfHandshakes", HalfHandshakes, {{"connections", 256}}},
      {"PlainOctets", PlainOctets, {{"octets", 10'000}, {"ended", 10}}},
      {"UnlistedCertificates", UnlistedCertificates, {{"status 7", 10}, {"status 0", 0, 0}}},
      {"OddCertificates", OddCertificates, {{"octets", 1000}, {"ended", 10}, {"status 0", 0, 0}, {"status 16"}}},
      {"AStringOverTls", AStringOverTls, {{"octets", 10'000}, {"goaway 9"}}},
      {"PingsOverTls", PingsOverTls, {{"octets", 10'000}, {"goaway 11"}}},
      {"Renegotiations", Renegotiations, {{"ended"}, {"negotiated again", 0, 0}}},
      {"KeyUpdates", KeyUpdates, {{"acts", 10}, {"ended"}}},
  };
  for (Attack& attack : attacks) attack.users = kHosts;
  return attacks;
}

}  // namespace rdmabroker::tenants
