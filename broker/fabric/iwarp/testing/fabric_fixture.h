// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_TESTING_FABRIC_FIXTURE_H_
#define BROKER_FABRIC_IWARP_TESTING_FABRIC_FIXTURE_H_

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "broker/fabric/iwarp/testing/fabric_life.h"
#include "dataplane/iwarp/wire/startup_frame.h"

namespace rdmabroker {

// One fabric, without a supervisor.
class IwarpFabricTest : public ::testing::TestWithParam<IpFamily>, protected FabricLife {
 protected:
  explicit IwarpFabricTest(const IwarpOptions& options = {}) : FabricLife(GetParam(), options) {}
};

inline std::string Frame(const iwarp::StartupFrame& frame) { return *iwarp::EncodeStartupFrame(frame); }

// Written out by hand from RFC 5044, section 7.1, and RFC 6581, section 9.1: what a peer of each revision sends.
inline std::string Literal(std::string_view key, std::initializer_list<int> values) {
  std::string out(key);
  for (const int value : values) out.push_back(static_cast<char>(value));
  return out;
}
inline constexpr std::string_view kRequestKey = "MPA ID Req Frame";
inline constexpr std::string_view kReplyKey = "MPA ID Rep Frame";
// Revision 2, CRC, ready-to-receive by write or read, 8 reads in and 2 out, private data "hi".
inline std::string ThreeWayRequest() { return Literal(kRequestKey, {0x50, 2, 0, 6, 0x80, 8, 0xC0, 2, 'h', 'i'}); }
// Revision 1, CRC, private data "hi".
inline std::string TwoWayRequest() { return Literal(kRequestKey, {0x40, 1, 0, 2, 'h', 'i'}); }

inline std::string FamilyName(const ::testing::TestParamInfo<IpFamily>& info) {
  return info.param == IpFamily::kIpv4 ? "Ipv4" : "Ipv6";
}

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_TESTING_FABRIC_FIXTURE_H_
