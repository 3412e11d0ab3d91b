// SPDX-License-Identifier: Apache-2.0

#include "broker/core/request_digest.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "broker/core/request_names.h"

namespace rdmabroker {
namespace {

const SocketAddress kHere = SocketAddress::Parse("192.0.2.1:4420").value();
const SocketAddress kThere = SocketAddress::Parse("[fe80::1%3]:4420").value();

// Of each kind one with defaults, then one that differs in each field.
std::vector<Request> DifferentRequests() {
  return {OpenAdapter{},
          OpenAdapter{"iwarp0", {}},
          OpenAdapter{"", {2, 1}},
          OpenAdapter{"", {1, 2}},
          CloseAdapter{},
          CloseAdapter{AdapterId(1)},
          CloseAdapter{AdapterId(256)},
          CreateListener{},
          CreateListener{AdapterId(1)},
          Listen{},
          Listen{ListenerId(1), {}, {}},
          Listen{{}, kHere, {}},
          Listen{{}, {kHere.ip, 4421}, {}},
          Listen{{}, kThere, {}},
          Listen{{}, SocketAddress::Parse("[fe80::1%4]:4420").value(), {}},
          Listen{{}, {IpAddress::Any(IpFamily::kIpv6), 0}, {}},
          Listen{{}, {}, ReservationId(1)},
          Listen{{}, {}, {}, true},
          Listen{{}, {}, {}, false, true},
          ControlConnectEvents{},
          ControlConnectEvents{ListenerId(1), false},
          ControlConnectEvents{{}, true},
          CloseListener{},
          CloseListener{ListenerId(1)},
          CreateSharedEndpoint{},
          CreateSharedEndpoint{AdapterId(1), {}, {}},
          CreateSharedEndpoint{{}, kHere, {}},
          CreateSharedEndpoint{{}, {}, ReservationId(1)},
          CloseSharedEndpoint{},
          CloseSharedEndpoint{SharedEndpointId(1)},
          ReservePort{},
          ReservePort{AdapterId(1), {}},
          ReservePort{{}, kHere},
          ReleasePort{},
          ReleasePort{ReservationId(1)},
          CreateConnector{},
          CreateConnector{AdapterId(1)},
          Connect{},
          Connect{.connector = ConnectorId(1)},
          Connect{.qp = {1}},
          Connect{.source = kHere},
          Connect{.destination = kHere},
          Connect{.limits = {1, 0}},
          Connect{.limits = {0, 1}},
          Connect{.private_data = {0}},
          Connect{.private_data = {0, 0}},
          Connect{.options = {0}},
          Connect{.options = {6}},
          ConnectWithSharedEndpoint{},
          ConnectWithSharedEndpoint{.connector = ConnectorId(1)},
          ConnectWithSharedEndpoint{.qp = {1}},
          ConnectWithSharedEndpoint{.shared_endpoint = SharedEndpointId(1)},
          ConnectWithSharedEndpoint{.destination = kHere},
          ConnectWithSharedEndpoint{.limits = {1, 0}},
          ConnectWithSharedEndpoint{.limits = {0, 1}},
          ConnectWithSharedEndpoint{.private_data = {0}},
          ConnectWithSharedEndpoint{.options = {0}},
          CompleteConnect{},
          CompleteConnect{ConnectorId(1)},
          Accept{},
          Accept{.connector = ConnectorId(1)},
          Accept{.qp = {1}},
          Accept{.limits = {1, 0}},
          Accept{.limits = {0, 1}},
          Accept{.private_data = {0}},
          Accept{.options = {0}},
          Reject{},
          Reject{ConnectorId(1), {}},
          Reject{{}, {0}},
          Disconnect{},
          Disconnect{ConnectorId(1)},
          GetConnectionData{},
          GetConnectionData{ConnectorId(1)},
          ReportConnectionEnd{},
          ReportConnectionEnd{ConnectorId(1), false, 0},
          ReportConnectionEnd{{}, true, 0},
          ReportConnectionEnd{{}, false, 1},
          CloseConnector{},
          CloseConnector{ConnectorId(1)}};
}

std::string Hex(const RequestDigest& digest) {
  return absl::BytesToHexString(std::string(digest.begin(), digest.end()));
}

// A repeat is the same request, whatever the route is by then.
TEST(RequestDigest, LeavesTheRouteOut) {
  EXPECT_EQ(DigestOf(Connect{.route = {NdkStatus::kSuccess, kHere.ip}}), DigestOf(Connect{}));
}

TEST(ADigest, DiffersForRequestsThatDifferInOneField) {
  std::set<RequestDigest> digests;
  std::set<size_t> kinds;
  for (const Request& request : DifferentRequests()) {
    EXPECT_TRUE(digests.insert(DigestOf(request)).second) << kRequestNames[request.index()] << " " << digests.size();
    EXPECT_EQ(DigestOf(request), DigestOf(Request(request)));
    kinds.insert(request.index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Request::variant>);
}

// The store has digests that an earlier version of the broker has made.
TEST(ADigest, IsWhatEveryVersionMakesOfTheRequest) {
  EXPECT_EQ(Hex(DigestOf(CloseAdapter{AdapterId(1)})), "da8086bf68e44b8e9e414d14941ab9ba");
  EXPECT_EQ(Hex(DigestOf(Connect{ConnectorId(1), {2}, kHere, kThere, {3, 4}, {5}})),
            "c4d5975b372c51755111fc01cc855f87");
  std::string all;
  for (const Request& request : DifferentRequests()) all += Hex(DigestOf(request));
  EXPECT_EQ(Hex(DigestOf(OpenAdapter{all, {}})), "3641e59e5631cf3bb83564e5dd4914f4");
}

}  // namespace
}  // namespace rdmabroker
