// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/inbound.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace rdmabroker::rpc {
namespace {

TEST(MessageReaderTest, MessagesAreWholeHoweverTheyAreCut) {
  const std::string octets = Framed("first") + Framed("") + Framed(std::string(1000, 'x'));
  for (size_t piece = 1; piece < 20; ++piece) {
    MessageReader reader(1000);
    std::vector<std::string> messages;
    size_t whole = 0;
    for (size_t at = 0; at < octets.size(); at += piece) {
      whole += reader.Append(std::string_view(octets).substr(at, piece));
      while (reader.HasMessage()) messages.push_back(reader.Take());
    }
    EXPECT_EQ(messages, (std::vector<std::string>{"first", "", std::string(1000, 'x')})) << piece;
    EXPECT_EQ(reader.size(), 0u);
    EXPECT_EQ(whole, 3u);
  }
}

TEST(MessageReaderTest, AFaultIsToldWhenWhatStandsBeforeItHasBeenTaken) {
  struct Row {
    std::string octets;
    MessageFault fault;
  };
  for (const Row& row :
       {Row{std::string("\x01", 1), MessageFault::kMalformed}, Row{std::string("\x02", 1), MessageFault::kMalformed},
        Row{std::string("\0\0\0\0\x09", 5), MessageFault::kTooLong},
        Row{std::string("\0\xFF\xFF\xFF\xFF", 5), MessageFault::kTooLong}}) {
    MessageReader reader(8);
    reader.Append(Framed("12345678") + row.octets);
    EXPECT_EQ(reader.fault(), MessageFault::kNone);
    ASSERT_TRUE(reader.HasMessage());
    EXPECT_EQ(reader.Take(), "12345678");
    EXPECT_EQ(reader.fault(), row.fault);
    EXPECT_FALSE(reader.HasMessage());
  }
}

// A peer that may send what it has been given as window.
class InboundTest : public testing::Test {
 protected:
  static constexpr size_t kWindow = 100;

  void Add(CallId call) {
    inbound_.Add(call);
    window_[call] = kWindow;
  }
  // Sends as much of the call's octets as it may.
  void Push(CallId call) {
    std::string& rest = to_send_[call];
    while (!rest.empty() && window_[call] > 0) {
      const std::string some = rest.substr(0, window_[call]);
      rest.erase(0, some.size());
      window_[call] -= some.size();
      inbound_.Append(call, some);
    }
  }

  Inbound inbound_{{.longest = 1000, .window = kWindow, .long_messages = 2},
                   [this](CallId call, size_t octets) { window_[call] += octets; }};
  std::map<CallId, size_t> window_;
  std::map<CallId, std::string> to_send_;
};

TEST_F(InboundTest, MessagesWithinTheWindowNeedNoLeave) {
  for (CallId call = 1; call <= 5; ++call) {
    Add(call);
    to_send_[call] = Framed(std::string(80, 'x'));
    Push(call);
    EXPECT_TRUE(inbound_.of(call).HasMessage());
  }
  EXPECT_EQ(inbound_.size(), 5 * 85u);
  for (CallId call = 1; call <= 5; ++call) {
    EXPECT_EQ(inbound_.Take(call), std::string(80, 'x'));
    EXPECT_EQ(window_[call], kWindow) << "all is given back";
  }
  EXPECT_EQ(inbound_.size(), 0u);
}

TEST_F(InboundTest, OnlySomeLongMessagesArriveAtATimeAndEachEndsAtLast) {
  constexpr CallId kCalls = 6;
  for (CallId call = 1; call <= kCalls; ++call) {
    Add(call);
    to_send_[call] = Framed(std::string(900, static_cast<char>('0' + call)));
  }
  for (CallId call = 1; call <= kCalls; ++call) Push(call);
  EXPECT_EQ(inbound_.size(), 2 * 905 + 4 * kWindow);
  for (CallId call = 1; call <= kCalls; ++call) {
    Push(call);
    ASSERT_TRUE(inbound_.of(call).HasMessage()) << call;
    EXPECT_EQ(inbound_.Take(call), std::string(900, static_cast<char>('0' + call)));
    for (CallId other = 1; other <= kCalls; ++other) Push(other);
    EXPECT_LE(inbound_.size(), 2 * 905 + 4 * kWindow);
  }
}

TEST_F(InboundTest, LongMessagesInARowLeaveOthersTheirTurn) {
  for (const CallId call : {1, 2, 3}) {
    Add(call);
    for (int i = 0; i < 50; ++i) to_send_[call] += Framed(std::string(900, 'x'));
    Push(call);
  }
  std::map<CallId, int> taken;
  for (int turn = 0; turn < 30; ++turn) {
    for (const CallId call : {1, 2, 3}) {
      Push(call);
      if (!inbound_.of(call).HasMessage()) continue;
      inbound_.Take(call);
      ++taken[call];
    }
  }
  for (const CallId call : {1, 2, 3}) EXPECT_GE(taken[call], 10) << call;
}

TEST_F(InboundTest, WhatIsNotTakenHoldsTheNextBack) {
  Add(1);
  for (int i = 0; i < 100; ++i) to_send_[1] += Framed("0123456789");
  Push(1);
  EXPECT_EQ(inbound_.size(), kWindow);
  int taken = 0;
  while (inbound_.of(1).HasMessage()) {
    EXPECT_EQ(inbound_.Take(1), "0123456789");
    ++taken;
    Push(1);
    EXPECT_LE(inbound_.size(), kWindow);
  }
  EXPECT_EQ(taken, 100);
}

TEST_F(InboundTest, ACallThatGoesLeavesItsPlaceToTheNext) {
  for (CallId call = 1; call <= 4; ++call) {
    Add(call);
    to_send_[call] = Framed(std::string(900, 'x'));
    Push(call);
  }
  EXPECT_EQ(window_[3], 0u);
  inbound_.Remove(3);  // It waited.
  inbound_.Remove(1);
  Push(4);
  EXPECT_TRUE(inbound_.of(4).HasMessage());
  inbound_.Remove(2);
  inbound_.Remove(4);
  EXPECT_EQ(inbound_.size(), 0u);
  inbound_.Remove(4);
}

}  // namespace
}  // namespace rdmabroker::rpc
