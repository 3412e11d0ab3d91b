// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_TESTING_SENTENCE_H_
#define BROKER_CORE_TESTING_SENTENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "broker/core/messages.h"

namespace rdmabroker {

// The words of one sentence, taken from its front. The first that is not what it should be is remembered, and nothing
// is taken any more: status() names it.
class Sentence {
 public:
  explicit Sentence(std::string_view line);

  // Takes the next words if they are these.
  bool Take(std::string_view words);
  // They must be these.
  void Expect(std::string_view words);

  // "3". `after` are the words before it, which must be there.
  uint64_t Number(std::string_view after = "");
  // The number after these words, if they are there.
  std::optional<uint64_t> OptionalNumber(std::string_view words);
  std::string Word();
  IpAddress Ip();
  SocketAddress Address(std::string_view after);
  ReadLimits Reads(std::string_view after);
  ConnectionOptions OptionalOptions();
  NdkStatus Status();
  // "hello", with \x00 for a byte; 57*"a" for many. Nothing where the word "data" is not next.
  Bytes OptionalData() { return OptionalQuoted("data"); }
  // Likewise text.
  std::string OptionalText(std::string_view words);
  ConnectionId Connection();

  bool AtEnd() const { return next_ == words_.size(); }
  // INVALID_ARGUMENT where a word was wrong, or some are left.
  absl::Status status() const;

 private:
  void Fail(std::string_view wanted);
  Bytes OptionalQuoted(std::string_view words);
  std::string Next() const { return AtEnd() ? "" : words_[next_]; }

  std::vector<std::string> words_;
  size_t next_ = 0;
  absl::Status status_;
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_TESTING_SENTENCE_H_
