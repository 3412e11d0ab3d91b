// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_FUZZ_H_
#define TESTS_FUZZ_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

// What libFuzzer calls, and what replays a corpus where there is no libFuzzer (corpus_replay.cc): one for each program.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace rdmabroker {

// Ends the process unless `fine`, by which libFuzzer knows that it has found something.
inline void Require(bool fine, std::string_view what) {
  if (fine) [[likely]]
    return;
  std::fprintf(stderr, "This does not hold: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

// An input that is read from its beginning. Where it is at its end, numbers are 0 and pieces are empty.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : left_(data, size) {}

  [[nodiscard]] bool empty() const { return left_.empty(); }
  uint8_t Byte() {
    if (left_.empty()) return 0;
    const uint8_t byte = left_.front();
    left_ = left_.subspan(1);
    return byte;
  }
  // Big-endian.
  template <typename Number>
  Number Whole() {
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof(Number); ++i) number = number << 8 | Byte();
    return static_cast<Number>(number);
  }
  // At most `length` bytes.
  std::span<const uint8_t> Piece(size_t length) {
    const std::span<const uint8_t> piece = left_.first(std::min(length, left_.size()));
    left_ = left_.subspan(piece.size());
    return piece;
  }
  std::span<const uint8_t> Rest() { return Piece(left_.size()); }
  std::string_view RestAsText() {
    const std::span<const uint8_t> rest = Rest();
    return {reinterpret_cast<const char*>(rest.data()), rest.size()};
  }

 private:
  std::span<const uint8_t> left_;
};

}  // namespace rdmabroker

#endif  // TESTS_FUZZ_H_
