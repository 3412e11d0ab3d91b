// SPDX-License-Identifier: Apache-2.0

// What the kernel says of its RDMA resources, behind four bytes for the number of the queue pair that is looked for.

#include "dataplane/verbs/device/rdma_message.h"

#include <algorithm>
#include <vector>

#include "tests/fuzz.h"

namespace rdmabroker::verbs {
namespace {

// The least that says all of one id: an attribute of a table that has its queue pair's number and its state.
constexpr size_t kShortestId = 4 + 8 + 5;

// In memory of its own, aligned, so that a sanitizer sees a read behind it.
using Message = std::vector<char>;

bool Has(const Message& message, const char* bytes, size_t length) {
  return std::search(message.begin(), message.end(), bytes, bytes + length) != message.end();
}
// As the kernel writes it. 0 stands for what is not said, too.
bool HasNumber(const Message& message, uint32_t number) {
  return number == 0 || Has(message, reinterpret_cast<const char*>(&number), sizeof number);
}

void CheckConnectionIds(const Message& message) {
  std::vector<ConnectionId> ids;
  ParseConnectionIds(message.data(), static_cast<int>(message.size()), &ids);
  Require(ids.size() * kShortestId <= message.size(), "each id has a part of the message");
  for (const ConnectionId& id : ids) {
    Require(id.queue_pair != 0, "an id has a queue pair");
    Require(HasNumber(message, id.number) && HasNumber(message, id.queue_pair), "the message has an id's numbers");
  }
}

void CheckQueuePairs(const Message& message, uint32_t number) {
  QueuePairMaker maker;
  ParseQueuePairs(message.data(), static_cast<int>(message.size()), number, &maker);
  if (maker.error == 0) {
    Require(HasNumber(message, number), "the message has a queue pair's number");
    Require(HasNumber(message, static_cast<uint32_t>(maker.thread)), "the message has a maker's number");
  } else {
    Require(maker.error == ENOENT && maker.thread == 0 && !maker.kernel && !maker.failed, "nothing is told of none");
  }
}

void CheckDevice(const Message& message) {
  const DeviceMessage device = ParseDevice(message.data(), static_cast<int>(message.size()));
  if (device.index) Require(HasNumber(message, *device.index), "the message has a device's index");
  if (!device.name) return;
  Require(Has(message, device.name->data(), device.name->size()), "the message has a device's name");
  Require(device.name->find('\0') == std::string::npos, "a name ends at its end");
}

}  // namespace
}  // namespace rdmabroker::verbs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  FuzzInput input(data, size);
  const auto number = input.Whole<uint32_t>();
  const std::span<const uint8_t> rest = input.Rest();
  const verbs::Message message(rest.begin(), rest.end());
  verbs::CheckConnectionIds(message);
  verbs::CheckQueuePairs(message, number);
  verbs::CheckDevice(message);
  return 0;
}
