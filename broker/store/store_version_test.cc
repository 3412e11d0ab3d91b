// SPDX-License-Identifier: Apache-2.0

// Reads the stores that earlier versions of the broker have left, one folder of testdata for each version of the
// format. `bazel run //broker/store:store_version_test -- --rewrite` writes that of the newest version anew, which is
// only for a version that was never released.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "broker/store/format.h"
#include "broker/store/records_for_test.h"
#include "broker/store/store.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker {
namespace {

constexpr const char* kFiles[] = {"/records.mdb", "/last_commit"};

std::string Folder(uint32_t version) { return absl::StrCat("broker/store/testdata/version_", version); }

Records LoadOfVersion(uint32_t version) {
  const TemporaryFolder folder;
  for (const char* file : kFiles) std::filesystem::copy(Folder(version) + file, folder.path() + file);
  const absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(folder.path(), "");
  if (!store.ok()) throw std::runtime_error(store.status().ToString());
  absl::StatusOr<Stored> loaded = (*store)->Load();
  if (!loaded.ok()) throw std::runtime_error(loaded.status().ToString());
  return std::move(loaded->records);
}

TEST(AStoreOfEveryVersion, IsRead) {
  ASSERT_EQ(store::kFormatVersion, 2u) << "a new version has a store here, and records of its own to compare it with";
  // Without what has come to the format since that store was written.
  Records expected = FullRecords();
  for (const uint64_t id : {6, 256}) expected.connectors.at(ConnectorId(id)).options = {};
  expected.devices.at(DeviceId(1)).device.mtu = 0;
  expected.listeners.at(ListenerId(3)).any_adapter = false;
  for (const uint64_t id : {1, 2}) {
    SessionRecord& session = expected.sessions.at(SessionId(id));
    session.address_news = AddressNews::kNone;
    session.acknowledged = session.dropped;
    session.returned = absl::InfinitePast();
    const auto added = std::erase_if(
        session.events, [](const SessionEvent& event) { return std::holds_alternative<AddressEvent>(event); });
    session.last_event = EventNumber(session.last_event.value() - added);
    for (SessionEvent& event : session.events) {
      if (auto* connect = std::get_if<ConnectEvent>(&event)) connect->adapter = {};
    }
  }
  EXPECT_TRUE(LoadOfVersion(2) == expected);
  expected.counters.id_key = 0;
  for (const uint64_t id : {1, 2}) {
    SessionRecord& session = expected.sessions.at(SessionId(id));
    session.answers_kept = 0;
    for (KeptAnswer& answer : session.answers) answer.request.reset();
  }
  for (const uint64_t id : {6, 256}) {
    ConnectorRecord& connector = expected.connectors.at(ConnectorId(id));
    connector.since = absl::InfinitePast();
    connector.failure.reset();
    connector.recovered = false;
    connector.accept_data.reset();
  }
  EXPECT_TRUE(LoadOfVersion(1) == expected);
}

// Without the pages at the end that were never used.
void CopyUsedPages(const std::string& from, const std::string& to) {
  constexpr size_t kPage = 4096;
  std::stringstream bytes;
  bytes << std::ifstream(from, std::ios::binary).rdbuf();
  std::string used = bytes.str();
  used.resize(std::min(used.size(), (used.find_last_not_of('\0') / kPage + 1) * kPage));
  std::ofstream(to, std::ios::binary | std::ios::trunc) << used;
}

int Rewrite() {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (workspace == nullptr) {
    std::cerr << "--rewrite needs the source tree: bazel run //broker/store:store_version_test -- --rewrite\n";
    return 1;
  }
  const TemporaryFolder folder;
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(folder.path(), "");
  Changes all;
  all.all = true;
  const absl::Status committed = store.ok() ? (*store)->Commit(FullRecords(), all, {}, {}) : store.status();
  if (!committed.ok()) {
    std::cerr << committed << "\n";
    return 1;
  }
  const std::string target = absl::StrCat(workspace, "/", Folder(store::kFormatVersion));
  std::filesystem::create_directories(target);
  for (const char* file : kFiles) CopyUsedPages(folder.path() + file, target + file);
  return 0;
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--rewrite") return rdmabroker::Rewrite();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
