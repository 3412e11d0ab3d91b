// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/ndkpi/stranger.h"

#include <gtest/gtest.h>

#include "dataplane/iwarp/wire/negotiation.h"
#include "dataplane/iwarp/wire/startup_frame.h"

namespace rdmabroker::ndkpi {
namespace {

// 14 bits (RFC 6581, section 9), of which the largest number says that nothing is negotiated.
constexpr uint32_t kMostOfMpa = iwarp::kMaxReadLimit - 1;
// 8 bits (InfiniBand Architecture Specification, volume 1, 12.7.29 and 12.7.30).
constexpr uint32_t kMostOfCm = 255;

std::string MpaRequest() {
  const iwarp::Offer offer = {.inbound_read_limit = kMostOfMpa, .outbound_read_limit = kMostOfMpa};
  return *iwarp::EncodeStartupFrame(*iwarp::BuildRequest(offer, ""));
}

}  // namespace

Stranger::Stranger(World& w, const SocketAddress& destination) {
  if (w.on().adapter == "fake") {
    EXPECT_EQ(w.Tell("ask " + destination.ToString()), "done");
  } else if (w.on().adapter == "rxe") {
    const SocketAddress local = w.a().At();
    const CmProcess& process = rdma_.emplace(local.ip);
    const QpNumber any = {2};
    EXPECT_EQ(process.StartConnect(process.New(), local, destination, any, {kMostOfCm, kMostOfCm}), 0);
  } else {
    tcp_ = RawPeer::ConnectTo(destination);
    tcp_->Send(MpaRequest());
  }
}

}  // namespace rdmabroker::ndkpi
