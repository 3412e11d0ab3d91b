// SPDX-License-Identifier: Apache-2.0

// Floods of HTTP/2's frames, and of calls.

#include <nghttp2/nghttp2.h>

#include <string>
#include <vector>

#include "proto/rdmabroker/v1/session.pb.h"
#include "proto/rpc/testing/frames.h"
#include "tests/tenants/attacks.h"
#include "tests/tenants/flood.h"
#include "tests/tenants/hostile_connection.h"

namespace rdmabroker::tenants {
namespace {

using rpc::BigEndian;
using rpc::Frame;

constexpr char kList[] = "/rdmabroker.v1.Inspection/ListAdapters";
constexpr char kBegun[] = "/rdmabroker.v1.Broker/Session";

const std::string& Ping() {
  static const auto* const kPing = new std::string(Frame(NGHTTP2_PING, 0, 0, "whatever"));
  return *kPing;
}

void Pings(Attacker& attacker) { RunWith(attacker, Ping()); }

// Their answers stay unread.
void UnreadPings(Attacker& attacker) {
  const auto connect = [](Attacker& by) {
    return HostileConnection::Connect(by, WideOpening(), HostileConnection::Reading::kNothing);
  };
  Run(attacker, {.connect = connect, .send = [](HostileConnection& client) {
                   client.Send(Ping());
                   return true;
                 }});
}

void Settings(Attacker& attacker) {
  RunWith(attacker, Frame(NGHTTP2_SETTINGS, 0, 0, BigEndian(NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 2) + BigEndian(0, 4)));
}

void WindowUpdates(Attacker& attacker) {
  const auto connect = [](Attacker& by) { return HostileConnection::Connect(by, OpeningWith(0)); };
  const std::string frame = Frame(NGHTTP2_WINDOW_UPDATE, 0, 0, BigEndian(1, 4));
  Run(attacker, {.connect = connect, .send = [frame](HostileConnection& client) {
                   client.Send(frame);
                   return true;
                 }});
}

void Priorities(Attacker& attacker) {
  RunWith(attacker, Frame(NGHTTP2_PRIORITY, 0, 1, BigEndian(0, 4) + std::string(1, 16)));
}

void UnknownFrames(Attacker& attacker) { RunWith(attacker, Frame(0xFA, 0, 0, "")); }

// On a call that never ends.
void FloodACall(Attacker& attacker, const std::string& data) {
  Run(attacker, {.send = [data](HostileConnection& client) {
        if (client.begun() == 0) client.Begin(kBegun);
        client.Send(rpc::DataFrame(1, data));
        return true;
      }});
}

void EmptyData(Attacker& attacker) { FloodACall(attacker, ""); }

// Of a message of 64 KiB.
void DataOctetByOctet(Attacker& attacker) { FloodACall(attacker, std::string(1, '\0')); }

// Requests that are taken back at once.
void Resets(Attacker& attacker) {
  Run(attacker, {.send = [](HostileConnection& client) {
        client.Cancel(client.Begin(kList));
        return true;
      }});
}

void ResetRequests(Attacker& attacker) {
  Run(attacker, {.send = [](HostileConnection& client) {
        client.Cancel(client.Call(kList, ""));
        return true;
      }});
}

// Requests that are taken back once their sessions are there, or almost.
void CancelledSessions(Attacker& attacker) {
  v1::SessionRequest first;
  first.mutable_open()->set_api_minor(1);
  const std::string open = first.SerializeAsString();
  constexpr size_t kAtOnce = 64;
  Run(attacker, {.send = [open](HostileConnection& client) {
        if (client.open() >= kAtOnce) client.Cancel(client.first_open());
        client.Message(client.Begin(kBegun), open);
        return true;
      }});
}

// Whose deadline has passed when they come.
void Deadlines(Attacker& attacker) {
  Run(attacker, {.send = [](HostileConnection& client) {
        rpc::Headers headers = rpc::CallHeaders(kBegun);
        headers.push_back({"grpc-timeout", "1n"});
        client.Send(rpc::HeadersFrame(client.NewStream(), headers));
        return true;
      }});
}

// Calls beyond the 128 that a connection may have.
void MoreCallsThanAreAllowed(Attacker& attacker) {
  Run(attacker, {.send = [](HostileConnection& client) {
        client.Begin(kBegun);
        return true;
      }});
}

}  // namespace

std::vector<Attack> FrameAttacks() {
  constexpr uint64_t kOctets = 10'000;
  return {
      {"Pings", Pings, {{"octets", kOctets}, {"goaway 11"}}},
      {"UnreadPings", UnreadPings, {{"octets", kOctets}, {"ended"}}},
      {"Settings", Settings, {{"octets", kOctets}, {"goaway 11"}}},
      {"WindowUpdates", WindowUpdates, {{"octets", kOctets}, {"goaway 11"}}},
      {"Priorities", Priorities, {{"octets", kOctets}, {"goaway 11"}}},
      {"UnknownFrames", UnknownFrames, {{"octets", kOctets}, {"goaway 11"}}},
      {"EmptyData", EmptyData, {{"octets", kOctets}, {"goaway 11"}}},
      {"DataOctetByOctet", DataOctetByOctet, {{"octets", kOctets}, {"goaway 11"}}},
      {"Resets", Resets, {{"octets", kOctets}, {"goaway 11"}}},
      {"ResetRequests", ResetRequests, {{"octets", kOctets}, {"goaway 11"}}},
      {"CancelledSessions", CancelledSessions, {{"octets", kOctets}, {"replies"}}},
      {"Deadlines", Deadlines, {{"octets", kOctets}, {"status 4"}}},
      {"MoreCallsThanAreAllowed", MoreCallsThanAreAllowed, {{"octets", kOctets}, {"reset 7"}}},
  };
}

}  // namespace rdmabroker::tenants
