// SPDX-License-Identifier: Apache-2.0

#include "broker/policy/matching.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rdmabroker {
namespace {

TEST(PortRange, IsOnePortOrTwoEndsInOrder) {
  EXPECT_EQ(PortRange::Parse("4420"), (PortRange{4420, 4420}));
  EXPECT_EQ(PortRange::Parse("1-65535"), (PortRange{1, 65535}));
  EXPECT_EQ(PortRange::Parse("7-7"), (PortRange{7, 7}));
  for (const char* text : {"", "-", "0", "0-5", "65536", "5-65536", "9-8", "1-2-3", " 1", "1 ", "1 - 2", "+1", "-1",
                           "01", "1-", "-2", "x", "1,2", "4294967297"}) {
    EXPECT_FALSE(PortRange::Parse(text)) << text;
  }
}

TEST(PortSet, CoversAcrossRangesThatTouch) {
  const PortSet ports({{20, 29}, {10, 19}, {40, 49}, {45, 60}, {65535, 65535}});
  EXPECT_TRUE(ports.Covers({10, 29}));
  EXPECT_TRUE(ports.Covers({40, 60}));
  EXPECT_TRUE(ports.Covers({65535, 65535}));
  EXPECT_FALSE(ports.Covers({10, 30}));
  EXPECT_FALSE(ports.Covers({9, 10}));
  EXPECT_FALSE(ports.Covers({30, 39}));
  EXPECT_TRUE(ports.Overlaps({30, 40}));
  EXPECT_TRUE(ports.Overlaps({1, 10}));
  EXPECT_TRUE(ports.Overlaps({1, 65535}));
  EXPECT_FALSE(ports.Overlaps({30, 39}));
  EXPECT_FALSE(ports.Overlaps({61, 65534}));
  EXPECT_FALSE(PortSet().Covers({1, 1}));
}

TEST(PortSet, CoversAllOfAnotherWhereItHasEachOfItsRanges) {
  const PortSet ports({{20, 29}, {10, 19}, {40, 49}});
  EXPECT_TRUE(ports.CoversAllOf(ports));
  EXPECT_TRUE(ports.CoversAllOf(PortSet({{15, 25}, {40, 40}})));
  EXPECT_TRUE(ports.CoversAllOf(PortSet()));
  EXPECT_FALSE(ports.CoversAllOf(PortSet({{15, 25}, {30, 30}})));
  EXPECT_FALSE(ports.CoversAllOf(PortSet({{10, 49}})));
  EXPECT_FALSE(PortSet().CoversAllOf(PortSet({{1, 1}})));
}

struct PrefixRow {
  const char* prefix;
  std::vector<const char*> in;
  std::vector<const char*> out;
};

TEST(Prefix, ContainsWhatBeginsWithItsBits) {
  const PrefixRow rows[] = {
      {"10.0.0.0/8", {"10.0.0.0", "10.255.255.255"}, {"9.255.255.255", "11.0.0.0", "::a00:0"}},
      {"192.0.2.128/25", {"192.0.2.128", "192.0.2.255"}, {"192.0.2.127", "192.0.3.128"}},
      {"192.0.2.9/32", {"192.0.2.9"}, {"192.0.2.8", "192.0.2.10"}},
      {"0.0.0.0/0", {"0.0.0.0", "255.255.255.255"}, {"::", "::1"}},
      {"::/0", {"::", "2001:db8::1", "fe80::1%3"}, {"0.0.0.0", "10.0.0.1"}},
      {"2001:db8:8000::/33", {"2001:db8:8000::", "2001:db8:ffff::1"}, {"2001:db8:7fff::1", "2001:db9:8000::"}},
      {"2001:db8::1/128", {"2001:db8::1"}, {"2001:db8::"}},
      {"fe80::/10", {"fe80::1%3", "febf::1%7"}, {"fec0::1", "2001:db8::1"}},
  };
  for (const PrefixRow& row : rows) {
    Prefix prefix;
    ASSERT_EQ(Prefix::Parse(row.prefix, &prefix), "");
    EXPECT_EQ(prefix.ToString(), row.prefix);
    for (const char* ip : row.in) EXPECT_TRUE(prefix.Contains(*IpAddress::Parse(ip))) << row.prefix << " " << ip;
    for (const char* ip : row.out) EXPECT_FALSE(prefix.Contains(*IpAddress::Parse(ip))) << row.prefix << " " << ip;
  }
}

struct Complaint {
  const char* text;
  const char* says;
};

TEST(Prefix, ThatIsNoneIsComplainedOf) {
  const Complaint rows[] = {
      {"10.0.0.1", "is no CIDR prefix"},
      {"", "is no CIDR prefix"},
      {"/8", "is no CIDR prefix"},
      {"storage.example/24", "is no CIDR prefix"},
      {"fe80::1%3/64", "all interfaces"},
      {"fe80::/10%lo", "all interfaces"},
      {"10.0.0.0/33", "from 0 to 32"},
      {"10.0.0.0/", "from 0 to 32"},
      {"10.0.0.0/-1", "from 0 to 32"},
      {"::/129", "from 0 to 128"},
      {"10.0.0.9/24", "bits are set after the first 24; did you mean 10.0.0.0/24 or 10.0.0.9/32?"},
      {"2001:db8::1/32", "did you mean 2001:db8::/32 or 2001:db8::1/128?"},
      {"0.0.0.1/0", "did you mean 0.0.0.0/0"},
      {"::ffff:10.0.0.0/104", "IPv4-mapped"},
  };
  for (const Complaint& row : rows) {
    Prefix prefix;
    EXPECT_NE(Prefix::Parse(row.text, &prefix).find(row.says), std::string::npos) << row.text;
    EXPECT_EQ(prefix, Prefix()) << row.text;
  }
}

TEST(AGlob, IsLettersAndStars) {
  const struct {
    const char* pattern;
    const char* text;
    bool matches;
  } rows[] = {
      {"mlx5_0", "mlx5_0", true},
      {"mlx5_0", "mlx5_01", false},
      {"mlx5_*", "mlx5_0", true},
      {"mlx5_*", "mlx5_", true},
      {"mlx5_*", "mlx4_0", false},
      {"*", "", true},
      {"*", "anything", true},
      {"*_0", "mlx5_0", true},
      {"*_0", "mlx5_0_0", true},
      {"*_0", "mlx5_0_1", false},
      {"a*b*c", "aXbYbZc", true},
      {"a*b*c", "aXcYb", false},
      {"a**b", "ab", true},
      {"", "", true},
      {"", "x", false},
      {"?", "x", false},
      {"[a]", "a", false},
      {"abc", "ab", false},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(MatchesGlob(row.pattern, row.text), row.matches) << row.pattern << " " << row.text;
  }
}

TEST(AGlob, OfManyStarsTakesNoTimeThatHurts) {
  std::string pattern;
  for (int i = 0; i < 30; ++i) pattern += "*a";
  EXPECT_FALSE(MatchesGlob(pattern + "b", std::string(20000, 'a')));
}

}  // namespace
}  // namespace rdmabroker
