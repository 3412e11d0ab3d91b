// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/interface.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

ifreq Named(const std::string& name) {
  ifreq request = {};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return request;
}

template <typename Request>
bool Control(unsigned long what, Request& request) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return socket && ::ioctl(socket.get(), what, &request) == 0;
}

bool SetAddressOf(unsigned long what, ifreq request, const std::string& address) {
  sockaddr_in in = {.sin_family = AF_INET};
  if (::inet_pton(AF_INET, address.c_str(), &in.sin_addr) != 1) return false;
  std::memcpy(&request.ifr_addr, &in, sizeof in);
  return Control(what, request);
}

bool SetFlags(const std::string& name, int set, int clear) {
  ifreq request = Named(name);
  if (!Control(SIOCGIFFLAGS, request)) return false;
  request.ifr_flags = static_cast<short>((request.ifr_flags | set) & ~clear);
  return Control(SIOCSIFFLAGS, request);
}

bool ControlNeighbour(unsigned long what, const std::string& name, const std::string& address, const char* station) {
  arpreq request = {};
  sockaddr_in in = {.sin_family = AF_INET};
  if (::inet_pton(AF_INET, address.c_str(), &in.sin_addr) != 1) return false;
  std::memcpy(&request.arp_pa, &in, sizeof in);
  request.arp_flags = ATF_PERM | ATF_COM;
  request.arp_ha.sa_family = ARPHRD_ETHER;
  std::memcpy(request.arp_ha.sa_data, station, 6);
  name.copy(request.arp_dev, sizeof request.arp_dev - 1);
  return Control(what, request);
}

// An attribute with what it holds, padded as rtnetlink wants it.
std::string Attribute(uint16_t type, const std::string& value) {
  const rtattr header = {.rta_len = static_cast<uint16_t>(RTA_LENGTH(value.size())), .rta_type = type};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += value;
  bytes.resize(RTA_ALIGN(bytes.size()));
  return bytes;
}

template <typename Value>
std::string Bytes(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Has rtnetlink make what `body` says; else errno tells why not.
bool Ask(uint16_t type, const std::string& body) {
  const nlmsghdr header = {.nlmsg_len = static_cast<uint32_t>(NLMSG_LENGTH(body.size())),
                           .nlmsg_type = type,
                           .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL};
  const std::string message = Bytes(header) + body;
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (::send(socket.get(), message.data(), message.size(), 0) != static_cast<ssize_t>(message.size())) return false;
  struct {
    nlmsghdr header;
    nlmsgerr error;
    char rest[4096];  // The request comes back behind it.
  } answer = {};
  if (::recv(socket.get(), &answer, sizeof answer, 0) < 0) return false;
  errno = answer.header.nlmsg_type == NLMSG_ERROR ? -answer.error.error : EPROTO;
  return errno == 0;
}

}  // namespace

bool RaiseInterface(const std::string& name) { return SetFlags(name, IFF_UP, 0); }

bool LowerInterface(const std::string& name) { return SetFlags(name, 0, IFF_UP); }

bool SetMtu(const std::string& name, int mtu) {
  ifreq request = Named(name);
  request.ifr_mtu = mtu;
  return Control(SIOCSIFMTU, request);
}

bool SetAddress(const std::string& name, const std::string& address) {
  return SetAddressOf(SIOCSIFADDR, Named(name), address) && SetAddressOf(SIOCSIFNETMASK, Named(name), "255.255.255.0");
}

bool MisdirectNeighbour(const std::string& name, const std::string& address) {
  return ControlNeighbour(SIOCSARP, name, address, "\x02\0\0\0\0\xfa");
}

bool AskForNeighbour(const std::string& name, const std::string& address) {
  // ENXIO: nothing is known of it.
  return ControlNeighbour(SIOCDARP, name, address, "\0\0\0\0\0") || errno == ENXIO;
}

bool MakeVethPair(const std::string& name, const std::string& peer, int peers_namespace) {
  std::string others = Bytes(ifinfomsg{}) + Attribute(IFLA_IFNAME, peer + '\0');
  if (peers_namespace >= 0) others += Attribute(IFLA_NET_NS_FD, Bytes(static_cast<uint32_t>(peers_namespace)));
  const std::string kind =
      Attribute(IFLA_INFO_KIND, "veth") + Attribute(IFLA_INFO_DATA, Attribute(VETH_INFO_PEER, others));
  return Ask(RTM_NEWLINK, Bytes(ifinfomsg{}) + Attribute(IFLA_IFNAME, name + '\0') + Attribute(IFLA_LINKINFO, kind));
}

bool AddIpv6Address(const std::string& name, const std::string& address) {
  in6_addr ip;
  if (::inet_pton(AF_INET6, address.c_str(), &ip) != 1) return false;
  const ifaddrmsg body = {.ifa_family = AF_INET6,
                          .ifa_prefixlen = 64,
                          .ifa_flags = IFA_F_NODAD,
                          .ifa_index = ::if_nametoindex(name.c_str())};
  return Ask(RTM_NEWADDR, Bytes(body) + Attribute(IFA_LOCAL, Bytes(ip)));
}

bool RenameInterface(const std::string& name, const std::string& to) {
  ifreq request = Named(name);
  to.copy(request.ifr_newname, sizeof request.ifr_newname - 1);
  return Control(SIOCSIFNAME, request);
}

}  // namespace rdmabroker
