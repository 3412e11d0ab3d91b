// SPDX-License-Identifier: Apache-2.0

// Calls of sessions, adapters, listeners, shared endpoints and reservations.

#include <sys/socket.h>

#include <array>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dataplane/callback_thread.h"
#include "tests/conformance/misuse/turn.h"

namespace rdmabroker::misuse {
namespace {

// A sockaddr for whom it may concern, with room enough or not.
struct Room {
  explicit Room(Turn& turn)
      : length(turn.Wrong() ? static_cast<uint32_t>(turn.dice.Below(8)) : sizeof address),
        address_given(turn.Wrong() ? nullptr : reinterpret_cast<sockaddr*>(&address)),
        length_given(turn.Wrong() ? nullptr : &length) {}

  sockaddr_storage address = {};
  uint32_t length;
  sockaddr* const address_given;
  uint32_t* const length_given;
};

bool OpenSession(Turn& turn) {
  if (turn.place.where != Where::kMain) return false;  // It waits for another thread.
  client::SessionOptions options;
  options.control_socket =
      turn.Wrong(70) ? std::string(turn.dice.Percent(50) ? 200 : 20, '/') : turn.stage->control_socket;
  auto opening = client::Session::Open(std::move(options));
  turn.Did("Session.Open", opening.outcome.status);
  if (opening.outcome.ok() != (opening.session != nullptr)) turn.stage->Fail("a session does not go with its outcome");
  if (opening.session == nullptr || turn.dice.Percent(30)) return true;
  // It destroys itself on its own thread.
  const auto own = std::make_shared<std::unique_ptr<client::Session>>(std::move(opening.session));
  const TicketPtr ticket = turn.Begin("Session.ListAdapters", nullptr);
  client::Session& session = **own;
  const NdkStatus status = session.ListAdapters([stage = turn.stage, ticket, own](const auto&, const auto&) {
    const Callback callback(stage, nullptr, "the devices", {.where = Where::kOther});
    *own = nullptr;
    ticket->Completed();
  });
  turn.End("Session.ListAdapters", ticket, status);
  return true;
}

bool ListAdapters(Turn& turn) {
  const TicketPtr ticket = turn.Begin("Session.ListAdapters", nullptr);
  std::function<void(const client::Outcome&, std::vector<client::Device>)> completion;
  if (!turn.Wrong()) {
    completion = [done = turn.Completion(ticket, "the devices")](const client::Outcome& outcome, const auto&) {
      done(outcome);
    };
  }
  turn.End("Session.ListAdapters", ticket, turn.session().ListAdapters(std::move(completion)));
  return true;
}

bool OpenAdapter(Turn& turn) {
  const TicketPtr ticket = turn.Begin("Session.OpenAdapter", nullptr);
  const std::string device = turn.Wrong(5) ? "nothing" : turn.stage->on.device;
  const NdkVersion version = turn.Wrong(5) ? NdkVersion{9, 9} : kNdkVersion;
  client::CreateCompletion<client::Adapter> completion;
  if (!turn.Wrong(5)) completion = turn.Creation<client::Adapter>(ticket, Kind::kAdapter, 0);
  turn.End("Session.OpenAdapter", ticket,
           turn.session().OpenAdapter(
               device, version, [](client::AdapterEvent) {}, std::move(completion)));
  return true;
}

bool CloseSession(Turn& turn) {
  // A party without a session can do little more.
  if (!turn.dice.Percent(20)) return false;
  const size_t party = turn.party;
  turn.stage->BeginSessionClose(party);
  const TicketPtr ticket = turn.Begin("Session.Close", nullptr);
  CloseCompletion completion = [stage = turn.stage, ticket, party] {
    const Place place = {.where = Where::kSessionThread, .party = party};
    const Callback callback(stage, nullptr, "the close of the session", place);
    stage->SessionClosed(party);
    ticket->Completed();
  };
  const bool told = !turn.Wrong();
  const NdkStatus status = turn.session().Close(told ? std::move(completion) : CloseCompletion());
  if (status != NdkStatus::kPending && status != NdkStatus::kSuccess) turn.stage->Fail("a session's close fails");
  turn.End("Session.Close", ticket, status);
  if (!told) ticket->Waited();
  // While it closes.
  for (uint64_t more = turn.dice.Below(4); more > 0; --more) CloseSomething(turn);
  return true;
}

bool AskThread(Turn& turn) {
  const bool calls_back = OnCallbackThread();
  if (turn.place.where == Where::kMain && calls_back)
    turn.stage->Fail("the program's own thread counts as the library's");
  if (turn.place.where == Where::kSessionThread && !calls_back) turn.stage->Fail("a session's thread does not count");
  turn.Did("OnCallbackThread");
  return true;
}

bool CloseObject(Turn& turn) {
  // Of those that others need, fewer.
  if (turn.dice.Percent(60)) return false;
  const Lease object = turn.Any(true);
  if (!object) return false;
  turn.Close(object.owned());
  return true;
}

bool WatchSessionEnd(Turn& turn) {
  const Lease object = turn.Any(true);
  if (!object) return false;
  std::function<void(NdkStatus)> on_end;
  if (!turn.Wrong()) on_end = [stage = turn.stage](NdkStatus) { stage->Log("a session ends by itself"); };
  turn.Did("BrokerObject.OnSessionEnd", object->broker->OnSessionEnd(std::move(on_end)), NameOf(*object.owned()));
  return true;
}

bool AskExtension(Turn& turn) {
  const bool of_broker = turn.dice.Percent(50);
  const Lease object = turn.Any(of_broker);
  if (!object) return false;
  const void* functions = nullptr;
  const Extensible& extensible = of_broker ? static_cast<const Extensible&>(*object->broker) : *object->data;
  turn.Did("Extensible.QueryExtension", extensible.QueryExtension({}, kNdkVersion, &functions),
           NameOf(*object.owned()));
  return true;
}

bool AskAdapter(Turn& turn) {
  const Lease adapter = turn.Some(Kind::kAdapter);
  if (!adapter) return false;
  const auto object = adapter.broker<client::Adapter>();
  AdapterInfo info;
  size_t size = turn.Wrong() ? turn.dice.Below(sizeof info) : sizeof info;
  switch (turn.dice.Below(4)) {
    case 0:
      if (object->info().max_cq_depth == 0) turn.stage->Fail("an adapter has no limits");
      turn.Did("Adapter.info");
      break;
    case 1:
      turn.Did("Adapter.QueryInfo", object->QueryInfo(&info, &size));
      break;
    case 2:
      object->client_ends_connections();
      turn.Did("Adapter.client_ends_connections");
      break;
    default:
      if (object->data() != adapter->data) turn.stage->Fail("an adapter's data side has changed");
      turn.Did("Adapter.data");
      break;
  }
  return true;
}

bool CreateListener(Turn& turn) {
  const Lease adapter = turn.Some(Kind::kAdapter);
  if (!adapter) return false;
  const TicketPtr ticket = turn.Begin("Adapter.CreateListener", adapter.owned());
  // Known only once it has been created; until then it delivers nothing.
  const auto listener = std::make_shared<OwnedPtr>();
  client::ConnectEventCallback on_connect;
  if (!turn.Wrong(5)) {
    on_connect = [stage = turn.stage, listener, party = adapter->party, instance = adapter->instance,
                  dice = std::make_shared<Dice>(turn.dice.Below(1u << 30))](std::shared_ptr<client::Connector> made) {
      const Place place = {.where = Where::kSessionThread, .party = party};
      const Callback callback(stage, *listener, "a connect event", place);
      if (made == nullptr) return stage->Fail("a connect event has no connector");
      auto owned = std::make_shared<Owned>();
      owned->kind = Kind::kConnector;
      owned->delivered = true;
      owned->party = party;
      owned->instance = instance;
      owned->broker = std::move(made);
      stage->Add(owned);
      stage->Log("connect event of " + NameOf(**listener) + ": " + NameOf(*owned));
      HandleRequest(stage, dice->Below(1u << 30), place, owned);
      Interlude(stage, dice->Below(1u << 30), place, party);
    };
  }
  client::CreateCompletion<client::Listener> completion;
  if (!turn.Wrong(5)) {
    completion = [stage = turn.stage, ticket, listener, party = adapter->party, instance = adapter->instance,
                  chance = turn.dice.Below(1u << 30)](const client::Outcome& outcome, auto made) {
      const Place place = {.where = Where::kSessionThread, .party = party};
      const Callback callback(stage, ticket->owner(), "the completion of CreateListener", place);
      if (outcome.ok() != (made != nullptr)) stage->Fail("a listener does not go with its outcome");
      if (made != nullptr) {
        auto owned = std::make_shared<Owned>();
        owned->kind = Kind::kListener;
        owned->party = party;
        owned->instance = instance;
        owned->broker = std::move(made);
        *listener = stage->Add(owned);
      }
      Interlude(stage, chance, place, party);
      ticket->Completed();
    };
  }
  turn.End("Adapter.CreateListener", ticket,
           adapter.broker<client::Adapter>()->CreateListener(std::move(on_connect), std::move(completion)));
  return true;
}

template <typename Object, typename Call>
bool Create(Turn& turn, const char* function, Kind kind, const Call& call) {
  const Lease adapter = turn.Some(Kind::kAdapter);
  if (!adapter) return false;
  const TicketPtr ticket = turn.Begin(function, adapter.owned());
  client::CreateCompletion<Object> completion;
  if (!turn.Wrong(5)) completion = turn.Creation<Object>(ticket, kind, adapter->instance);
  turn.End(function, ticket, call(*adapter.broker<client::Adapter>(), std::move(completion)));
  return true;
}

bool CreateSharedEndpoint(Turn& turn) {
  return Create<client::SharedEndpoint>(turn, "Adapter.CreateSharedEndpoint", Kind::kSharedEndpoint,
                                        [&turn](client::Adapter& adapter, auto completion) {
                                          return adapter.CreateSharedEndpoint(turn.Source(), std::move(completion));
                                        });
}

bool CreateSharedEndpointOfReservation(Turn& turn) {
  const Lease reservation = turn.Some(Kind::kReservation);
  if (!reservation) return false;
  const auto object = turn.Wrong(5) ? nullptr : reservation.broker<client::Reservation>();
  return Create<client::SharedEndpoint>(turn, "Adapter.CreateSharedEndpoint(Reservation)", Kind::kSharedEndpoint,
                                        [&object](client::Adapter& adapter, auto completion) {
                                          return adapter.CreateSharedEndpoint(object, std::move(completion));
                                        });
}

bool ReservePort(Turn& turn) {
  return Create<client::Reservation>(turn, "Adapter.ReservePort", Kind::kReservation,
                                     [&turn](client::Adapter& adapter, auto completion) {
                                       return adapter.ReservePort(turn.Source(), std::move(completion));
                                     });
}

bool CreateConnector(Turn& turn) {
  return Create<client::Connector>(
      turn, "Adapter.CreateConnector", Kind::kConnector,
      [](client::Adapter& adapter, auto completion) { return adapter.CreateConnector(std::move(completion)); });
}

bool Listen(Turn& turn) {
  const Lease listener = turn.Some(Kind::kListener);
  if (!listener) return false;
  const TicketPtr ticket = turn.Begin("Listener.Listen", listener.owned());
  turn.End("Listener.Listen", ticket,
           listener.broker<client::Listener>()->Listen(
               turn.Source(), turn.Wrong(5) ? client::OutcomeCompletion() : turn.Completion(ticket, "Listen")));
  return true;
}

bool ListenOnReservation(Turn& turn) {
  const Lease listener = turn.Some(Kind::kListener), reservation = turn.Some(Kind::kReservation);
  if (!listener || !reservation) return false;
  const TicketPtr ticket = turn.Begin("Listener.Listen(Reservation)", listener.owned());
  const auto object = turn.Wrong(5) ? nullptr : reservation.broker<client::Reservation>();
  turn.End("Listener.Listen(Reservation)", ticket,
           listener.broker<client::Listener>()->Listen(object, turn.Completion(ticket, "Listen")));
  return true;
}

bool ControlConnectEvents(Turn& turn) {
  const Lease listener = turn.Some(Kind::kListener);
  if (!listener) return false;
  turn.Did("Listener.ControlConnectEvents",
           listener.broker<client::Listener>()->ControlConnectEvents(turn.dice.Percent(40)), NameOf(*listener.owned()));
  return true;
}

bool AskListener(Turn& turn) {
  const Lease listener = turn.Some(Kind::kListener);
  if (!listener) return false;
  Room room(turn);
  const auto object = listener.broker<client::Listener>();
  if (turn.dice.Percent(30)) {
    (void)object->address();
    turn.Did("Listener.address");
  } else {
    turn.Did("Listener.GetLocalAddress", object->GetLocalAddress(room.address_given, room.length_given));
  }
  return true;
}

bool AskSharedEndpoint(Turn& turn) {
  const Lease endpoint = turn.Some(Kind::kSharedEndpoint);
  if (!endpoint) return false;
  Room room(turn);
  const auto object = endpoint.broker<client::SharedEndpoint>();
  if (object->address().port == 0) turn.stage->Fail("a shared endpoint has no port");
  turn.Did("AddressHolder.address");
  turn.Did("SharedEndpoint.GetLocalAddress", object->GetLocalAddress(room.address_given, room.length_given));
  return true;
}

bool AskReservation(Turn& turn) {
  const Lease reservation = turn.Some(Kind::kReservation);
  if (!reservation) return false;
  if (reservation.broker<client::Reservation>()->address().port == 0) turn.stage->Fail("a reservation has no port");
  turn.Did("AddressHolder.address");
  return true;
}

bool WatchAddress(Turn& turn) {
  const Lease holder = turn.Some(turn.dice.Percent(50) ? Kind::kSharedEndpoint : Kind::kReservation);
  if (!holder) return false;
  client::AddressEventCallback on_address;
  if (!turn.Wrong())
    on_address = [stage = turn.stage](bool) { stage->Fail("an address has an event, and nobody has moved it"); };
  turn.Did("AddressHolder.OnAddressEvent",
           std::static_pointer_cast<client::AddressHolder>(holder->broker)->OnAddressEvent(std::move(on_address)),
           NameOf(*holder.owned()));
  return true;
}

}  // namespace

std::vector<Act> SessionActs() {
  return {{"Session.Open", 1, OpenSession},
          {"Session.ListAdapters", 4, ListAdapters},
          {"Session.OpenAdapter", 4, OpenAdapter},
          {"Session.Close", 2, CloseSession},
          {"OnCallbackThread", 1, AskThread},
          {"BrokerObject.Close", 14, CloseObject},
          {"BrokerObject.OnSessionEnd", 2, WatchSessionEnd},
          {"Extensible.QueryExtension", 1, AskExtension},
          {"Adapter.info", 3, AskAdapter},
          {"Adapter.CreateListener", 6, CreateListener},
          {"Adapter.CreateSharedEndpoint", 4, CreateSharedEndpoint},
          {"Adapter.CreateSharedEndpoint(Reservation)", 3, CreateSharedEndpointOfReservation},
          {"Adapter.ReservePort", 4, ReservePort},
          {"Adapter.CreateConnector", 6, CreateConnector},
          {"Listener.Listen", 8, Listen},
          {"Listener.Listen(Reservation)", 3, ListenOnReservation},
          {"Listener.ControlConnectEvents", 3, ControlConnectEvents},
          {"Listener.GetLocalAddress", 2, AskListener},
          {"SharedEndpoint.GetLocalAddress", 2, AskSharedEndpoint},
          {"AddressHolder.address", 1, AskReservation},
          {"AddressHolder.OnAddressEvent", 1, WatchAddress}};
}

}  // namespace rdmabroker::misuse
