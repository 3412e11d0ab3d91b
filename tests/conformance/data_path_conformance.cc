// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/data_path_conformance.h"

#include <utility>

namespace rdmabroker {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DataPathConformance);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DataPathQueueConformance);

void DataPathConformance::SetUp() {
  auto made = GetParam().make();
  if (!made.ok()) GTEST_SKIP() << made.status().message();
  pair = *std::move(made);
  a = NewSide();
  b = NewSide();
}

void DataPathConformance::TearDown() {
  a = nullptr;
  b = nullptr;
}

void DataPathQueueConformance::SetUp() {
  DataPathConformance::SetUp();
  if (IsSkipped()) return;
  Connect();
  for (uintptr_t i = 0; i < 16; ++i) ASSERT_EQ(b->qp->Receive(Context(i), {}), NdkStatus::kSuccess);
}

std::unique_ptr<DataSide> DataPathConformance::NewSide(const SideOptions& options) {
  return std::make_unique<DataSide>(pair->Open(), true, options);
}

void DataPathConformance::Connect(DataSide& one, DataSide& other) {
  pair->Connect(one.qp, one.NotesEnd(), other.qp, other.NotesEnd());
}

DataPathConformance::QueuePairPair DataPathConformance::ConnectMore(DataSide& one, DataSide& other,
                                                                    void* context_of_one, void* context_of_other) {
  const QueuePairPair made = {one.NewQueuePair({}, context_of_one), other.NewQueuePair({}, context_of_other)};
  pair->Connect(made.at_a, {}, made.at_b, {});
  return made;
}

void DataPathConformance::PostReceive(DataSide& side, Buffer& buffer, size_t length, uintptr_t context) {
  const Sge sge = buffer.sge(0, length);
  ASSERT_EQ(side.qp->Receive(Context(context), {&sge, 1}), NdkStatus::kSuccess);
}

std::vector<MemoryWindow*> DataPathConformance::Windows(DataSide& side, size_t count) {
  std::vector<MemoryWindow*> windows;
  if (side.adapter->info().max_window_size == 0) {
    EXPECT_EQ(side.domain->CreateMemoryWindow().status, NdkStatus::kNotSupported);
    return windows;
  }
  while (windows.size() < count) windows.push_back(side.domain->CreateMemoryWindow().object);
  return windows;
}

// Some hardware says no more than that the request is bad.
bool DataPathConformance::IsOfBadMemory(NdkStatus status) const {
  if (!pair->tells_of_bad_memory()) return status == NdkStatus::kCancelled;
  return status == NdkStatus::kAccessViolation || status == NdkStatus::kInternalError;
}

void DataPathConformance::SendToB(OpFlags flags) {
  ASSERT_EQ(a->qp->Send(nullptr, {}, flags | kOpSilentSuccess), NdkStatus::kSuccess);
}

void DataPathConformance::Settle() {
  ASSERT_EQ(a->qp->Read(Context(99), {}, {}, 0), NdkStatus::kSuccess);
  ASSERT_EQ(a->Next().request_context, Context(99));
}

void DataPathConformance::SettleCallbacks() {
  Settle();
  AwaitCallbacks(*b);
}

}  // namespace rdmabroker
