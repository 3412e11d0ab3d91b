// SPDX-License-Identifier: Apache-2.0

// Calls of connectors, and those of blocking.h.

#include <sys/socket.h>

#include <array>
#include <memory>
#include <utility>

#include "client/blocking.h"
#include "dataplane/callback_thread.h"
#include "tests/conformance/misuse/turn.h"

namespace rdmabroker::misuse {
namespace {

// Rather one that a listener has delivered, or one that the program has created.
Lease SomeConnector(Turn& turn, bool delivered) {
  if (turn.focus != nullptr) return turn.stage->Borrow(turn.focus);
  if (!turn.Wrong(30)) {
    if (Lease fit = turn.Open(Kind::kConnector, [&](const Owned& one) { return one.delivered == delivered; })) {
      return fit;
    }
  }
  return turn.Some(Kind::kConnector);
}

// One of the connector's adapter, unless by chance it is another's, or none.
Lease QueuePairFor(Turn& turn, const Owned& connector) {
  if (turn.Wrong(20)) return turn.Some(Kind::kQueuePair);
  const auto fits = [&](const Owned& qp) { return qp.instance == connector.instance; };
  // Rather one that has not been connected before.
  Lease fresh = turn.Open(Kind::kQueuePair, [&](const Owned& qp) { return fits(qp) && !qp.used; });
  return fresh ? std::move(fresh) : turn.Open(Kind::kQueuePair, fits);
}

QueuePair* Pointer(Turn& turn, const Lease& queue_pair) {
  queue_pair->used = true;
  return turn.Wrong(3) ? nullptr : queue_pair.data<QueuePair>();
}

client::OutcomeCompletion CompletionOrNone(Turn& turn, const TicketPtr& ticket, const char* what) {
  return turn.Wrong(3) ? client::OutcomeCompletion() : turn.Completion(ticket, what);
}

// Of a Connect: goes on with the handshake where it can.
client::OutcomeCompletion Connecting(Turn& turn, const TicketPtr& ticket) {
  if (turn.Wrong(3)) return {};
  return [stage = turn.stage, ticket, chance = turn.dice.Below(1u << 30),
          done = turn.Completion(ticket, "Connect")](const client::Outcome& outcome) {
    const Place place = {.where = Where::kSessionThread, .party = ticket->owner()->party};
    const Callback callback(stage, ticket->owner(), "the completion of Connect", place);
    if (outcome.ok()) HandleReply(stage, chance, place, ticket->owner());
    done(outcome);
  };
}

client::ConnectParameters Parameters(Turn& turn) {
  return {.source = turn.Source(),
          .destination = turn.Destination(),
          .limits = turn.Limits(),
          .private_data = turn.PrivateData()};
}

bool Connect(Turn& turn) {
  const Lease connector = SomeConnector(turn, false);
  if (!connector) return false;
  const Lease queue_pair = QueuePairFor(turn, *connector.owned());
  if (!queue_pair) return false;
  const client::ConnectParameters parameters = Parameters(turn);
  const TicketPtr ticket = turn.Begin("Connector.Connect", connector.owned(),
                                      NameOf(*queue_pair.owned()) + " to " + parameters.destination.ToString());
  turn.End(
      "Connector.Connect", ticket,
      connector.broker<client::Connector>()->Connect(Pointer(turn, queue_pair), parameters, Connecting(turn, ticket)));
  return true;
}

bool ConnectWithSharedEndpoint(Turn& turn) {
  const Lease connector = SomeConnector(turn, false), endpoint = turn.Some(Kind::kSharedEndpoint);
  if (!connector || !endpoint) return false;
  const Lease queue_pair = QueuePairFor(turn, *connector.owned());
  if (!queue_pair) return false;
  const auto through = turn.Wrong(3) ? nullptr : endpoint.broker<client::SharedEndpoint>();
  const client::ConnectParameters parameters = Parameters(turn);
  const TicketPtr ticket = turn.Begin(
      "Connector.ConnectWithSharedEndpoint", connector.owned(),
      NameOf(*queue_pair.owned()) + ", " + NameOf(*endpoint.owned()) + " to " + parameters.destination.ToString());
  turn.End("Connector.ConnectWithSharedEndpoint", ticket,
           connector.broker<client::Connector>()->ConnectWithSharedEndpoint(Pointer(turn, queue_pair), through,
                                                                            parameters, Connecting(turn, ticket)));
  return true;
}

bool CompleteConnect(Turn& turn) {
  const Lease connector = SomeConnector(turn, false);
  if (!connector) return false;
  const TicketPtr ticket = turn.Begin("Connector.CompleteConnect", connector.owned());
  turn.End("Connector.CompleteConnect", ticket,
           connector.broker<client::Connector>()->CompleteConnect(turn.OnDisconnect(connector.owned()),
                                                                  CompletionOrNone(turn, ticket, "CompleteConnect")));
  return true;
}

bool Accept(Turn& turn) {
  const Lease connector = SomeConnector(turn, true);
  if (!connector) return false;
  const Lease queue_pair = QueuePairFor(turn, *connector.owned());
  if (!queue_pair) return false;
  const client::AcceptParameters parameters = {.limits = turn.Limits(), .private_data = turn.PrivateData()};
  const TicketPtr ticket = turn.Begin("Connector.Accept", connector.owned(), NameOf(*queue_pair.owned()));
  turn.End("Connector.Accept", ticket,
           connector.broker<client::Connector>()->Accept(Pointer(turn, queue_pair), parameters,
                                                         turn.OnDisconnect(connector.owned()),
                                                         CompletionOrNone(turn, ticket, "Accept")));
  return true;
}

bool Reject(Turn& turn) {
  const Lease connector = SomeConnector(turn, turn.dice.Percent(70));
  if (!connector) return false;
  const TicketPtr ticket = turn.Begin("Connector.Reject", connector.owned());
  turn.End(
      "Connector.Reject", ticket,
      connector.broker<client::Connector>()->Reject(
          turn.PrivateData(), turn.dice.Percent(50) ? turn.Completion(ticket, "Reject") : client::OutcomeCompletion()));
  return true;
}

bool Disconnect(Turn& turn) {
  const Lease connector = SomeConnector(turn, turn.dice.Percent(50));
  if (!connector) return false;
  const TicketPtr ticket = turn.Begin("Connector.Disconnect", connector.owned());
  turn.End("Connector.Disconnect", ticket,
           connector.broker<client::Connector>()->Disconnect(CompletionOrNone(turn, ticket, "Disconnect")));
  return true;
}

bool AskConnector(Turn& turn) {
  const Lease connector = SomeConnector(turn, turn.dice.Percent(50));
  if (!connector) return false;
  const auto object = connector.broker<client::Connector>();
  uint32_t inbound = 0, outbound = 0, length = static_cast<uint32_t>(turn.dice.Below(600));
  std::array<uint8_t, 600> data = {};
  sockaddr_storage address = {};
  uint32_t address_length = turn.Wrong() ? 3 : sizeof address;
  switch (turn.dice.Below(4)) {
    case 0:
      turn.Did("Connector.GetConnectionData",
               object->GetConnectionData(turn.Wrong() ? nullptr : &inbound, turn.Wrong() ? nullptr : &outbound,
                                         turn.Wrong() ? nullptr : data.data(), turn.Wrong() ? nullptr : &length));
      break;
    case 1:
      turn.Did("Connector.GetLocalAddress",
               object->GetLocalAddress(turn.Wrong() ? nullptr : reinterpret_cast<sockaddr*>(&address),
                                       turn.Wrong() ? nullptr : &address_length));
      break;
    case 2:
      turn.Did("Connector.GetPeerAddress",
               object->GetPeerAddress(turn.Wrong() ? nullptr : reinterpret_cast<sockaddr*>(&address),
                                      turn.Wrong() ? nullptr : &address_length));
      break;
    default:
      (void)object->adapter();
      turn.Did("Connector.adapter");
      (void)object->connection_data();
      turn.Did("Connector.connection_data");
      break;
  }
  return true;
}

// --- Functions that wait: on a thread of their own; or in a callback, where they must not wait ---

// `call` returns what the function returned, and keeps what it has made.
template <typename Call>
bool Wait(Turn& turn, const char* function, Call call) {
  if (OnCallbackThread()) {
    const NdkStatus status = call(turn);
    if (status != NdkStatus::kInvalidDeviceState) turn.stage->Fail(std::string(function) + " waits in a callback");
    turn.Did(function, status);
    return true;
  }
  if (turn.place.where == Where::kOther) return false;
  const TicketPtr ticket = turn.Begin(function, nullptr);
  turn.stage->Spawn([stage = turn.stage, ticket, function, party = turn.party, chance = turn.dice.Below(1u << 30),
                     call = std::move(call)] {
    Turn own = {.stage = stage,
                .dice = Dice(stage->seed * 1'000'003 + chance),
                .party = party,
                .place = {.where = Where::kOther}};
    own.valid = own.dice.Percent(60);
    const NdkStatus status = call(own);
    stage->tally.Returned(IndexOf(function), status);
    if (status == NdkStatus::kPending) stage->Fail(std::string(function) + " returns PENDING");
    ticket->Returned(status);
    ticket->Waited();
  });
  return true;
}

OwnedPtr Keep(Turn& turn, Kind kind, uint32_t instance, std::shared_ptr<client::BrokerObject> made) {
  auto owned = std::make_shared<Owned>();
  owned->kind = kind;
  owned->party = turn.party;
  owned->instance = instance;
  owned->broker = std::move(made);
  return turn.stage->Add(owned);
}

bool WaitForAdapters(Turn& turn) {
  return Wait(turn, "BlockingListAdapters",
              [](Turn& own) { return client::BlockingListAdapters(own.session()).outcome.status; });
}

bool WaitForAdapter(Turn& turn) {
  return Wait(turn, "BlockingOpenAdapter", [](Turn& own) {
    auto made = client::BlockingOpenAdapter(own.session(), own.stage->on.device);
    if (made.object == nullptr) return made.outcome.status;
    auto owned = std::make_shared<Owned>();
    owned->kind = Kind::kAdapter;
    owned->party = own.party;
    owned->data = made.object->data();
    owned->broker = std::move(made.object);
    own.stage->Add(owned);
    return made.outcome.status;
  });
}

// `make` gets an adapter.
template <typename Make>
bool WaitForAddress(Turn& turn, const char* function, Kind kind, const Make& make) {
  const Lease adapter = turn.Some(Kind::kAdapter);
  if (!adapter || adapter->party != turn.party) return false;
  return Wait(turn, function, [object = adapter.owned(), kind, make](Turn& own) {
    auto made = make(std::static_pointer_cast<client::Adapter>(object->broker), own.Source());
    if (made.object != nullptr) Keep(own, kind, object->instance, std::move(made.object));
    return made.outcome.status;
  });
}

bool WaitForSharedEndpoint(Turn& turn) {
  return WaitForAddress(turn, "BlockingCreateSharedEndpoint", Kind::kSharedEndpoint,
                        client::BlockingCreateSharedEndpoint);
}

bool WaitForReservation(Turn& turn) {
  return WaitForAddress(turn, "BlockingReservePort", Kind::kReservation, client::BlockingReservePort);
}

// A shared endpoint of the party's, mostly a new one; null where there is none.
std::shared_ptr<client::SharedEndpoint> EndpointToConnectFrom(Turn& own, const Owned& adapter) {
  if (own.dice.Percent(20)) {
    const Lease endpoint = own.Some(Kind::kSharedEndpoint);
    return endpoint ? endpoint.broker<client::SharedEndpoint>() : nullptr;
  }
  auto made =
      client::BlockingCreateSharedEndpoint(std::static_pointer_cast<client::Adapter>(adapter.broker), own.Source());
  own.Did("BlockingCreateSharedEndpoint", made.outcome.status);
  if (made.object != nullptr) Keep(own, Kind::kSharedEndpoint, adapter.instance, made.object);
  return made.object;
}

bool WaitForConnectFrom(Turn& turn, const char* function, bool shared_endpoint) {
  const Lease fresh = turn.Open(Kind::kQueuePair, [](const Owned& qp) { return !qp.used; });
  if (!fresh && turn.dice.Percent(80)) return false;
  const Lease adapter =
      turn.Open(Kind::kAdapter, [&](const Owned& one) { return !fresh || one.number == fresh->instance; });
  if (!adapter) return false;
  return Wait(turn, function, [object = adapter.owned(), shared_endpoint](Turn& own) {
    const Lease queue_pair = QueuePairFor(own, *object);
    client::ConnectParameters parameters = Parameters(own);
    // Nobody could end that but the broker, in a minute.
    if (parameters.destination.ip == own.stage->on.silent) parameters.destination.ip = own.stage->on.foreign;
    QueuePair* const qp = queue_pair ? queue_pair.data<QueuePair>() : nullptr;
    const auto of = std::static_pointer_cast<client::Adapter>(object->broker);
    auto made = shared_endpoint ? client::BlockingConnect(of, qp, EndpointToConnectFrom(own, *object), parameters)
                                : client::BlockingConnect(of, qp, parameters);
    if (made.object != nullptr) Keep(own, Kind::kConnector, object->instance, std::move(made.object));
    return made.outcome.status;
  });
}

bool WaitForConnect(Turn& turn) { return WaitForConnectFrom(turn, "BlockingConnect", false); }

bool WaitForConnectWithSharedEndpoint(Turn& turn) {
  return WaitForConnectFrom(turn, "BlockingConnect(SharedEndpoint)", true);
}

template <typename Call>
bool WaitForConnector(Turn& turn, const char* function, bool delivered, const Call& call) {
  const Lease connector = SomeConnector(turn, delivered);
  if (!connector || connector->party != turn.party) return false;
  return Wait(turn, function, [object = connector.owned(), call](Turn& own) {
    return call(own, object, std::static_pointer_cast<client::Connector>(object->broker));
  });
}

bool WaitForAccept(Turn& turn) {
  return WaitForConnector(turn, "BlockingAccept", true, [](Turn& own, const OwnedPtr& object, const auto& connector) {
    const Lease queue_pair = QueuePairFor(own, *object);
    return client::BlockingAccept(connector, queue_pair ? queue_pair.data<QueuePair>() : nullptr, {}).status;
  });
}

bool WaitForReject(Turn& turn) {
  return WaitForConnector(turn, "BlockingReject", true, [](Turn& own, const OwnedPtr&, const auto& connector) {
    return client::BlockingReject(connector, own.PrivateData()).status;
  });
}

bool WaitForDisconnect(Turn& turn) {
  return WaitForConnector(
      turn, "BlockingDisconnect", turn.dice.Percent(50),
      [](Turn&, const OwnedPtr&, const auto& connector) { return client::BlockingDisconnect(connector).status; });
}

bool WaitForClose(Turn& turn) {
  const Lease object = turn.Any(true);
  if (!object || object->party != turn.party) return false;
  return Wait(turn, "BlockingClose", [object = object.owned()](Turn& own) {
    if (!OnCallbackThread()) own.stage->BeginClose(object);
    return client::BlockingClose(object->broker);
  });
}

bool WaitForDataClose(Turn& turn) {
  if (turn.dice.Percent(50)) return false;
  const Lease object = turn.Any(false);
  if (!object ||
      (!OnCallbackThread() && (turn.place.where == Where::kOther || !turn.stage->BeginClose(object.owned())))) {
    return false;
  }
  return Wait(turn, "BlockingClose(DataObject)", [object = object.owned()](Turn& own) {
    const NdkStatus status = client::BlockingClose(object->data);
    if (OnCallbackThread()) return status;
    if (object->running > 0) own.stage->Fail(NameOf(*object) + " is closed while a callback of it runs");
    object->closed = true;
    return status;
  });
}

bool WaitForRequests(Turn& turn) {
  const Lease adapter = turn.Open(Kind::kAdapter);
  if (!adapter) return false;
  return Wait(turn, "BlockingListener.Listen", [object = adapter.owned()](Turn& own) {
    auto made =
        client::BlockingListener::Listen(std::static_pointer_cast<client::Adapter>(object->broker), own.Source());
    if (made.object == nullptr) return made.outcome.status;
    own.stage->NoteAddress(made.object->address());
    own.Did("BlockingListener.address");
    if (made.object->listener() == nullptr) own.stage->Fail("there is no listener");
    own.Did("BlockingListener.listener");
    // A peer comes in time, on a busy machine as well, or does not.
    Turn peers = {.stage = own.stage,
                  .dice = Dice(own.dice.Below(1u << 30)),
                  .party = 1 - own.party,
                  .valid = true,
                  .towards = made.object->address()};
    MakeCall(peers, "ProtectionDomain.CreateQueuePair");
    const char* const connects[] = {"BlockingConnect", "BlockingConnect(SharedEndpoint)", "Connector.Connect"};
    if (own.dice.Percent(90)) MakeCall(peers, connects[own.dice.Below(std::size(connects))]);
    auto next = made.object->Next(own.stage->Longer(std::chrono::milliseconds(own.valid ? 100 : own.dice.Below(50))));
    own.Did("BlockingListener.Next", next.outcome.status);
    if (next.object != nullptr) {
      const OwnedPtr connector = Keep(own, Kind::kConnector, object->instance, std::move(next.object));
      if (own.stage->ending()) {
        own.Close(connector);
      } else if (own.dice.Percent(90)) {
        Turn accepting = {.stage = own.stage,
                          .dice = Dice(own.dice.Below(1u << 30)),
                          .party = own.party,
                          .valid = true,
                          .focus = connector};
        MakeCall(accepting, "ProtectionDomain.CreateQueuePair");
        MakeCall(accepting, "BlockingAccept");
      }
    }
    return made.outcome.status;
  });
}

}  // namespace

std::vector<Act> ConnectorActs() {
  return {{"Connector.Connect", 14, Connect},
          {"Connector.ConnectWithSharedEndpoint", 8, ConnectWithSharedEndpoint},
          {"Connector.CompleteConnect", 5, CompleteConnect},
          {"Connector.Accept", 5, Accept},
          {"Connector.Reject", 3, Reject},
          {"Connector.Disconnect", 5, Disconnect},
          {"Connector.GetConnectionData", 8, AskConnector}};
}

std::vector<Act> BlockingActs() {
  return {{"BlockingListAdapters", 1, WaitForAdapters},
          {"BlockingOpenAdapter", 1, WaitForAdapter},
          {"BlockingCreateSharedEndpoint", 1, WaitForSharedEndpoint},
          {"BlockingReservePort", 1, WaitForReservation},
          {"BlockingConnect", 3, WaitForConnect},
          {"BlockingConnect(SharedEndpoint)", 2, WaitForConnectWithSharedEndpoint},
          {"BlockingAccept", 3, WaitForAccept},
          {"BlockingReject", 3, WaitForReject},
          {"BlockingDisconnect", 2, WaitForDisconnect},
          {"BlockingClose", 2, WaitForClose},
          {"BlockingClose(DataObject)", 2, WaitForDataClose},
          {"BlockingListener.Listen", 3, WaitForRequests}};
}

}  // namespace rdmabroker::misuse
