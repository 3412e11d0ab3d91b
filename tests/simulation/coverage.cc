// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/coverage.h"

#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/core/request_names.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {
namespace {

constexpr const char* kEvents[] = {"OpenSession",     "ResumeSession", "StreamLost",    "EndSession",
                                   "DisableDevice",   "EnableDevice",  "ClientRequest", "AcknowledgeEvents",
                                   "DeadlineReached", "Recover",       "FabricReport"};
constexpr const char* kReports[] = {
    "DeviceChanged",          "DeviceRemoved",   "FabricBound",         "FabricBindFailed",  "FabricUnbound",
    "FabricConnectRequested", "FabricReplied",   "FabricConnectFailed", "FabricEstablished", "FabricFailed",
    "FabricDisconnected",     "FabricHandedOff", "FabricReleased"};
constexpr const char* kEffects[] = {"SessionOpened", "SessionRefused", "Answer",       "NumberedEvent",
                                    "SessionEnded",  "StreamReplaced", "FabricRequest"};
constexpr const char* kFabricRequests[] = {
    "FabricBind",     "FabricRepurpose",     "FabricRebind",          "FabricUnbind", "FabricConnect",
    "FabricComplete", "FabricAccept",        "FabricReject",          "FabricRefuse", "FabricDisconnect",
    "FabricRelease",  "FabricAdoptEndpoint", "FabricAdoptConnection", "FabricAdopted"};
constexpr const char* kSessionEvents[] = {"OutcomeEvent",        "ConnectEvent",         "DisconnectEvent",
                                          "AdapterRemovedEvent", "AdapterDisabledEvent", "AddressEvent"};
constexpr const char* kPayloads[] = {"nothing",          "AdapterOpened",         "ListenerCreated",
                                     "Listening",        "SharedEndpointCreated", "PortReserved",
                                     "ConnectorCreated", "ConnectionData",        "ConnectionEstablished"};
static_assert(std::size(kEvents) == std::variant_size_v<Event::variant>);
static_assert(std::size(kReports) == std::variant_size_v<FabricReport::variant>);
static_assert(std::size(kEffects) == std::variant_size_v<Effect::variant>);
static_assert(std::size(kFabricRequests) == std::variant_size_v<FabricRequest::variant>);
static_assert(std::size(kSessionEvents) == std::variant_size_v<SessionEvent::variant>);
static_assert(std::size(kPayloads) == std::variant_size_v<Payload::variant>);

struct Status {
  NdkStatus status;
  // Why no core of the simulation answers or tells it; nullptr where one must.
  const char* never;
};

constexpr const char* kDataPath = "a result of the data path, which is not the broker's";
constexpr const char* kInClient = "of a call that the client library answers without the broker";
constexpr Status kStatuses[] = {
    {NdkStatus::kSuccess, nullptr},
    {NdkStatus::kTimeout, "NTSTATUS counts it as a success; the broker says IO_TIMEOUT"},
    {NdkStatus::kPending, nullptr},
    {NdkStatus::kBufferOverflow, kDataPath},
    {NdkStatus::kDeviceBusy, kDataPath},
    {NdkStatus::kNoMoreEntries, kDataPath},
    {NdkStatus::kUnsuccessful, nullptr},
    {NdkStatus::kAccessViolation, kDataPath},
    {NdkStatus::kInvalidParameter, nullptr},
    {NdkStatus::kInvalidDeviceRequest, nullptr},
    {NdkStatus::kNoMemory, "the broker says INSUFFICIENT_RESOURCES"},
    {NdkStatus::kAccessDenied, nullptr},
    {NdkStatus::kBufferTooSmall, kInClient},
    {NdkStatus::kInvalidParameterMix, nullptr},
    {NdkStatus::kObjectNameNotFound, nullptr},
    {NdkStatus::kDataOverrun, kDataPath},
    {NdkStatus::kDataError, kDataPath},
    {NdkStatus::kSharingViolation, nullptr},
    {NdkStatus::kInsufficientResources, nullptr},
    {NdkStatus::kIoTimeout, nullptr},
    {NdkStatus::kNotSupported, kInClient},
    {NdkStatus::kInternalError, kDataPath},
    {NdkStatus::kCancelled, nullptr},
    {NdkStatus::kRemoteResources, kDataPath},
    {NdkStatus::kInvalidAddress, nullptr},
    {NdkStatus::kInvalidDeviceState, nullptr},
    {NdkStatus::kInvalidBufferSize, nullptr},
    {NdkStatus::kTooManyAddresses, nullptr},
    {NdkStatus::kAddressAlreadyExists, nullptr},
    {NdkStatus::kConnectionDisconnected, "NDKPI's control path does not use it"},
    {NdkStatus::kConnectionRefused, nullptr},
    {NdkStatus::kAddressAlreadyAssociated, nullptr},
    {NdkStatus::kAddressNotAssociated, kInClient},
    {NdkStatus::kConnectionInvalid, nullptr},
    {NdkStatus::kConnectionActive, nullptr},
    {NdkStatus::kNetworkUnreachable, nullptr},
    {NdkStatus::kHostUnreachable, nullptr},
    {NdkStatus::kRequestAborted, kDataPath},
    {NdkStatus::kConnectionAborted, nullptr},
    {NdkStatus::kDeviceRemoved, nullptr},
    {NdkStatus::kImplementationLimit, kDataPath},
    {NdkStatus::kBadVersion, nullptr},
    {NdkStatus::kAdapterNotReady, nullptr},
};

// Calls `visit` with the name and count of each kind but the statuses.
template <typename Visit>
void ForEachKind(const auto& counts, const auto& names, const char* of, Visit visit) {
  for (size_t kind = 0; kind < counts.size(); ++kind) visit(of, names[kind], counts[kind]);
}

}  // namespace

void Coverage::Count(const Event& event) {
  ++events_[event.index()];
  if (const auto* report = std::get_if<FabricReport>(&event)) ++reports_[report->index()];
  if (const auto* request = std::get_if<ClientRequest>(&event)) ++requests_[request->request.index()];
}

void Coverage::Count(const Effect& effect) {
  ++effects_[effect.index()];
  if (const auto* request = std::get_if<FabricRequest>(&effect)) {
    ++fabric_requests_[request->index()];
  } else if (const auto* answer = std::get_if<Answer>(&effect)) {
    CountOutcome(answer->outcome);
  } else if (const auto* refused = std::get_if<SessionRefused>(&effect)) {
    CountOutcome(refused->outcome);
  } else if (const auto* numbered = std::get_if<NumberedEvent>(&effect)) {
    ++session_events_[numbered->event.index()];
    if (const auto* outcome = std::get_if<OutcomeEvent>(&numbered->event)) CountOutcome(outcome->outcome);
    if (const auto* ended = std::get_if<DisconnectEvent>(&numbered->event)) ++statuses_[ended->status];
  }
}

void Coverage::CountOutcome(const Outcome& outcome) {
  ++statuses_[outcome.status];
  ++payloads_[outcome.payload.index()];
}

void Coverage::Add(const Coverage& other) {
  const auto add = [](auto& counts, const auto& more) {
    for (size_t kind = 0; kind < counts.size(); ++kind) counts[kind] += more[kind];
  };
  add(events_, other.events_);
  add(reports_, other.reports_);
  add(requests_, other.requests_);
  add(effects_, other.effects_);
  add(fabric_requests_, other.fabric_requests_);
  add(session_events_, other.session_events_);
  add(payloads_, other.payloads_);
  for (const auto& [status, count] : other.statuses_) statuses_[status] += count;
}

std::string Coverage::ToString() const {
  std::string text;
  std::string group;
  const auto line = [&](const char* of, const std::string& name, uint64_t count) {
    const bool first = std::exchange(group, of) != of;
    if (first && !text.empty()) text += "\n";
    absl::StrAppend(&text, first ? absl::StrCat("covered: ", of, ": ") : ", ", name, " ", count);
  };
  ForEachKind(events_, kEvents, "event", line);
  ForEachKind(reports_, kReports, "report", line);
  ForEachKind(requests_, kRequestNames, "request", line);
  ForEachKind(effects_, kEffects, "effect", line);
  ForEachKind(fabric_requests_, kFabricRequests, "fabric request", line);
  ForEachKind(session_events_, kSessionEvents, "session event", line);
  ForEachKind(payloads_, kPayloads, "payload", line);
  for (const auto& [status, count] : statuses_) line("status", std::string(StatusName(status)), count);
  return text + "\n";
}

std::vector<std::string> Coverage::Missing() const {
  std::vector<std::string> missing;
  const auto look = [&](const char* of, const char* name, uint64_t count) {
    if (count == 0) missing.push_back(absl::StrCat(of, " ", name));
  };
  ForEachKind(events_, kEvents, "event", look);
  ForEachKind(reports_, kReports, "report", look);
  ForEachKind(requests_, kRequestNames, "request", look);
  ForEachKind(effects_, kEffects, "effect", look);
  ForEachKind(fabric_requests_, kFabricRequests, "fabric request", look);
  ForEachKind(session_events_, kSessionEvents, "session event", look);
  ForEachKind(payloads_, kPayloads, "payload", look);
  for (const auto& [status, never] : kStatuses) {
    if (never == nullptr && !statuses_.contains(status)) missing.push_back(std::string(StatusName(status)));
  }
  return missing;
}

std::vector<std::string> Coverage::Unexpected() const {
  std::vector<std::string> unexpected;
  for (const auto& [status, never] : kStatuses) {
    if (never != nullptr && statuses_.contains(status)) {
      unexpected.push_back(absl::StrCat(std::string(StatusName(status)), ", listed as never: ", never));
    }
  }
  return unexpected;
}

}  // namespace rdmabroker
