// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/capture.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

namespace rdmabroker {
namespace {

// Room for all that a test says, since nobody reads meanwhile: each packet takes a slot, which is longer than the
// longest packet that segmentation offload makes for the loopback interface.
constexpr size_t kSlotBytes = 128 << 10;
constexpr size_t kSlotsPerBlock = 8;
constexpr size_t kSlots = 640;
constexpr size_t kRingBytes = kSlots * kSlotBytes;

struct Segment {
  TcpDirection direction;
  uint32_t sequence = 0;
  bool syn = false;
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
  segment.syn = tcp->syn != 0;
  at += size_t{4} * tcp->doff;
  segment.payload = packet.substr(at, end - at);
  return segment;
}

}  // namespace

Capture::Capture(const std::string& interface)
    : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
  EXPECT_TRUE(socket_) << std::strerror(errno);
  // The size of a socket's buffer is only for the machine's root to raise; that of a ring is not.
  const int version = TPACKET_V2;
  EXPECT_EQ(::setsockopt(socket_.get(), SOL_PACKET, PACKET_VERSION, &version, sizeof version), 0);
  const tpacket_req ring = {.tp_block_size = kSlotBytes * kSlotsPerBlock,
                            .tp_block_nr = kSlots / kSlotsPerBlock,
                            .tp_frame_size = kSlotBytes,
                            .tp_frame_nr = kSlots};
  EXPECT_EQ(::setsockopt(socket_.get(), SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring), 0) << std::strerror(errno);
  void* const memory = ::mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, socket_.get(), 0);
  EXPECT_NE(memory, MAP_FAILED) << std::strerror(errno);
  if (memory != MAP_FAILED) ring_ = static_cast<uint8_t*>(memory);
  // Each packet of the loopback interface goes out and comes in; once is enough.
  const int once = interface == kLoopback ? 1 : 0;
  EXPECT_EQ(::setsockopt(socket_.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &once, sizeof once), 0);
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(interface.c_str()));
  EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
}

Capture::~Capture() {
  if (ring_ != nullptr) ::munmap(ring_, kRingBytes);
}

const std::vector<std::string>& Capture::Packets() {
  while (ring_ != nullptr) {
    uint8_t* const slot = ring_ + next_ * kSlotBytes;
    auto& header = *reinterpret_cast<tpacket2_hdr*>(slot);
    std::atomic_ref<uint32_t> status(header.tp_status);
    if ((status.load(std::memory_order_acquire) & TP_STATUS_USER) == 0) break;
    EXPECT_EQ(header.tp_snaplen, header.tp_len) << "a packet was cut off";
    packets_.emplace_back(reinterpret_cast<const char*>(slot) + header.tp_mac, header.tp_snaplen);
    status.store(TP_STATUS_KERNEL, std::memory_order_release);
    next_ = (next_ + 1) % kSlots;
  }
  tpacket_stats statistics = {};
  socklen_t size = sizeof statistics;
  EXPECT_EQ(::getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics, &size), 0);
  EXPECT_EQ(statistics.tp_drops, 0u);
  return packets_;
}

void Capture::WritePcap(const std::string& path) const {
  std::ofstream file(path, std::ios::binary);
  const auto write = [&file](std::initializer_list<uint32_t> numbers) {
    for (const uint32_t number : numbers) file.write(reinterpret_cast<const char*>(&number), sizeof number);
  };
  // Magic number, version 2.4 as two 16-bit numbers, time zone, accuracy, longest packet, Ethernet.
  write({0xA1B2C3D4, 2 | 4 << 16, 0, 0, kSlotBytes, 1});
  uint32_t number = 0;
  for (const std::string& packet : packets_) {
    const auto length = static_cast<uint32_t>(packet.size());
    // One a microsecond; the order is what counts.
    write({++number / 1'000'000, number % 1'000'000, length, length});
    file.write(packet.data(), static_cast<std::streamsize>(packet.size()));
  }
}

std::map<TcpDirection, std::string> TcpStreams(const std::vector<std::string>& packets) {
  std::map<TcpDirection, std::string> streams;
  std::map<TcpDirection, uint32_t> first;
  for (const std::string& packet : packets) {
    const auto segment = SegmentOf(packet);
    if (!segment) continue;
    if (segment->syn) {
      first[segment->direction] = segment->sequence + 1;
      streams[segment->direction];
    }
    if (segment->payload.empty()) continue;
    if (first.count(segment->direction) == 0) {
      ADD_FAILURE() << "a connection was there before the capture";
      continue;
    }
    std::string& stream = streams[segment->direction];
    const uint32_t offset = segment->sequence - first[segment->direction];
    if (offset > stream.size()) ADD_FAILURE() << "bytes are missing at " << stream.size();
    // What was sent again is there already.
    if (offset + segment->payload.size() > stream.size()) stream.replace(offset, std::string::npos, segment->payload);
  }
  return streams;
}

}  // namespace rdmabroker
