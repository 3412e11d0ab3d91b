// SPDX-License-Identifier: Apache-2.0

// What a store says that is not as it was left: another broker's version, and damage of every kind.

#include <gtest/gtest.h>
#include <lmdb.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>

#include "broker/store/commit_mark.h"
#include "broker/store/format.h"
#include "broker/store/record_codec.h"
#include "broker/store/records_for_test.h"
#include "broker/store/store.h"
#include "dataplane/testing/descriptor_shortage.h"
#include "tests/children_end_by.h"
#include "tests/control/temporary_folder.h"
#include "tests/random_seed.h"

namespace rdmabroker {
namespace {

using store::Key;
using store::Kind;

constexpr size_t kPage = 4096;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Without the pages at the end that were never used.
std::string UsedPages(std::string bytes) {
  const size_t last = bytes.find_last_not_of('\0');
  bytes.resize(std::min(bytes.size(), (last / kPage + 1) * kPage));
  return bytes;
}

std::string ValueOf(const Key& key, const std::string& message) {
  const store::KeyBytes bytes = store::ToBytes(key);
  std::string value(store::kChecksumSize, '\0');
  store::PutChecksum(store::ChecksumOf({bytes.data(), bytes.size()}, message), value.data());
  return value + message;
}

// Changes a file's entries by LMDB, as nobody does who keeps to the store's rules.
class Forger {
 public:
  explicit Forger(const std::string& path) {
    EXPECT_EQ(::mdb_env_create(&env_), MDB_SUCCESS);
    EXPECT_EQ(::mdb_env_open(env_, path.c_str(), MDB_NOSUBDIR | MDB_NOLOCK, 0600), MDB_SUCCESS);
    EXPECT_EQ(::mdb_txn_begin(env_, nullptr, 0, &transaction_), MDB_SUCCESS);
    EXPECT_EQ(::mdb_dbi_open(transaction_, nullptr, 0, &database_), MDB_SUCCESS);
  }
  ~Forger() {
    EXPECT_EQ(::mdb_txn_commit(transaction_), MDB_SUCCESS);
    ::mdb_env_close(env_);
  }

  std::string Get(const Key& key) {
    store::KeyBytes bytes = store::ToBytes(key);
    MDB_val name{bytes.size(), bytes.data()};
    MDB_val value = {};
    EXPECT_EQ(::mdb_get(transaction_, database_, &name, &value), MDB_SUCCESS) << ToString(key);
    return {static_cast<const char*>(value.mv_data), value.mv_size};
  }
  void Put(const Key& key, std::string value) {
    const store::KeyBytes bytes = store::ToBytes(key);
    Put(std::string(bytes.data(), bytes.size()), std::move(value));
  }
  void Put(std::string key, std::string value) {
    MDB_val name{key.size(), key.data()};
    MDB_val content{value.size(), value.data()};
    EXPECT_EQ(::mdb_put(transaction_, database_, &name, &content, 0), MDB_SUCCESS);
  }
  void Erase(const Key& key) {
    store::KeyBytes bytes = store::ToBytes(key);
    MDB_val name{bytes.size(), bytes.data()};
    EXPECT_EQ(::mdb_del(transaction_, database_, &name, nullptr), MDB_SUCCESS) << ToString(key);
  }

 private:
  MDB_env* env_ = nullptr;
  MDB_txn* transaction_ = nullptr;
  MDB_dbi database_ = 0;
};

class AStoreOfAnother : public testing::Test {
 protected:
  AStoreOfAnother() {
    std::unique_ptr<Store> store = *Store::Open(directory(), "");
    Changes all;
    all.all = true;
    EXPECT_TRUE(store->Commit(FullRecords(), all, {}, {}).ok());
    // And states before the last one, with what becomes free by them.
    records_ = FullRecords();
    Changes changes;
    changes.counters = true;
    changes.connectors = {ConnectorId(6)};
    for (int i = 0; i < 5; ++i) {
      ++records_.counters.session;
      ++records_.connectors.at(ConnectorId(6)).successors;
      EXPECT_TRUE(store->Commit(records_, changes, {}, {}).ok());
    }
  }

  const std::string& directory() const { return folder_.path(); }
  std::string path() const { return directory() + "/records.mdb"; }
  std::string mark() const { return directory() + "/last_commit"; }
  void Mark(uint64_t commit) const { EXPECT_TRUE(store::CommitMark::Open(mark())->Set(commit).ok()); }
  absl::StatusOr<Stored> Load() const { return (*Store::Open(directory(), ""))->Load(); }
  const Records& records() const { return records_; }

  void ExpectDamaged(const std::string& why) const {
    const absl::Status loaded = Load().status();
    EXPECT_EQ(loaded.code(), absl::StatusCode::kDataLoss) << loaded;
    EXPECT_NE(loaded.message().find(path()), absl::string_view::npos) << loaded;
    EXPECT_NE(loaded.message().find(why), absl::string_view::npos) << loaded;
  }

 private:
  TemporaryFolder folder_;
  Records records_;
};

std::map<std::string, std::string> FilesOf(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) files[entry.path()] = ReadFile(entry.path());
  return files;
}

TEST_F(AStoreOfAnother, ThatIsNewerIsRefusedAndLeftAsItIs) {
  store::v1::Header header;
  header.set_format_version(store::kFormatVersion + 1);
  Forger(path()).Put({Kind::kHeader}, ValueOf({Kind::kHeader}, header.SerializeAsString()));
  const auto before = FilesOf(directory());
  const absl::Status loaded = Load().status();
  EXPECT_EQ(loaded.code(), absl::StatusCode::kFailedPrecondition) << loaded;
  EXPECT_EQ(std::string(loaded.message()),
            path() +
                ": has version 3 of the store's format, and this broker reads up to 2: start the newer broker that "
                "wrote it, or remove the file, which gives its sessions and connections up");
  EXPECT_TRUE(FilesOf(directory()) == before);
}

TEST_F(AStoreOfAnother, ThatIsNewerIsRefusedWhateverItsMarkSays) {
  store::v1::Header header;
  header.set_format_version(store::kFormatVersion + 1);
  Forger(path()).Put({Kind::kHeader}, ValueOf({Kind::kHeader}, header.SerializeAsString()));
  for (const std::string& content : {std::string("another layout"), std::string(64, '\xFF'), std::string()}) {
    WriteFile(mark(), content);
    const auto before = FilesOf(directory());
    const absl::Status loaded = Load().status();
    EXPECT_EQ(loaded.code(), absl::StatusCode::kFailedPrecondition) << loaded;
    EXPECT_TRUE(FilesOf(directory()) == before);
  }
}

TEST_F(AStoreOfAnother, IsReadAsItIs) {
  const auto before = FilesOf(directory());
  const absl::StatusOr<Stored> loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->records == records());
  EXPECT_TRUE(FilesOf(directory()) == before);
}

TEST_F(AStoreOfAnother, ThatIsNoneIsDamaged) {
  const std::string whole = UsedPages(ReadFile(path()));
  const std::pair<const char*, std::string> contents[] = {
      {"nothing", ""},
      {"a file of zeros", std::string(whole.size(), '\0')},
      {"some text", "This is no store.\n"},
      {"much text", std::string(100'000, 'x')},
      {"half of it", whole.substr(0, whole.size() / 2)},
      {"its first page", whole.substr(0, kPage)},
      {"its first two pages", whole.substr(0, 2 * kPage)},
      {"all but its first page", std::string(kPage, '\0') + whole.substr(kPage)},
      {"all but its first two pages", std::string(2 * kPage, '\0') + whole.substr(2 * kPage)},
  };
  for (const auto& [what, bytes] : contents) {
    SCOPED_TRACE(what);
    WriteFile(path(), bytes);
    ExpectDamaged("damaged: ");
  }
  std::filesystem::remove(path());
  ExpectDamaged("after 6 commits");
}

TEST_F(AStoreOfAnother, WithoutARecordOrWithAnotherIsDamaged) {
  const std::string whole = ReadFile(path());
  const Key connector{Kind::kConnector, 6};
  const Key other{Kind::kConnector, 256};
  const Key answer{Kind::kAnswer, 1, 13};
  const Key event{Kind::kEvent, 1, 103};
  const Key beyond{Kind::kAnswer, 2, 14};
  store::v1::Answer message;
  store::ToProto(KeptAnswer{RequestId(14), RequestDigest{1}, {}}, &message);
  const std::string one_more = ValueOf(beyond, message.SerializeAsString());
  const struct {
    const char* why;
    std::function<void(Forger&)> forge;
  } cases[] = {
      {"has 90 of 91 records", [&](Forger& file) { file.Erase(connector); }},
      {"has 90 of 91 records", [&](Forger& file) { file.Erase({Kind::kCounters}); }},
      {"has 90 of 91 records", [&](Forger& file) { file.Erase(answer); }},
      {"has 92 of 91 records", [&](Forger& file) { file.Put(beyond, one_more); }},
      {"event 104 of session 1: the one before it is missing", [&](Forger& file) { file.Erase(event); }},
      {"there is no such session",
       [&](Forger& file) {
         file.Erase({Kind::kSession, 1});
       }},
      {"the header is missing", [&](Forger& file) { file.Erase({Kind::kHeader}); }},
      {"connector 6: is not what its checksum says", [&](Forger& file) { file.Put(connector, file.Get(other)); }},
      {"connector 6: has no checksum", [&](Forger& file) { file.Put(connector, "short"); }},
      {"connector 6: is no message of its kind",
       [&](Forger& file) { file.Put(connector, ValueOf(connector, "\x0A")); }},
      {"connector 6: is another's record",
       [&](Forger& file) { file.Put(connector, ValueOf(connector, file.Get(other).substr(store::kChecksumSize))); }},
      {"connector 6: object.session: missing", [&](Forger& file) { file.Put(connector, ValueOf(connector, "")); }},
      {"the header is none", [&](Forger& file) { file.Put({Kind::kHeader}, ValueOf({Kind::kHeader}, "")); }},
      {"a key is none of a store's", [&](Forger& file) { file.Put(std::string("key"), ""); }},
      {"a key is none of a store's", [&](Forger& file) { file.Put(std::string(17, '\x7F'), ""); }},
      {"the counters: has no place",
       [&](Forger& file) {
         file.Put({Kind::kCounters, 1}, ValueOf({Kind::kCounters, 1}, ""));
       }},
  };
  for (const auto& [why, forge] : cases) {
    SCOPED_TRACE(why);
    WriteFile(path(), whole);
    {
      Forger forger(path());
      forge(forger);
    }
    ExpectDamaged(why);
  }
}

TEST_F(AStoreOfAnother, WithARecordFromBeforeIsDamaged) {
  std::string old;
  { old = Forger(path()).Get({Kind::kConnector, 6}); }
  {
    std::unique_ptr<Store> store = *Store::Open(directory(), "");
    Changes all;
    all.all = true;
    Records records = FullRecords();
    records.connectors.at(ConnectorId(6)).broken = false;
    ASSERT_TRUE(store->Commit(records, all, {}, {}).ok());
  }
  { Forger(path()).Put({Kind::kConnector, 6}, old); }
  ExpectDamaged("some record is not the last one written");
}

// LMDB keeps the state before the last commit, and takes it where the last one's page is damaged.
TEST_F(AStoreOfAnother, WhoseLastCommitIsLostIsDamaged) {
  const std::string whole = ReadFile(path());
  int refused = 0;
  for (const size_t page : {0, 1}) {
    std::string damaged = whole;
    // The transaction's number, which is the page's last field.
    constexpr size_t kTransaction = 128;
    std::fill_n(damaged.begin() + static_cast<ptrdiff_t>(page * kPage + kTransaction), 24, '\0');
    WriteFile(path(), damaged);
    const absl::StatusOr<Stored> loaded = Load();
    if (loaded.ok()) {
      EXPECT_TRUE(loaded->records == records());
    } else {
      EXPECT_EQ(loaded.status().code(), absl::StatusCode::kDataLoss) << loaded.status();
      refused += loaded.status().message().find("leads to commit 5, and 6 was the last one") != absl::string_view::npos;
    }
  }
  EXPECT_EQ(refused, 1);
}

TEST_F(AStoreOfAnother, MayHaveOneCommitMoreThanWasMarked) {
  ASSERT_EQ(store::CommitMark::Open(mark())->commit(), 6u);
  const std::pair<uint64_t, bool> marks[] = {{4, false}, {5, true}, {6, true}, {7, false}, {0, false}};
  for (const auto& [commit, fine] : marks) {
    Mark(commit);
    EXPECT_EQ(Load().ok(), fine) << commit;
  }
}

// It cannot be damaged and lead to the state before the last commit, which the records' file still has.
TEST_F(AStoreOfAnother, WithAMarkOfWhichAnythingIsFlippedOrCutOffIsDamaged) {
  const std::string last = ReadFile(mark());
  for (size_t bit = 0; bit < 8 * last.size(); ++bit) {
    std::string flipped = last;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    WriteFile(mark(), flipped);
    // Flipped from 6 to 7, the number is what a process leaves that dies while it marks commit 7.
    EXPECT_EQ(Load().status().code(), bit == 0 ? absl::StatusCode::kOk : absl::StatusCode::kDataLoss) << bit;
  }
  WriteFile(mark(), last.substr(0, last.size() - 1));
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(AStoreOfAnother, WhoseProcessDiedWhileItMarkedACommitHasThatOrTheOneBefore) {
  constexpr size_t kNumber = 8;  // Octets; the checksum follows.
  const std::string last = ReadFile(mark());
  for (const uint64_t before : {4, 5, 6}) {
    Mark(before);
    std::string torn = ReadFile(mark());
    Mark(before + 1);
    torn.replace(0, kNumber, ReadFile(mark()), 0, kNumber);
    WriteFile(mark(), torn);
    EXPECT_EQ(store::CommitMark::Open(mark())->commit(), before);
    EXPECT_EQ(Load().ok(), before == 5 || before == 6) << before;
  }
  for (const char number : {0, 1}) {
    WriteFile(mark(), std::string(1, number) + std::string(15, '\0'));
    EXPECT_EQ(store::CommitMark::Open(mark())->commit(), 0u) << "it was the first commit";
  }
}

// Its process died between a commit and the mark, and that of the next one does while it makes its first commit.
TEST_F(AStoreOfAnother, IsMarkedAsItIsBeforeTheNextCommit) {
  const std::string last = ReadFile(mark());
  Mark(5);
  const std::string before = ReadFile(mark());
  std::filesystem::create_directory(path() + ".new");
  const std::unique_ptr<Store> store = *Store::Open(directory(), "");
  ASSERT_TRUE(store->Load().ok());
  EXPECT_EQ(ReadFile(mark()), before);
  Changes all;
  all.all = true;
  EXPECT_FALSE(store->Commit(records(), all, {}, {}).ok()) << "a folder is in the way";
  EXPECT_EQ(ReadFile(mark()), last);
}

TEST_F(AStoreOfAnother, WhoseReaderDiesIsDamaged) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGXCPU}) {
    SCOPED_TRACE(signal);
    const ChildrenEndBy died(signal);
    ExpectDamaged("damaged: LMDB cannot read it to its end");
  }
}

TEST_F(AStoreOfAnother, WhoseReaderIsKilledIsLeftAsItIs) {
  const auto before = FilesOf(directory());
  // Ignored, which whoever starts a process may have left it: the kernel says nothing of the reader's end then.
  for (const auto of_children : {SIG_DFL, SIG_IGN}) {
    ::signal(SIGCHLD, of_children);
    for (const int signal : {SIGKILL, SIGTERM}) {
      SCOPED_TRACE(signal);
      const ChildrenEndBy killed(signal);
      const absl::Status loaded = Load().status();
      EXPECT_EQ(loaded.code(), absl::StatusCode::kInternal) << loaded;
      EXPECT_NE(loaded.message().find(path() + ": cannot be read: "), absl::string_view::npos) << loaded;
    }
    EXPECT_EQ(::signal(SIGCHLD, SIG_DFL), of_children);
  }
  EXPECT_TRUE(FilesOf(directory()) == before);
  EXPECT_TRUE(Load().ok());
}

// Whoever of the two lacks one more, this process or its reader.
TEST_F(AStoreOfAnother, ThatNobodyHasADescriptorForIsLeftAsItIs) {
  const auto before = FilesOf(directory());
  const std::unique_ptr<Store> store = *Store::Open(directory(), "");
  // Three of this process's, and the reader's.
  constexpr int kEnough = 100;
  bool loads = false;
  bool reader_lacked_one = false;
  for (int spare = 0; !loads && spare < kEnough; ++spare) {
    const DescriptorShortage shortage(spare);
    const absl::Status loaded = store->Load().status();
    loads = loaded.ok();
    if (loads) continue;
    EXPECT_EQ(loaded.code(), absl::StatusCode::kInternal) << loaded;
    reader_lacked_one |= loaded.message().find("LMDB: Too many open files") != absl::string_view::npos;
  }
  EXPECT_TRUE(loads);
  EXPECT_TRUE(reader_lacked_one);
  EXPECT_TRUE(FilesOf(directory()) == before);
}

// Whatever bits are flipped, of either file: the records are those that were committed, or it is damaged.
TEST_F(AStoreOfAnother, WithFlippedBitsIsReadOrDamaged) {
  const uint32_t seed = RandomSeed();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  const std::string whole = UsedPages(ReadFile(path()));
  const std::string last = ReadFile(mark());
  int read = 0;
  int damaged = 0;
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    std::string bytes = whole;
    std::string mark_bytes = last;
    for (uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
      // Half of them where there is much structure in few bytes.
      const uint64_t where = random() % 8;
      std::string& target = where == 0 ? mark_bytes : bytes;
      const size_t page = where < 4 ? random() % 2 : random() % (whole.size() / kPage);
      const size_t in_page = where % 2 == 0 ? random() % 160 : random() % kPage;
      char& byte = target[(page * kPage + in_page) % target.size()];
      byte = static_cast<char>(byte ^ (1 << random() % 8));
    }
    WriteFile(path(), bytes);
    WriteFile(mark(), mark_bytes);
    const absl::StatusOr<Stored> loaded = Load();
    if (loaded.ok()) {
      ASSERT_TRUE(loaded->records == records());
      ++read;
    } else {
      ASSERT_EQ(loaded.status().code(), absl::StatusCode::kDataLoss) << loaded.status();
      ++damaged;
    }
  }
  std::cout << "covered: " << read << " files with flipped bits read, " << damaged << " refused\n";
  EXPECT_GT(read, 0);
  EXPECT_GT(damaged, 0);
}

}  // namespace
}  // namespace rdmabroker
