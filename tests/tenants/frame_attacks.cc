// SPDX-License-Identifier: Apache-2.0

// Floods of HTTP/2's frames.

#include <nghttp2/nghttp2.h>

#include <string>
#include <vector>

#include "proto/rpc/testing/frames.h"
#include "tests/tenants/attacks.h"
#include "tests/tenants/flood.h"
#include "tests/tenants/raw_client.h"

namespace rdmabroker::tenants {
namespace {

using rpc::BigEndian;
using rpc::Frame;

constexpr char kList[] = "/rdmabroker.v1.Inspection/ListAdapters";

// The same frame again and again.
void FloodWith(Attacker& attacker, const std::string& frame) {
  Run(attacker, {.send = [frame](RawClient& client) { client.Send(frame); }});
}

void FloodWithPings(Attacker& attacker) { FloodWith(attacker, Frame(NGHTTP2_PING, 0, 0, "whatever")); }

void FloodWithSettings(Attacker& attacker) {
  FloodWith(attacker,
            Frame(NGHTTP2_SETTINGS, 0, 0, BigEndian(NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 2) + BigEndian(0, 4)));
}

// Requests that are taken back at once.
void FloodWithResets(Attacker& attacker) {
  Run(attacker, {.send = [](RawClient& client) { client.Cancel(client.Begin(kList)); }});
}

void FloodWithResetRequests(Attacker& attacker) {
  Run(attacker, {.send = [](RawClient& client) { client.Cancel(client.Call(kList, "")); }});
}

}  // namespace

std::vector<Attack> FrameAttacks() {
  return {
      {"Pings", FloodWithPings, {{"octets", 10'000}, {"goaway 11"}}},
      {"Settings", FloodWithSettings, {{"octets", 10'000}, {"goaway 11"}}},
      {"Resets", FloodWithResets, {{"octets", 10'000}, {"goaway 11"}}},
      {"ResetRequests", FloodWithResetRequests, {{"octets", 10'000}, {"goaway 11"}}},
  };
}

}  // namespace rdmabroker::tenants
