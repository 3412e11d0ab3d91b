// SPDX-License-Identifier: Apache-2.0

// What ends a queue pair, or its connection, while another thread is in the middle of a post: it waits for that one,
// whose request ends like the others, once.

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/testing/held_page.h"

namespace rdmabroker::iwarp {
namespace {

struct PostRow {
  const char* name;
  NdkStatus (*post)(QueuePair& qp, std::span<const Sge> sges);
};

const PostRow kPosts[] = {
    {"AReceive", [](QueuePair& qp, std::span<const Sge> sges) { return qp.Receive(Context(1), sges); }},
    {"ASend", [](QueuePair& qp, std::span<const Sge> sges) { return qp.Send(Context(1), sges, 0); }},
    {"ADeferredWrite",
     [](QueuePair& qp, std::span<const Sge> sges) { return qp.Write(Context(1), sges, {}, kOpDefer); }},
    {"ARead", [](QueuePair& qp, std::span<const Sge> sges) { return qp.Read(Context(1), sges, {}, 0); }},
};

// For GoogleTest.
void PrintTo(const PostRow& row, std::ostream* out) { *out << row.name; }

struct EndRow {
  const char* name;
  bool closes;
};

void PrintTo(const EndRow& row, std::ostream* out) { *out << row.name; }

const EndRow kEnds[] = {{"Flush", false}, {"Close", true}};

class AHeldPost : public testing::TestWithParam<std::tuple<PostRow, EndRow>> {};

TEST_P(AHeldPost, IsWaitedForAndEndsOnce) {
  const auto& [row, end] = GetParam();
  Side a, b;
  Connect(a, b);
  Buffer buffer(a.domain, 64, kAllAccess);
  HeldPage<Sge> sge(buffer.sge());
  if (!sge.is_there()) GTEST_SKIP() << "no userfaultfd(2) here";
  QueuePair* const qp = std::exchange(a.qp, nullptr);
  // The posting thread's.
  qp->AddReference();
  std::atomic<NdkStatus> posted = NdkStatus::kPending;
  std::thread posting([&, post = row.post] { posted = post(*qp, {sge.get(), 1}); });
  sge.Await();
  std::atomic<pid_t> ender = 0;
  std::atomic<bool> ended = false, closed = false;
  std::thread ending([&, closes = end.closes] {
    ender = ::gettid();
    closes ? void(qp->Close([&] { closed = true; })) : qp->Flush();
    ended = true;
  });
  EXPECT_TRUE(Eventually([&] { return ended || (ender != 0 && WaitsForALock(ender)); }));
  const bool waited = !ended;
  sge.LetGo();
  posting.join();
  ending.join();
  EXPECT_TRUE(waited) << "it has ended while the post was under way";
  EXPECT_EQ(posted, NdkStatus::kSuccess);
  std::array<ResultEx, 2> results;
  EXPECT_EQ(a.cq->GetResultsEx(results), 1u);
  EXPECT_EQ(results[0].request_context, Context(1));
  qp->ReleaseReference();
  if (!end.closes) CloseAndWait(qp);
  EXPECT_TRUE(!end.closes || Eventually([&] { return closed.load(); }));
}

INSTANTIATE_TEST_SUITE_P(EachPostAndEnd, AHeldPost,
                         testing::Combine(testing::ValuesIn(kPosts), testing::ValuesIn(kEnds)), [](const auto& row) {
                           return std::string(std::get<0>(row.param).name) + "Before" + std::get<1>(row.param).name;
                         });

}  // namespace
}  // namespace rdmabroker::iwarp
