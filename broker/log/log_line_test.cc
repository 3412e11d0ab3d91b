// SPDX-License-Identifier: Apache-2.0

#include "broker/log/log_line.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace rdmabroker {
namespace {

struct Row {
  LogField field;
  std::string text;
  std::string json;
};

TEST(LogLine, AValueIsWrittenByItsType) {
  const Row rows[] = {
      {{"v", true}, "v=true", R"("v":true)"},
      {{"v", false}, "v=false", R"("v":false)"},
      {{"v", 0}, "v=0", R"("v":0)"},
      {{"v", -7}, "v=-7", R"("v":-7)"},
      {{"v", std::numeric_limits<int64_t>::min()}, "v=-9223372036854775808", R"("v":-9223372036854775808)"},
      {{"v", std::numeric_limits<uint64_t>::max()}, "v=18446744073709551615", R"("v":18446744073709551615)"},
      {{"v", uint16_t{443}}, "v=443", R"("v":443)"},
      {{"v", "word"}, "v=word", R"("v":"word")"},
      {{"v", std::string("[fe80::1%eth0]:7")}, "v=[fe80::1%eth0]:7", R"("v":"[fe80::1%eth0]:7")"},
      {{"v", std::string_view("view")}, "v=view", R"("v":"view")"},
      {{"v", absl::string_view("view")}, "v=view", R"("v":"view")"},
      {{"v", "/run/rdma-broker"}, "v=/run/rdma-broker", R"("v":"/run/rdma-broker")"},
      {{"v", "{} %v"}, R"(v="{} %v")", R"("v":"{} %v")"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(TextOf("done", {row.field}), "done " + row.text);
    EXPECT_EQ(JsonMembersOf("done", {row.field}), R"("event":"done",)" + row.json);
  }
}

TEST(LogLine, FieldsStandInTheirOrder) {
  EXPECT_EQ(TextOf("session opened", {{"session", 7}, {"uid", 0}}), "session opened session=7 uid=0");
  EXPECT_EQ(JsonMembersOf("session opened", {{"session", 7}, {"uid", 0}}),
            R"("event":"session opened","session":7,"uid":0)");
  EXPECT_EQ(TextOf("stopped", {}), "stopped");
  EXPECT_EQ(JsonMembersOf("stopped", {}), R"("event":"stopped")");
}

TEST(LogLine, NoValueEndsItsLineOrItsField) {
  const Row rows[] = {
      {{"v", ""}, R"(v="")", R"("v":"")"},
      {{"v", "two words"}, R"(v="two words")", R"("v":"two words")"},
      {{"v", "uid=0"}, R"(v="uid=0")", R"("v":"uid=0")"},
      {{"v", "a\" uid=0"}, R"(v="a\" uid=0")", R"("v":"a\" uid=0")"},
      {{"v", "a\\"}, R"(v="a\\")", R"("v":"a\\")"},
      {{"v", "a\nb\r\t"}, R"(v="a\nb\r\t")", R"("v":"a\u000ab\u000d\u0009")"},
      {{"v", std::string("a\0b", 3)}, R"(v="a\x00\x62")", R"("v":"a\u0000b")"},
      {{"v", "\x1b[2J"}, R"(v="\x1b[2J")", R"("v":"\u001b[2J")"},
      {{"v", "\x7f"}, R"(v="\x7f")", R"("v":"\u007f")"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(TextOf("done", {row.field}), "done " + row.text);
    EXPECT_EQ(JsonMembersOf("done", {row.field}), R"("event":"done",)" + row.json);
  }
}

TEST(LogLine, AsciiIsEnoughForEveryCharacterAndEveryOtherByte) {
  const Row rows[] = {
      {{"v", "\xc3\xa9"}, R"(v="\xc3\xa9")", R"("v":"\u00e9")"},
      {{"v", "\xe2\x80\xa8"}, R"(v="\xe2\x80\xa8")", R"("v":"\u2028")"},  // What some take for a line's end.
      {{"v", "\xf0\x9f\x98\x80"}, R"(v="\xf0\x9f\x98\x80")", R"("v":"\ud83d\ude00")"},
      {{"v", "\xf4\x8f\xbf\xbf"}, R"(v="\xf4\x8f\xbf\xbf")", R"("v":"\udbff\udfff")"},
      // No UTF-8: a continuation alone, a character cut short, one too long for what it says, a surrogate, too large.
      {{"v", "\x80"}, R"(v="\x80")", R"("v":"\ufffd")"},
      {{"v", "\xe2\x80"}, R"(v="\xe2\x80")", R"("v":"\ufffd\ufffd")"},
      {{"v", "\xe2\"\n"}, R"(v="\xe2\"\n")", R"("v":"\ufffd\"\u000a")"},
      {{"v", "\xc0\xa2"}, R"(v="\xc0\xa2")", R"("v":"\ufffd\ufffd")"},
      {{"v", "\xe0\x80\xa2"}, R"(v="\xe0\x80\xa2")", R"("v":"\ufffd\ufffd\ufffd")"},
      {{"v", "\xf0\x80\x80\xa2"}, R"(v="\xf0\x80\x80\xa2")", R"("v":"\ufffd\ufffd\ufffd\ufffd")"},
      {{"v", "\xed\xa0\x80"}, R"(v="\xed\xa0\x80")", R"("v":"\ufffd\ufffd\ufffd")"},
      {{"v", "\xf4\x90\x80\x80"}, R"(v="\xf4\x90\x80\x80")", R"("v":"\ufffd\ufffd\ufffd\ufffd")"},
      {{"v", "\xff"}, R"(v="\xff")", R"("v":"\ufffd")"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(TextOf("done", {row.field}), "done " + row.text);
    EXPECT_EQ(JsonMembersOf("done", {row.field}), R"("event":"done",)" + row.json);
  }
}

TEST(LogLine, EveryByteComesOutAsOneLineOfPrintableAscii) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string value = {static_cast<char>(first), static_cast<char>(second)};
      for (const std::string& line : {TextOf("done", {{"v", value}}), JsonMembersOf("done", {{"v", value}})}) {
        for (const char each : line) ASSERT_TRUE(each >= 0x20 && each < 0x7f) << first << " " << second;
      }
    }
  }
}

}  // namespace
}  // namespace rdmabroker
