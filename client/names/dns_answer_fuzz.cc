// SPDX-License-Identifier: Apache-2.0

// Answers of a name server. The first byte chooses what was asked for; then comes the answer.

#include "client/names/dns_answer.h"

#include <arpa/nameser.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "client/names/source.h"
#include "tests/fuzz.h"

namespace rdmabroker::client {
namespace {

constexpr uint32_t kLife = 86'400;
constexpr uint16_t kPort = 4420;

// Reads the answer as `Read` does, and one byte less and one byte more of it, which are no answers.
template <typename Value, typename Read>
std::vector<Value> ReadWhole(DnsBytes answer, const std::vector<Value>& before, const Read& read) {
  std::vector<Value> values = before;
  uint32_t life = kLife;
  const NdkStatus status = read(answer, &values, &life);
  Require(status == NdkStatus::kSuccess || status == NdkStatus::kUnsuccessful, "an answer is malformed or is not");
  Require(life <= kLife, "an answer lives no longer than before");
  Require(std::equal(before.begin(), before.end(), values.begin()), "an answer takes nothing away");
  if (status != NdkStatus::kSuccess) {
    Require(values == before && life == kLife, "a malformed answer changes nothing");
    return values;
  }
  std::vector<unsigned char> longer(answer.begin(), answer.end());
  longer.push_back(0);
  for (const DnsBytes other : {answer.first(answer.size() - 1), DnsBytes(longer)}) {
    std::vector<Value> none;
    Require(read(other, &none, &life) != NdkStatus::kSuccess && none.empty(), "an answer ends where it says");
  }
  return values;
}

void CheckAddresses(DnsBytes answer, IpFamily family) {
  // Of another host, as where a service has several.
  const std::vector<SocketAddress> before(2, *SocketAddress::Parse("127.0.0.1:1"));
  const auto addresses = ReadWhole(answer, before, [family](DnsBytes bytes, auto* values, uint32_t* life) {
    return ReadAddresses(bytes, family, kPort, values, life);
  });
  Require(addresses.size() <= kMostAddresses, "there are no more addresses than anybody would try");
  for (size_t i = before.size(); i < addresses.size(); ++i) {
    const SocketAddress& address = addresses[i];
    Require(IsUsable(address) && address.ip.family == family && address.port == kPort, "an address can be tried");
    const size_t length = family == IpFamily::kIpv4 ? 4 : 16;
    const auto* const bytes = address.ip.bytes.data();
    Require(std::search(answer.begin(), answer.end(), bytes, bytes + length) != answer.end(), "the answer has it");
  }
}

void CheckServices(DnsBytes answer) {
  const auto services = ReadWhole(answer, std::vector<Service>(), &ReadServices);
  for (const Service& service : services) {
    Require(service.port != 0 && !service.host.empty(), "a service is somewhere");
    std::array<unsigned char, NS_MAXCDNAME> wire;
    Require(::ns_name_pton((service.host + ".").c_str(), wire.data(), wire.size()) == 1,
            "a service's host can be asked for, without the search list");
  }
  std::vector<Service> ordered = services;
  Order(&ordered);
  Require(std::is_permutation(ordered.begin(), ordered.end(), services.begin(), services.end()), "none gets lost");
  Require(std::is_sorted(ordered.begin(), ordered.end(),
                         [](const Service& a, const Service& b) { return a.priority < b.priority; }),
          "priorities count");
}

}  // namespace
}  // namespace rdmabroker::client

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  using namespace rdmabroker::client;
  FuzzInput input(data, size);
  const uint8_t asked = input.Byte() % 3;
  const DnsBytes answer = input.Rest();
  if (asked == 2) {
    CheckServices(answer);
  } else {
    CheckAddresses(answer, asked == 0 ? IpFamily::kIpv4 : IpFamily::kIpv6);
  }
  return 0;
}
