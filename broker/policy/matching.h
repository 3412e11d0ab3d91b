// SPDX-License-Identifier: Apache-2.0

// What a rule's conditions are made of.

#ifndef BROKER_POLICY_MATCHING_H_
#define BROKER_POLICY_MATCHING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// Both ends included.
struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;

  bool operator==(const PortRange&) const = default;

  // "4420" or "49152-65535", from 1 to 65535. Nothing for anything else, such as one whose ends are reversed.
  static std::optional<PortRange> Parse(std::string_view text);
};

// Ports, as ranges that neither overlap nor touch.
class PortSet {
 public:
  PortSet() = default;
  explicit PortSet(std::vector<PortRange> ranges);

  bool empty() const { return ranges_.empty(); }
  // All of them, and one at least.
  bool Covers(PortRange ports) const;
  bool CoversAllOf(const PortSet& ports) const;
  bool Overlaps(PortRange ports) const;

  bool operator==(const PortSet&) const = default;

 private:
  std::vector<PortRange> ranges_;  // In order.
};

// An IP prefix, "10.0.0.0/8" or "2001:db8::/32".
struct Prefix {
  IpAddress address;
  uint8_t length = 0;  // In bits.

  bool operator==(const Prefix&) const = default;

  // What is wrong with `text`, for a person, or nothing; then `*prefix` is set.
  static std::string Parse(const std::string& text, Prefix* prefix);

  // Whatever the address's scope.
  bool Contains(const IpAddress& other) const;
  std::string ToString() const;
};

// Whether `text` fits `pattern`, in which each * stands for any letters, or none.
bool MatchesGlob(std::string_view pattern, std::string_view text);

}  // namespace rdmabroker

#endif  // BROKER_POLICY_MATCHING_H_
