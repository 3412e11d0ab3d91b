// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/waiting_connect.h"

#include <gtest/gtest.h>

#include "broker/fabric/iwarp/kept_transport.h"
#include "dataplane/iwarp/wire/connection_state.h"

namespace rdmabroker {
namespace {

const SocketAddress kLocal = {{.bytes = {192, 0, 2, 1}}, 4420};
const SocketAddress kPeer = {{.bytes = {192, 0, 2, 2}}, 4421};
const FabricAdoptConnection kAdopted = {DeviceId(1), ConnectionId(2), EndpointId(3), AdoptedStage::kConnecting, kLocal,
                                        kPeer};

TEST(WaitingConnect, IsReadAsItWasWritten) {
  const FabricConnect wanted = {DeviceId(1), ConnectionId(2), EndpointId(3), SessionId(4), {},
                                kLocal,      kPeer,           {5, 6},        {0, 'h', 'i'}};
  EXPECT_EQ(DecodeWaiting(EncodeWaiting(wanted), kAdopted), wanted);
  FabricConnect any_port = wanted;
  any_port.any_port = true;
  EXPECT_EQ(DecodeWaiting(EncodeWaiting(any_port), kAdopted), any_port);
}

TEST(WaitingConnect, AnotherRecordIsNone) {
  const KeptTransport transport = {.secret = {1}, .state = iwarp::EncodeConnectionState({})};
  EXPECT_EQ(DecodeWaiting(EncodeTransport(transport), kAdopted), std::nullopt);
  EXPECT_EQ(DecodeWaiting("not a record", kAdopted), std::nullopt);
  EXPECT_EQ(DecodeWaiting("", kAdopted), std::nullopt);
  EXPECT_EQ(DecodeTransport(EncodeWaiting({.session = SessionId(4)})), std::nullopt);
}

}  // namespace
}  // namespace rdmabroker
