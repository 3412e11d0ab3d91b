// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_NAMES_DNS_ANSWER_H_
#define CLIENT_NAMES_DNS_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/values.h"
#include "dataplane/ndk/socket_address.h"

// Reads what a name server has answered, whatever its bytes are. No I/O and no threads.
namespace rdmabroker::client {

// A larger answer is refused. The C library asks for 1200 bytes over UDP; some servers send more.
inline constexpr size_t kLargestDnsAnswer = 4096;

using DnsBytes = std::span<const unsigned char>;

// An SRV record (RFC 2782).
struct Service {
  uint16_t priority = 0;
  uint16_t weight = 0;
  uint16_t port = 0;
  std::string host;

  bool operator==(const Service&) const = default;
};

// Whether the answer says that it is cut short (TC; RFC 1035, 4.1.1).
bool IsCutShort(DnsBytes answer);

// Each of the next two adds the answer's records of its kind to a vector, and lowers `*life`, in seconds, to the
// shortest time to live of the answer's records, aliases included. An answer that is cut short counts as far as it
// goes. kSuccess, also where the answer has no such record; kUnsuccessful: the answer is malformed, or cut to nothing,
// and changes nothing.

// Addresses with the port, until the vector has kMostAddresses. Leaves out those that nobody could connect to.
NdkStatus ReadAddresses(DnsBytes answer, IpFamily family, uint16_t port, std::vector<SocketAddress>* addresses,
                        uint32_t* life);
// Leaves out a record that says that there is no such service.
NdkStatus ReadServices(DnsBytes answer, std::vector<Service>* services, uint32_t* life);

// By priority; among equals at random, by their weights, so that clients spread (RFC 2782).
void Order(std::vector<Service>* services);

}  // namespace rdmabroker::client

#endif  // CLIENT_NAMES_DNS_ANSWER_H_
