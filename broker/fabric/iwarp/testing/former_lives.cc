// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/testing/former_lives.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "broker/runtime/descriptor_message.h"

namespace rdmabroker {
namespace {

// Beyond what any record of a test has.
constexpr size_t kMaxRecord = 128 * 1024;

// "CONNECTION LENGTH BYTES" for each.
std::string Encode(const FabricRecords& records) {
  std::string text;
  for (const auto& [id, record] : std::as_const(records.connections)) {
    absl::StrAppend(&text, id.value(), " ", record.size(), " ", record);
  }
  return text;
}

FabricRecords Decode(std::string text) {
  FabricRecords records;
  const auto take_number = [&text] {
    const size_t end = text.find(' ');
    uint64_t number = 0;
    EXPECT_TRUE(absl::SimpleAtoi(text.substr(0, end), &number)) << text;
    text.erase(0, end + 1);
    return number;
  };
  while (!text.empty()) {
    const ConnectionId id(take_number());
    const size_t length = take_number();
    records.connections[id] = text.substr(0, length);
    text.erase(0, length);
  }
  return records;
}

}  // namespace

// Of the process that lives: what is to be kept goes to the one that outlives it.
class ChannelSupervisor final : public Supervisor {
 public:
  // `inherited` is this process's copy of what the lives before have left.
  ChannelSupervisor(LastWords channel, FakeSupervisor& inherited) : channel_(channel), inherited_(inherited) {}

  bool IsThere() const override { return true; }
  absl::Duration watchdog_interval() const override { return absl::InfiniteDuration(); }
  size_t most_kept() const override { return kMostKept; }
  absl::Status Ready() override { return absl::OkStatus(); }
  absl::Status Stopping() override { return absl::OkStatus(); }
  absl::Status ShowStatus(const std::string&) override { return absl::OkStatus(); }
  absl::Status PingWatchdog() override { return absl::OkStatus(); }
  absl::Status Store(const std::string& name, int fd) override {
    channel_.Send('s', name, fd);
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& name) override {
    channel_.Send('r', name);
    return inherited_.Remove(name);
  }
  absl::StatusOr<UniqueFd> StartBarrier() override { return UniqueFd(); }
  std::vector<KeptDescriptor> TakeKept() override {
    inherited_.Restart();
    return inherited_.TakeKept();
  }

 private:
  const LastWords channel_;
  FakeSupervisor& inherited_;
};

void LastWords::Store(FabricLife& life) { Send('c', Encode(life.records())); }

void LastWords::Commit(FabricLife& life) {
  Store(life);
  life.keep().Committed();
}

void LastWords::Send(char kind, std::string_view bytes, int fd) const {
  std::string record(1, kind);
  record.append(bytes);
  EXPECT_TRUE(SendWithDescriptor(channel_, record, fd, 0)) << std::strerror(errno);
}

void FormerLives::Live(const Script& script) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0) << std::strerror(errno);
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  std::fflush(stdout);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0) << std::strerror(errno);
  if (child == 0) LiveAndDie(theirs.get(), script);
  theirs.Reset();
  while (Hear(ours.get())) continue;
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "status " << status;
}

void FormerLives::LiveAndDie(int channel, const Script& script) {
  LastWords words(channel);
  ChannelSupervisor supervisor(words, supervisor_);
  FabricLife life(family_, options_, &supervisor, records_, last_id_);
  script(life, words);
  words.Send('i', absl::StrCat(life.last_id()));
  if (::testing::Test::HasFailure()) words.Send('f', {});
  std::fflush(stdout);
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

bool FormerLives::Hear(int channel) {
  std::string record(kMaxRecord, '\0');
  iovec part = {record.data(), record.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t length = ::recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
  EXPECT_GE(length, 0) << std::strerror(errno);
  if (length <= 0) return false;
  UniqueFd descriptor;
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    descriptor.Reset(fd);
  }
  const std::string bytes = record.substr(1, static_cast<size_t>(length) - 1);
  switch (record[0]) {
    case 's':
      EXPECT_TRUE(supervisor_.Store(bytes, descriptor.get()).ok());
      break;
    case 'r':
      EXPECT_TRUE(supervisor_.Remove(bytes).ok());
      break;
    case 'c':
      records_ = Decode(bytes);
      break;
    case 'p':
      peers_.push_back(std::move(descriptor));
      break;
    case 't':
      told_.push_back(bytes);
      break;
    case 'i':
      EXPECT_TRUE(absl::SimpleAtoi(bytes, &last_id_));
      break;
    case 'f':
      ADD_FAILURE() << "a former life has failed, see above";
      break;
    default:
      ADD_FAILURE() << "an unknown record: " << record[0];
  }
  return true;
}

std::unique_ptr<FabricLife> FormerLives::GoOn() {
  supervisor_.Restart();
  return std::make_unique<FabricLife>(family_, options_, &supervisor_, records_, last_id_);
}

RawPeer FormerLives::TakePeer() {
  if (peers_.empty()) {
    ADD_FAILURE() << "no peer was left";
    return {};
  }
  RawPeer peer(std::move(peers_.front()));
  peers_.pop_front();
  return peer;
}

std::vector<std::string> FormerLives::KeptNames() const {
  std::vector<std::string> names;
  for (const KeptDescriptor& kept : supervisor_.stored()) names.push_back(kept.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string FormerLives::NextTold() {
  if (told_.empty()) {
    ADD_FAILURE() << "nothing was told";
    return {};
  }
  std::string told = std::move(told_.front());
  told_.pop_front();
  return told;
}

}  // namespace rdmabroker
