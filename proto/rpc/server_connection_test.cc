// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/server_connection.h"

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

struct Answer {
  int http = 0;
  Status status;
  std::string accepts;  // grpc-accept-encoding.
};

// The answer to the octets that follow a client's preface. Nothing where the stream was reset or the connection ended.
class RawClient : private StreamListener {
 public:
  explicit RawClient(const ServerConnection::Limits& limits = {}) : server_(TestMethods(), limits, budget_, kStart) {
    // What it reads must be of streams that it has begun.
    for (int i = 0; i < 2; ++i) reader_.Request(CallHeaders("/test/One"));
    AllOutput(reader_);
    Give(server_, Preface() + SettingsAck(), kStart);
    Reads();
  }

  void Send(std::string_view octets) {
    Give(server_, octets, kStart);
    Reads();
  }
  ServerConnection& server() { return server_; }
  std::optional<Answer> answer;
  std::optional<uint32_t> reset;
  std::string goaway;

 private:
  void Reads() {
    const std::string octets = AllOutput(server_);
    FindGoAway(octets);
    Give(reader_, octets, kStart);
    AllOutput(reader_);
  }
  void FindGoAway(std::string_view octets) {
    while (octets.size() >= 9) {
      const size_t size = static_cast<uint8_t>(octets[1]) << 8 | static_cast<uint8_t>(octets[2]);
      if (octets[3] == NGHTTP2_GOAWAY && goaway.empty()) goaway = octets.substr(9 + 4, size - 4);
      if (octets[3] == NGHTTP2_RST_STREAM) reset = static_cast<uint8_t>(octets[12]);
      octets.remove_prefix(9 + size);
    }
  }
  void HeadersArrived(CallId, Headers headers, size_t) override {
    answer = Answer{.http = std::stoi(std::string(*Find(headers, ":status"))),
                    .accepts = std::string(Find(headers, "grpc-accept-encoding").value_or(""))};
    if (Find(headers, "grpc-status")) answer->status = StatusOf(headers);
  }
  void TrailersArrived(CallId, Headers trailers, size_t, bool) override { answer->status = StatusOf(trailers); }
  void DataArrived(CallId, std::string_view) override {}
  void PeerIsDone(CallId) override {}
  void AllSent(CallId) override {}
  void Closed(CallId, uint32_t) override {}
  void PeerDrains() override {}

  FrameBudget budget_{{}, kStart};
  ServerConnection server_;
  Http2 reader_{Http2::End::kClient, {.stream_window = 65535, .header_block = 16384}, *this, nullptr};
};

// ---- What honest clients do

TEST(ServerConnectionTest, ACallOfOneRequestIsToldWhenItIsWhole) {
  Ends ends;
  const CallId call = ends.Begin("/test/One");
  ends.Exchange();
  ends.client.Send(call, "what?");
  ends.Exchange();
  EXPECT_FALSE(ends.server.NextEvent());
  ends.client.EndRequests(call);
  const auto began = ends.Server<CallBegan>();
  EXPECT_EQ(began.path, "/test/One");
  EXPECT_EQ(began.request, "what?");
  ends.server.Send(began.call, "that");
  ends.server.Finish(began.call, {});
  ends.client.Read(call);
  EXPECT_EQ(ends.Client<ReplyArrived>().reply, "that");
  EXPECT_TRUE(ends.Client<CallFinished>().status.ok());
  EXPECT_EQ(ends.server.calls(), 0u);
}

TEST(ServerConnectionTest, HeadersOfTheClientComeWithTheCall) {
  Ends ends;
  ends.client.Begin({.path = "/test/Many", .metadata = {{"key", "value"}, {"key-bin", "AAEC"}}}, ends.now);
  const auto began = ends.Server<CallBegan>();
  EXPECT_EQ(Find(began.headers, "key"), "value");
  EXPECT_EQ(Find(began.headers, "key-bin"), "AAEC");
  EXPECT_EQ(Find(began.headers, "missing"), std::nullopt);
}

TEST(ServerConnectionTest, AStreamIsReadAndAnsweredAMessageAtATime) {
  Ends ends;
  const CallId call = ends.Begin("/test/Many");
  for (const char* request : {"a", "b", ""}) ends.client.Send(call, request);
  ends.client.EndRequests(call);
  EXPECT_EQ(ends.Server<CallBegan>().path, "/test/Many");
  EXPECT_FALSE(ends.server.NextEvent()) << "nothing is read unasked";
  for (const char* request : {"a", "b", ""}) {
    ends.server.Read(call);
    ends.server.Read(call);
    EXPECT_EQ(ends.Server<RequestArrived>().request, request);
    EXPECT_FALSE(ends.server.NextEvent());
    ends.server.Send(call, std::string("re: ") + request);
    EXPECT_EQ(ends.Server<RepliesSent>().call, call);
    ends.client.Read(call);
    EXPECT_EQ(ends.Client<ReplyArrived>().reply, std::string("re: ") + request);
  }
}

TEST(ServerConnectionTest, TheEndOfTheRequestsIsRead) {
  Ends ends;
  const CallId call = ends.Begin("/test/Many");
  ends.client.Send(call, "last");
  ends.client.EndRequests(call);
  ends.Server<CallBegan>();
  ends.server.Read(call);
  EXPECT_EQ(ends.Server<RequestArrived>().request, "last");
  ends.server.Read(call);
  EXPECT_EQ(ends.Server<RequestArrived>().request, std::nullopt);
  ends.server.Finish(call, {.code = StatusCode::kAborted, .message = "enough", .details = "d"});
  const auto finished = ends.Client<CallFinished>();
  EXPECT_EQ(finished.status.code, StatusCode::kAborted);
  EXPECT_EQ(finished.status.message, "enough");
  EXPECT_EQ(finished.status.details, "d");
}

TEST(ServerConnectionTest, AStatusBeforeTheClientIsDoneLeavesNoStreamBehind) {
  Ends ends;
  for (int i = 0; i < 1000; ++i) {
    const CallId call = ends.Begin("/test/Many");
    ASSERT_NE(call, 0);
    ends.client.Send(call, "more to come");
    ends.Server<CallBegan>();
    ends.server.Send(call, "no");
    ends.server.Finish(call, {.code = StatusCode::kNotFound});
    ends.client.Read(call);
    ends.Exchange();
    EXPECT_EQ(AllEvents<ClientEvent>(ends.client).size(), 2u) << i;
  }
  EXPECT_EQ(ends.server.unread(), 0u);
  EXPECT_EQ(ends.server.unsent(), 0u);
}

TEST(ServerConnectionTest, LongRequestsOfAllCallsArriveAtOnce) {
  Ends ends;
  std::vector<CallId> calls;
  for (int i = 0; i < 100; ++i) calls.push_back(ends.Ask(std::string(60'000, static_cast<char>('a' + i % 26))));
  size_t began = 0;
  for (int turns = 0; turns < 1000 && began < calls.size(); ++turns) {
    Give(ends.server, ends.client.TakeOutput(), ends.now);
    EXPECT_LE(ends.server.unread(), 128 * 16384 + 8 * 65541u);
    for (const auto& event : AllEvents<ServerEvent>(ends.server)) {
      const auto& call = std::get<CallBegan>(event);
      EXPECT_EQ(call.request, std::string(60'000, call.request.front()));
      ends.server.Finish(call.call, {});
      ++began;
    }
    Give(ends.client, ends.server.TakeOutput(), ends.now);
  }
  EXPECT_EQ(began, calls.size());
}

TEST(ServerConnectionTest, NewCallsWaitWhileTheClientDoesNotReadItsReplies) {
  constexpr size_t kReply = 1000;
  constexpr size_t kCalls = 100;
  Ends ends({.unsent = 20 * kReply});
  for (size_t i = 0; i < kCalls; ++i) ends.client.Read(ends.Ask("x"));
  ends.Exchange();
  const auto answer_all = [&] {
    size_t answered = 0;
    while (auto event = ends.server.NextEvent()) {
      const CallId call = std::get<CallBegan>(*event).call;
      ends.server.Send(call, std::string(kReply, 'r'));
      ends.server.Finish(call, {});
      ++answered;
    }
    EXPECT_LE(ends.server.unsent(), 21 * (kReply + 5));
    return answered;
  };
  EXPECT_EQ(answer_all(), 20u);
  EXPECT_EQ(answer_all(), 0u);
  // The client reads at last.
  size_t answered = 20;
  for (int turns = 0; turns < 100 && answered < kCalls; ++turns) {
    ends.Exchange();
    answered += answer_all();
  }
  ends.Exchange();
  size_t replies = 0;
  for (const auto& event : AllEvents<ClientEvent>(ends.client)) replies += std::holds_alternative<ReplyArrived>(event);
  EXPECT_EQ(replies, kCalls);
}

TEST(ServerConnectionTest, ACancelledCallIsLost) {
  Ends ends;
  const CallId call = ends.Begin("/test/Many");
  ends.Server<CallBegan>();
  ends.client.Cancel(call);
  EXPECT_EQ(ends.Server<CallLost>().why, CallLost::Why::kCancelled);
  EXPECT_EQ(ends.Client<CallFinished>().status.code, StatusCode::kCancelled);
  ends.server.Send(call, "too late");
  ends.server.Finish(call, {});
  ends.server.Read(call);
  EXPECT_FALSE(ends.server.NextEvent());
}

TEST(ServerConnectionTest, ACallThatItsOwnerHasEndedIsNotLost) {
  Ends ends;
  const std::vector<CallId> calls = {ends.Begin("/test/Many"), ends.Begin("/test/Many")};
  for (const CallId call : calls) EXPECT_EQ(ends.Server<CallBegan>().call, call);
  for (const CallId call : calls) ends.client.Cancel(call);
  ends.Exchange();
  ends.server.Finish(calls[0], {});
  ends.server.Abandon(calls[1]);
  EXPECT_FALSE(ends.server.NextEvent());
}

TEST(ServerConnectionTest, ACallThatEndsBeforeItIsToldOfIsNeverTold) {
  Ends ends;
  ends.client.Cancel(ends.Begin("/test/Many"));
  const CallId call = ends.Begin("/test/Many");
  EXPECT_EQ(ends.Server<CallBegan>().call, call);
  EXPECT_FALSE(ends.server.NextEvent());
}

TEST(ServerConnectionTest, ADeadlineEndsTheCallWithAStatus) {
  Ends ends;
  const CallId call = ends.Begin("/test/Many", absl::Milliseconds(1500));
  ends.Server<CallBegan>();
  EXPECT_EQ(ends.server.NextDeadline(), kStart + absl::Milliseconds(1500));
  ends.server.PassTime(kStart + absl::Milliseconds(1499));
  EXPECT_FALSE(ends.server.NextEvent());
  ends.server.PassTime(kStart + absl::Milliseconds(1500));
  EXPECT_EQ(ends.Server<CallLost>().why, CallLost::Why::kDeadline);
  EXPECT_EQ(ends.Client<CallFinished>().status.code, StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ends.server.NextDeadline(), std::nullopt);
  EXPECT_EQ(ends.server.calls(), 0u);
  static_cast<void>(call);
}

TEST(ServerConnectionTest, DeadlinesThatPassTogetherEndSomeCallsAtATime) {
  constexpr int kCalls = ServerConnection::kDeadlinesAtATime + 10;
  Ends ends;
  for (int i = 0; i < kCalls; ++i) {
    ends.Begin("/test/Many", absl::Seconds(1));
    ends.Server<CallBegan>();
  }
  ends.now += absl::Seconds(1);
  ends.server.PassTime(ends.now);
  EXPECT_EQ(ends.server.calls(), 10u);
  EXPECT_EQ(ends.server.NextDeadline(), ends.now);
  ends.server.PassTime(ends.now);
  EXPECT_EQ(ends.server.calls(), 0u);
  EXPECT_EQ(ends.server.NextDeadline(), std::nullopt);
}

TEST(ServerConnectionTest, ADeadlineResetsACallWhoseReplyIsHalfSent) {
  Ends ends({}, {.window = 100});
  const CallId call = ends.Begin("/test/Many", absl::Seconds(1));
  ends.Server<CallBegan>();
  ends.server.Send(call, std::string(1000, 'x'));
  ends.CarryToClient();
  EXPECT_EQ(ends.server.unsent(), 905u);
  ends.server.PassTime(kStart + absl::Seconds(1));
  EXPECT_EQ(ends.Server<CallLost>().why, CallLost::Why::kDeadline);
  EXPECT_EQ(ends.server.unsent(), 0u);
  EXPECT_EQ(ends.Client<CallFinished>().status.code, StatusCode::kCancelled);
}

TEST(ServerConnectionTest, ADeadlineResetsACallThatHasFinishedAndIsNotRead) {
  Ends ends({}, {.window = 100});
  const CallId call = ends.client.Begin({.path = "/test/One", .timeout = absl::Seconds(1)}, ends.now);
  ends.client.Send(call, "x");
  ends.client.EndRequests(call);
  ends.Server<CallBegan>();
  ends.server.Send(call, std::string(1000, 'x'));
  ends.server.Finish(call, {});
  ends.CarryToClient();
  EXPECT_EQ(ends.server.unsent(), 905u);
  ends.server.PassTime(ends.server.NextDeadline().value());
  EXPECT_EQ(ends.server.unsent(), 0u);
  EXPECT_EQ(ends.Client<CallFinished>().status.code, StatusCode::kCancelled);
  EXPECT_EQ(ends.server.NextDeadline(), std::nullopt);
}

TEST(ServerConnectionTest, ACallThatWasLostKeepsTheStatusThatItGot) {
  Ends ends;
  const CallId call = ends.Begin("/test/Many", absl::Seconds(1));
  ends.Server<CallBegan>();
  ends.server.PassTime(kStart + absl::Seconds(1));
  ends.server.Abandon(call);
  EXPECT_FALSE(ends.server.NextEvent());
  EXPECT_EQ(ends.Client<CallFinished>().status.code, StatusCode::kDeadlineExceeded);
}

TEST(ServerConnectionTest, AStatusOfAnyLengthEndsItsCall) {
  for (const bool after_a_reply : {false, true}) {
    Ends ends;
    const CallId call = ends.Ask("x");
    ends.Server<CallBegan>();
    if (after_a_reply) ends.server.Send(call, "a reply");
    ends.server.Finish(
        call,
        {.code = StatusCode::kNotFound, .message = std::string(100'000, '%'), .details = std::string(100'000, 'd')});
    ends.client.Read(call);
    if (after_a_reply) {
      EXPECT_EQ(ends.Client<ReplyArrived>().reply, "a reply");
    }
    EXPECT_EQ(ends.Client<CallFinished>().status.code, StatusCode::kNotFound);
  }
}

TEST(ServerConnectionTest, AStreamOfSmallRequestsThatNobodyReadsIsHeldBackAndNotEnded) {
  Ends ends;
  for (int i = 0; i < 8; ++i) {
    const CallId call = ends.Begin("/test/Many");
    for (int j = 0; j < 2000; ++j) ends.client.Send(call, "0123456789");
  }
  ends.Exchange();
  EXPECT_FALSE(ends.server.IsDone());
  EXPECT_EQ(ends.server.calls(), 8u);
  EXPECT_LE(ends.server.unread(), 8 * 16384u);
}

TEST(ServerConnectionTest, AnAbandonedCallIsResetAndItsRepliesDropped) {
  Ends ends({}, {.window = 100});
  const CallId call = ends.Begin("/test/Many");
  ends.Server<CallBegan>();
  ends.server.Send(call, std::string(1000, 'x'));
  ends.CarryToClient();
  EXPECT_EQ(ends.server.unsent(), 905u);
  ends.server.Abandon(call);
  EXPECT_EQ(ends.server.unsent(), 0u);
  EXPECT_EQ(ends.Client<CallFinished>().status.code, StatusCode::kCancelled);
  EXPECT_FALSE(ends.server.NextEvent());
}

TEST(ServerConnectionTest, TellsWhatHeadersAndStreamsItHolds) {
  RawClient client;
  const Headers headers = CallHeaders("/test/One");
  const size_t octets = HeadersFrame(1, headers).size() - Frame(0, 0, 1, "").size();
  client.Send(Frame(NGHTTP2_HEADERS, 0, 1, HeaderBlock(headers)));
  EXPECT_EQ(client.server().headers(), octets) << "of a block that is not complete";
  client.Send(Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, ""));
  EXPECT_GT(client.server().headers(), octets) << "of a call that has not begun: 32 more for each field";
  EXPECT_EQ(client.server().streams(), 1u);
  client.Send(DataFrame(1, Framed(""), NGHTTP2_FLAG_END_STREAM));
  const auto began = client.server().NextEvent();
  EXPECT_EQ(client.server().headers(), 0u);
  client.server().Finish(std::get<CallBegan>(*began).call, {});
  client.Send("");
  EXPECT_EQ(client.server().streams(), 0u);
}

TEST(ServerConnectionTest, FewCallsWithManyHeadersAreReadAtATime) {
  RawClient client;
  const Headers headers = CallHeaders("/test/Many");
  const std::string call = HeadersFrame(1, headers);
  std::string calls;
  for (int32_t id = 1; id < 200; id += 2) calls += HeadersFrame(id, headers);
  const size_t weight = 1 + (call.size() - 9) / Http2::kHeaderOctets;
  const size_t at_a_time = (Http2::kFramesAtATime + weight - 1) / weight;
  EXPECT_LT(client.server().Receive(calls, kStart), (at_a_time + 1) * call.size());
  EXPECT_EQ(client.server().calls(), at_a_time - 1) << "the last one's headers are read up to their length";
}

TEST(ServerConnectionTest, AFrameCountsAsNoMoreThanMayBeReadOfIt) {
  for (const uint8_t type : {NGHTTP2_HEADERS, NGHTTP2_CONTINUATION}) {
    RawClient client;
    client.server().TakeWeight();
    client.Send(Frame(type, 0, 1, "").replace(0, 3, BigEndian(0xFFFFFF, 3)));
    EXPECT_LE(client.server().TakeWeight(), 1 + kLongestFrame / Http2::kHeaderOctets);
    EXPECT_LE(client.server().headers(), kLongestFrame);
    EXPECT_NE(client.goaway, "") << "it is longer than allowed";
  }
}

TEST(ServerConnectionTest, AServerThatDrainsFinishesWhatHasBegunAndTakesNothingNew) {
  Ends ends;
  const CallId call = ends.Begin("/test/Many");
  ends.Server<CallBegan>();
  ends.server.Drain(ends.now);
  ends.Exchange();
  EXPECT_FALSE(ends.client.TakesCalls());
  EXPECT_EQ(ends.Begin("/test/One"), 0);
  EXPECT_FALSE(ends.server.IsDone());
  ends.client.Send(call, "still here");
  ends.server.Read(call);
  EXPECT_EQ(ends.Server<RequestArrived>().request, "still here");
  ends.server.Finish(call, {});
  ends.Exchange();
  EXPECT_TRUE(ends.server.IsDone());
  EXPECT_TRUE(ends.client.IsDone());
}

TEST(ServerConnectionTest, ADrainEndsWithoutTheClientsWord) {
  RawClient client;
  client.Send(HeadersFrame(1, CallHeaders("/test/Many")));
  client.server().Drain(kStart);
  client.Send(HeadersFrame(3, CallHeaders("/test/Many")));
  EXPECT_EQ(client.server().calls(), 2u) << "it may not have heard of it";
  client.server().PassTime(client.server().NextDeadline().value());
  client.Send(HeadersFrame(5, CallHeaders("/test/Many")));
  EXPECT_EQ(client.server().calls(), 2u);
  while (auto event = client.server().NextEvent()) client.server().Finish(std::get<CallBegan>(*event).call, {});
  client.Send("");
  EXPECT_TRUE(client.server().IsDone());
}

TEST(ServerConnectionTest, CallsOfAConnectionThatEndsAreLost) {
  Ends ends;
  ends.Begin("/test/Many");
  ends.Server<CallBegan>();
  ends.Begin("/test/Many");
  ends.Exchange();
  ends.server.Disconnected();
  EXPECT_EQ(ends.Server<CallLost>().why, CallLost::Why::kConnection);
  EXPECT_FALSE(ends.server.NextEvent());
}

TEST(ServerConnectionTest, KeepalivePingsOfASecondAreFree) {
  Ends ends;
  for (int second = 0; second < 1000; ++second) {
    ends.now += absl::Seconds(1);
    Give(ends.server, Frame(NGHTTP2_PING, 0, 0, "12345678"), ends.now);
    EXPECT_EQ(AllOutput(ends.server), Frame(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "12345678"));
  }
}

// ---- What is answered with a status. Each row is a call of a client that begins as it should.

Headers With(Headers headers, const std::string& name, const std::string& value) {
  for (auto& field : headers) {
    if (field.name == name) {
      field.value = value;
      return headers;
    }
  }
  headers.push_back({name, value});
  return headers;
}

// A call of one request on stream 1, in one piece.
std::string CallOf(const Headers& headers, std::string_view data) {
  return HeadersFrame(1, headers) + DataFrame(1, data, NGHTTP2_FLAG_END_STREAM);
}

TEST(ServerConnectionTest, WhatIsWrongWithACallIsItsStatus) {
  const Headers one = CallHeaders("/test/One");
  struct Row {
    const char* name;
    std::string octets;
    StatusCode code;
    const char* words;
  };
  for (const Row& row : {
           Row{"unknown method", CallOf(CallHeaders("/test/Nothing"), ""), StatusCode::kUnimplemented, "/test/Nothing"},
           Row{"compressed call", CallOf(With(one, "grpc-encoding", "gzip"), Framed("x")), StatusCode::kUnimplemented,
               "identity"},
           Row{"compressed request", CallOf(one, std::string("\x01\0\0\0\0", 5)), StatusCode::kInternal, "compressed"},
           Row{"bad flag", CallOf(one, std::string("\x07\0\0\0\0", 5)), StatusCode::kInternal, "flag"},
           Row{"bad timeout", CallOf(With(one, "grpc-timeout", "soon"), Framed("x")), StatusCode::kInternal, "soon"},
           Row{"no request", CallOf(one, ""), StatusCode::kInternal, "no request"},
           Row{"no data at all", HeadersFrame(1, one, NGHTTP2_FLAG_END_STREAM), StatusCode::kInternal, "no request"},
           Row{"half a request", CallOf(one, Framed("xyz").substr(0, 7)), StatusCode::kInternal, "within"},
           Row{"half a length", CallOf(one, std::string(2, '\0')), StatusCode::kInternal, "within"},
           Row{"half a stream", CallOf(CallHeaders("/test/Many"), std::string("\0\0\0", 3)), StatusCode::kInternal,
               "within"},
           Row{"two long requests",
               HeadersFrame(1, one) + DataFrame(1, Framed(std::string(10'000, 'x'))) +
                   DataFrame(1, Framed(std::string(10'000, 'y')).substr(0, 6'000)),
               StatusCode::kInternal, "more than the one"},
           Row{"two requests", CallOf(one, Framed("x") + Framed("y")), StatusCode::kInternal, "more than the one"},
           Row{"long request", HeadersFrame(1, one) + DataFrame(1, std::string("\0\0\x01\0\x01", 5)),
               StatusCode::kResourceExhausted, "65536"},
           Row{"long headers",
               HeadersFrame(1,
                            [&] {
                              Headers headers = one;
                              for (int i = 0; i < 125; ++i) headers.push_back({"key", std::string(100, 'v')});
                              return headers;
                            }()),
               StatusCode::kResourceExhausted, "16384"},
       }) {
    RawClient client;
    client.Send(row.octets);
    while (client.server().NextEvent()) {
    }
    client.Send("");
    ASSERT_TRUE(client.answer) << row.name;
    EXPECT_EQ(client.answer->http, 200) << row.name;
    EXPECT_EQ(client.answer->status.code, row.code) << row.name << ": " << client.answer->status.message;
    EXPECT_THAT(client.answer->status.message, HasSubstr(row.words)) << row.name;
    EXPECT_EQ(client.answer->accepts, row.code == StatusCode::kUnimplemented ? "identity" : "") << row.name;
    EXPECT_EQ(client.server().calls(), 0u);
    EXPECT_EQ(client.server().unread(), 0u);
    // The connection serves on.
    client.answer.reset();
    client.Send(HeadersFrame(3, CallHeaders("/test/Nothing")));
    EXPECT_EQ(client.answer.value().status.code, StatusCode::kUnimplemented) << row.name;
  }
}

TEST(ServerConnectionTest, ARequestOfTheGreatestLengthIsTaken) {
  Ends ends;
  ends.Ask(std::string(65536, 'x'));
  EXPECT_EQ(ends.Server<CallBegan>().request.size(), 65536u);
}

TEST(ServerConnectionTest, AStreamThatGoesWrongIsLostBehindWhatWasRight) {
  RawClient client;
  client.Send(HeadersFrame(1, CallHeaders("/test/Many")) + DataFrame(1, Framed("good") + "\x07"));
  EXPECT_TRUE(std::holds_alternative<CallBegan>(client.server().NextEvent().value()));
  client.server().Read(1);
  EXPECT_EQ(std::get<RequestArrived>(client.server().NextEvent().value()).request, "good");
  EXPECT_TRUE(std::holds_alternative<CallLost>(client.server().NextEvent().value()));
  client.Send("");
  EXPECT_EQ(client.answer.value().status.code, StatusCode::kInternal);
}

TEST(ServerConnectionTest, WhatIsNoCallOfGrpcIsAnsweredByHttp) {
  struct Row {
    Headers headers;
    int http;
  };
  for (const Row& row : {Row{With(CallHeaders("/test/One"), ":method", "GET"), 405},
                         Row{With(CallHeaders("/test/One"), "content-type", "text/html"), 415},
                         Row{With(CallHeaders("/test/One"), "content-type", ""), 415}}) {
    RawClient client;
    client.Send(HeadersFrame(1, row.headers, NGHTTP2_FLAG_END_STREAM));
    EXPECT_EQ(client.answer.value().http, row.http);
    EXPECT_FALSE(client.server().NextEvent());
  }
}

TEST(ServerConnectionTest, MalformedHeadersResetTheStreamAlone) {
  const Headers one = CallHeaders("/test/One");
  for (const Headers& headers : {With(one, "connection", "close"), With(one, "Upper", "x"), With(one, "key", "a\nb"),
                                 With(one, ":path", ""), Headers{{":path", "/test/One"}}, Headers{{":method", "POST"}},
                                 Headers{{":method", "POST"}, {"key", "x"}, {":path", "/test/One"}}}) {
    RawClient client;
    client.Send(HeadersFrame(1, headers, NGHTTP2_FLAG_END_STREAM));
    EXPECT_FALSE(client.answer);
    EXPECT_EQ(client.reset, NGHTTP2_PROTOCOL_ERROR);
    EXPECT_EQ(client.goaway, "");
    client.Send(CallOf(one, Framed("x")).replace(8, 1, "\3").replace(9 + HeaderBlock(one).size() + 8, 1, "\3"));
    EXPECT_TRUE(client.server().NextEvent()) << "another call is served";
  }
}

// ---- What ends a connection. Each row goes on for ever, and must be stopped after some octets, within bounds.

TEST(ServerConnectionTest, AFloodEndsItsConnectionSoonAndWithinBounds) {
  const auto on_stream = [](int n) { return 2 * n + 1; };
  const std::string call = HeadersFrame(1, CallHeaders("/test/Many"));
  struct Row {
    const char* name;
    std::string first;
    std::function<std::string(int)> next;
    size_t octets;  // It must be over by then.
  };
  for (const Row& row : {
           Row{"PING", "", [](int) { return Frame(NGHTTP2_PING, 0, 0, "12345678"); }, 32'000},
           Row{"SETTINGS", "", [](int) { return Frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\x03\0\0\0\x01", 6)); },
               32'000},
           Row{"SETTINGS acknowledged", "", [](int) { return SettingsAck(); }, 32'000},
           Row{"PRIORITY", "",
               [&](int n) { return Frame(NGHTTP2_PRIORITY, 0, on_stream(n % 1000), std::string(5, '\0')); }, 32'000},
           Row{"WINDOW_UPDATE", "",
               [](int) { return Frame(NGHTTP2_WINDOW_UPDATE, 0, 0, std::string("\0\0\0\x01", 4)); }, 32'000},
           // Each leads to a frame of one octet.
           Row{"windows of an octet",
               Frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\x04\0\0\0\0", 6)) +
                   CallOf(CallHeaders("/test/One"), Framed("x")),
               [](int) { return Frame(NGHTTP2_WINDOW_UPDATE, 0, 1, std::string("\0\0\0\x01", 4)); }, 32'000},
           Row{"unknown type", "", [](int) { return Frame(0xFA, 0, 0, ""); }, 32'000},
           Row{"unknown type, long", "", [](int) { return Frame(0xFA, 0, 0, std::string(16'384, 'x')); }, 20'000'000},
           Row{"empty data", call, [](int) { return DataFrame(1, ""); }, 32'000},
           Row{"an octet of data", call, [](int) { return DataFrame(1, std::string(1, '\0')); }, 32'000},
           Row{"calls cancelled", "",
               [&](int n) {
                 return HeadersFrame(on_stream(n), CallHeaders("/test/Many")) +
                        ResetFrame(on_stream(n), NGHTTP2_CANCEL);
               },
               400'000},
           Row{"calls that are malformed", "",
               [&](int n) {
                 return HeadersFrame(on_stream(n), {{":path", ""}});
               },
               400'000},
           Row{"CONTINUATION", Frame(NGHTTP2_HEADERS, 0, 1, HeaderBlock(CallHeaders("/test/Many"))),
               [](int) {
                 return Frame(NGHTTP2_CONTINUATION, 0, 1, HeaderBlock({{"key", "value"}}));
               },
               1'000},
           Row{"CONTINUATION, empty", Frame(NGHTTP2_HEADERS, 0, 1, ""),
               [](int) { return Frame(NGHTTP2_CONTINUATION, 0, 1, ""); }, 1'000},
           // An indexed field of 4,000 octets for each octet that is sent.
           Row{"header bomb", "",
               [&](int n) {
                 std::string block = HeaderBlock({});
                 if (n == 0) block = "\x40" + BigEndian(1, 1) + "k" + "\x7F\xA1\x1E" + std::string(4000, 'v');
                 return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, on_stream(n),
                              block + std::string(1000, '\xBE'));
               },
               10'000},
           Row{"a header of 200 MB",
               Frame(NGHTTP2_HEADERS, 0, 1, std::string("\0\x01k\x7F\x81\xD0\xAF\x5F", 8))
                   .replace(0, 3, BigEndian(16'000, 3)),
               [](int) { return std::string(1000, 'x'); }, 17'000},
           Row{"data without a call", "", [&](int n) { return DataFrame(on_stream(n), std::string(1024, 'x')); },
               32'000},
           Row{"push", "",
               [](int) { return Frame(NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1, std::string(8, '\0')); },
               1'000},
           Row{"a frame of 16 MiB", "",
               [](int) { return std::string("\xFF\xFF\xFF\0\0\0\0\0\x01", 9) + std::string(1000, 'x'); }, 20'000},
       }) {
    RawClient client;
    client.Send(row.first);
    size_t sent = row.first.size();
    for (int n = 0; client.goaway.empty() && sent <= row.octets; ++n) {
      const std::string next = row.next(n);
      client.Send(next);
      sent += next.size();
      while (auto event = client.server().NextEvent()) {
        const auto* began = std::get_if<CallBegan>(&*event);
        if (began != nullptr && !began->request.empty()) client.server().Send(began->call, std::string(100'000, 'r'));
      }
      EXPECT_LE(client.server().calls(), 128u);
    }
    EXPECT_NE(client.goaway, "") << row.name << " goes on after " << sent << " octets";
    EXPECT_TRUE(client.server().IsDone()) << row.name;
    EXPECT_EQ(client.server().calls(), 0u) << row.name;
  }
}

TEST(ServerConnectionTest, AClientThatReadsNothingIsNotReadFor) {
  RawClient client;
  size_t read = 0;
  size_t offered = 0;
  // Nothing of what it leads to is taken.
  for (int n = 0; n < 5000 && read == offered; ++n) {
    const std::string octets = HeadersFrame(2 * n + 1, {{":path", ""}}) + ResetFrame(2 * n + 1, NGHTTP2_CANCEL);
    offered += octets.size();
    read += client.server().Receive(octets, kStart);
  }
  EXPECT_LT(read, offered);
}

TEST(ServerConnectionTest, AConnectionHasItsShareOfATurnInFrames) {
  RawClient client;
  std::string pings;
  for (int i = 0; i < 100; ++i) pings += Frame(NGHTTP2_PING, 0, 0, "12345678");
  EXPECT_LT(client.server().Receive(pings, kStart), pings.size());
}

TEST(ServerConnectionTest, WhatIsNoHttp2EndsTheConnection) {
  FrameBudget budget({}, kStart);
  ServerConnection server(TestMethods(), {}, budget, kStart);
  Give(server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", kStart);
  AllOutput(server);
  EXPECT_TRUE(server.IsDone());
}

TEST(ServerConnectionTest, SettingsMustBeAgreedToInTime) {
  FrameBudget budget({}, kStart);
  ServerConnection server(TestMethods(), {}, budget, kStart);
  Give(server, Preface(), kStart);
  AllOutput(server);
  ASSERT_EQ(server.NextDeadline(), kStart + absl::Seconds(10));
  server.PassTime(kStart + absl::Milliseconds(9'999));
  EXPECT_FALSE(server.IsDone());
  server.PassTime(kStart + absl::Seconds(10));
  EXPECT_THAT(AllOutput(server), HasSubstr("SETTINGS"));
  EXPECT_TRUE(server.IsDone());
  EXPECT_EQ(server.NextDeadline(), std::nullopt);
}

TEST(ServerConnectionTest, AnotherConnectionHasNoBudgetOfItsOwn) {
  FrameBudget budget({}, kStart);
  ServerConnection first(TestMethods(), {}, budget, kStart);
  ServerConnection second(TestMethods(), {}, budget, kStart);
  std::string pings;
  for (int i = 0; i < 600; ++i) pings += Frame(NGHTTP2_PING, 0, 0, "12345678");
  for (ServerConnection* server : {&first, &second}) {
    std::string_view rest = pings;
    Give(*server, Preface() + SettingsAck(), kStart);
    while (!rest.empty() && !server->IsDone()) {
      rest.remove_prefix(server->Receive(rest, kStart));
      AllOutput(*server);
    }
  }
  EXPECT_FALSE(first.IsDone());
  EXPECT_TRUE(second.IsDone());
}

}  // namespace
}  // namespace rdmabroker::rpc
