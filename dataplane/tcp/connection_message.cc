// SPDX-License-Identifier: Apache-2.0

#include "dataplane/tcp/connection_message.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/tcp.h>  // netinet/tcp.h's tcp_info ends before what is not sent.

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "dataplane/netlink.h"

namespace rdmabroker::tcp {
namespace {

// TCP_ESTABLISHED, TCP_CLOSE and TCP_CLOSE_WAIT of netinet/tcp.h.
constexpr uint8_t kEstablished = 1;
constexpr uint8_t kClosed = 7;
constexpr uint8_t kCloseWait = 8;

}  // namespace

TcpState StateFrom(const tcp_info& info) {
  return {
      .open = info.tcpi_state == kEstablished || info.tcpi_state == kCloseWait,
      .closed = info.tcpi_state == kClosed,
      .silence = std::chrono::milliseconds(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)),
      .since_sent = std::chrono::milliseconds(info.tcpi_last_data_sent),
      .unacknowledged = info.tcpi_unacked > 0,
      .unsent = info.tcpi_notsent_bytes > 0,
      .unanswered = info.tcpi_probes,
  };
}

std::optional<TcpState> ParseConnectionMessage(const void* first, int length, uint16_t peer_port) {
  const auto* const about = static_cast<const inet_diag_msg*>(first);
  if (length < static_cast<int>(sizeof *about) || about->id.idiag_dport != htons(peer_port)) return std::nullopt;
  std::optional<TcpState> state;
  ForEachAttribute(about + 1, length - static_cast<int>(sizeof *about), [&state](int type, const rtattr* attribute) {
    if (type != INET_DIAG_INFO) return;
    tcp_info info = {};
    std::memcpy(&info, RTA_DATA(attribute), std::min<size_t>(sizeof info, RTA_PAYLOAD(attribute)));
    state = StateFrom(info);
  });
  return state;
}

}  // namespace rdmabroker::tcp
