// SPDX-License-Identifier: Apache-2.0

// What a forked child does with the objects that it has inherited.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "tests/conformance/data_path_conformance.h"

namespace rdmabroker {
namespace {

struct Try {
  const char* what;
  std::function<NdkStatus()> attempt;
};

struct Inherited {
  DataSide& side;
  MemoryRegion* region;
  MemoryRegion* unused;
  MemoryWindow* window;
  SharedReceiveQueue* srq;
};

std::vector<Try> TriesWithQueuePair(const Inherited& inherited) {
  QueuePair* const qp = inherited.side.qp;
  return {{"Send", [=] { return qp->Send(nullptr, {}, 0); }},
          {"SendAndInvalidate", [=] { return qp->SendAndInvalidate(nullptr, {}, 0, {}); }},
          {"Receive", [=] { return qp->Receive(nullptr, {}); }},
          {"Read", [=] { return qp->Read(nullptr, {}, {}, 0); }},
          {"Write", [=] { return qp->Write(nullptr, {}, {}, 0); }},
          {"Bind", [=] { return qp->Bind(nullptr, inherited.region, inherited.window, nullptr, 0, 0); }},
          {"FastRegister", [=] { return qp->FastRegister(nullptr, inherited.unused, {}, 0, 0, 0, 0); }},
          {"Invalidate", [=] { return qp->Invalidate(nullptr, inherited.region, 0); }},
          {"Invalidate a window", [=] { return qp->Invalidate(nullptr, inherited.window, 0); }},
          {"Attach", [=] { return qp->Attach({}, {}); }}};
}

std::vector<Try> TriesWithOthers(const Inherited& inherited) {
  DataSide& side = inherited.side;
  return {{"Register", [=] { return inherited.unused->Register(nullptr, 64, 0); }},
          {"Deregister", [=] { return inherited.region->Deregister(); }},
          {"Receive from a shared queue", [=] { return inherited.srq->Receive(nullptr, {}); }},
          {"Modify", [=] { return inherited.srq->Modify(8, 0); }},
          {"Resize", [&side] { return side.cq->Resize(64); }},
          {"ControlInterruptModeration", [&side] { return side.cq->ControlInterruptModeration(1, 1); }},
          {"CreateCompletionQueue", [&side] { return side.adapter->CreateCompletionQueue(8, {}).status; }},
          {"CreateProtectionDomain", [&side] { return side.adapter->CreateProtectionDomain().status; }},
          {"CreateMemoryRegion", [&side] { return side.domain->CreateMemoryRegion(false).status; }},
          {"CreateMemoryWindow", [&side] { return side.domain->CreateMemoryWindow().status; }},
          {"CreateSharedReceiveQueue", [&side] { return side.domain->CreateSharedReceiveQueue({.depth = 8}).status; }},
          {"CreateQueuePair",
           [&side] { return side.domain->CreateQueuePair({.receive_cq = side.cq, .initiator_cq = side.cq}).status; }}};
}

// In the child: the first that is not refused, or does more than return. 0: none.
int FirstThatDoesSomething(const Inherited& inherited, const std::vector<Try>& tries) {
  for (size_t i = 0; i < tries.size(); ++i) {
    if (tries[i].attempt() != NdkStatus::kInvalidDeviceState) return static_cast<int>(i) + 1;
  }
  DataSide& side = inherited.side;
  std::array<ResultEx, 1> result;
  if (side.cq->GetResultsEx(result) != 0) return 100;
  side.cq->Arm(CqNotify::kAny);
  side.qp->Flush();
  const auto close = [](auto* object) { return object->Close([] { ::_exit(101); }) == NdkStatus::kSuccess; };
  const bool all = close(side.qp) && close(inherited.window) && close(inherited.region) && close(inherited.unused) &&
                   close(inherited.srq) && close(side.cq) && close(side.domain) && close(side.adapter);
  return all ? 0 : 102;
}

TEST_P(DataPathConformance, AForkedChildTouchesNothingOfItsParents) {
  Connect();
  Buffer memory(a->domain, 64, kMrAllowLocalWrite);
  Buffer at_b(b->domain, 64, kMrAllowLocalWrite);
  PostReceive(*b, at_b, 64, 1);
  const Created<MemoryRegion> unused = a->domain->CreateMemoryRegion(false);
  ASSERT_EQ(unused.status, NdkStatus::kSuccess);
  const Created<MemoryWindow> window = a->domain->CreateMemoryWindow();
  const Created<SharedReceiveQueue> srq =
      a->domain->CreateSharedReceiveQueue({.depth = 8, .max_receive_request_sge = 1});
  ASSERT_EQ(srq.status, NdkStatus::kSuccess);
  const Inherited inherited{*a, memory.region(), unused.object, window.object, srq.object};
  std::vector<Try> tries = TriesWithQueuePair(inherited);
  for (Try& one : TriesWithOthers(inherited)) tries.push_back(std::move(one));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(30);  // For one that waits.
    ::_exit(FirstThatDoesSomething(inherited, tries));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  const int failed = WEXITSTATUS(status);
  const bool known = failed > 0 && failed <= static_cast<int>(tries.size());
  EXPECT_EQ(failed, 0) << (known ? tries[static_cast<size_t>(failed) - 1].what : "GetResultsEx or a close");
  SendToB();
  EXPECT_EQ(b->Next().status, NdkStatus::kSuccess);
  if (window.object != nullptr) CloseAndWait(window.object);
  CloseAndWait(unused.object), CloseAndWait(srq.object);
}

}  // namespace
}  // namespace rdmabroker
