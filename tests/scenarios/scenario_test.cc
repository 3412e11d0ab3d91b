// SPDX-License-Identifier: Apache-2.0

// Plays the scenarios beside this file and compares what the core does with what they say. A scenario is a comment that
// states its rule, then blocks: sentences (broker/core/testing/text.h), a line "----", every effect in order, and an
// empty line. Besides events, a sentence may be
//
//   limits backlog 1, ports 49152 to 49153    anything of Limits that differs, before all else
//   after 60s                                 time passes, and the clock strikes
//   after 60s the broker is started again     time passes without a broker
//   session 1 stops acknowledging             its requests say no more what it has seen; "acknowledges again" ends that
//   show endpoints, show objects              what there is, with its counts
//   show counts                               what has become of each device's connections
//
// Every scenario is played three times: as it is; with the core taken apart and restored before every event; and with
// the broker's process dying before every event, to which the next one recovers, its devices say what they have, and
// its clients return. Clients and fabrics must not see a difference, but for the adoption. `bazel run
// //tests/scenarios:scenario_test -- --rewrite` writes what the core does into the scenarios; read the difference
// before you keep it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "broker/core/broker_core.h"
#include "broker/core/testing/observer.h"
#include "broker/core/testing/shadow.h"
#include "broker/core/testing/text.h"
#include "broker/core/testing/unacknowledged.h"
#include "broker/store/round_trip_for_test.h"

namespace rdmabroker {
namespace {

bool rewrite = false;

enum class Restarts : uint8_t { kNone, kBeforeEveryEvent, kDeathBeforeEveryEvent };

template <typename Key, typename Record>
std::vector<const Record*> InOrder(const Table<Key, Record>& table) {
  std::vector<std::pair<Key, const Record*>> entries;
  for (const auto& [key, record] : table) entries.emplace_back(key, &record);
  std::sort(entries.begin(), entries.end());
  std::vector<const Record*> records;
  for (const auto& entry : entries) records.push_back(entry.second);
  return records;
}

// "ports 49152 to 49153", "connect timeout 5s".
absl::Status SetLimit(Limits& limits, std::string text) {
  const auto take = [&](const char* name) {
    const bool is = absl::StartsWith(text, absl::StrCat(name, " "));
    if (is) text.erase(0, std::string(name).size() + 1);
    return is;
  };
  const std::pair<const char*, uint32_t*> numbers[] = {
      {"sessions per uid", &limits.sessions_per_uid},
      {"endpoints per uid", &limits.endpoints_per_uid},
      {"objects per uid", &limits.objects_per_uid},
      {"adapters", &limits.adapters_per_session},
      {"listeners", &limits.listeners_per_session},
      {"shared endpoints", &limits.shared_endpoints_per_session},
      {"reservations", &limits.reservations_per_session},
      {"connectors", &limits.connectors_per_session},
      {"answers kept", &limits.answers_kept},
      {"events kept", &limits.events_kept},
      {"backlog", &limits.backlog},
  };
  for (const auto& [name, number] : numbers) {
    if (take(name) && absl::SimpleAtoi(text, number)) return absl::OkStatus();
  }
  if (take("kept bytes per uid") && absl::SimpleAtoi(text, &limits.kept_bytes_per_uid)) return absl::OkStatus();
  if (text == "no accept on a closing listener") {
    limits.accept_on_closing_listener = false;
    return absl::OkStatus();
  }
  unsigned first = 0;
  unsigned last = 0;
  if (take("ports") && std::sscanf(text.c_str(), "%u to %u", &first, &last) == 2) {
    limits.first_ephemeral_port = static_cast<uint16_t>(first);
    limits.last_ephemeral_port = static_cast<uint16_t>(last);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("limits: \"", text, "\" is not understood"));
}

template <typename Kind, typename Any>
bool Is(const Any& any) {
  return std::holds_alternative<Kind>(any);
}

class Stage {
 public:
  explicit Stage(Restarts restarts) : restarts_(restarts) {}

  // What one line of a scenario leads to, line by line.
  std::string Play(const std::string& line) {
    if (absl::StartsWith(line, "limits ")) return SetLimits(line.substr(7));
    if (absl::StartsWith(line, "after ")) return PassTime(absl::string_view(line).substr(6));
    if (line == "show endpoints") return ShowEndpoints();
    if (line == "show objects") return ShowObjects();
    if (line == "show counts") return ShowCounts();
    unsigned long long session = 0;
    char word[16] = "";
    if (std::sscanf(line.c_str(), "session %llu stops acknowledgin%1[g]", &session, word) == 2) {
      silent_.insert(SessionId(session));
      return "";
    }
    if (std::sscanf(line.c_str(), "session %llu acknowledges agai%1[n]", &session, word) == 2) {
      silent_.erase(SessionId(session));
      return "";
    }
    const absl::StatusOr<Event> event = ParseEvent(line, clients_);
    if (!event.ok()) {
      ADD_FAILURE() << line << ": " << event.status();
      return absl::StrCat("?? ", event.status().message(), "\n");
    }
    return Handle(*event);
  }

 private:
  std::string SetLimits(const std::string& text) {
    for (const auto& part : absl::StrSplit(text, ", ")) {
      const absl::Status set = SetLimit(limits_, std::string(part));
      EXPECT_TRUE(set.ok()) << set;
    }
    core_ = BrokerCore(limits_);
    observer_ = Observer(limits_);
    shadow_.Adopt(core_);
    return "";
  }

  std::string PassTime(absl::string_view text) {
    const bool dead = absl::ConsumeSuffix(&text, " the broker is started again");
    absl::Duration time;
    EXPECT_TRUE(absl::ParseDuration(text, &time)) << text << ": is no duration";
    if (dead) {
      now_ += time;
      return HandleAlive(Recover{});
    }
    std::string trace = DieIfDue();
    now_ += time;
    return trace + HandleAlive(DeadlineReached{});
  }

  std::string Handle(const Event& event) {
    // A scenario's own death is one.
    const std::string trace = Is<Recover>(event) ? "" : DieIfDue();
    return trace + HandleAlive(event);
  }

  std::string HandleAlive(const Event& event) {
    if (restarts_ == Restarts::kBeforeEveryEvent) Restore();
    const Effects effects = HandleChecked(event);
    if (const auto* request = std::get_if<ClientRequest>(&event)) {
      RequestId& next = clients_.next_request.try_emplace(request->session, RequestId(1)).first->second;
      next = std::max(next, RequestId(request->id.value() + 1));
    }
    std::string trace;
    for (const Effect& effect : effects) {
      absl::StrAppend(&trace, ToText(effect), "\n");
      const auto* news = std::get_if<NumberedEvent>(&effect);
      if (news != nullptr && !silent_.contains(news->session)) clients_.seen[news->session] = news->number;
    }
    return trace;
  }

  void Restore() {
    absl::StatusOr<BrokerCore> restored = BrokerCore::Restore(limits_, core_.records());
    EXPECT_TRUE(restored.ok()) << restored.status();
    if (restored.ok()) core_ = *std::move(restored);
    shadow_.Adopt(core_);
  }

  // The observer says so where a recovery asks for more than it may.
  Effects HandleChecked(const Event& event) {
    Effects effects = core_.Handle(now_, event);
    const absl::Status seen = observer_.Observe(event, effects, core_.records());
    EXPECT_TRUE(seen.ok()) << seen << " at\n" << ToText(event);
    const absl::Status invariants = core_.CheckInvariants();
    EXPECT_TRUE(invariants.ok()) << invariants << " at\n" << ToText(event);
    const absl::Status followed = shadow_.Follow(core_);
    EXPECT_TRUE(followed.ok()) << followed << " at\n" << ToText(event);
    return AsSent(effects);
  }

  // With each session's events where its stream sends them: at once, or when its client is back.
  Effects AsSent(const Effects& effects) const {
    Effects sent;
    for (const Effect& effect : effects) {
      const auto* news = std::get_if<NumberedEvent>(&effect);
      if (news == nullptr || news->stream) sent.push_back(effect);
      const auto* opened = std::get_if<SessionOpened>(&effect);
      if (opened == nullptr) continue;
      const auto kept = Unacknowledged(core_.records().sessions.at(opened->session));
      sent.insert(sent.end(), kept.begin(), kept.end());
    }
    return sent;
  }

  std::string DieIfDue() { return restarts_ == Restarts::kDeathBeforeEveryEvent && !RecoveryIsSeen() ? Die() : ""; }

  // Who has been away for a while has the whole grace period again, and what was to be bound on a device that has gone
  // fails without the fabric's word.
  bool RecoveryIsSeen() const {
    const Records& records = core_.records();
    const bool away = std::any_of(records.sessions.begin(), records.sessions.end(), [this](const auto& entry) {
      return !entry.second.ended && entry.second.deadline < now_ + limits_.session_grace;
    });
    return away || std::any_of(records.endpoints.begin(), records.endpoints.end(), [&](const auto& entry) {
             return entry.second.state == EndpointState::kBinding && records.devices.at(entry.second.device).removed;
           });
  }

  // Another process goes on. What clients see of it but the events that they have seen before, line by line.
  std::string Die() {
    const absl::Status stored = CheckRoundTrips(core_.records(), {.all = true});
    EXPECT_TRUE(stored.ok()) << stored;
    std::vector<ResumeSession> returns;
    for (const SessionRecord* session : InOrder(core_.records().sessions)) {
      if (!session->stream) continue;
      returns.push_back({session->stream, session->id, session->identity, session->secret, session->acknowledged,
                         session->address_news});
    }
    const Records before = core_.records();
    Restore();
    Effects effects = HandleChecked(Recover{});
    // The devices have been asked for it before: what they have done by then comes as the scenario has it.
    std::erase_if(effects, [](const Effect& effect) { return Is<FabricRequest>(effect); });
    const auto take = [&effects](Effects more) { effects.insert(effects.end(), more.begin(), more.end()); };
    for (const DeviceRecord* record : InOrder(before.devices)) {
      if (!record->removed) take(HandleChecked(FabricReport(DeviceChanged{record->device})));
    }
    for (const ResumeSession& resume : returns) {
      Effects back = HandleChecked(resume);
      ExpectRepeats(back, before.sessions.at(resume.session));
      take(std::move(back));
    }
    return NewOf(effects, before);
  }

  // Who returns gets what it has not acknowledged, as it was, before anything new.
  static void ExpectRepeats(const Effects& effects, const SessionRecord& before) {
    std::vector<std::string> repeated, unacknowledged;
    for (const Effect& effect : effects) {
      const auto* news = std::get_if<NumberedEvent>(&effect);
      if (news != nullptr && news->session == before.id && news->number <= before.last_event) {
        repeated.push_back(ToText(effect));
      }
    }
    for (const NumberedEvent& event : Unacknowledged(before)) unacknowledged.push_back(ToText(Effect(event)));
    EXPECT_EQ(repeated, unacknowledged);
  }

  static std::string NewOf(const Effects& effects, const Records& before) {
    std::string trace;
    for (const Effect& effect : effects) {
      const auto* news = std::get_if<NumberedEvent>(&effect);
      const bool seen = news != nullptr && news->number <= before.sessions.at(news->session).last_event;
      if (!seen && !Is<SessionOpened>(effect)) absl::StrAppend(&trace, ToText(effect), "\n");
    }
    return trace;
  }

  std::string ShowEndpoints() const {
    static constexpr const char* kStates[] = {"binding", "bound", "changing", "unbinding"};
    std::string text;
    for (const EndpointRecord* endpoint : InOrder(core_.records().endpoints)) {
      absl::StrAppend(&text, "endpoint ", endpoint->id.value(), ": ", endpoint->address.ToString(), ", ",
                      kStates[static_cast<int>(endpoint->state)], ", references ", endpoint->references,
                      ", connections ", endpoint->connections, "\n");
    }
    return text.empty() ? "no endpoint\n" : text;
  }

  std::string ShowObjects() const {
    std::string text;
    const auto show = [&](const char* kind, const auto& table) {
      for (const auto* object : InOrder(table)) {
        absl::StrAppend(&text, kind, " ", object->id.value(), " of session ", object->session.value(), ": successors ",
                        object->successors, object->closing ? ", closing\n" : "\n");
      }
    };
    show("adapter", core_.records().adapters);
    show("listener", core_.records().listeners);
    show("shared endpoint", core_.records().shared_endpoints);
    show("reservation", core_.records().reservations);
    show("connector", core_.records().connectors);
    return text.empty() ? "no object\n" : text;
  }

  std::string ShowCounts() const {
    std::string text;
    for (const auto* record : InOrder(core_.records().devices)) {
      const ConnectionCounts& counts = record->counts;
      absl::StrAppend(&text, "device ", record->device.id.value(), ": connects ", counts.connects, ", accepts ",
                      counts.accepts, ", connect failures ", counts.connect_failures, ", connection errors ",
                      counts.connection_errors, "\n");
    }
    return text;
  }

  const Restarts restarts_;
  Limits limits_;
  BrokerCore core_{limits_};
  Observer observer_{limits_};
  Shadow shadow_{core_};
  Instant now_ = absl::UnixEpoch();
  ClientDefaults clients_;
  std::set<SessionId> silent_;
};

// The scenario with the effects that there are.
std::string PlayAll(const std::string& scenario, Restarts restarts) {
  Stage stage(restarts);
  std::string played;
  std::string effects;
  bool skipping = false;
  for (const auto& part : absl::StrSplit(absl::StripSuffix(scenario, "\n"), '\n')) {
    const std::string line(part);
    if (skipping && !line.empty()) continue;
    skipping = false;
    absl::StrAppend(&played, line, "\n");
    if (line == "----") {
      absl::StrAppend(&played, effects.empty() ? "nothing\n" : effects);
      effects.clear();
      skipping = true;
    } else if (!line.empty() && line[0] != '#') {
      absl::StrAppend(&effects, stage.Play(line));
    }
  }
  EXPECT_TRUE(effects.empty()) << "effects that no ---- asks for:\n" << effects;
  return played;
}

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::filesystem::path Folder() {
  const char* workspace = rewrite ? std::getenv("BUILD_WORKSPACE_DIRECTORY") : nullptr;
  return std::filesystem::path(workspace == nullptr ? "." : workspace) / "tests" / "scenarios";
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Scenario : public testing::TestWithParam<std::tuple<std::string, Restarts>> {};

TEST_P(Scenario, GoesAsItIsWritten) {
  const auto& [name, restarts] = GetParam();
  const std::filesystem::path path = Folder() / absl::StrCat(name, ".txt");
  const std::string scenario = Read(path);
  EXPECT_TRUE(absl::StartsWith(scenario, "# ")) << "its first line says which rule it shows";
  const std::string played = PlayAll(scenario, restarts);
  if (rewrite && restarts == Restarts::kNone) {
    std::ofstream(path) << played;
  } else {
    EXPECT_EQ(played, scenario);
  }
}

std::string NameOf(const testing::TestParamInfo<std::tuple<std::string, Restarts>>& info) {
  static constexpr const char* kSuffixes[] = {"", "_restored", "_recovered"};
  const auto& [name, restarts] = info.param;
  return absl::StrCat(name, kSuffixes[static_cast<int>(restarts)]);
}

INSTANTIATE_TEST_SUITE_P(All, Scenario,
                         testing::Combine(testing::ValuesIn(Names()),
                                          testing::Values(Restarts::kNone, Restarts::kBeforeEveryEvent,
                                                          Restarts::kDeathBeforeEveryEvent)),
                         NameOf);

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  rdmabroker::rewrite = std::find(argv, argv + argc, std::string("--rewrite")) != argv + argc;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
