// SPDX-License-Identifier: Apache-2.0

#include "broker/policy/matching.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

// Of digits alone, without a sign, a blank or a zero in front.
std::optional<uint32_t> ParseNumber(std::string_view text, uint32_t most) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && (text.size() == 1 || text[0] != '0');
  if (!whole || number > most) return std::nullopt;
  return number;
}

std::optional<uint16_t> ParsePort(std::string_view text) {
  const auto port = ParseNumber(text, 65535);
  if (!port || *port == 0) return std::nullopt;
  return static_cast<uint16_t>(*port);
}

// The address with all bits after the first `length` cleared.
IpAddress Masked(IpAddress ip, size_t length) {
  for (size_t i = 0; i < ip.bytes.size(); ++i) {
    const size_t bits = std::min<size_t>(length - std::min(length, i * 8), 8);
    ip.bytes[i] = static_cast<uint8_t>(ip.bytes[i] & ~(0xFFU >> bits));
  }
  return ip;
}

}  // namespace

std::optional<PortRange> PortRange::Parse(std::string_view text) {
  const size_t dash = text.find('-');
  const auto first = ParsePort(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : ParsePort(text.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return PortRange{*first, *last};
}

PortSet::PortSet(std::vector<PortRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](PortRange one, PortRange other) { return one.first < other.first; });
  for (const PortRange range : ranges) {
    // As numbers of more bits: 65535 has no successor.
    if (!ranges_.empty() && uint32_t{range.first} <= uint32_t{ranges_.back().last} + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

bool PortSet::Covers(PortRange ports) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](PortRange range) { return range.first <= ports.first && ports.last <= range.last; });
}

bool PortSet::CoversAllOf(const PortSet& ports) const {
  // Ranges do not touch, so that no two of them cover one together.
  return std::all_of(ports.ranges_.begin(), ports.ranges_.end(), [&](PortRange range) { return Covers(range); });
}

bool PortSet::Overlaps(PortRange ports) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](PortRange range) { return range.first <= ports.last && ports.first <= range.last; });
}

std::string Prefix::Parse(const std::string& text, Prefix* prefix) {
  const size_t slash = text.find('/');
  if (text.find('%') != std::string::npos) {
    return absl::StrCat("\"", text,
                        "\": a prefix is of all interfaces; leave %... out, and name an adapter by adapters");
  }
  const auto ip = IpAddress::Parse(text.substr(0, slash));
  if (!ip || slash == std::string::npos) {
    return absl::StrCat("\"", text, "\" is no CIDR prefix; write one as 10.0.0.0/8, 10.0.0.9/32 or 2001:db8::/32");
  }
  const uint32_t most = ip->family == IpFamily::kIpv4 ? 32 : 128;
  const auto length = ParseNumber(std::string_view(text).substr(slash + 1), most);
  if (!length) return absl::StrCat("\"", text, "\": the length of a prefix is from 0 to ", most);
  const IpAddress masked = Masked(*ip, *length);
  if (masked != *ip) {
    return absl::StrCat("\"", text, "\": bits are set after the first ", *length, "; did you mean ", masked.ToString(),
                        "/", *length, " or ", ip->ToString(), "/", most, "?");
  }
  if (ip->IsIpv4Mapped() && *length >= 96) {
    return absl::StrCat("\"", text, "\": no destination is an IPv4-mapped address; write the IPv4 prefix");
  }
  *prefix = {*ip, static_cast<uint8_t>(*length)};
  return "";
}

bool Prefix::Contains(const IpAddress& other) const {
  return other.family == address.family && Masked(other, length).bytes == address.bytes;
}

std::string Prefix::ToString() const { return absl::StrCat(address.ToString(), "/", length); }

bool MatchesGlob(std::string_view pattern, std::string_view text) {
  // One step back, to the last *, is enough: what an earlier one could do, the last one can.
  size_t at = 0;
  size_t after_star = std::string_view::npos;
  size_t swallowed = 0;
  for (size_t i = 0; i < text.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      after_star = ++at;
      swallowed = i;
    } else if (at < pattern.size() && pattern[at] == text[i]) {
      ++at;
      ++i;
    } else if (after_star != std::string_view::npos) {
      at = after_star;
      i = ++swallowed;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

}  // namespace rdmabroker
