// SPDX-License-Identifier: Apache-2.0

// What it costs to commit an event's changes to the store. docs/benchmarks.md explains.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "broker/core/changes.h"
#include "broker/store/format.h"
#include "broker/store/record_codec.h"
#include "broker/store/store.h"
#include "tests/bench/core_population.h"
#include "tests/bench/figures.h"
#include "tests/bench/memory_folder.h"
#include "tests/bench/processes.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

constexpr size_t kConnectors = 10'000;
constexpr size_t kEvents = 100'000;

// The least that a keeper of records can do: the same messages, in a hash map.
class MessageMap {
 public:
  void Keep(const Records& records, const Changes& changes) {
    ForEachTable(
        [&](const auto& table, const auto& ids) {
          using Record = typename std::decay_t<decltype(table)>::mapped_type;
          for (const auto id : ids) {
            const auto found = table.find(id);
            if (found == table.end()) {
              messages_.erase(NameOf({store::StoredAs<Record>::kKind, id.value()}));
            } else {
              Put<typename store::StoredAs<Record>::Message>({store::StoredAs<Record>::kKind, id.value()},
                                                             found->second);
            }
          }
        },
        records, changes);
    for (const SessionId id : changes.sessions) {
      const auto session = records.sessions.find(id);
      if (session == records.sessions.end() || session->second.answers.empty()) continue;
      Put<store::v1::Answer>({store::Kind::kAnswer, id.value()}, session->second.answers.back());
    }
  }

 private:
  static std::string NameOf(const store::Key& key) {
    const store::KeyBytes bytes = store::ToBytes(key);
    return {bytes.data(), bytes.size()};
  }
  template <typename Message, typename Record>
  void Put(const store::Key& key, const Record& record) {
    Message message;
    store::ToProto(record, &message);
    messages_[NameOf(key)] = message.SerializeAsString();
  }

  absl::flat_hash_map<std::string, std::string> messages_;
};

// What `keep` takes for an event's changes, in nanoseconds.
double NanosecondsOf(CorePopulation& population, const std::function<void(BrokerCore&)>& keep) {
  std::chrono::steady_clock::duration spent{};
  size_t events = 0;
  population.AfterEachEvent([&](BrokerCore& core) {
    const auto start = std::chrono::steady_clock::now();
    keep(core);
    spent += std::chrono::steady_clock::now() - start;
    ++events;
  });
  (void)population.Churn(kEvents);
  population.AfterEachEvent([](BrokerCore&) {});
  return std::chrono::duration<double, std::nano>(spent).count() / static_cast<double>(events);
}

void Measure() {
  CorePopulation plain(kConnectors), taken(kConnectors), kept(kConnectors), stored(kConnectors);
  const MemoryFolder folder;
  const std::unique_ptr<Store> store = *Store::Open(folder.path(), "");
  MessageMap map;
  const auto commit = [&](BrokerCore& core) {
    const Changes changes = core.TakeChanges();
    Require(store->Commit(core.records(), changes, {}, {}).ok(), "a commit");
  };
  auto medians = MediansOfAlternatingRuns(
      "ns", {{"event", [&] { return plain.Churn(kEvents); }},
             {"taking its changes", [&] { return NanosecondsOf(taken, [](BrokerCore& c) { (void)c.TakeChanges(); }); }},
             {"keeping its changes' messages in a hash map",
              [&] {
                return NanosecondsOf(kept, [&](BrokerCore& core) {
                  const Changes changes = core.TakeChanges();
                  map.Keep(core.records(), changes);
                });
              }},
             {"committing its changes", [&] { return NanosecondsOf(stored, commit); }}});
  PrintRatio("store, a commit / the same messages kept in a hash map",
             medians["committing its changes"] / medians["keeping its changes' messages in a hash map"], "reported");
  PrintRatio("store, an event and its commit / the event",
             (medians["event"] + medians["committing its changes"]) / medians["event"], "reported");
  const auto bytes = static_cast<size_t>(std::filesystem::file_size(folder.path() + "/records.mdb"));
  std::printf("  the store of %zu connectors has %zu bytes\n", kConnectors, bytes);
}

}  // namespace
}  // namespace rdmabroker::bench

int main() { rdmabroker::bench::RunAsBenchmark(rdmabroker::bench::Measure); }
