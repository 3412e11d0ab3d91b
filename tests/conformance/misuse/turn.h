// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_MISUSE_TURN_H_
#define TESTS_CONFORMANCE_MISUSE_TURN_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/adapter.h"
#include "client/connector.h"
#include "client/listener.h"
#include "client/reservation.h"
#include "client/shared_endpoint.h"
#include "tests/conformance/misuse/stage.h"
#include "tests/simulation/dice.h"

namespace rdmabroker::misuse {

// Who makes a call, where, and with what luck.
struct Turn {
  StagePtr stage;
  Dice dice;
  size_t party = 0;
  Place place;
  bool valid = false;   // Everything is to fit, as far as it can be known.
  OwnedPtr focus = {};  // The connector that the call is to be about, if it is to be about a certain one.
  std::optional<SocketAddress> towards = {};  // Whom it is to connect to, likewise.

  client::Session& session() const { return *stage->sessions[party]; }
  // By chance, unless everything is to fit.
  bool Wrong(uint64_t percent = 15) { return !valid && dice.Percent(percent); }

  // --- Objects. Empty where there is none. ---

  // One of the party's that is open and fits.
  Lease Open(Kind kind, const std::function<bool(const Owned&)>& fits = {});
  // Mostly such a one; else one whose close is pending or complete, or another party's.
  Lease Some(Kind kind);
  // As Some, of all kinds. `of_broker`: or of the data side.
  Lease Any(bool of_broker);

  // --- Calls ---

  // Of a call that may be pending; `owner` is the object that its completion belongs to.
  TicketPtr Begin(const char* function, OwnedPtr owner, const std::string& about = {});
  void End(const char* function, const TicketPtr& ticket, NdkStatus status);
  // Of a call that ends inline.
  void Did(const char* function, NdkStatus status, const std::string& about = {});
  void Did(const char* function, const std::string& about = {});

  // A status that refuses has a hint of its own.
  void CheckHint(const char* function, NdkStatus status);

  // Closes the object, unless that is not the program's to do any more. `function` is what calls its Close.
  bool Close(const OwnedPtr& object);

  // --- Callbacks, in which more calls may be made ---

  // Whose session or data side calls the completion.
  size_t PartyOf(const TicketPtr& ticket) const;
  client::OutcomeCompletion Completion(const TicketPtr& ticket, const char* what);
  RequestCompletion StatusCompletion(const TicketPtr& ticket, const char* what);
  CloseCompletion Closing(const TicketPtr& ticket, const OwnedPtr& object);
  client::DisconnectEventCallback OnDisconnect(const OwnedPtr& connector);
  // The object is the program's from then on.
  template <typename Object>
  client::CreateCompletion<Object> Creation(const TicketPtr& ticket, Kind kind, uint32_t instance);

  // --- Arguments ---

  SocketAddress Source();
  SocketAddress Destination();
  client::ReadLimits Limits();
  std::string PrivateData();
  OpFlags Flags(OperationType type);
  // Places that a request reads or writes, of the adapter that the object belongs to.
  std::vector<Sge> Places(const Owned& user, bool written, OpFlags flags = 0);
  // The same at the peer.
  RemoteMemory PlaceAtPeer(bool written);
  RemoteToken TokenOfPeer();
};

// A call of each function of the API, with arguments and objects that fit or do not. False: not now.
struct Act {
  const char* function;
  uint32_t weight;
  bool (*make)(Turn& turn);
};
std::vector<Act> SessionActs();
std::vector<Act> ConnectorActs();
std::vector<Act> DataActs();
std::vector<Act> PostActs();
std::vector<Act> BlockingActs();

// One call, chosen by chance.
void MakeCall(Turn& turn);
// This one.
bool MakeCall(Turn& turn, const char* function);
// Closes an object, chosen by chance: false where all are closed.
bool CloseSomething(Turn& turn);
// What a callback does besides: nothing, some calls, or some closes.
void Interlude(const StagePtr& stage, uint64_t chance, const Place& place, size_t party);
// What a program does with a connect request, mostly sensible.
void HandleRequest(const StagePtr& stage, uint64_t chance, const Place& place, const OwnedPtr& connector);
// The same where the peer has accepted.
void HandleReply(const StagePtr& stage, uint64_t chance, const Place& place, const OwnedPtr& connector);

template <typename Object>
client::CreateCompletion<Object> Turn::Creation(const TicketPtr& ticket, Kind kind, uint32_t instance) {
  return [stage = stage, ticket, kind, instance, party = PartyOf(ticket), chance = dice.Below(1u << 30)](
             const client::Outcome& outcome, std::shared_ptr<Object> made) {
    const Place here = {.where = Where::kSessionThread, .party = party};
    const Callback callback(stage, ticket->owner(), "the completion of a create", here);
    if (outcome.ok() != (made != nullptr)) stage->Fail("a create's object does not go with its outcome");
    if (made != nullptr) {
      auto owned = std::make_shared<Owned>();
      owned->kind = kind;
      owned->party = party;
      owned->instance = instance;
      if constexpr (std::is_same_v<Object, client::Adapter>) owned->data = made->data();
      owned->broker = std::move(made);
      stage->Add(owned);
    }
    Interlude(stage, chance, here, party);
    ticket->Completed();
  };
}

}  // namespace rdmabroker::misuse

#endif  // TESTS_CONFORMANCE_MISUSE_TURN_H_
