// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/client_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "proto/rpc/testing/ends.h"
#include "proto/rpc/testing/frames.h"

namespace rdmabroker::rpc {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

TEST(ClientConnectionTest, RepliesAreReadOneAtATimeAndTheStatusComesLast) {
  Ends ends;
  const CallId call = ends.Ask("x");
  ends.Server<CallBegan>();
  for (const char* reply : {"a", "b"}) ends.server.Send(call, reply);
  ends.server.Finish(call, {.code = StatusCode::kAborted});
  ends.Exchange();
  EXPECT_FALSE(ends.client.NextEvent()) << "nothing is read unasked";
  for (const char* reply : {"a", "b"}) {
    ends.client.Read(call);
    ends.client.Read(call);
    EXPECT_EQ(ends.Client<ReplyArrived>().reply, reply);
  }
  EXPECT_EQ(ends.Client<CallFinished>().status.code, StatusCode::kAborted);
  EXPECT_FALSE(ends.client.NextEvent());
}

TEST(ClientConnectionTest, AServerThatIsNotReadSendsNoMoreThanTheWindow) {
  Ends ends({}, {.window = 1000});
  const CallId call = ends.Ask("x");
  ends.Server<CallBegan>();
  for (int i = 0; i < 100; ++i) ends.server.Send(call, std::string(95, 'r'));
  ends.Exchange();
  EXPECT_EQ(ends.server.unsent(), 9000u);
  for (int i = 0; i < 100; ++i) {
    ends.client.Read(call);
    EXPECT_EQ(ends.Client<ReplyArrived>().reply, std::string(95, 'r')) << i;
  }
}

TEST(ClientConnectionTest, AReplyOfAnyAllowedLengthArrives) {
  Ends ends({}, {.reply = 100'000, .window = 100});
  const CallId call = ends.Ask("x");
  ends.Server<CallBegan>();
  ends.server.Send(call, std::string(100'000, 'r'));
  ends.server.Finish(call, {});
  ends.client.Read(call);
  EXPECT_EQ(ends.Client<ReplyArrived>().reply.size(), 100'000u);
  EXPECT_TRUE(ends.Client<CallFinished>().status.ok());
}

TEST(ClientConnectionTest, ALongerOneEndsItsCall) {
  Ends ends({}, {.reply = 1000});
  const CallId call = ends.Ask("x");
  ends.Server<CallBegan>();
  ends.server.Send(call, std::string(1001, 'r'));
  const auto finished = ends.Client<CallFinished>();
  EXPECT_EQ(finished.status.code, StatusCode::kResourceExhausted);
  EXPECT_THAT(finished.status.message, HasSubstr("1000"));
  EXPECT_EQ(ends.Server<CallLost>().call, call);
}

TEST(ClientConnectionTest, ADeadlineEndsTheCallWhateverTheServerDoes) {
  Ends ends;
  const CallId call = ends.Begin("/test/Many", absl::Seconds(2));
  const auto began = ends.Server<CallBegan>();
  EXPECT_EQ(Find(began.headers, "grpc-timeout"), "2000000u");
  EXPECT_EQ(ends.client.NextDeadline(), kStart + absl::Seconds(2));
  ends.client.PassTime(kStart + absl::Milliseconds(1999));
  EXPECT_FALSE(ends.client.NextEvent());
  ends.client.PassTime(kStart + absl::Seconds(2));
  EXPECT_EQ(ends.client.NextDeadline(), std::nullopt);
  const auto finished = ends.Client<CallFinished>();
  EXPECT_EQ(finished.call, call);
  EXPECT_EQ(finished.status.code, StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ends.Server<CallLost>().why, CallLost::Why::kCancelled);
}

TEST(ClientConnectionTest, CallsOfAConnectionThatEndsAreUnavailable) {
  Ends ends;
  const std::vector<CallId> calls = {ends.Begin("/test/Many"), ends.Begin("/test/Many", absl::Seconds(1))};
  ends.Exchange();
  ends.client.Disconnected();
  for (const CallId call : calls) {
    const auto finished = ends.Client<CallFinished>();
    EXPECT_EQ(finished.call, call);
    EXPECT_EQ(finished.status.code, StatusCode::kUnavailable);
  }
  EXPECT_EQ(ends.client.NextDeadline(), std::nullopt);
}

TEST(ClientConnectionTest, WhatHasEndedWellStaysSoWhateverBecomesOfTheConnection) {
  for (const auto& end : std::vector<std::function<void(Ends&)>>{
           [](Ends& ends) { ends.client.Disconnected(); },
           [](Ends& ends) { ends.client.PassTime(kStart + absl::Hours(1)); },
       }) {
    Ends ends;
    const CallId call = ends.client.Begin({.path = "/test/One", .timeout = absl::Seconds(1)}, ends.now);
    ends.client.Send(call, "x");
    ends.client.EndRequests(call);
    ends.Server<CallBegan>();
    ends.server.Send(call, "done");
    ends.server.Finish(call, {.code = StatusCode::kAborted});
    ends.Exchange();
    end(ends);
    ends.client.Read(call);
    EXPECT_EQ(ends.Client<ReplyArrived>().reply, "done");
    EXPECT_EQ(ends.Client<CallFinished>().status.code, StatusCode::kAborted);
  }
}

TEST(ClientConnectionTest, ACancelledCallTellsNoReplies) {
  Ends ends;
  const CallId call = ends.Ask("x");
  ends.Server<CallBegan>();
  ends.server.Send(call, "done");
  ends.server.Finish(call, {.code = StatusCode::kAborted});
  ends.Exchange();
  ends.client.Cancel(call);
  EXPECT_EQ(ends.Client<CallFinished>().status.code, StatusCode::kAborted) << "it had ended";
}

TEST(ClientConnectionTest, CallsThatTheServerDoesNotTakeYetWaitHoweverManyTheyAre) {
  constexpr int kCalls = 3000;
  Ends ends;
  for (int i = 0; i < kCalls; ++i) ends.Ask("x");
  int finished = 0;
  for (int turn = 0; turn < 100 && finished < kCalls; ++turn) {
    ends.Exchange();
    while (auto event = ends.server.NextEvent()) ends.server.Finish(std::get<CallBegan>(*event).call, {});
    ends.Exchange();
    for (const auto& event : AllEvents<ClientEvent>(ends.client))
      finished += std::holds_alternative<CallFinished>(event);
  }
  EXPECT_EQ(finished, kCalls);
}

TEST(ClientConnectionTest, CallsThatADrainingServerHasNotTakenAreUnavailable) {
  Ends ends({.calls = 1});
  const CallId first = ends.Begin("/test/Many");
  EXPECT_EQ(ends.Server<CallBegan>().call, first);
  const CallId second = ends.Begin("/test/Many");
  ends.Exchange();
  ends.server.Drain(ends.now);
  const auto finished = ends.Client<CallFinished>();
  EXPECT_EQ(finished.call, second);
  EXPECT_EQ(finished.status.code, StatusCode::kUnavailable);
  ends.server.Finish(first, {});
  EXPECT_TRUE(ends.Client<CallFinished>().status.ok());
  EXPECT_TRUE(ends.server.IsDone());
}

TEST(ClientConnectionTest, ACallThatCameBehindTheServersLastIsUnavailable) {
  ClientConnection client({});
  Give(client, Frame(NGHTTP2_SETTINGS, 0, 0, ""), kStart);
  for (int i = 0; i < 2; ++i) client.Begin({.path = "/test/Many"}, kStart);
  AllOutput(client);
  Give(client, Frame(NGHTTP2_GOAWAY, 0, 0, BigEndian(1, 4) + BigEndian(NGHTTP2_NO_ERROR, 4)), kStart);
  AllOutput(client);
  const auto events = AllEvents<ClientEvent>(client);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<CallFinished>(events[0]).call, 3);
  EXPECT_EQ(std::get<CallFinished>(events[0]).status.code, StatusCode::kUnavailable);
}

TEST(ClientConnectionTest, ACallThatTheServerEndsEarlyLeavesNoStreamBehind) {
  ClientConnection client({});
  Give(client, Frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\x03\0\0\0\x01", 6)), kStart);  // One stream at a time.
  client.Begin({.path = "/test/Many"}, kStart);
  AllOutput(client);
  const Headers refused = {{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "5"}};
  Give(client, HeadersFrame(1, refused, NGHTTP2_FLAG_END_STREAM), kStart);
  EXPECT_EQ(client.Begin({.path = "/test/Many"}, kStart), 3);
  const std::string sent = AllOutput(client);
  EXPECT_NE(sent.find(ResetFrame(1, NGHTTP2_NO_ERROR)), std::string::npos);
  EXPECT_GT(sent.size(), ResetFrame(1, 0).size()) << "the next call goes out";
}

TEST(ClientConnectionTest, ATimeoutThatHasPassedEndsTheCall) {
  Ends ends;
  for (const absl::Duration timeout : {absl::ZeroDuration(), -absl::Seconds(1)}) {
    ends.Begin("/test/Many", timeout);
    ends.client.PassTime(ends.now);
    EXPECT_EQ(ends.Client<CallFinished>().status.code, StatusCode::kDeadlineExceeded);
  }
}

// ---- What a server may say instead. Each row answers one call.

TEST(ClientConnectionTest, WhatIsWrongWithAnAnswerIsTheStatus) {
  const Headers good = {{":status", "200"}, {"content-type", "application/grpc"}};
  const uint8_t end = NGHTTP2_FLAG_END_STREAM;
  struct Row {
    const char* name;
    std::string octets;
    StatusCode code;
  };
  for (const Row& row : {
           Row{"good", HeadersFrame(1, good) + DataFrame(1, Framed("r")) + HeadersFrame(1, {{"grpc-status", "0"}}, end),
               StatusCode::kOk},
           Row{"trailers alone", HeadersFrame(1, {good[0], good[1], {"grpc-status", "5"}}, end), StatusCode::kNotFound},
           Row{"an interim answer first",
               HeadersFrame(1, {{":status", "100"}}) + HeadersFrame(1, good) +
                   HeadersFrame(1, {{"grpc-status", "0"}}, end),
               StatusCode::kOk},
           Row{"no trailers", HeadersFrame(1, good) + DataFrame(1, Framed("r"), end), StatusCode::kUnknown},
           Row{"503", HeadersFrame(1, {{":status", "503"}}, end), StatusCode::kUnavailable},
           Row{"404 with a page", HeadersFrame(1, {{":status", "404"}}) + DataFrame(1, "<html>", end),
               StatusCode::kUnimplemented},
           Row{"a page",
               HeadersFrame(1, {{":status", "200"}, {"content-type", "text/html"}}) + DataFrame(1, "<html>", end),
               StatusCode::kUnknown},
           Row{"no :status", HeadersFrame(1, {good[1]}, end), StatusCode::kInternal},
           Row{"malformed headers", HeadersFrame(1, {good[0], good[1], {"Upper", "x"}}), StatusCode::kInternal},
           Row{"data first", DataFrame(1, Framed("r")), StatusCode::kUnavailable},
           Row{"data behind an interim answer", HeadersFrame(1, {{":status", "100"}}) + DataFrame(1, Framed("r")),
               StatusCode::kInternal},
           Row{"a compressed reply", HeadersFrame(1, good) + DataFrame(1, std::string("\x01\0\0\0\0", 5)),
               StatusCode::kInternal},
           Row{"trailers that are not the last",
               HeadersFrame(1, good) + HeadersFrame(1, {{"grpc-status", "0"}}) + ResetFrame(1, NGHTTP2_CANCEL),
               StatusCode::kInternal},
           Row{"half a reply",
               HeadersFrame(1, good) + DataFrame(1, Framed("reply").substr(0, 7)) +
                   HeadersFrame(1, {{"grpc-status", "0"}}, end),
               StatusCode::kInternal},
           Row{"refused", ResetFrame(1, NGHTTP2_REFUSED_STREAM), StatusCode::kUnavailable},
           Row{"reset", HeadersFrame(1, good) + ResetFrame(1, NGHTTP2_INTERNAL_ERROR), StatusCode::kInternal},
           Row{"no HTTP/2", "HTTP/1.1 400 Bad Request\r\n\r\n", StatusCode::kUnavailable},
       }) {
    ClientConnection client({});
    Give(client, Frame(NGHTTP2_SETTINGS, 0, 0, ""), kStart);
    const CallId call = client.Begin({.path = "/test/One"}, kStart);
    ASSERT_EQ(call, 1);
    client.EndRequests(call);
    AllOutput(client);
    client.Read(call);
    Give(client, row.octets, kStart);
    AllOutput(client);
    const auto events = AllEvents<ClientEvent>(client);
    ASSERT_FALSE(events.empty()) << row.name;
    ASSERT_TRUE(std::holds_alternative<CallFinished>(events.back())) << row.name;
    const Status& status = std::get<CallFinished>(events.back()).status;
    EXPECT_EQ(status.code, row.code) << row.name << ": " << status.message;
    EXPECT_NE(status.message == "", row.code != StatusCode::kOk && row.code != StatusCode::kNotFound) << row.name;
  }
}

TEST(ClientConnectionTest, AServerCannotPush) {
  ClientConnection client({});
  Give(client, Frame(NGHTTP2_SETTINGS, 0, 0, "") + SettingsAck(), kStart);
  client.Begin({.path = "/test/One"}, kStart);
  AllOutput(client);
  Give(client,
       Frame(NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1, BigEndian(2, 4) + HeaderBlock(CallHeaders("/x"))),
       kStart);
  AllOutput(client);
  EXPECT_TRUE(client.IsDone());
  EXPECT_FALSE(client.TakesCalls());
}

}  // namespace
}  // namespace rdmabroker::rpc
