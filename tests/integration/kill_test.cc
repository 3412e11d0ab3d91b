// SPDX-License-Identifier: Apache-2.0

// SIGKILL in the middle of a transfer: of the storage client, the storage server, the client's broker or the server's.
// Without its other end a transfer ends, and the next one succeeds; the death of a broker it does not notice. Nothing
// is left behind.
//
// The moments are drawn from a seed, which is printed and which RDMA_BROKER_SEED sets. They are measured from the
// moment at which the connection is there, and spread over the time that the last undisturbed transfer took.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/examples/storage_protocol.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"
#include "tests/control/temporary_folder.h"
#include "tests/integration/footprint.h"
#include "tests/integration/own_namespaces.h"
#include "tests/integration/running_broker.h"
#include "tests/random_seed.h"

namespace rdmabroker {
namespace {

constexpr int kMoments = 10;
// Transfers that were over when their moment came are done again, and each time it comes a twentieth earlier.
constexpr int kTries = 30;
// Takes tens of milliseconds, so that a moment can be hit.
constexpr size_t kFileSize = 12 << 20;
// The server's, in a network of the test's own.
constexpr char kAddress[] = "127.0.0.1:4420";
// What a broker's own memory may grow by from the first transfer to the end of some thirty: the allocator's slack. A
// sanitizer also keeps what was freed.
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
constexpr int64_t kMoreMemory = 256 << 20;
#else
constexpr int64_t kMoreMemory = 1 << 20;
#endif

constexpr char kStored[] = "client: stored back";

enum class Victim { kClient, kServer, kClientsBroker, kServersBroker };

struct Case {
  const char* name;
  Victim victim;
  // What each of those that are connected says in the end, one of these; none where they notice nothing.
  std::vector<const char*> last_words;
};

std::vector<uint8_t> Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> contents(file.is_open() ? std::filesystem::file_size(path) : 0);
  file.read(reinterpret_cast<char*>(contents.data()), static_cast<std::streamsize>(contents.size()));
  return contents;
}

// A child that nobody has waited for yet.
bool IsRunning(pid_t child) {
  siginfo_t ended = {};
  return ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
}

std::unique_ptr<ChildProcess> Start(std::vector<std::string> command) {
  return std::make_unique<ChildProcess>(std::move(command), ChildProcess::Errors::kToItsOutput);
}

class Kill : public testing::TestWithParam<Case> {
 protected:
  // A storage server and its client, from the moment at which they are connected.
  struct Transfer {
    std::unique_ptr<ChildProcess> server;
    std::unique_ptr<ChildProcess> client;
    absl::Time begin;
  };

  void SetUp() override {
    if (const std::string& problem = EnterOwnNamespaces(); !problem.empty()) GTEST_SKIP() << problem;
    servers_broker_ = std::make_unique<RunningBroker>();
    clients_broker_ = std::make_unique<RunningBroker>();
    folder_ = std::make_unique<TemporaryFolder>();
    std::vector<uint64_t> words(kFileSize / sizeof(uint64_t));
    std::generate(words.begin(), words.end(), std::ref(random_));
    std::ofstream(Path("file"), std::ios::binary).write(reinterpret_cast<const char*>(words.data()), kFileSize);
    digest_ = examples::Sha256(Contents(Path("file")));
    MakeOutputs();
    // Twice: the first question connects this process to the brokers.
    WholeFootprint();
    before_ = WholeFootprint();
    ExpectTransfer();
    ExpectNothingLeft();
    for (RunningBroker* broker : {servers_broker_.get(), clients_broker_.get()}) {
      memory_.push_back(ResidentMemory(broker->pid()));
      EXPECT_GT(memory_.back(), 0);
    }
  }

  std::string Path(const char* name) const { return folder_->path() + "/" + name; }
  bool kills_a_broker() const { return GetParam().last_words.empty(); }
  RunningBroker& victims_broker() {
    return GetParam().victim == Victim::kClientsBroker ? *clients_broker_ : *servers_broker_;
  }

  Transfer StartTransfer() {
    Transfer transfer;
    std::remove(Path("fetched").c_str());
    std::remove(Path("stored").c_str());
    transfer.server = Start({"client/examples/storage_server", "--socket", servers_broker_->control_socket(),
                             "--address", kAddress, "--file", Path("file"), "--store", Path("stored")});
    const std::string listening = transfer.server->ReadLine();
    EXPECT_EQ(listening, std::string("server: listening on ") + kAddress) << transfer.server->ReadAll();
    transfer.client = Start({"client/examples/storage_client", "--socket", clients_broker_->control_socket(),
                             "--server", kAddress, "--output", Path("fetched")});
    // The client makes its file when the server has told it how long it is.
    EXPECT_TRUE(Becomes([this] { return std::ifstream(Path("fetched")).is_open(); }));
    transfer.begin = absl::Now();
    return transfer;
  }

  // Nobody disturbs it: it takes some time and succeeds.
  void ExpectTransfer() {
    Transfer transfer = StartTransfer();
    std::string line;
    do {
      line = transfer.client->ReadLine();
    } while (!line.empty() && !absl::StartsWith(line, kStored));
    length_ = absl::Now() - transfer.begin;
    EXPECT_EQ(transfer.client->End(), 0) << transfer.client->ReadAll();
    EXPECT_EQ(transfer.server->End(), 0) << transfer.server->ReadAll();
    ExpectWhole();
  }
  void ExpectWhole() {
    EXPECT_EQ(examples::Sha256(Contents(Path("fetched"))), digest_);
    EXPECT_EQ(examples::Sha256(Contents(Path("stored"))), digest_);
  }

  void WaitUntil(const Transfer& transfer, double part) const {
    absl::SleepFor(transfer.begin + part * length_ - absl::Now());
  }

  // Whether it survives, it ends: with success where all was over, and else with an error that names the end of its
  // connection. Returns whether it was hit.
  bool EndsInTime(const char* name, ChildProcess* process) {
    if (process->pid() < 0) return false;  // The victim.
    const std::optional<int> status = process->End();
    if (!status) ADD_FAILURE() << "the storage " << name << " does not end";
    const std::string said = process->ReadAll();
    if (status == 0) return false;
    EXPECT_EQ(status, 1) << said;
    EXPECT_TRUE(std::any_of(GetParam().last_words.begin(), GetParam().last_words.end(), [&](const char* words) {
      return absl::StrContains(said, "storage_" + std::string(name) + ": " + words);
    })) << said;
    return true;
  }

  // Kills the victim after that part of a transfer. False where the transfer was over by then.
  bool Hits(double part) {
    const bool hit = kills_a_broker() ? HitsABroker(part) : HitsAnEnd(part);
    if (hit) std::printf("  killed after %.2f of %s\n", part, absl::FormatDuration(length_).c_str());
    return hit;
  }
  bool HitsAnEnd(double part) {
    Transfer transfer = StartTransfer();
    WaitUntil(transfer, part);
    (GetParam().victim == Victim::kClient ? transfer.client : transfer.server)->Kill();
    const bool hits_client = EndsInTime("client", transfer.client.get());
    return EndsInTime("server", transfer.server.get()) || hits_client;
  }
  // The data does not pass by it, and what the ends want of it at last waits until it is back.
  bool HitsABroker(double part) {
    Transfer transfer = StartTransfer();
    WaitUntil(transfer, part);
    const bool under_way = IsRunning(transfer.client->pid());
    victims_broker().Kill();
    victims_broker().Start();
    EXPECT_EQ(transfer.client->End(), 0) << transfer.client->ReadAll();
    EXPECT_EQ(transfer.server->End(), 0) << transfer.server->ReadAll();
    ExpectWhole();
    return under_way;
  }

  Footprint WholeFootprint() {
    Footprint whole;
    const auto add = [&whole](const char* whose, const Footprint& lines) {
      for (const std::string& line : lines) whole.push_back(whose + line);
    };
    add("", Processes());
    for (const auto& [whose, broker] : {std::pair("server's broker: ", servers_broker_.get()),
                                        std::pair("client's broker: ", clients_broker_.get())}) {
      add(whose, broker->Objects());
      add(whose, Descriptors(broker->pid()));
      add(whose, Files(broker->folder()));
    }
    add("", Sockets());
    add("", HasOwnTemporaryFiles() ? SharedMemory() : Files(folder_->path()));
    std::sort(whole.begin(), whole.end());
    return whole;
  }

  // What a broken transfer leaves of its files, or does not, is no matter.
  void MakeOutputs() {
    for (const char* name : {"fetched", "stored"}) std::ofstream(Path(name), std::ios::app).flush();
  }

  void ExpectNothingLeft() {
    MakeOutputs();
    Footprint after;
    EXPECT_TRUE(Becomes([&] { return (after = WholeFootprint()) == before_; })) << Difference(before_, after);
  }

  void ExpectMemoryBounded() {
    size_t i = 0;
    for (RunningBroker* broker : {servers_broker_.get(), clients_broker_.get()}) {
      const int64_t now = ResidentMemory(broker->pid());
      std::printf("  %s's broker: %ld KiB, at first %ld KiB\n", i == 0 ? "server" : "client", now / 1024,
                  memory_[i] / 1024);
      EXPECT_LE(now, memory_[i] + kMoreMemory);
      ++i;
    }
  }

  std::mt19937_64 random_;
  std::unique_ptr<RunningBroker> servers_broker_;
  std::unique_ptr<RunningBroker> clients_broker_;
  std::unique_ptr<TemporaryFolder> folder_;
  examples::Digest digest_ = {};
  absl::Duration length_;
  Footprint before_;
  std::vector<int64_t> memory_;
};

TEST_P(Kill, InTheMiddleOfATransferLeavesNothingBehind) {
  const uint32_t seed = RandomSeed();
  std::printf("RDMA_BROKER_SEED=%u\n", seed);
  SCOPED_TRACE("RDMA_BROKER_SEED=" + std::to_string(seed));
  random_.seed(seed);
  for (int moment = 0; moment < kMoments && !HasFailure(); ++moment) {
    bool hit = false;
    // One in each tenth of the transfer. Where it is missed, this transfer was faster than the last one.
    double part = (moment + std::uniform_real_distribution<>(0, 1)(random_)) / kMoments;
    for (int tries = 0; !hit && tries < kTries && !HasFailure(); ++tries) {
      hit = Hits(part);
      part *= 0.95;
      ExpectNothingLeft();
      ExpectTransfer();
      ExpectNothingLeft();
    }
    EXPECT_TRUE(hit) << "every transfer was over before its moment";
  }
  ExpectMemoryBounded();
  EXPECT_EQ(servers_broker_->Stop(), 0);
  EXPECT_EQ(clients_broker_->Stop(), 0);
  EXPECT_EQ(Processes(), Footprint());
}

constexpr char kPeerGone[] = "the peer has disconnected";
constexpr char kPeerLost[] = "the connection is lost: STATUS_CONNECTION_ABORTED";

INSTANTIATE_TEST_SUITE_P(WithSigkill, Kill,
                         testing::Values(Case{"OfTheClient", Victim::kClient, {kPeerGone, kPeerLost}},
                                         Case{"OfTheServer", Victim::kServer, {kPeerGone, kPeerLost}},
                                         Case{"OfTheClientsBroker", Victim::kClientsBroker, {}},
                                         Case{"OfTheServersBroker", Victim::kServersBroker, {}}),
                         [](const auto& with) { return std::string(with.param.name); });

}  // namespace
}  // namespace rdmabroker
