// SPDX-License-Identifier: Apache-2.0

#include "broker/core/testing/sentence.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

// Words end at blanks, and shed the comma or colon at their end. What is between quotes is one word.
std::vector<std::string> WordsOf(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  for (const char letter : line) {
    if (letter == '"') quoted = !quoted;
    if (letter != ' ' || quoted) {
      word += letter;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  for (std::string& each : words) {
    if (each.size() > 1 && (each.back() == ',' || (each.back() == ':' && each[each.size() - 2] != ':'))) {
      each.pop_back();
    }
  }
  return words;
}

std::optional<Bytes> Unescape(std::string_view text) {
  Bytes data;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      data.push_back(static_cast<uint8_t>(text[i]));
      continue;
    }
    const std::string digits(text.substr(i + 1, 3));
    if (digits.size() != 3 || digits[0] != 'x') return std::nullopt;
    char* end = nullptr;
    data.push_back(static_cast<uint8_t>(std::strtoul(digits.c_str() + 1, &end, 16)));
    if (*end != 0) return std::nullopt;
    i += 3;
  }
  return data;
}

}  // namespace

Sentence::Sentence(std::string_view line) : words_(WordsOf(line)) {}

bool Sentence::Take(std::string_view words) {
  const std::vector<std::string> wanted = WordsOf(words);
  if (words_.size() - next_ < wanted.size()) return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (words_[next_ + i] != wanted[i]) return false;
  }
  next_ += wanted.size();
  return true;
}

void Sentence::Expect(std::string_view words) {
  if (!Take(words)) Fail(words);
}

uint64_t Sentence::Number(std::string_view after) {
  if (!after.empty()) Expect(after);
  uint64_t number = 0;
  if (!absl::SimpleAtoi(Next(), &number)) {
    Fail("a number");
  } else {
    ++next_;
  }
  return number;
}

std::optional<uint64_t> Sentence::OptionalNumber(std::string_view words) {
  if (!Take(words)) return std::nullopt;
  return Number();
}

std::string Sentence::Word() {
  if (AtEnd()) Fail("a word");
  return AtEnd() ? "" : words_[next_++];
}

IpAddress Sentence::Ip() {
  const std::optional<IpAddress> ip = IpAddress::Parse(Next());
  if (ip) {
    ++next_;
  } else {
    Fail("an IP address");
  }
  return ip.value_or(IpAddress());
}

SocketAddress Sentence::Address(std::string_view after) {
  Expect(after);
  const std::optional<SocketAddress> address = SocketAddress::Parse(Next());
  if (address) {
    ++next_;
  } else {
    Fail("an address and a port");
  }
  return address.value_or(SocketAddress());
}

ReadLimits Sentence::Reads(std::string_view after) {
  Expect(after);
  const std::string word = Next();
  const size_t slash = word.find('/');
  ReadLimits limits;
  if (slash == std::string::npos || !absl::SimpleAtoi(word.substr(0, slash), &limits.inbound) ||
      !absl::SimpleAtoi(word.substr(slash + 1), &limits.outbound)) {
    Fail("two numbers with a slash between them");
  } else {
    ++next_;
  }
  return limits;
}

ConnectionOptions Sentence::OptionalOptions() {
  ConnectionOptions options;
  const auto retries = OptionalNumber("tried");
  if (!retries) return options;
  options.rnr_retry_count = static_cast<uint32_t>(*retries);
  Expect("times");
  return options;
}

NdkStatus Sentence::Status() {
  const std::optional<NdkStatus> status = StatusFromName(Next());
  if (status) {
    ++next_;
  } else {
    Fail("an NDK status");
  }
  return status.value_or(NdkStatus::kSuccess);
}

std::string Sentence::OptionalText(std::string_view words) {
  const Bytes text = OptionalQuoted(words);
  return {text.begin(), text.end()};
}

Bytes Sentence::OptionalQuoted(std::string_view words) {
  if (!Take(words)) return {};
  const std::string word = Next();
  const size_t open = word.find('"');
  uint32_t count = 1;
  const bool many = open != std::string::npos && open > 0;
  const bool counted = !many || (word[open - 1] == '*' && absl::SimpleAtoi(word.substr(0, open - 1), &count));
  const bool quoted = open != std::string::npos && word.size() > open + 1 && word.back() == '"';
  const std::optional<Bytes> once =
      quoted ? Unescape(std::string_view(word).substr(open + 1, word.size() - open - 2)) : std::nullopt;
  // Longer than any technology's private data, and bounded.
  constexpr uint32_t kMost = 4096;
  if (!counted || !once || count > kMost) {
    Fail("data between quotes");
    return {};
  }
  ++next_;
  Bytes data;
  for (uint32_t i = 0; i < count; ++i) data.insert(data.end(), once->begin(), once->end());
  return data;
}

ConnectionId Sentence::Connection() {
  if (const auto number = OptionalNumber("connection")) return ConnectionId(*number);
  const uint64_t counter = Number("incoming");
  const uint64_t device = OptionalNumber("of device").value_or(1);
  return IncomingConnection(DeviceId(device), counter);
}

absl::Status Sentence::status() const {
  if (!status_.ok() || AtEnd()) return status_;
  return absl::InvalidArgumentError(absl::StrCat("\"", Next(), "\" is not understood here"));
}

void Sentence::Fail(std::string_view wanted) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrCat("\"", Next(), "\": expected ", std::string(wanted), AtEnd() ? ", not the end" : ""));
}

}  // namespace rdmabroker
