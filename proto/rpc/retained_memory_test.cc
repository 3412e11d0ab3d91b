// SPDX-License-Identifier: Apache-2.0

// What a connection keeps in memory, which is more than what it says that waits where buffers do not shrink.

#include <gtest/gtest.h>
#include <malloc.h>
#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "proto/rpc/testing/ends.h"
#include "proto/rpc/testing/frames.h"

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

TEST(RetainedMemoryTest, AReplysLastOctetKeepsNothingOfTheOthers) {
  constexpr size_t kReply = 60'000;
  const std::string window = BigEndian(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 2) + BigEndian(kReply + 4, 4);
  FrameBudget budget({}, kStart);
  ServerConnection server(TestMethods(), {}, budget, kStart);
  const auto give = [&server](const std::string& octets) { Give(server, octets, kStart); };
  give(Preface() + Frame(NGHTTP2_SETTINGS, 0, 0, window) + SettingsAck());
  give(Frame(NGHTTP2_WINDOW_UPDATE, 0, 0, BigEndian(1 << 30, 4)));
  for (int32_t call = 1; call < 200; call += 2) give(HeadersFrame(call, CallHeaders("/test/Many")));
  const std::vector<ServerEvent> calls = AllEvents<ServerEvent>(server);
  const size_t before = allocated;
  for (const ServerEvent& call : calls) server.Send(std::get<CallBegan>(call).call, std::string(kReply, 'r'));
  while (server.HasOutput()) (void)server.TakeOutput();
  EXPECT_EQ(calls.size(), 100u);
  EXPECT_EQ(server.unsent(), calls.size());
  EXPECT_LE(allocated, before + kSlack);
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
