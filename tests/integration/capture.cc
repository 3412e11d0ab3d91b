// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/capture.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace rdmabroker {
namespace {

// Room for all that a test says, since nobody reads meanwhile: each packet takes a slot, which is longer than the
// longest packet that segmentation offload makes for the loopback interface.
constexpr size_t kSlotBytes = 128 << 10;
constexpr size_t kSlotsPerBlock = 8;
constexpr size_t kSlots = 640;
constexpr size_t kRingBytes = kSlots * kSlotBytes;

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

}  // namespace rdmabroker
