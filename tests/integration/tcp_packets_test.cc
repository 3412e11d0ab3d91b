// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/tcp_packets.h"

#include <arpa/inet.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rdmabroker {
namespace {

constexpr uint32_t kFirst = 0xFFFFFFF0;  // TCP's numbers begin again within the stream.

template <typename Header>
std::string BytesOf(const Header& header) {
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

class Packets : public testing::TestWithParam<int> {
 protected:
  // Of one direction; `offset` is into its stream.
  std::string Make(size_t offset, std::string_view payload, uint8_t flags = TH_ACK, uint32_t acknowledged = 0) const {
    ether_header ethernet = {};
    tcphdr tcp = {};
    tcp.th_sport = htons(40000);
    tcp.th_dport = htons(50000);
    tcp.th_seq = htonl(kFirst + 1 + static_cast<uint32_t>(offset) - ((flags & TH_SYN) != 0 ? 1 : 0));
    tcp.th_ack = htonl(acknowledged);
    tcp.th_off = 5;
    tcp.th_flags = flags;
    if (GetParam() == AF_INET) {
      ethernet.ether_type = htons(ETHERTYPE_IP);
      iphdr ip = {};
      ip.version = 4;
      ip.ihl = 5;
      ip.protocol = IPPROTO_TCP;
      ip.tot_len = htons(static_cast<uint16_t>(sizeof ip + sizeof tcp + payload.size()));
      return BytesOf(ethernet) + BytesOf(ip) + BytesOf(tcp).append(payload);
    }
    ethernet.ether_type = htons(ETHERTYPE_IPV6);
    ip6_hdr ip = {};
    ip.ip6_vfc = 6 << 4;
    ip.ip6_nxt = IPPROTO_TCP;
    ip.ip6_plen = htons(static_cast<uint16_t>(sizeof tcp + payload.size()));
    return BytesOf(ethernet) + BytesOf(ip) + BytesOf(tcp).append(payload);
  }
  std::string Syn() const { return Make(0, "", TH_SYN); }

  static std::string OnlyStream(const std::vector<std::string>& packets) {
    const auto streams = TcpStreams(packets);
    EXPECT_EQ(streams.size(), 1u);
    return streams.empty() ? "" : streams.begin()->second;
  }
};

// As long as the first byte says; 0 stands for no unit.
size_t CountedUnit(std::string_view stream, size_t at) {
  const size_t length = at < stream.size() ? static_cast<uint8_t>(stream[at]) : 0;
  return at + length <= stream.size() ? length : 0;
}

TEST_P(Packets, GiveTheStreamWhateverTheirOrderAndHoweverOftenTheyCame) {
  const std::string a = Make(0, "It was the best"), b = Make(15, " of times"), c = Make(24, ", it");
  const std::string text = "It was the best of times, it";
  EXPECT_EQ(OnlyStream({Syn(), a, b, c}), text);
  EXPECT_EQ(OnlyStream({Syn(), a, c, b}), text);
  EXPECT_EQ(OnlyStream({Syn(), c, b, a}), text);
  EXPECT_EQ(OnlyStream({Syn(), a, a, b, a, c, b}), text);
  EXPECT_EQ(OnlyStream({Syn(), a, Make(7, "the best of t"), c, b, Make(0, text)}), text) << "repeated in other parts";
  EXPECT_EQ(OnlyStream({Syn(), c, a, Make(15, " of times, i")}), text);
}

TEST_P(Packets, OfAStreamWithAGapFail) {
  const std::vector<std::string> packets = {Syn(), Make(0, "a"), Make(2, "c")};
  EXPECT_NONFATAL_FAILURE(TcpStreams(packets), "bytes are missing at 1");
  const std::vector<std::string> headless = {Make(0, "a")};
  EXPECT_NONFATAL_FAILURE(TcpStreams(headless), "a connection was there before the capture");
}

TEST_P(Packets, ResegmentedHoldOneUnitEach) {
  const std::string stream("\4abc\3de\1\6fghij\2k", 16);
  for (size_t cut = 1; cut < stream.size(); ++cut) {
    const std::string a = Make(0, stream.substr(0, cut)), b = Make(cut, stream.substr(cut), TH_ACK | TH_FIN, 77);
    const auto resegmented = ResegmentTcp({Syn(), Make(0, ""), a, b, b}, CountedUnit);
    const std::string fin = Make(stream.size(), "", TH_ACK | TH_FIN);
    EXPECT_EQ(resegmented, std::vector<std::string>({Syn(), Make(0, "\4abc"), Make(4, "\3de"), Make(7, "\1"),
                                                     Make(8, "\6fghij"), Make(14, "\2k"), fin, fin}))
        << cut;
  }
}

TEST_P(Packets, ResegmentedKeepWhatIsNoUnit) {
  const std::string stream = std::string("\4abc\0", 5) + std::string(50'000, 'x');
  const auto resegmented = ResegmentTcp({Syn(), Make(0, stream.substr(0, 3)), Make(3, stream.substr(3))}, CountedUnit);
  EXPECT_EQ(resegmented.size(), 4u) << "IP has no room for much more than half of the rest";
  EXPECT_EQ(OnlyStream(resegmented), stream);
}

INSTANTIATE_TEST_SUITE_P(OverIp, Packets, testing::Values(AF_INET, AF_INET6),
                         [](const auto& of) { return of.param == AF_INET ? "4" : "6"; });

}  // namespace
}  // namespace rdmabroker
