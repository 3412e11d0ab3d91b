// SPDX-License-Identifier: Apache-2.0

// What etcd says of a name's keys, as gRPC hands it over.

#include "client/names/etcd_answer.h"

#include <algorithm>
#include <string>

#include "client/names/source.h"
#include "tests/fuzz.h"

namespace rdmabroker::client {
namespace {

constexpr const char* kName = "storage";

void CheckAddress(const SocketAddress& address, const etcd::RangeResponse& answer) {
  Require(IsUsable(address), "an address can be tried");
  Require(SocketAddress::Parse(address.ToString()) == address, "an address is written as it is read");
  const auto is_value = [&](const etcd::KeyValue& pair) { return SocketAddress::Parse(pair.value()) == address; };
  const auto value = std::find_if(answer.kvs().begin(), answer.kvs().end(), is_value);
  Require(value != answer.kvs().end(), "etcd has it");
  Require(std::all_of(value->value().begin(), value->value().end(), [](char c) { return c > ' ' && c <= '~'; }),
          "an address is text");
}

void Check(const etcd::RangeResponse& answer) {
  constexpr size_t kLongestHint = 640;
  const Resolution resolution = ReadAddresses(kName, answer);
  Require(resolution.outcome.ok() == !resolution.addresses.empty(), "success has an address");
  Require(resolution.addresses.size() <= kMostAddresses, "there are no more addresses than anybody would try");
  for (const SocketAddress& address : resolution.addresses) CheckAddress(address, answer);
  const std::string& hint = resolution.outcome.hint;
  Require(hint.empty() == resolution.outcome.ok(), "a failure says why");
  Require(
      hint.size() <= kLongestHint && std::all_of(hint.begin(), hint.end(), [](char c) { return c >= ' ' && c <= '~'; }),
      "a hint is a line of text, whatever etcd says");
}

}  // namespace
}  // namespace rdmabroker::client

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker::client;
  etcd::RangeResponse answer;
  if (answer.ParseFromArray(data, static_cast<int>(size))) Check(answer);
  return 0;
}
