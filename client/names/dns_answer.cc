// SPDX-License-Identifier: Apache-2.0

#include "client/names/dns_answer.h"

#include <arpa/nameser.h>
#include <netinet/in.h>
#include <resolv.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "client/names/source.h"

namespace rdmabroker::client {
namespace {

// Calls `use` with each record of the type; it returns false where the record is malformed. `*life` changes on success.
template <typename Use>
NdkStatus ForEachRecord(DnsBytes answer, ns_type type, uint32_t* life, const Use& use) {
  ns_msg message;
  if (answer.size() > kLargestDnsAnswer ||
      ::ns_initparse(answer.data(), static_cast<int>(answer.size()), &message) != 0) {
    return NdkStatus::kUnsuccessful;
  }
  uint32_t shortest = *life;
  bool any = false;
  for (int i = 0; i < ns_msg_count(message, ns_s_an); ++i) {
    ns_rr record;
    if (::ns_parserr(&message, ns_s_an, i, &record) != 0) return NdkStatus::kUnsuccessful;
    shortest = std::min(shortest, ns_rr_ttl(record));
    if (ns_rr_type(record) != type || ns_rr_class(record) != ns_c_in) continue;
    if (!use(message, record)) return NdkStatus::kUnsuccessful;
    any = true;
  }
  if (!any && IsCutShort(answer)) return NdkStatus::kUnsuccessful;
  *life = shortest;
  return NdkStatus::kSuccess;
}

std::optional<SocketAddress> ReadAddress(const ns_rr& record, IpFamily family, uint16_t port) {
  const size_t length = family == IpFamily::kIpv4 ? 4 : 16;
  if (ns_rr_rdlen(record) != length) return std::nullopt;
  SocketAddress address{.ip = {.family = family}, .port = port};
  std::memcpy(address.ip.bytes.data(), ns_rr_rdata(record), length);
  return address;
}

std::optional<Service> ReadService(const ns_msg& message, const ns_rr& record) {
  // Priority, weight and port, and a name of at least its end.
  constexpr int kBeforeTarget = 6;
  if (ns_rr_rdlen(record) <= kBeforeTarget) return std::nullopt;
  const unsigned char* const data = ns_rr_rdata(record);
  std::array<char, NS_MAXDNAME> host;
  const int target =
      ::dn_expand(ns_msg_base(message), ns_msg_end(message), data + kBeforeTarget, host.data(), host.size());
  if (target != ns_rr_rdlen(record) - kBeforeTarget) return std::nullopt;
  return Service{.priority = static_cast<uint16_t>(::ns_get16(data)),
                 .weight = static_cast<uint16_t>(::ns_get16(data + 2)),
                 .port = static_cast<uint16_t>(::ns_get16(data + 4)),
                 .host = host.data()};
}

}  // namespace

bool IsCutShort(DnsBytes answer) {
  constexpr size_t kPlace = 2;
  constexpr unsigned char kFlag = 0x02;
  return answer.size() > kPlace && (answer[kPlace] & kFlag) != 0;
}

NdkStatus ReadAddresses(DnsBytes answer, IpFamily family, uint16_t port, std::vector<SocketAddress>* addresses,
                        uint32_t* life) {
  const size_t before = addresses->size();
  const ns_type type = family == IpFamily::kIpv4 ? ns_t_a : ns_t_aaaa;
  const NdkStatus status = ForEachRecord(answer, type, life, [&](const ns_msg&, const ns_rr& record) {
    const auto address = ReadAddress(record, family, port);
    if (address && IsUsable(*address) && addresses->size() < kMostAddresses) addresses->push_back(*address);
    return address.has_value();
  });
  if (status != NdkStatus::kSuccess) addresses->resize(before);
  return status;
}

NdkStatus ReadServices(DnsBytes answer, std::vector<Service>* services, uint32_t* life) {
  const size_t before = services->size();
  const NdkStatus status = ForEachRecord(answer, ns_t_srv, life, [&](const ns_msg& message, const ns_rr& record) {
    auto service = ReadService(message, record);
    if (!service) return false;
    // A target "." says that there is no such service.
    if (!service->host.empty() && service->port != 0) services->push_back(*std::move(service));
    return true;
  });
  if (status != NdkStatus::kSuccess) services->resize(before);
  return status;
}

void Order(std::vector<Service>* services) {
  std::minstd_rand random{std::random_device()()};
  std::stable_sort(services->begin(), services->end(),
                   [](const Service& a, const Service& b) { return a.priority < b.priority; });
  for (auto next = services->begin(); next != services->end(); ++next) {
    const auto end =
        std::find_if(next, services->end(), [&](const Service& s) { return s.priority != next->priority; });
    uint32_t sum = 0;
    for (auto one = next; one != end; ++one) sum += one->weight;
    uint32_t point = std::uniform_int_distribution<uint32_t>(0, sum)(random);
    auto chosen = next;
    for (; chosen + 1 != end && point > chosen->weight; ++chosen) point -= chosen->weight;
    std::iter_swap(next, chosen);
  }
}

}  // namespace rdmabroker::client
