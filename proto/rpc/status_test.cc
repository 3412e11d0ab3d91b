// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/status.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <string>

namespace rdmabroker::rpc {
namespace {

using absl::StatusCode;

TEST(StatusTest, ArrivesAsItWasSent) {
  std::string octets;
  for (int i = 0; i < 256; ++i) octets += static_cast<char>(i);
  for (const Status& sent : {
           Status{},
           Status{.code = StatusCode::kNotFound, .message = "no listener at 10.0.0.1:7174"},
           Status{.code = StatusCode::kAborted, .message = "Verbindung getrennt \u2013 100 %41\n"},
           Status{.code = StatusCode::kInternal, .message = octets, .details = octets},
           Status{.code = StatusCode::kUnavailable, .details = "\x01"},
           Status{.code = StatusCode::kUnavailable, .details = "\x01\x02"},
           Status{.code = StatusCode::kUnauthenticated, .details = "\x01\x02\x03"},
       }) {
    const Status arrived = StatusOf(TrailersOf(sent));
    EXPECT_EQ(arrived.code, sent.code);
    EXPECT_EQ(arrived.message, sent.message);
    EXPECT_EQ(arrived.details, sent.details);
  }
}

TEST(StatusTest, TrailersAreWhatGrpcReads) {
  EXPECT_EQ(TrailersOf({}), (Headers{{"grpc-status", "0"}}));
  EXPECT_EQ(TrailersOf({.code = StatusCode::kNotFound, .message = "\u00e4 %", .details = "\xFF"}),
            (Headers{{"grpc-status", "5"}, {"grpc-message", "%C3%A4%20%25"}, {"grpc-status-details-bin", "/w"}}));
}

TEST(StatusTest, TrailersAreAsLongAsClientsTakeThemWhateverTheStatusIs) {
  for (const Status& status :
       {Status{.code = StatusCode::kInternal, .message = std::string(100'000, 'x')},
        Status{.code = StatusCode::kInternal, .message = std::string(100'000, '\xFF')},
        Status{.code = StatusCode::kInternal, .message = "m", .details = std::string(2600, 'd')},
        Status{.code = StatusCode::kInternal, .message = "m", .details = std::string(60'000, 'd')}}) {
    size_t octets = 0;
    for (const auto& [name, value] : TrailersOf(status)) octets += name.size() + value.size() + 32;
    EXPECT_LT(octets, 8192U);
    const Status arrived = StatusOf(TrailersOf(status));
    EXPECT_EQ(arrived.message, status.message.substr(0, arrived.message.size()));
    EXPECT_NE(arrived.message, "");
    EXPECT_EQ(arrived.details, status.details.size() < 3000 ? status.details : "");
  }
}

TEST(StatusTest, AMessageIsCutBetweenLetters) {
  std::string message = "x";
  for (int i = 0; i < 1000; ++i) message += "\u2713";
  EXPECT_EQ(StatusOf(TrailersOf({.code = StatusCode::kInternal, .message = message})).message.size() % 3, 1U);
}

TEST(StatusTest, TrailersAreWellFormedWhateverTheMessageIs) {
  for (const char* message : {" ", "ends with a colon: ", "\tx\t", "\n", "x", "\x7F"}) {
    EXPECT_TRUE(AreWellFormed(TrailersOf({.code = StatusCode::kInternal, .message = message}))) << message;
  }
}

TEST(StatusTest, WhatIsNoStatusIsUnknown) {
  for (const Headers& trailers : {Headers{}, Headers{{"grpc-status", "17"}}, Headers{{"grpc-status", "-1"}},
                                  Headers{{"grpc-status", ""}}, Headers{{"grpc-status", "x"}}}) {
    const Status status = StatusOf(trailers);
    EXPECT_EQ(status.code, StatusCode::kUnknown);
    EXPECT_NE(status.message, "");
  }
}

TEST(StatusTest, WhatIsNoEscapeStaysAsItIs) {
  for (const char* text : {"%", "%4", "%zz", "100%", "% 1", "%-1", "%+1"}) {
    EXPECT_EQ(StatusOf({{"grpc-status", "2"}, {"grpc-message", text}}).message, text);
  }
  EXPECT_EQ(StatusOf({{"grpc-status", "2"}, {"grpc-message", "%41%c3%A4"}}).message, "A\u00e4");
}

TEST(StatusTest, DetailsThatAreNotBase64AreDropped) {
  EXPECT_EQ(StatusOf({{"grpc-status", "2"}, {"grpc-status-details-bin", "*"}}).details, "");
  EXPECT_EQ(StatusOf({{"grpc-status", "2"}, {"grpc-status-details-bin", "/w=="}}).details, "\xFF") << "padded";
}

TEST(StatusTest, HttpStatusesMeanWhatGrpcSays) {
  struct Row {
    int http;
    StatusCode code;
  };
  for (const Row& row :
       {Row{400, StatusCode::kInternal}, Row{401, StatusCode::kUnauthenticated},
        Row{403, StatusCode::kPermissionDenied}, Row{404, StatusCode::kUnimplemented},
        Row{429, StatusCode::kUnavailable}, Row{502, StatusCode::kUnavailable}, Row{503, StatusCode::kUnavailable},
        Row{504, StatusCode::kUnavailable}, Row{415, StatusCode::kUnknown}, Row{500, StatusCode::kUnknown}}) {
    EXPECT_EQ(StatusOfHttp(row.http).code, row.code) << row.http;
  }
}

TEST(StatusTest, ResetsMeanWhatGrpcSays) {
  struct Row {
    uint32_t error;
    StatusCode code;
  };
  for (const Row& row :
       {Row{NGHTTP2_REFUSED_STREAM, StatusCode::kUnavailable}, Row{NGHTTP2_CANCEL, StatusCode::kCancelled},
        Row{NGHTTP2_ENHANCE_YOUR_CALM, StatusCode::kResourceExhausted},
        Row{NGHTTP2_INADEQUATE_SECURITY, StatusCode::kPermissionDenied}, Row{NGHTTP2_NO_ERROR, StatusCode::kInternal},
        Row{NGHTTP2_FLOW_CONTROL_ERROR, StatusCode::kInternal}, Row{0xFFFF, StatusCode::kInternal}}) {
    EXPECT_EQ(StatusOfReset(row.error).code, row.code) << row.error;
  }
}

}  // namespace
}  // namespace rdmabroker::rpc
