// SPDX-License-Identifier: Apache-2.0

// Regions and windows.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "tests/conformance/data_path_conformance.h"

namespace rdmabroker {
namespace {

TEST_P(DataPathConformance, ARegionIsRegisteredOnceAndOnlyWithSense) {
  MemoryRegion* const region = a->domain->CreateMemoryRegion(false).object;
  std::vector<uint8_t> memory(4096);
  EXPECT_EQ(region->Register(nullptr, 1, 0), NdkStatus::kInvalidParameter);
  EXPECT_EQ(region->Register(memory.data(), 0, 0), NdkStatus::kInvalidParameter);
  EXPECT_EQ(region->Register(memory.data(), 1, 0x100), NdkStatus::kInvalidParameter);
  EXPECT_EQ(region->Register(memory.data(), ~size_t{0}, 0), NdkStatus::kInvalidParameter) << "it wraps around";
  EXPECT_EQ(region->InitializeFastRegister(1, true), NdkStatus::kInvalidDeviceRequest);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(region->Register(memory.data(), memory.size(), kMrRdmaReadSink), NdkStatus::kSuccess);
    EXPECT_NE(region->local_token(), LocalToken{});
    EXPECT_EQ(region->Register(memory.data(), memory.size(), 0), NdkStatus::kInvalidParameter);
    EXPECT_EQ(region->Deregister(), NdkStatus::kSuccess);
  }
  CloseAndWait(region);
}

TEST_P(DataPathConformance, MemoryThatCanOnlyBeReadIsRegisteredForReading) {
  constexpr size_t kSize = 8192;
  void* const memory = ::mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  MemoryRegion* const region = a->domain->CreateMemoryRegion(false).object;
  for (const MrFlags flags : {kMrAllowLocalRead, kMrAllowRemoteRead}) {
    EXPECT_EQ(region->Register(memory, kSize, flags), NdkStatus::kSuccess);
    EXPECT_EQ(region->Deregister(), NdkStatus::kSuccess);
  }
  CloseAndWait(region);
  ::munmap(memory, kSize);
}

TEST_P(DataPathConformance, FastRegisterIsOfferedOrNotSupported) {
  MemoryRegion* const region = a->domain->CreateMemoryRegion(true).object;
  ASSERT_NE(region, nullptr);
  const bool offered = a->adapter->info().frmr_page_count > 0;
  EXPECT_EQ(region->InitializeFastRegister(1, true), offered ? NdkStatus::kSuccess : NdkStatus::kNotSupported);
  std::vector<uint8_t> memory(4096);
  EXPECT_EQ(region->Register(memory.data(), memory.size(), 0), NdkStatus::kInvalidDeviceRequest);
  void* const pages[] = {memory.data()};
  EXPECT_EQ(a->qp->FastRegister(nullptr, region, pages, 0, 1, 0, 0),
            offered ? NdkStatus::kConnectionInvalid : NdkStatus::kNotSupported);
  CloseAndWait(region);
}

// The registration lasts for one read.
TEST_P(DataPathConformance, AReadInvalidatesTheSinkThatItsFlagNames) {
  alignas(kFastRegisterPageSize) static std::array<uint8_t, kFastRegisterPageSize> page;
  const AdapterInfo& info = a->adapter->info();
  const bool offered = (info.adapter_flags & kRdmaReadLocalInvalidateSupported) != 0;
  ASSERT_EQ(offered, info.frmr_page_count > 0) << "a registration that a read could invalidate";
  if (!offered) return;
  Connect();
  Buffer source(b->domain, 64, kMrAllowRemoteRead);
  source.Fill(3);
  MemoryRegion* const region = a->domain->CreateMemoryRegion(true).object;
  ASSERT_EQ(region->InitializeFastRegister(1, true), NdkStatus::kSuccess);
  void* const pages[] = {page.data()};
  ASSERT_EQ(a->qp->FastRegister(nullptr, region, pages, 0, page.size(), reinterpret_cast<uint64_t>(page.data()),
                                kOpAllowLocalWrite | kOpRdmaReadSink),
            NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
  const Sge sink = {.address = page.data(), .length = 64, .token = region->local_token()};
  for (const OpFlags flags : {OpFlags{0}, kOpRdmaReadLocalInvalidate}) {
    ASSERT_EQ(a->qp->Read(nullptr, {&sink, 1}, source.remote(), flags), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
  }
  EXPECT_TRUE(std::equal(source.bytes().begin(), source.bytes().end(), page.begin()));
  ASSERT_EQ(a->qp->Read(nullptr, {&sink, 1}, source.remote(), 0), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().status, NdkStatus::kAccessViolation);
  CloseAndWait(region);
}

TEST_P(DataPathConformance, RemoteAccessWithoutTheRightEndsTheConnection) {
  Connect();
  Buffer from(a->domain, 64, kMrAllowLocalRead);
  Buffer readable(b->domain, 64, kMrAllowRemoteRead);
  Buffer note(b->domain, 64, kMrAllowLocalWrite);
  PostReceive(*b, note, 64);
  ASSERT_EQ(a->qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  const Sge sge = from.sge();
  ASSERT_EQ(a->qp->Write(nullptr, {&sge, 1}, readable.remote(), 0), NdkStatus::kSuccess);
  // Over iWARP nothing answers a write. It is done, or still under way, when the other side's objection comes, and the
  // kernel's soft iWARP cancels it then (siw_sq_flush).
  const bool iwarp = a->adapter->info().technology == RdmaTechnology::kIwarp;
  const NdkStatus written = a->Next().status;
  EXPECT_TRUE(written == NdkStatus::kAccessViolation ||
              (iwarp && (written == NdkStatus::kSuccess || written == NdkStatus::kCancelled)))
      << ::testing::PrintToString(written);
  EXPECT_EQ(a->Next().status, NdkStatus::kCancelled);
  if (pair->tells_by_cancelling()) a->End();
  EXPECT_EQ(b->Next().status, NdkStatus::kCancelled);
  b->End();
  EXPECT_EQ(readable.bytes(), std::vector<uint8_t>(64));
}

TEST_P(DataPathConformance, ARegionsRightsEndBeforeItsCloseCompletes) {
  Connect();
  Buffer from(a->domain, 64, kMrAllowLocalRead, 3);
  std::vector<uint8_t> memory(64);
  MemoryRegion* const region = b->domain->CreateMemoryRegion(false).object;
  ASSERT_EQ(region->Register(memory.data(), memory.size(), kAllAccess), NdkStatus::kSuccess);
  const RemoteMemory target = {reinterpret_cast<uint64_t>(memory.data()), region->remote_token()};
  region->AddReference();
  bool completed = false;
  const NdkStatus status = region->Close([&] {
    completed = true;
    const Sge sge = from.sge();
    EXPECT_EQ(a->qp->Receive(nullptr, {}), NdkStatus::kSuccess);
    EXPECT_EQ(a->qp->Write(nullptr, {&sge, 1}, target, 0), NdkStatus::kSuccess);
    EXPECT_EQ(a->Results(2).back().status, NdkStatus::kCancelled) << "the write ends the connection";
    EXPECT_EQ(memory, std::vector<uint8_t>(64));
  });
  EXPECT_EQ(status, NdkStatus::kPending);
  region->ReleaseReference();
  EXPECT_TRUE(completed);
}

TEST_P(DataPathConformance, AWindowsTokenOpensNothingOnceItsCloseHasCompleted) {
  Connect();
  Buffer to(a->domain, 64, kMrAllowLocalWrite | kMrRdmaReadSink);
  Buffer shared(b->domain, 64, kAllAccess, 3);
  for (MemoryWindow* const window : Windows(*b, 1)) {
    ASSERT_EQ(b->qp->Bind(nullptr, shared.region(), window, shared.bytes().data(), 64, kOpAllowRemoteRead),
              NdkStatus::kSuccess);
    EXPECT_EQ(b->Next().status, NdkStatus::kSuccess);
    const RemoteMemory source = {shared.remote().address, window->remote_token()};
    const Sge first = to.sge(0, 32), second = to.sge(32, 32);
    ASSERT_EQ(a->qp->Read(nullptr, {&first, 1}, source, 0), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
    CloseAndWait(window);
    ASSERT_EQ(b->qp->Receive(nullptr, {}), NdkStatus::kSuccess);
    ASSERT_EQ(a->qp->Read(nullptr, {&second, 1}, source, 0), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().status, NdkStatus::kAccessViolation);
    EXPECT_EQ(b->Next().status, NdkStatus::kCancelled) << "the read ends the connection";
    b->End();
    std::vector<uint8_t> half(shared.bytes().begin(), shared.bytes().begin() + 32);
    half.resize(64);
    EXPECT_EQ(to.bytes(), half);
    EXPECT_EQ(shared.region()->Deregister(), NdkStatus::kSuccess) << "nothing is bound to it any more";
  }
}

TEST_P(DataPathConformance, AWindowOpensARangeUntilThePeerInvalidatesIt) {
  Connect();
  Buffer to(a->domain, 64, kMrAllowLocalWrite | kMrRdmaReadSink);
  Buffer shared(b->domain, 64, kAllAccess);
  Buffer note(b->domain, 64, kMrAllowLocalWrite);
  shared.Fill(3);
  for (MemoryWindow* const window : Windows(*b, 1)) {
    ASSERT_EQ(b->qp->Bind(Context(5), shared.region(), window, shared.bytes().data() + 8, 8, kOpAllowRemoteRead),
              NdkStatus::kSuccess);
    const RemoteMemory source = {shared.remote(8).address, window->remote_token()};
    EXPECT_EQ(b->Next().type, OperationType::kBind);
    EXPECT_EQ(shared.region()->Deregister(), NdkStatus::kDeviceBusy);
    const Sge in = to.sge(0, 8);
    ASSERT_EQ(a->qp->Read(nullptr, {&in, 1}, source, 0), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
    EXPECT_TRUE(std::equal(to.bytes().begin(), to.bytes().begin() + 8, shared.bytes().begin() + 8));
    PostReceive(*b, note, 64);
    ASSERT_EQ(a->qp->SendAndInvalidate(nullptr, {}, 0, source.token), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().type, OperationType::kSend);
    const ResultEx received = b->Next();
    EXPECT_EQ(received.type, OperationType::kReceiveAndInvalidate);
    EXPECT_EQ(received.invalidated_token, source.token);
    PostReceive(*b, note, 64);
    ASSERT_EQ(a->qp->Read(nullptr, {&in, 1}, source, 0), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().status, NdkStatus::kAccessViolation);
    EXPECT_EQ(b->Next().status, NdkStatus::kCancelled);
    b->End();
    CloseAndWait(window);
    EXPECT_EQ(shared.region()->Deregister(), NdkStatus::kSuccess);
  }
}

TEST_P(DataPathConformance, BindAsksNoMoreThanTheRegionHas) {
  Connect();
  Buffer readable(a->domain, 64, kMrAllowLocalRead);
  for (MemoryWindow* const window : Windows(*a, 1)) {
    void* const at = readable.bytes().data();
    EXPECT_EQ(a->qp->Bind(nullptr, readable.region(), window, at, 64, kOpAllowRemoteWrite),
              NdkStatus::kAccessViolation);
    EXPECT_EQ(a->qp->Bind(nullptr, readable.region(), window, at, 65, kOpAllowRemoteRead),
              NdkStatus::kInvalidParameter);
    EXPECT_EQ(a->qp->Bind(nullptr, readable.region(), window, at, 0, kOpAllowRemoteRead), NdkStatus::kInvalidParameter);
    EXPECT_EQ(a->qp->Bind(nullptr, readable.region(), window, at, 64, 0x8000), NdkStatus::kInvalidParameter);
    EXPECT_EQ(window->remote_token(), RemoteToken{});
    EXPECT_EQ(a->qp->Invalidate(nullptr, window, 0), NdkStatus::kInvalidDeviceRequest);
    EXPECT_EQ(a->qp->Bind(nullptr, readable.region(), window, at, 64, kOpAllowRemoteRead), NdkStatus::kSuccess);
    EXPECT_NE(window->remote_token(), RemoteToken{});
    EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
    EXPECT_EQ(a->qp->Invalidate(nullptr, window, 0), NdkStatus::kSuccess);
    const ResultEx invalidated = a->Next();
    EXPECT_EQ(invalidated.status, NdkStatus::kSuccess);
    EXPECT_EQ(invalidated.type, OperationType::kInvalidate);
    EXPECT_EQ(readable.region()->Deregister(), NdkStatus::kSuccess);
    EXPECT_EQ(a->qp->Bind(nullptr, readable.region(), window, at, 64, kOpAllowRemoteRead),
              NdkStatus::kInvalidDeviceRequest)
        << "the region is not registered";
    CloseAndWait(window);
  }
}

TEST_P(DataPathConformance, RequestsAreAboutRegionsAndWindowsOfTheirDomain) {
  Connect();
  MemoryRegion* const no_region = nullptr;
  MemoryWindow* const no_window = nullptr;
  ProtectionDomain* const foreign = a->adapter->CreateProtectionDomain().object;
  Buffer here(a->domain, 64, kAllAccess);
  {
    Buffer there(foreign, 64, kAllAccess);
    for (MemoryWindow* const window : Windows(*a, 1)) {
      MemoryWindow* const foreign_window = foreign->CreateMemoryWindow().object;
      const auto bind = [&](MemoryRegion* region, MemoryWindow* to, Buffer& memory) {
        return a->qp->Bind(nullptr, region, to, memory.bytes().data(), 64, kOpAllowRemoteRead);
      };
      EXPECT_EQ(bind(no_region, window, here), NdkStatus::kInvalidParameter);
      EXPECT_EQ(bind(here.region(), no_window, here), NdkStatus::kInvalidParameter);
      EXPECT_EQ(bind(there.region(), window, there), NdkStatus::kInvalidParameter);
      EXPECT_EQ(bind(here.region(), foreign_window, here), NdkStatus::kInvalidParameter);
      EXPECT_EQ(a->qp->Invalidate(nullptr, no_window, 0), NdkStatus::kInvalidParameter);
      EXPECT_EQ(a->qp->Invalidate(nullptr, foreign_window, 0), NdkStatus::kInvalidParameter);
      CloseAndWait(window), CloseAndWait(foreign_window);
    }
  }
  const bool offered = a->adapter->info().frmr_page_count > 0;
  const NdkStatus refused = offered ? NdkStatus::kInvalidParameter : NdkStatus::kNotSupported;
  MemoryRegion* const fast = foreign->CreateMemoryRegion(true).object;
  EXPECT_EQ(fast->InitializeFastRegister(1, true), offered ? NdkStatus::kSuccess : NdkStatus::kNotSupported);
  void* const pages[] = {here.bytes().data()};
  for (MemoryRegion* const region : {no_region, fast}) {
    EXPECT_EQ(a->qp->FastRegister(nullptr, region, pages, 0, 1, 0, 0), refused);
    EXPECT_EQ(a->qp->Invalidate(nullptr, region, 0), refused);
  }
  CloseAndWait(fast), CloseAndWait(foreign);
}

TEST_P(DataPathConformance, ABoundWindowCanBeBoundElsewhereAndLetsItsRegionGo) {
  Connect();
  Buffer to(a->domain, 64, kMrAllowLocalWrite | kMrRdmaReadSink);
  Buffer first(b->domain, 64, kAllAccess);
  Buffer second(b->domain, 64, kAllAccess);
  second.Fill(9);
  for (MemoryWindow* const window : Windows(*b, 1)) {
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(b->qp->Bind(nullptr, first.region(), window, first.bytes().data(), 64, kOpAllowRemoteRead),
                NdkStatus::kSuccess);
      const RemoteToken before = window->remote_token();
      ASSERT_EQ(b->qp->Bind(nullptr, second.region(), window, second.bytes().data(), 64, kOpAllowRemoteRead),
                NdkStatus::kSuccess);
      EXPECT_NE(window->remote_token(), before);
      for (const ResultEx& result : b->Results(2)) EXPECT_EQ(result.status, NdkStatus::kSuccess);
    }
    EXPECT_EQ(first.region()->Deregister(), NdkStatus::kSuccess);
    EXPECT_EQ(second.region()->Deregister(), NdkStatus::kDeviceBusy);
    const Sge in = to.sge();
    ASSERT_EQ(a->qp->Read(nullptr, {&in, 1}, {second.remote().address, window->remote_token()}, 0),
              NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
    EXPECT_EQ(to.bytes(), second.bytes());
    CloseAndWait(window);
  }
}

TEST_P(DataPathConformance, AWindowThatIsNotBoundIsAnyQueuePairs) {
  Connect();
  Buffer to(b->domain, 64, kMrAllowLocalWrite | kMrRdmaReadSink);
  Buffer shared(a->domain, 64, kAllAccess);
  shared.Fill(7);
  const auto bind = [&](QueuePair* by, MemoryWindow* window, size_t length) {
    return by->Bind(nullptr, shared.region(), window, shared.bytes().data(), length, kOpAllowRemoteRead);
  };
  for (MemoryWindow* const window : Windows(*a, 1)) {
    const QueuePairPair other = ConnectMore(*a, *b, nullptr, nullptr);
    EXPECT_NE(bind(a->qp, window, 65), NdkStatus::kSuccess) << "longer than the region";
    EXPECT_EQ(a->qp->Invalidate(nullptr, window, 0), NdkStatus::kInvalidDeviceRequest);
    ASSERT_EQ(bind(other.at_a, window, 64), NdkStatus::kSuccess) << "refused ones leave it free";
    EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
    ASSERT_EQ(other.at_a->Invalidate(nullptr, window, 0), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
    ASSERT_EQ(bind(a->qp, window, 64), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
    CloseAndWait(other.at_a), CloseAndWait(other.at_b);
    const Sge in = to.sge();
    ASSERT_EQ(b->qp->Read(nullptr, {&in, 1}, {shared.remote().address, window->remote_token()}, 0),
              NdkStatus::kSuccess);
    EXPECT_EQ(b->Next().status, NdkStatus::kSuccess) << "the other one's end is nothing to it";
    EXPECT_EQ(to.bytes(), shared.bytes());
    CloseAndWait(window);
  }
}

TEST_P(DataPathConformance, SilentBindsAndInvalidationsKeepTheRegionsFree) {
  Connect();
  Buffer shared(a->domain, 64, kAllAccess);
  for (MemoryWindow* const window : Windows(*a, 1)) {
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(Eventually([&] {
        return a->qp->Bind(nullptr, shared.region(), window, shared.bytes().data(), 64,
                           kOpAllowRemoteRead | kOpSilentSuccess | kOpDefer) == NdkStatus::kSuccess;
      })) << "after "
          << i;
      ASSERT_TRUE(
          Eventually([&] { return a->qp->Invalidate(nullptr, window, kOpSilentSuccess) == NdkStatus::kSuccess; }));
    }
    EXPECT_TRUE(Eventually([&] { return shared.region()->Deregister() == NdkStatus::kSuccess; }));
    ResultEx result;
    EXPECT_EQ(a->cq->GetResultsEx({&result, 1}), 0u);
    CloseAndWait(window);
  }
}

TEST_P(DataPathConformance, ARegionClosesWhenTheWindowOnItDoes) {
  Connect();
  std::vector<uint8_t> memory(64);
  for (MemoryWindow* const window : Windows(*a, 1)) {
    MemoryRegion* const region = a->domain->CreateMemoryRegion(false).object;
    ASSERT_EQ(region->Register(memory.data(), memory.size(), kAllAccess), NdkStatus::kSuccess);
    ASSERT_EQ(a->qp->Bind(nullptr, region, window, memory.data(), 64, kOpAllowRemoteRead), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
    std::atomic<bool> closed = false;
    EXPECT_EQ(region->Close([&] { closed = true; }), NdkStatus::kPending) << "the peer may still read it";
    EXPECT_FALSE(closed);
    CloseAndWait(window);
    EXPECT_TRUE(Eventually([&] { return closed.load(); }));
  }
}

TEST_P(DataPathConformance, AQueuePairClosesWithWindowsThatItHasBound) {
  Buffer shared(a->domain, 64, kAllAccess);
  for (MemoryWindow* const window : Windows(*a, 2)) {
    const QueuePairPair made = ConnectMore(*a, *b, nullptr, nullptr);
    ASSERT_EQ(made.at_a->Bind(nullptr, shared.region(), window, shared.bytes().data(), 64, kOpAllowRemoteRead),
              NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
    CloseAndWait(made.at_a), CloseAndWait(made.at_b);
    CloseAndWait(window);
  }
  EXPECT_EQ(shared.region()->Deregister(), NdkStatus::kSuccess);
}

}  // namespace
}  // namespace rdmabroker
