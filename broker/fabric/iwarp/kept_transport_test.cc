// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/kept_transport.h"

#include <gtest/gtest.h>

#include <string>

#include "broker/runtime/kept_descriptor.h"
#include "dataplane/iwarp/wire/connection_state.h"

namespace rdmabroker {
namespace {

KeptTransport Transport() {
  iwarp::ConnectionState state;
  state.unread = std::string("\0unread", 7);
  KeptTransport transport = {.secret = {}, .state = iwarp::EncodeConnectionState(state)};
  for (size_t i = 0; i < transport.secret.size(); ++i) transport.secret[i] = static_cast<uint8_t>(0xF8 + i);
  return transport;
}

TEST(KeptTransport, IsReadAsItWasWritten) { EXPECT_EQ(DecodeTransport(EncodeTransport(Transport())), Transport()); }

// As the format's first version wrote it, with a field that a newer broker has added, and with a state that only a
// newer client would understand.
TEST(KeptTransport, OfTheFirstVersionIsReadAndOneOfALaterStateIsNone) {
  KeptTransport transport = Transport();
  const auto bytes = [&transport] {
    EXPECT_LT(transport.state.size(), 128u) << "its length is one byte";
    return "\x0a\x10" + std::string(transport.secret.begin(), transport.secret.end()) + "\x12" +
           static_cast<char>(transport.state.size()) + transport.state;
  };
  EXPECT_EQ(DecodeTransport(bytes()), transport);
  EXPECT_EQ(DecodeTransport(bytes() + "\x78\x01"), transport);
  // Behind four bytes that say what it is.
  ASSERT_EQ(transport.state.substr(4, 2), std::string("\0\1", 2));
  transport.state[5] = 2;
  EXPECT_EQ(DecodeTransport(bytes()), std::nullopt);
}

TEST(KeptTransport, WhatNoClientCouldUseIsNone) {
  EXPECT_EQ(DecodeTransport(""), std::nullopt);
  EXPECT_EQ(DecodeTransport("not a record"), std::nullopt);
  KeptTransport damaged = Transport();
  damaged.state.pop_back();
  EXPECT_EQ(DecodeTransport(EncodeTransport(damaged)), std::nullopt);
  // The secret is the first field: its number and type, its length, its bytes.
  std::string long_secret = EncodeTransport(Transport());
  ASSERT_EQ(long_secret[1], 16);
  long_secret[1] = 17;
  long_secret.insert(2, 1, 'x');
  EXPECT_EQ(DecodeTransport(long_secret), std::nullopt);
}

TEST(KeptTransport, NoNameIsTheBeginningOfAnother) {
  const std::string one = TransportName(ConnectionId(1));
  EXPECT_FALSE(TransportName(ConnectionId(17)).starts_with(one));
  EXPECT_TRUE(one.starts_with(kTransportNames));
  EXPECT_TRUE(IsDescriptorName(TransportName(IncomingConnection(DeviceId(0x7FFF), 1))));
}

}  // namespace
}  // namespace rdmabroker
