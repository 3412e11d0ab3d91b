// SPDX-License-Identifier: Apache-2.0

// What a connection keeps in memory, which is more than what it says that waits where buffers do not shrink.

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "proto/rpc/testing/ends.h"

namespace {
size_t allocated = 0;  // By C++; one thread.
}

void* operator new(size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  allocated += ::malloc_usable_size(memory);
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) allocated -= ::malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace rdmabroker::rpc {
namespace {

constexpr size_t kSlack = 200'000;  // Of tables and strings that are short.

TEST(RetainedMemoryTest, AStreamWhoseClientAlwaysLeavesAReplyWaitingKeepsNoMoreThanThat) {
  const std::string reply(1000, 'r');
  Ends ends({}, {.window = 1005});  // A reply.
  const CallId call = ends.Begin("/test/Many");
  ends.Server<CallBegan>();
  ends.server.Send(call, reply);
  ends.Exchange();
  const size_t before = allocated;
  for (int i = 0; i < 10'000; ++i) {
    ends.server.Send(call, reply);
    ends.Exchange();
    ASSERT_EQ(ends.server.unsent(), 1005u);
    ends.client.Read(call);
    EXPECT_EQ(ends.Client<ReplyArrived>().reply, reply);
    ASSERT_LE(allocated, before + kSlack) << i;
  }
}

TEST(RetainedMemoryTest, StreamsKeepNothingOfWhatHasLeftOrWasTaken) {
  Ends ends;
  std::vector<CallId> calls;
  for (int i = 0; i < 100; ++i) {
    calls.push_back(ends.Begin("/test/Many"));
    ends.Server<CallBegan>();
  }
  const size_t before = allocated;
  for (const CallId call : calls) {
    ends.client.Send(call, std::string(60'000, 'q'));
    ends.server.Read(call);
    EXPECT_EQ(ends.Server<RequestArrived>().request->size(), 60'000u);
    ends.server.Send(call, std::string(60'000, 'r'));
    ends.client.Read(call);
    EXPECT_EQ(ends.Client<ReplyArrived>().reply.size(), 60'000u);
  }
  EXPECT_LE(allocated, before + kSlack);
}

}  // namespace
}  // namespace rdmabroker::rpc
