// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/ndkpi/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/control/patience.h"
#include "tests/needed.h"

namespace rdmabroker::ndkpi {
namespace {

constexpr char kBroker[] = "tests/conformance/ndkpi/counting_broker";

std::shared_ptr<RunningBroker> NewBroker(const Surroundings& on, const std::string& settings) {
  const std::string ports = settings.find("_ephemeral_port") == std::string::npos ? OwnPorts() : "";
  return std::make_shared<RunningBroker>(ports + settings, std::vector<std::string>{kBroker, on.adapter});
}

// Starting one takes longer than most cases, which need no particular one.
std::shared_ptr<RunningBroker> BrokerFor(const Surroundings& on, const std::string& settings) {
  static auto* const kShared = new std::shared_ptr<RunningBroker>(NewBroker(on, ""));
  return settings.empty() ? *kShared : NewBroker(on, settings);
}

bool Lacks(const Surroundings& on, const Case& which) {
  return std::any_of(which.lacks.begin(), which.lacks.end(),
                     [&on](const Lack& lack) { return lack.adapter == on.adapter; });
}

}  // namespace

const Lack kTwoWay = {"siw", "there is no third message: Accept ends when the reply is written"};

void ExpectTwoWay(const Handshake& made) {
  EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
  EXPECT_FALSE(DataOf(made.active).three_way);
  EXPECT_FALSE(DataOf(made.passive).three_way);
}

World::World(const Surroundings& surroundings, const Case& which)
    : surroundings_(surroundings),
      counted_(&which),
      lacks_(Lacks(surroundings, which)),
      broker_(BrokerFor(surroundings, which.settings)),
      operations_before_(OperationsSoFar()) {}

World::World(const Surroundings& surroundings, const Case& which, std::shared_ptr<RunningBroker> broker)
    : surroundings_(surroundings), lacks_(Lacks(surroundings, which)), broker_(std::move(broker)) {}

World::World(const Surroundings& surroundings, std::shared_ptr<RunningBroker> broker)
    : surroundings_(surroundings), broker_(std::move(broker)) {}

World::~World() {
  // Who has not decided does so now: some of the kernel's devices wait for a peer's answer to let a Connect go.
  for (auto* const party : {&parties_[1], &parties_[0]}) {
    if (*party != nullptr) Note(**party);
    *party = nullptr;
  }
  for (const Party& party : others_) Note(party);
  others_.clear();
  calls_.CheckAll();
  std::vector<std::string> left;
  EXPECT_TRUE(Becomes([&] {
    left = broker_->Objects();
    return left.empty();
  })) << "the broker still holds "
      << testing::PrintToString(left);
  if (counted_ != nullptr) CheckWhatTheCaseSays();
}

void World::CheckWhatTheCaseSays() {
  const bool reaches = used_data_ || OperationsSoFar() > operations_before_;
  EXPECT_TRUE(!lacks_ || lacks_was_asked_) << "the case shows what the adapter is said to lack";
  EXPECT_NE(reaches, counted_->core_only) << "core_only is to say whether no operation reaches the adapter";
}

std::string World::Tell(const std::string& command) { return broker_->Ask(command); }

uint64_t World::OperationsSoFar() { return std::stoull("0" + Tell("count")); }

Party& World::At(size_t home) {
  auto& party = parties_[home];
  if (party == nullptr) {
    party =
        std::make_unique<Party>(Home{broker_->control_socket(), surroundings_.device, surroundings_.ips[home]}, calls_);
  }
  return *party;
}

Party& World::NewParty(size_t home) {
  return others_.emplace_back(Home{broker_->control_socket(), surroundings_.device, surroundings_.ips[home]}, calls_);
}

void World::End(Party& party) {
  Note(party);
  for (auto& one : parties_) {
    if (one.get() == &party) one = nullptr;
  }
  others_.remove_if([&party](const Party& other) { return &other == &party; });
}

Handshake World::Request(Party& active, Party& passive, const TestListener& listener,
                         const client::ConnectParameters& parameters) {
  Handshake made;
  made.active = active.NewConnector();
  made.active_qp = active.NewQueuePair();
  made.passive_qp = passive.NewQueuePair();
  made.connect = active.Connect(made.active, made.active_qp, listener.address, parameters);
  made.passive = listener.Next();
  return made;
}

Handshake World::Reply(Party& active, Party& passive, const TestListener& listener) {
  Handshake made = Request(active, passive, listener);
  made.accept = passive.Accept(made.passive, made.passive_qp, {}, made.passive_events.callback());
  const client::Outcome connected = made.connect.Wait();
  EXPECT_TRUE(connected.ok()) << StatusName(connected.status) << ": " << connected.hint;
  return made;
}

Connection World::Establish(Party& active, Party& passive, const TestListener& listener) {
  Handshake made = Request(active, passive, listener);
  Finish(active, passive, made);
  return made;
}

Connection World::EstablishThrough(const std::shared_ptr<client::SharedEndpoint>& endpoint, Party& active,
                                   Party& passive, const TestListener& listener) {
  Handshake made;
  made.active = active.NewConnector();
  made.active_qp = active.NewQueuePair();
  made.passive_qp = passive.NewQueuePair();
  made.connect = active.ConnectWithSharedEndpoint(made.active, made.active_qp, endpoint, listener.address);
  made.passive = listener.Next();
  Finish(active, passive, made);
  return made;
}

Connection World::Establish() {
  const TestListener listener = b().Listening();
  Connection made = Establish(a(), b(), listener);
  b().Close(listener.object);
  return made;
}

Connection World::Establish(QueuePair* of_a, QueuePair* of_b, const client::ReadLimits& limits,
                            const client::ConnectionOptions& options) {
  const TestListener listener = b().Listening();
  Handshake made;
  made.active = a().NewConnector();
  made.active_qp = of_a;
  made.passive_qp = of_b;
  made.connect = a().Connect(made.active, of_a, listener.address, {.limits = limits, .options = options});
  made.passive = listener.Next();
  Finish(a(), b(), made, {.limits = limits, .options = options});
  b().Close(listener.object);
  return made;
}

Handshake World::Request() {
  const TestListener listener = b().Listening();
  Handshake made = Request(a(), b(), listener);
  b().Close(listener.object);
  return made;
}

Handshake World::Reply() {
  const TestListener listener = b().Listening();
  Handshake made = Reply(a(), b(), listener);
  b().Close(listener.object);
  return made;
}

void World::Finish(Handshake& made) { Finish(a(), b(), made); }

void World::Finish(Party& active, Party& passive, Handshake& made, const client::AcceptParameters& parameters) {
  made.accept = passive.Accept(made.passive, made.passive_qp, parameters, made.passive_events.callback());
  EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess) << made.connect.Wait().hint;
  made.complete = active.CompleteConnect(made.active, made.active_events.callback());
  EXPECT_EQ(made.complete.Status(), NdkStatus::kSuccess) << made.complete.Wait().hint;
  EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess) << made.accept.Wait().hint;
}

void World::Disconnect(Party& active, Party& passive, const Connection& connection) {
  const Call one = active.Disconnect(connection.active);
  const Call other = passive.Disconnect(connection.passive);
  EXPECT_EQ(one.Status(), NdkStatus::kSuccess);
  EXPECT_EQ(other.Status(), NdkStatus::kSuccess);
}

bool World::HasGivenUp() {
  const std::vector<std::string> objects = broker_->Objects();
  return std::any_of(objects.begin(), objects.end(), [](const std::string& object) {
    return object.find("CONNECTOR_STATE_DEAD") != std::string::npos &&
           object.find("closing: true") == std::string::npos;
  });
}

void World::Settle() {
  for (auto& party : parties_) {
    if (party != nullptr) party->Settle();
  }
  for (Party& party : others_) party.Settle();
}

void World::ExpectPending(const Call& call) {
  EXPECT_TRUE(call.pending());
  Settle();
  EXPECT_FALSE(call.ended());
}

void World::ExpectCarries(const Connection& connection) {
  constexpr size_t kLength = 64;
  Buffer sent(a().side().domain, kLength, kMrAllowLocalRead), received(b().side().domain, kLength, kMrAllowLocalWrite);
  sent.Fill(1);
  const Sge source = sent.sge(), target = received.sge();
  EXPECT_EQ(Needed(connection.passive_qp, "connection")->Receive(&received, {&target, 1}), NdkStatus::kSuccess);
  EXPECT_EQ(Needed(connection.active_qp, "connection")->Send(&sent, {&source, 1}, 0), NdkStatus::kSuccess);
  const ResultEx at_active = a().side().Next(), at_passive = b().side().Next();
  EXPECT_EQ(at_active.status, NdkStatus::kSuccess);
  EXPECT_EQ(at_passive.status, NdkStatus::kSuccess);
  EXPECT_EQ(at_passive.request_context, &received);
  EXPECT_EQ(received.bytes(), sent.bytes());
}

void World::Close(const Connection& connection) {
  const Call active = a().Close(connection.active);
  const Call passive = b().Close(connection.passive);
  active.Wait();
  passive.Wait();
}

}  // namespace rdmabroker::ndkpi
