// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/ndkpi/data_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <utility>

namespace rdmabroker::ndkpi {

const std::vector<Lack> kNoWindows = {
    {"siw", "no memory windows: their create is NOT_SUPPORTED, and max_window_size is 0"}};
const std::vector<Lack> kNoFastRegister = {{"rxe", "no fast-register over verbs: NOT_SUPPORTED"},
                                           {"siw", "no fast-register over verbs: NOT_SUPPORTED"}};

DataLink::DataLink(World& w, void* context_at_a, void* context_at_b)
    : DataLink(w, w.a().NewQueuePair(context_at_a), w.b().NewQueuePair(context_at_b)) {}

DataLink::DataLink(World& w, QueuePair* of_a, QueuePair* of_b, const client::ConnectionOptions& options)
    : world(w),
      a(w.a().side()),
      b(w.b().side()),
      at_a(of_a),
      at_b(of_b),
      connection(w.Establish(of_a, of_b, {.inbound = 16, .outbound = 16}, options)) {
  // An iWARP connection's passive side keeps its requests until the active one has spoken.
  Settle();
}

void DataLink::PostReceivesAtB(uintptr_t count) const {
  for (uintptr_t i = 0; i < count; ++i) ASSERT_EQ(at_b->Receive(Context(i), {}), NdkStatus::kSuccess);
}

void DataLink::SendToB(OpFlags flags) const {
  ASSERT_EQ(at_a->Send(nullptr, {}, flags | kOpSilentSuccess), NdkStatus::kSuccess);
}

void DataLink::Settle() const {
  constexpr uintptr_t kRead = 0x5E771E;
  ASSERT_EQ(at_a->Read(Context(kRead), {}, {}, 0), NdkStatus::kSuccess);
  const ResultEx read = a.Next();
  EXPECT_EQ(read.request_context, Context(kRead));
  EXPECT_EQ(read.status, NdkStatus::kSuccess);
}

void DataLink::SettleCallbacks() const {
  Settle();
  AwaitCallbacks(b);
}

std::vector<ResultEx> ResultsOf(CompletionQueue* queue, size_t count) {
  std::vector<ResultEx> results(count);
  size_t taken = 0;
  EXPECT_TRUE(Eventually([&] {
    taken += queue->GetResultsEx(std::span(results).subspan(taken));
    return taken == count;
  })) << taken
      << " of " << count << " results";
  return results;
}

void ExpectNoResult(DataSide& side) {
  ResultEx result;
  EXPECT_EQ(side.cq->GetResultsEx({&result, 1}), 0u) << StatusName(result.status);
}

void ExpectEnded(const DisconnectEvents& events) {
  events.Wait();
  EXPECT_EQ(events.count(), 1u);
}

void Window::Close() {
  if (object_ != nullptr) CloseAndWait(std::exchange(object_, nullptr));
}

RemoteMemory Window::remote(Buffer& buffer, size_t offset) const {
  return {buffer.remote(offset).address, object_->remote_token()};
}

FastRegion::FastRegion(DataSide& side, bool remote_access)
    : page_(1), region_(side.domain->CreateMemoryRegion(true).object) {
  EXPECT_EQ(region_->InitializeFastRegister(1, remote_access), NdkStatus::kSuccess);
}

FastRegion::~FastRegion() { CloseAndWait(region_); }

NdkStatus FastRegion::PostTo(QueuePair* queue_pair, void* context, OpFlags flags) {
  void* const pages[] = {page_.front().bytes};
  return queue_pair->FastRegister(context, region_, pages, 0, kFastRegisterPageSize, 0, flags);
}

void ExpectNoWindows(World& w) {
  EXPECT_EQ(w.a().info().max_window_size, 0u);
  EXPECT_EQ(w.a().side().adapter->info().max_window_size, 0u);
  const Created<MemoryWindow> made = w.a().side().domain->CreateMemoryWindow();
  EXPECT_EQ(made.status, NdkStatus::kNotSupported);
  EXPECT_EQ(made.object, nullptr);
}

void ExpectNoFastRegister(World& w) {
  EXPECT_EQ(w.a().side().adapter->info().frmr_page_count, 0u);
  MemoryRegion* const region = w.a().side().domain->CreateMemoryRegion(true).object;
  EXPECT_EQ(region->InitializeFastRegister(1, true), NdkStatus::kNotSupported);
  void* const pages[] = {&w};
  EXPECT_EQ(w.a().side().qp->FastRegister(nullptr, region, pages, 0, 1, 0, 0), NdkStatus::kNotSupported);
  CloseAndWait(region);
}

}  // namespace rdmabroker::ndkpi
