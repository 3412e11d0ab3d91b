// SPDX-License-Identifier: Apache-2.0

#include "dataplane/pending_call.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "dataplane/notifications.h"

namespace rdmabroker {
namespace {

// Notes what is called of it, and its end.
class Called final : public DataObject {
 public:
  Called(std::string* log, std::string name)
      : call(this, [this] { *log_ += name_; }), log_(log), name_(std::move(name)) {}
  ~Called() override { *log_ += "-" + name_; }

  PendingCall call;

 private:
  std::string* const log_;
  const std::string name_;
};

// The thread of these tests is the test's own.
class Thread final : public CallingThread {
 public:
  void Call(PendingCall* call) override { calls_.Add(call); }
  void LetGo(PendingCall* call) { calls_.LetGo(call); }
  bool RunOne() {
    if (calls_.size() == 0) return false;
    calls_.Take().Run();
    return true;
  }
  void RunAll() {
    while (RunOne()) {
    }
  }

 private:
  PendingCalls calls_;
};

TEST(PendingCallTest, CallsRunInTheirOrderAndOnceHoweverOftenTheyWereAskedFor) {
  std::string log;
  Thread thread;
  auto* const a = new Called(&log, "a");
  auto* const b = new Called(&log, "b");
  thread.Call(&a->call);
  thread.Call(&b->call);
  thread.Call(&a->call);
  thread.RunAll();
  EXPECT_EQ(log, "ab");
  thread.Call(&b->call);
  thread.RunAll();
  EXPECT_EQ(log, "abb");
  a->Close({});
  b->Close({});
}

TEST(PendingCallTest, AClosedObjectIsThereUntilItsCallHasRun) {
  std::string log;
  Thread thread;
  auto* const a = new Called(&log, "a");
  thread.Call(&a->call);
  thread.Call(&a->call);
  EXPECT_EQ(a->Close([&] { log += "!"; }), NdkStatus::kPending);
  thread.RunAll();
  EXPECT_EQ(log, "a!-a");
}

TEST(PendingCallTest, AReferenceIsGivenBackOnTheThread) {
  std::string log;
  Thread thread;
  auto* const a = new Called(&log, "a");
  for (int i = 0; i < 3; ++i) a->AddReference();
  EXPECT_EQ(a->Close([&] { log += "!"; }), NdkStatus::kPending);
  thread.LetGo(&a->call);
  thread.LetGo(&a->call);
  thread.RunAll();
  EXPECT_EQ(log, "a");
  thread.LetGo(&a->call);
  thread.RunAll();
  EXPECT_EQ(log, "aa!-a");
}

class Queue final : public DataObject {
 public:
  Queue(CallingThread* thread, std::function<void(NdkStatus)> function)
      : notifications(this, thread, std::move(function)) {}

  Notifications notifications;
};

TEST(NotificationsTest, EachIsCalledAndFailuresComeLast) {
  std::string log;
  Thread thread;
  auto* const queue = new Queue(&thread, [&](NdkStatus status) { log += status == NdkStatus::kSuccess ? "s" : "f"; });
  for (const NdkStatus status : {NdkStatus::kSuccess, NdkStatus::kSuccess, NdkStatus::kBufferOverflow}) {
    queue->notifications.Call(status);
  }
  thread.RunAll();
  EXPECT_EQ(log, "ssf");
  queue->Close({});
}

TEST(NotificationsTest, OneThatAsksForTheNextLetsOthersHaveTheirTurn) {
  std::string log;
  Thread thread;
  Queue* eager = nullptr;
  eager = new Queue(&thread, [&](NdkStatus) {
    log += "e";
    eager->notifications.Call(NdkStatus::kSuccess);
  });
  auto* const other = new Queue(&thread, [&](NdkStatus) { log += "o"; });
  eager->notifications.Call(NdkStatus::kSuccess);
  other->notifications.Call(NdkStatus::kSuccess);
  thread.RunOne();
  thread.RunOne();
  EXPECT_EQ(log, "eo");
  eager->notifications.Close();
  thread.RunAll();
  EXPECT_EQ(log, "eo");
  eager->Close({});
  other->Close({});
}

}  // namespace
}  // namespace rdmabroker
