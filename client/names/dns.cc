// SPDX-License-Identifier: Apache-2.0

#include "client/names/dns.h"

#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>

#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/names/dns_answer.h"
#include "dataplane/start_thread.h"

namespace rdmabroker::client {
namespace {

using std::chrono::seconds;

constexpr size_t kMostServices = 8;        // Hosts that are asked for, of SRV records.
constexpr uint32_t kLongestLife = 86'400;  // Seconds; a longer one would be somebody's mistake.
constexpr int kSecondsATry = 1;
constexpr int kTries = 2;
constexpr int kMostQueries = 128;  // Each takes a thread; more names than a process resolves at once.

std::atomic<int> queries_under_way = 0;

// What is resolved for one call, by a thread that may outlive the call.
struct Query {
  Query() { ++queries_under_way; }
  ~Query() { --queries_under_way; }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  std::promise<Resolution> result;
};

// The resolver of the C library, with a state of its own. One thread.
class Resolver {
 public:
  explicit Resolver(const DnsSource& source) {
    if (::res_ninit(&state_) != 0) return;
    ready_ = true;
    state_.retrans = kSecondsATry;
    state_.retry = kTries;
    // An answer that is cut short is not asked for again over TCP: the C library waits there without an end. Some of
    // the addresses are enough for who needs one.
    state_.options |= RES_IGNTC | RES_USE_EDNS0;
    if (!source.server.has_value()) return;
    state_.nscount = 1;
    sockaddr_in& server = state_.nsaddr_list[0];
    server = {};
    server.sin_family = AF_INET;
    server.sin_port = htons(source.server->port);
    std::memcpy(&server.sin_addr, source.server->ip.bytes.data(), sizeof server.sin_addr);
  }
  ~Resolver() {
    if (ready_) ::res_nclose(&state_);
  }
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Calls `read` with the answer, a DnsBytes, and the life that it may shorten. Returns its status; kSuccess where the
  // answer says that there is no record. A name that ends with a dot is not looked up in the search list.
  template <typename Read>
  NdkStatus Ask(const std::string& name, ns_type type, const Read& read) {
    if (!ready_) return NdkStatus::kInsufficientResources;
    std::array<unsigned char, kLargestDnsAnswer> answer = {};
    const int length = ::res_nsearch(&state_, name.c_str(), ns_c_in, type, answer.data(), answer.size());
    if (length < 0) {
      // An answer without records is an error of the C library's, also where they have only been cut off.
      if (IsCutShort(answer)) return NdkStatus::kUnsuccessful;
      const bool none = state_.res_h_errno == HOST_NOT_FOUND || state_.res_h_errno == NO_DATA;
      return none ? NdkStatus::kSuccess : NdkStatus::kIoTimeout;
    }
    // The C library tells the whole length of an answer of which the array has but the beginning.
    if (static_cast<size_t>(length) > answer.size()) return NdkStatus::kUnsuccessful;
    return read(DnsBytes(answer).first(static_cast<size_t>(length)), &life_);
  }

  // The shortest of all records that have been seen.
  seconds life() const { return seconds(life_); }

 private:
  struct __res_state state_ = {};
  bool ready_ = false;
  uint32_t life_ = kLongestLife;
};

// Adds the addresses of a host, with the port.
NdkStatus AddAddresses(Resolver& resolver, const std::string& host, uint16_t port,
                       std::vector<SocketAddress>* addresses) {
  NdkStatus worst = NdkStatus::kSuccess;
  for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6}) {
    const NdkStatus status = resolver.Ask(
        host, family == IpFamily::kIpv4 ? ns_t_a : ns_t_aaaa,
        [&](DnsBytes answer, uint32_t* life) { return ReadAddresses(answer, family, port, addresses, life); });
    if (status != NdkStatus::kSuccess) worst = status;
  }
  return addresses->empty() ? worst : NdkStatus::kSuccess;
}

NdkStatus FindServices(Resolver& resolver, const std::string& name, std::vector<Service>* services) {
  return resolver.Ask("_rdma-broker._tcp." + name, ns_t_srv,
                      [services](DnsBytes answer, uint32_t* life) { return ReadServices(answer, services, life); });
}

Resolution Resolve(const ParsedName& name, const DnsSource& source) {
  Resolver resolver(source);
  std::vector<SocketAddress> addresses;
  NdkStatus status = NdkStatus::kSuccess;
  if (name.port != 0) {
    status = AddAddresses(resolver, name.host, name.port, &addresses);
  } else {
    std::vector<Service> services;
    status = FindServices(resolver, name.host, &services);
    Order(&services);
    if (services.size() > kMostServices) services.resize(kMostServices);
    for (const Service& service : services) {
      // Not by the search list: whoever has a domain of it would decide who is connected to.
      const NdkStatus found = AddAddresses(resolver, service.host + ".", service.port, &addresses);
      if (addresses.empty() && found != NdkStatus::kSuccess) status = found;
    }
  }
  if (!addresses.empty()) return {.outcome = {}, .addresses = std::move(addresses), .time_to_live = resolver.life()};
  switch (status) {
    case NdkStatus::kSuccess:
      return Failure(
          NdkStatus::kObjectNameNotFound,
          "DNS has no address of " + name.host +
              (name.port == 0 ? ": it needs SRV records, _rdma-broker._tcp." + name.host + ", or a port in the name"
                              : std::string()));
    case NdkStatus::kIoTimeout:
      return Failure(status, "no name server answers; see resolv.conf(5), or name another in RDMA_BROKER_NAMES", true);
    case NdkStatus::kInsufficientResources:
      return Failure(status, "the resolver cannot be set up");
    default:
      return Failure(NdkStatus::kUnsuccessful,
                     "the name server's answer for " + name.host + " is malformed or too long");
  }
}

// For a thread of its own: an exception that left it would end the process.
Resolution ResolveOnAThread(const ParsedName& name, const DnsSource& source) {
  try {
    return Resolve(name, source);
  } catch (const std::bad_alloc&) {
    return Failure(NdkStatus::kNoMemory, "out of memory");  // So short that it needs none.
  }
}

}  // namespace

// The C library has no deadline for a whole answer, but ends by itself: a question takes six seconds at most, as there
// are no more than three servers, each of which is tried twice. Seventeen may be asked, for services and for two kinds
// of addresses of eight hosts, and the first of them in each domain of the search list, too: where that has three, a
// thread that is not waited for any more goes within two minutes.
Resolution ResolveByDns(const ParsedName& name, const DnsSource& source, std::chrono::milliseconds timeout) {
  const auto query = std::make_shared<Query>();
  if (queries_under_way > kMostQueries) {
    return Failure(NdkStatus::kInsufficientResources,
                   "name " + name.host + " is not asked for, as " + std::to_string(kMostQueries) +
                       " others are; see whether the name servers answer",
                   true);
  }
  std::future<Resolution> future = query->result.get_future();
  std::thread thread = StartThread([query, name, source] { query->result.set_value(ResolveOnAThread(name, source)); });
  if (!thread.joinable()) return Failure(NdkStatus::kInsufficientResources, kNoThreadHint, true);
  thread.detach();
  if (future.wait_for(timeout) == std::future_status::ready) return future.get();
  return Failure(NdkStatus::kIoTimeout, "no answer for " + name.host + " in time", true);
}

}  // namespace rdmabroker::client
