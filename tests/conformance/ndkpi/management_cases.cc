// SPDX-License-Identifier: Apache-2.0

// What the broker tells of what it holds.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/blocking.h"
#include "proto/rdmabroker/v1/administration.grpc.pb.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::ndkpi {
namespace {

constexpr char kShortDisconnect[] = "timeouts.disconnect_ms = 500";

// Asks the broker, and the one that comes after it, if it dies of it: to do these things twice does no harm.
template <typename Stub, typename Request, typename Reply>
Reply Ask(const std::unique_ptr<Stub>& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
          const Request& request) {
  constexpr int kTries = 3;
  Reply reply;
  grpc::Status status;
  for (int i = 0; i < kTries; ++i) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    status = (stub.get()->*method)(&context, request, &reply);
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE) break;
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
  return reply;
}

// The broker's rows of one kind: fewer than a page.
template <typename Request, typename Reply>
Reply List(World& w, grpc::Status (v1::Inspection::Stub::*list)(grpc::ClientContext*, const Request&, Reply*)) {
  return Ask<v1::Inspection::Stub>(v1::Inspection::NewStub(w.broker().channel()), list, Request());
}

bool Is(const v1::SocketAddress& row, const SocketAddress& address) {
  return row.port() == address.port &&
         std::equal(row.ip().begin(), row.ip().end(), address.ip.bytes.begin(),
                    [](char one, uint8_t other) { return static_cast<uint8_t>(one) == other; });
}

void ConnectionsAreListed(World& w) {
  const Connection made = w.Establish();
  const auto reply = List<v1::ListConnectorsRequest, v1::ListConnectorsReply>(w, &v1::Inspection::Stub::ListConnectors);
  for (const auto& connector : {made.active, made.passive}) {
    const client::ConnectionData data = DataOf(connector);
    const auto row = std::find_if(reply.connectors().begin(), reply.connectors().end(), [&](const auto& info) {
      return Is(info.local(), data.local) && Is(info.peer(), data.peer);
    });
    ASSERT_NE(row, reply.connectors().end());
    EXPECT_EQ(row->state(), v1::CONNECTOR_STATE_ESTABLISHED);
    EXPECT_EQ(row->pid(), ::getpid());
  }
}

// The local endpoints that consumers have made as such, by their ports, and whether they are shared ones.
std::map<uint32_t, bool> LocalEndpoints(World& w) {
  std::map<uint32_t, bool> ports;
  const auto reply = List<v1::ListEndpointsRequest, v1::ListEndpointsReply>(w, &v1::Inspection::Stub::ListEndpoints);
  for (const auto& row : reply.endpoints()) {
    if (row.use() == v1::ENDPOINT_USE_LISTENER || row.use() == v1::ENDPOINT_USE_SHARED) {
      ports[row.address().port()] = row.use() == v1::ENDPOINT_USE_SHARED;
    }
  }
  return ports;
}

v1::DeviceActivity Activity(World& w) {
  const auto reply = List<v1::ListAdaptersRequest, v1::ListAdaptersReply>(w, &v1::Inspection::Stub::ListAdapters);
  for (int i = 0; i < reply.devices_size() && i < reply.activities_size(); ++i) {
    if (reply.devices(i).name() == w.on().device) return reply.activities(i);
  }
  ADD_FAILURE() << "the broker does not list " << w.on().device;
  return {};
}

void EstablishedConnectionsCount(World& w) {
  const v1::DeviceActivity before = Activity(w);
  const Connection made = w.Establish();
  const v1::DeviceActivity during = Activity(w);
  EXPECT_EQ(during.connects(), before.connects() + 1);
  EXPECT_EQ(during.accepts(), before.accepts() + 1);
  EXPECT_EQ(during.active_connections(), 2u);
  w.Close(made);
  const v1::DeviceActivity after = Activity(w);
  EXPECT_EQ(after.connects(), during.connects());
  EXPECT_EQ(after.accepts(), during.accepts());
  EXPECT_EQ(after.active_connections(), 0u);
  EXPECT_EQ(after.connect_failures(), before.connect_failures());
  EXPECT_EQ(after.connection_errors(), before.connection_errors());
}

void FailedHandshakesCount(World& w) {
  const v1::DeviceActivity before = Activity(w);
  const Handshake made = w.Request();
  EXPECT_EQ(w.b().Reject(made.passive).Status(), NdkStatus::kSuccess);
  EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
  const v1::DeviceActivity after = Activity(w);
  EXPECT_EQ(after.connect_failures(), before.connect_failures() + 1) << "only the side that was rejected has failed";
  EXPECT_EQ(after.connects(), before.connects());
  EXPECT_EQ(after.active_connections(), 0u);
}

// A request that fails breaks its connection. A device's program learns of it by the result; of what the peer refuses
// soft iWARP's never does (siw_cm_work_handler in drivers/infiniband/sw/siw/siw_cm.c: an end like any other).
void BrokenConnectionsCount(World& w) {
  const v1::DeviceActivity before = Activity(w);
  const Connection made = w.Establish();
  Buffer source(w.a().side().domain, 64, kAllAccess), sink(w.b().side().domain, 128, kAllAccess);
  Sge beyond_the_end = source.sge();
  ++beyond_the_end.length;
  ASSERT_EQ(made.active_qp->Write(Context(1), {&beyond_the_end, 1}, sink.remote(), 0), NdkStatus::kSuccess);
  EXPECT_FALSE(IsSuccess(w.a().side().Next().status));
  made.active_events.Wait();
  EXPECT_TRUE(Eventually([&] { return Activity(w).connection_errors() > before.connection_errors(); }));
  EXPECT_EQ(Activity(w).connect_failures(), before.connect_failures());
  w.Close(made);
}

// Nor does it count what becomes of a connection after this side has ended it: here its peer does not answer.
void OwnEndsDoNotCount(World& w) {
  const v1::DeviceActivity before = Activity(w);
  const Connection made = w.Establish();
  w.a().Disconnect(made.active).Wait();
  EXPECT_EQ(Activity(w).connection_errors(), before.connection_errors());
  w.Close(made);
  EXPECT_EQ(Activity(w).connection_errors(), before.connection_errors());
}

// --- 12 and 225 ---

// The events of an adapter's device.
class DeviceEvents {
 public:
  client::AdapterEventCallback callback() const {
    return [events = events_](client::AdapterEvent event) {
      EXPECT_EQ(event, client::AdapterEvent::kDisabled);
      ++*events;
    };
  }
  int count() const { return *events_; }

 private:
  std::shared_ptr<std::atomic<int>> events_ = std::make_shared<std::atomic<int>>(0);
};

Call Open(World& w, Party& party, std::shared_ptr<client::Adapter>* made, const DeviceEvents& events = {}) {
  return w.calls().Make("OpenAdapter", [&](const Call& c) {
    return party.session().OpenAdapter(
        w.on().device, kNdkVersion, events.callback(),
        [made, done = c.completion()](const client::Outcome& outcome, std::shared_ptr<client::Adapter> adapter) {
          *made = std::move(adapter);
          done(outcome);
        });
  });
}

v1::DisableAdapterReply Disable(World& w) {
  v1::DisableAdapterRequest request;
  request.set_device(w.on().device);
  return Ask(v1::Administration::NewStub(w.broker().channel()), &v1::Administration::Stub::DisableAdapter, request);
}

void Enable(World& w) {
  v1::EnableAdapterRequest request;
  request.set_device(w.on().device);
  Ask(v1::Administration::NewStub(w.broker().channel()), &v1::Administration::Stub::EnableAdapter, request);
}

bool IsUsable(World& w) {
  const auto listed = client::BlockingListAdapters(w.a().session());
  return std::any_of(listed.object.begin(), listed.object.end(),
                     [&](const client::Device& device) { return device.name == w.on().device && device.usable; });
}

void OpensFailWhileDisabled(World& w) {
  EXPECT_TRUE(IsUsable(w));
  Disable(w);
  EXPECT_FALSE(IsUsable(w));
  std::shared_ptr<client::Adapter> made;
  EXPECT_EQ(Open(w, w.a(), &made).Status(), NdkStatus::kAdapterNotReady);
  EXPECT_EQ(made, nullptr);
  Enable(w);
  EXPECT_TRUE(IsUsable(w));
  EXPECT_EQ(Open(w, w.a(), &made).Status(), NdkStatus::kSuccess);
}

// Of two consumers, one of whom has two instances, in whichever order they close them.
void DisabledWithTheLastInstance(World& w, std::array<int, 3> order) {
  std::shared_ptr<client::Adapter> second;
  EXPECT_EQ(Open(w, w.a(), &second).Status(), NdkStatus::kSuccess);
  const std::shared_ptr<client::Adapter> instances[] = {w.a().adapter(), second, w.b().adapter()};
  const v1::DisableAdapterReply begun = Disable(w);
  EXPECT_EQ(begun.adapters(), 3u);
  EXPECT_EQ(begun.state(), v1::DEVICE_STATE_DISABLING);
  for (size_t closed = 0; closed < order.size(); ++closed) {
    EXPECT_EQ(Activity(w).adapters(), order.size() - closed);
    EXPECT_EQ(Activity(w).state(), v1::DEVICE_STATE_DISABLING);
    std::shared_ptr<client::Adapter> made;
    EXPECT_EQ(Open(w, w.b(), &made).Status(), NdkStatus::kAdapterNotReady);
    w.a().Close(instances[order[closed]]).Wait();
  }
  EXPECT_EQ(Activity(w).state(), v1::DEVICE_STATE_DISABLED);
  std::shared_ptr<client::Adapter> made;
  EXPECT_EQ(Open(w, w.b(), &made).Status(), NdkStatus::kAdapterNotReady);
  Enable(w);
  EXPECT_EQ(Activity(w).state(), v1::DEVICE_STATE_ENABLED);
  EXPECT_EQ(Open(w, w.b(), &made).Status(), NdkStatus::kSuccess);
}

// It waits for what was made on the instance.
void PendingCloseDelaysDisabling(World& w) {
  const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
  const std::shared_ptr<client::Adapter> waiting = w.a().Reopen();
  Disable(w);
  const Call close = w.a().Close(waiting);
  w.ExpectPending(close);
  EXPECT_EQ(Activity(w).adapters(), 2u);
  w.a().Close(endpoint).Wait();
  close.Wait();
  EXPECT_EQ(Activity(w).adapters(), 1u);
  EXPECT_EQ(Activity(w).state(), v1::DEVICE_STATE_DISABLING);
  w.a().Close(w.a().adapter()).Wait();
  EXPECT_EQ(Activity(w).state(), v1::DEVICE_STATE_DISABLED);
  Enable(w);
}

void ConsumersAreToldAndGoOn(World& w) {
  const Connection made = w.Establish();
  DeviceEvents events;
  std::shared_ptr<client::Adapter> watched;
  EXPECT_EQ(Open(w, w.a(), &watched, events).Status(), NdkStatus::kSuccess);
  Disable(w);
  Disable(w);
  w.Settle();
  EXPECT_EQ(events.count(), 1);
  w.ExpectCarries(made);
  w.Close(w.Establish());
  Enable(w);
  w.Settle();
  EXPECT_EQ(events.count(), 1);
  w.Close(made);
}

}  // namespace

Cases ManagementCases() {
  Cases cases;
  cases.push_back({.assertion = 12, .name = "OfADisabledDevice", .run = OpensFailWhileDisabled, .core_only = true});
  cases.push_back({222, "ConnectionsAreListedWithBothAddressesAndTheirOwner", ConnectionsAreListed});
  cases.push_back({223, "LocalEndpointsAreListenersAndSharedEndpointsAndNotThoseOfConnect", [](World& w) {
                     const TestListener listener = w.b().Listening();
                     const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                     const Connection made = w.Establish(w.a(), w.b(), listener);
                     EXPECT_EQ(LocalEndpoints(w), (std::map<uint32_t, bool>{{listener.address.port, false},
                                                                            {endpoint->address().port, true}}));
                   }});
  cases.push_back({224, "ConnectAcceptAndActiveConnectionCountThoseThatAreEstablished", EstablishedConnectionsCount});
  cases.push_back({224, "ConnectFailureCountsHandshakesThatFailed", FailedHandshakesCount});
  cases.push_back({224, "ConnectionErrorCountsConnectionsThatBroke", BrokenConnectionsCount});
  cases.push_back({224, "ConnectionErrorCountsNoneThatThisSideHasEnded", OwnEndsDoNotCount, kShortDisconnect});
  std::array<int, 3> order = {0, 1, 2};
  do {
    cases.push_back({.assertion = 225,
                     .name = absl::StrCat("DisabledWhenTheLastIsClosed_", order[0], order[1], order[2]),
                     .run = [order](World& w) { DisabledWithTheLastInstance(w, order); },
                     .core_only = true});
  } while (std::next_permutation(order.begin(), order.end()));
  cases.push_back({225, "AnInstanceWhoseCloseIsPendingIsNotClosed", PendingCloseDelaysDisabling});
  cases.push_back({225, "ConsumersAreToldOnceAndGoOnUntilTheyClose", ConsumersAreToldAndGoOn});
  return cases;
}

}  // namespace rdmabroker::ndkpi
