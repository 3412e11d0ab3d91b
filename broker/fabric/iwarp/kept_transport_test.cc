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
