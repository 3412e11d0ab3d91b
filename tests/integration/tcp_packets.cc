// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/tcp_packets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <utility>

namespace rdmabroker {
namespace {

// Far from IP's limit of 65,535 bytes for a packet.
constexpr size_t kLongestSegment = 32 << 10;

struct Segment {
  TcpDirection direction;
  uint32_t sequence = 0;
  uint8_t flags = 0;
  size_t tcp_at = 0;      // Where TCP's header begins, and
  size_t payload_at = 0;  // where it ends.
  std::string payload;
};

template <typename Header>
std::optional<Header> HeaderAt(const std::string& packet, size_t at) {
  Header header;
  if (packet.size() < at + sizeof header) return std::nullopt;
  std::memcpy(&header, packet.data() + at, sizeof header);
  return header;
}

// Nothing for what is no TCP over IP.
std::optional<Segment> SegmentOf(const std::string& packet) {
  const auto ethernet = HeaderAt<ether_header>(packet, 0);
  size_t at = sizeof(ether_header);
  size_t end = packet.size();
  Segment segment;
  if (ethernet && ntohs(ethernet->ether_type) == ETHERTYPE_IP) {
    const auto ip = HeaderAt<iphdr>(packet, at);
    if (!ip || ip->protocol != IPPROTO_TCP) return std::nullopt;
    segment.direction = packet.substr(at + offsetof(iphdr, saddr), 8);
    end = at + ntohs(ip->tot_len);
    at += size_t{4} * ip->ihl;
  } else if (ethernet && ntohs(ethernet->ether_type) == ETHERTYPE_IPV6) {
    const auto ip = HeaderAt<ip6_hdr>(packet, at);
    if (!ip || ip->ip6_nxt != IPPROTO_TCP) return std::nullopt;
    segment.direction = packet.substr(at + offsetof(ip6_hdr, ip6_src), 32);
    end = at + sizeof *ip + ntohs(ip->ip6_plen);
    at += sizeof *ip;
  }
  const auto tcp = HeaderAt<tcphdr>(packet, at);
  if (segment.direction.empty() || !tcp || end > packet.size()) return std::nullopt;
  segment.direction += packet.substr(at, 4);
  segment.sequence = ntohl(tcp->seq);
  segment.flags = tcp->th_flags;
  segment.tcp_at = at;
  segment.payload_at = at + size_t{4} * tcp->doff;
  segment.payload = packet.substr(segment.payload_at, end - segment.payload_at);
  return segment;
}

// A packet with the headers of another but data of its own, or none, which acknowledges nothing. The end of the stream
// is nowhere but behind data.
std::string WithPayload(const std::string& packet, const Segment& of, uint32_t sequence, std::string_view payload) {
  std::string changed = packet.substr(0, of.payload_at).append(payload);
  auto tcp = *HeaderAt<tcphdr>(packet, of.tcp_at);
  tcp.th_seq = htonl(sequence);
  tcp.th_ack = 0;
  if (!payload.empty()) tcp.th_flags &= ~TH_FIN;
  std::memcpy(changed.data() + of.tcp_at, &tcp, sizeof tcp);
  constexpr size_t kIpAt = sizeof(ether_header);
  const bool ipv4 = HeaderAt<iphdr>(packet, kIpAt)->version == 4;
  const size_t counted_from = kIpAt + (ipv4 ? 0 : sizeof(ip6_hdr));
  const size_t length_at = kIpAt + (ipv4 ? offsetof(iphdr, tot_len) : offsetof(ip6_hdr, ip6_plen));
  const uint16_t length = htons(static_cast<uint16_t>(changed.size() - counted_from));
  std::memcpy(changed.data() + length_at, &length, sizeof length);
  return changed;
}

// One direction as the receiver's TCP puts it together.
class Stream {
 public:
  void Take(Segment segment) {
    if ((segment.flags & TH_SYN) != 0) {
      first_ = segment.sequence + 1;
    } else if (!first_) {
      ADD_FAILURE() << "a connection was there before the capture";
      return;
    }
    if (segment.payload.empty()) return;
    std::string& early = early_[segment.sequence - *first_];
    if (early.size() < segment.payload.size()) early = std::move(segment.payload);
    for (auto next = early_.begin(); next != early_.end() && next->first <= bytes_.size();) {
      const size_t known = bytes_.size() - next->first;
      if (known < next->second.size()) bytes_ += next->second.substr(known);
      next = early_.erase(next);
    }
  }

  void ExpectWhole() const { EXPECT_TRUE(early_.empty()) << "bytes are missing at " << bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  // Where an offset is in TCP's numbers.
  uint32_t SequenceAt(size_t offset) const { return *first_ + static_cast<uint32_t>(offset); }

 private:
  std::optional<uint32_t> first_;
  std::string bytes_;                    // Without gaps.
  std::map<size_t, std::string> early_;  // By their offsets.
};

}  // namespace

std::map<TcpDirection, std::string> TcpStreams(const std::vector<std::string>& packets) {
  std::map<TcpDirection, Stream> streams;
  for (const std::string& packet : packets) {
    if (const auto segment = SegmentOf(packet)) streams[segment->direction].Take(*segment);
  }
  std::map<TcpDirection, std::string> bytes;
  for (const auto& [direction, stream] : streams) {
    stream.ExpectWhole();
    bytes[direction] = stream.bytes();
  }
  return bytes;
}

std::vector<std::string> ResegmentTcp(const std::vector<std::string>& packets, const UnitLength& unit_length) {
  struct Direction {
    Stream stream;
    size_t written = 0;
    std::string last_packet;  // That with data.
  };
  std::map<TcpDirection, Direction> directions;
  std::vector<std::string> resegmented;
  const auto write = [&resegmented](Direction& direction, size_t length) {
    const auto headers = SegmentOf(direction.last_packet);
    for (const size_t end = direction.written + length; direction.written < end;) {
      const size_t part = std::min(end - direction.written, kLongestSegment);
      resegmented.push_back(WithPayload(direction.last_packet, *headers, direction.stream.SequenceAt(direction.written),
                                        std::string_view(direction.stream.bytes()).substr(direction.written, part)));
      direction.written += part;
    }
  };
  for (const std::string& packet : packets) {
    const auto segment = SegmentOf(packet);
    if (!segment) continue;
    Direction& direction = directions[segment->direction];
    direction.stream.Take(*segment);
    if ((segment->flags & TH_SYN) != 0) resegmented.push_back(packet);
    if (!segment->payload.empty()) {
      direction.last_packet = packet;
      while (const size_t length = unit_length(direction.stream.bytes(), direction.written)) write(direction, length);
    }
    if ((segment->flags & (TH_FIN | TH_RST)) != 0) {
      const auto end = segment->sequence + static_cast<uint32_t>(segment->payload.size());
      resegmented.push_back(WithPayload(packet, *segment, end, ""));
    }
  }
  for (auto& [name, direction] : directions) {
    direction.stream.ExpectWhole();
    write(direction, direction.stream.bytes().size() - direction.written);
  }
  return resegmented;
}

void WritePcap(const std::string& path, const std::vector<std::string>& packets) {
  std::ofstream file(path, std::ios::binary);
  const auto write = [&file](std::initializer_list<uint32_t> numbers) {
    for (const uint32_t number : numbers) file.write(reinterpret_cast<const char*>(&number), sizeof number);
  };
  // Magic number, version 2.4 as two 16-bit numbers, time zone, accuracy, longest packet, Ethernet.
  constexpr uint32_t kLongestPacket = 128 << 10;
  write({0xA1B2C3D4, 2 | 4 << 16, 0, 0, kLongestPacket, 1});
  uint32_t number = 0;
  for (const std::string& packet : packets) {
    const auto length = static_cast<uint32_t>(packet.size());
    // One a microsecond; the order is what counts.
    write({++number / 1'000'000, number % 1'000'000, length, length});
    file.write(packet.data(), static_cast<std::streamsize>(packet.size()));
  }
  EXPECT_TRUE(file.flush()) << path;
}

}  // namespace rdmabroker
