// SPDX-License-Identifier: Apache-2.0

#include "dataplane/tcp/tcp_state.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>  // netinet/tcp.h's tcp_info ends before what is not sent.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <span>

#include "dataplane/netlink.h"
#include "dataplane/tcp/connection_message.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::tcp {
namespace {

inet_diag_sockid SocketId(const SocketAddress& local, const SocketAddress& peer) {
  inet_diag_sockid id = {};
  id.idiag_sport = htons(local.port);
  id.idiag_dport = htons(peer.port);
  std::memcpy(id.idiag_src, local.ip.bytes.data(), sizeof id.idiag_src);
  std::memcpy(id.idiag_dst, peer.ip.bytes.data(), sizeof id.idiag_dst);
  id.idiag_if = local.ip.scope_id;
  std::fill(std::begin(id.idiag_cookie), std::end(id.idiag_cookie), INET_DIAG_NOCOOKIE);
  return id;
}

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 about;
};

Request RequestAbout(const SocketAddress& local, const SocketAddress& peer) {
  return {.header = {.nlmsg_len = sizeof(Request),
                     .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                     .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
                     .nlmsg_seq = 0,
                     .nlmsg_pid = 0},
          .about = {.sdiag_family = static_cast<uint8_t>(local.ip.family == IpFamily::kIpv4 ? AF_INET : AF_INET6),
                    .sdiag_protocol = IPPROTO_TCP,
                    .idiag_ext = 1 << (INET_DIAG_INFO - 1),
                    .pad = 0,
                    .idiag_states = ~0u,
                    .id = SocketId(local, peer)}};
}

}  // namespace

std::optional<TcpState> ReadTcpState(int socket) {
  tcp_info info = {};
  socklen_t length = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  return StateFrom(info);
}

int FindTcpState(const SocketAddress& local, const SocketAddress& peer, TcpState* state) {
  bool found = false;
  const Request request = RequestAbout(local, peer);
  const std::span bytes(reinterpret_cast<const char*>(&request), sizeof request);
  UniqueFd netlink;
  const int error = AskNetlink(NETLINK_SOCK_DIAG, bytes, &netlink, [&](const void* first, int length) {
    if (const auto told = ParseConnectionMessage(first, length, peer.port)) {
      *state = *told;
      found = true;
    }
  });
  return error == 0 && !found ? ENOENT : error;
}

}  // namespace rdmabroker::tcp
