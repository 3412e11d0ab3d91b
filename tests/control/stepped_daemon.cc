// SPDX-License-Identifier: Apache-2.0

#include "tests/control/stepped_daemon.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/time/time.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "tests/control/connections.h"
#include "tests/control/patience.h"
#include "tests/control/test_client.h"

namespace rdmabroker {

SteppedDaemon::SteppedDaemon(Configuration configuration) {
  configuration.socket_directory = folder_.path();
  auto server = StartAlone(configuration);
  EXPECT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  auto fabric = std::make_unique<FakeFabric>(network_, std::vector{TestDevice(1)});
  fabric_ = fabric.get();
  std::vector<std::unique_ptr<Fabric>> fabrics;
  fabrics.push_back(std::move(fabric));
  server_->Recover(std::move(fabrics));
  // A loop that was stopped before it runs no turn of its own.
  loop().Stop();
  server_->Run();
}

bool SteppedDaemon::RunUntil(const std::function<bool()>& condition) {
  // A test that has failed does not wait long for what may depend on what failed.
  const absl::Duration patience = testing::Test::HasFailure() ? absl::Seconds(1) : kTestPatience;
  return Becomes(
      [&] {
        Settle();
        return condition();
      },
      patience);
}

void SteppedDaemon::Settle() {
  do {
    Report();
  } while (RunTurn());
}

std::unique_ptr<RawClient> SteppedDaemon::Connect(const rpc::ClientConnection::Limits& limits) {
  auto client = std::make_unique<RawClient>(
      ConnectAs(::getuid(), ::getgid(), folder_.path() + "/control.sock", SOCK_STREAM), nullptr, limits);
  client->Flush();
  EXPECT_TRUE(RunUntil([&] { return !client->Receive().empty(); }));
  // The client has acknowledged the broker's settings.
  Settle();
  return client;
}

SessionId SteppedDaemon::Open(RawClient& client, RawSession& session) {
  client.Flush();
  EXPECT_TRUE(RunUntil([&] {
    client.Receive();
    return session.id() != SessionId(0) || session.status();
  }));
  return session.id();
}

SteppedClient::SteppedClient(SteppedDaemon& daemon, const std::vector<std::string>& features,
                             const rpc::ClientConnection::Limits& limits)
    : daemon_(daemon),
      raw_(daemon.Connect(limits)),
      session_(*raw_, features),
      id_(daemon.Open(*raw_, session_)),
      adapter_(OpenAdapter()) {
  EXPECT_NE(id_, SessionId(0));
  EXPECT_NE(adapter_, 0u);
}

uint64_t SteppedClient::OpenAdapter() {
  v1::OpenAdapterRequest open;
  open.set_device("fake1");
  open.mutable_version()->set_major(2);
  const rpc::CallId call = Ask(open);
  v1::Outcome outcome;
  EXPECT_TRUE(daemon_.RunUntil([&] {
    raw_->Receive();
    return raw_->status(call).has_value();
  }));
  EXPECT_TRUE(outcome.ParseFromString(raw_->replies(call).at(0)));
  return outcome.adapter_opened().adapter_id();
}

void SteppedClient::Send(const v1::SessionRequest& message) {
  session_.Send(message);
  raw_->Flush();
}

void SteppedClient::Reserve() {
  v1::ReservePortRequest reserve;
  reserve.set_adapter_id(adapter_);
  *reserve.mutable_address() = ToMessage(TestAddress(1));
  Ask(reserve);
  EXPECT_TRUE(daemon_.RunTurn());
  EXPECT_FALSE(daemon_.records().reservations.empty());
}

v1::BatchedRequest& SteppedClient::AddRequest(v1::SessionRequest& message) {
  v1::BatchedRequest& request = *message.mutable_requests()->add_requests();
  request.set_request_id(++last_);
  return request;
}

v1::SessionRequest SteppedClient::BatchOf(int requests) {
  v1::SessionRequest message;
  for (int i = 0; i < requests; ++i) {
    AddRequest(message).mutable_create_connector()->set_adapter_id(adapter_);
  }
  return message;
}

v1::SessionRequest SteppedClient::ReservationsOf(int requests) {
  v1::SessionRequest message;
  for (int i = 0; i < requests; ++i) {
    v1::ReservePortRequest& reserve = *AddRequest(message).mutable_reserve_port();
    reserve.set_adapter_id(adapter_);
    *reserve.mutable_address() = ToMessage({TestAddress(1).ip, 0});
  }
  return message;
}

v1::SessionRequest SteppedClient::ReleaseOfAll() {
  v1::SessionRequest message;
  for (const auto& [id, reservation] : daemon_.records().reservations) {
    AddRequest(message).mutable_release_port()->set_reservation_id(id.value());
  }
  return message;
}

bool SteppedClient::StreamEnds() {
  return daemon_.RunUntil([&] {
    raw_->Receive();
    return session_.status().has_value();
  });
}

}  // namespace rdmabroker
