// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/headers.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/rpc/testing/frames.h"

namespace rdmabroker::rpc {
namespace {

TEST(HeadersTest, NamesAndValuesAreThoseOfHttp2) {
  EXPECT_TRUE(AreWellFormed(CallHeaders("/test/One")));
  EXPECT_TRUE(AreWellFormed({{":authority", "/run/a socket's path"}})) << "Go's clients send such a one";
  EXPECT_TRUE(AreWellFormed({{"key", "a"}, {"key", "b"}}));
  EXPECT_TRUE(AreWellFormed({{"key", ""}}));
  for (const Headers& bad : {
           Headers{{"Upper", "x"}},
           Headers{{"", "x"}},
           Headers{{"with space", "x"}},
           Headers{{"key", "a\nb"}},
           Headers{{"key", std::string("a\0b", 3)}},
           Headers{{"key", " x"}},
           Headers{{"connection", "close"}},
           Headers{{"transfer-encoding", "chunked"}},
           Headers{{"upgrade", "h2c"}},
           Headers{{":unknown", "x"}},
           Headers{{":path", "/a"}, {":path", "/b"}},
           Headers{{"key", "x"}, {":path", "/a"}},
       }) {
    EXPECT_FALSE(AreWellFormed(bad)) << bad.front().name << "=" << bad.front().value;
  }
}

TEST(HeadersTest, ContentTypesOfGrpc) {
  for (const char* type : {"application/grpc", "application/grpc+proto", "application/grpc;charset=x"}) {
    EXPECT_TRUE(IsGrpc(type)) << type;
  }
  for (const char* type : {"", "application/grp", "application/grpc-web", "text/html"})
    EXPECT_FALSE(IsGrpc(type)) << type;
}

TEST(HeadersTest, TimeoutsAreReadAsTheyAreWritten) {
  struct Row {
    const char* text;
    absl::Duration timeout;
  };
  for (const Row& row : {
           Row{"1n", absl::Nanoseconds(1)},
           Row{"99999999n", absl::Nanoseconds(99'999'999)},
           Row{"1510m", absl::Milliseconds(1510)},
           Row{"20u", absl::Microseconds(20)},
           Row{"3S", absl::Seconds(3)},
           Row{"0S", absl::ZeroDuration()},
           Row{"2M", absl::Minutes(2)},
           Row{"99999999H", absl::Hours(99'999'999)},
       }) {
    EXPECT_EQ(ReadTimeout(row.text), row.timeout) << row.text;
  }
  for (const char* bad : {"", "S", "1", "-1S", "+1S", " 1S", "1s", "1 S", "123456789S", "1.5S", "0x1S"}) {
    EXPECT_EQ(ReadTimeout(bad), std::nullopt) << bad;
  }
}

TEST(HeadersTest, ATimeoutIsWrittenAsTheLeastThatIsNotShorter) {
  EXPECT_EQ(WriteTimeout(absl::Nanoseconds(1)), "1n");
  EXPECT_EQ(WriteTimeout(absl::Nanoseconds(99'999'999)), "99999999n");
  EXPECT_EQ(WriteTimeout(absl::Nanoseconds(100'000'001)), "100001u");
  EXPECT_EQ(WriteTimeout(absl::Seconds(1000)), "1000000m");
  EXPECT_EQ(WriteTimeout(absl::Hours(1'000'000)), "60000000M");
  EXPECT_EQ(WriteTimeout(absl::InfiniteDuration()), "99999999H");
}

}  // namespace
}  // namespace rdmabroker::rpc
