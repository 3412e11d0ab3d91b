// SPDX-License-Identifier: Apache-2.0

#include "tests/service/busy_crowd.h"

#include <iostream>

namespace rdmabroker::service {
namespace {

IpAddress Parsed(const std::string& address) {
  const auto ip = IpAddress::Parse(address);
  Require(ip.has_value(), "--address is no IP address");
  return *ip;
}

}  // namespace

BusyCrowd::BusyCrowd(const Shape& shape)
    : ip_(Parsed(shape.address)),
      chatter_(shape.connections, shape.busy),
      active_(
          shape.socket, shape.device, shape.connections, [this](NdkStatus) { chatter_.Wake(); },
          [this](size_t number) { return chatter_.ActiveEnd(number); }),
      passive_(
          shape.socket, shape.device, shape.connections, [this](NdkStatus) { chatter_.Wake(); },
          [this](size_t number) { return chatter_.PassiveEnd(number); }),
      crowd_(active_, passive_, ip_) {
  chatter_.Prepare(active_.domain(), active_.queue(), active_.queue_pairs(), true);
  chatter_.Prepare(passive_.domain(), passive_.queue(), passive_.queue_pairs(), false);
  crowd_.Establish(shape.at_once);
  chatter_.Start();
}

int BusyCrowd::Finish() {
  if (!chatter_.Stop()) Fail("messages stay without an answer");
  const size_t disconnects = active_.disconnects() + passive_.disconnects();
  const Chatter::Counts& counts = chatter_.counts();
  std::cout << counts.messages << " messages, " << counts.bad << " bad sums, " << counts.failures
            << " failed requests, " << disconnects << " disconnects; the longest wait for an answer was "
            << counts.longest_silence.count() << " ms" << std::endl;
  crowd_.Close();
  chatter_.CloseRegions();
  active_.Close();
  passive_.Close();
  return counts.messages > 0 && counts.bad == 0 && counts.failures == 0 && disconnects == 0 ? 0 : 1;
}

}  // namespace rdmabroker::service
