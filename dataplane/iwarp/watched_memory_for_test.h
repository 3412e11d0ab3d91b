// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WATCHED_MEMORY_FOR_TEST_H_
#define DATAPLANE_IWARP_WATCHED_MEMORY_FOR_TEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/adapter.h"
#include "tests/fuzz.h"

namespace rdmabroker::iwarp {

inline constexpr size_t kRegionSize = 16 * 1024;  // More than is read straight from the socket (receiver.cc).
inline constexpr uint8_t kShown = 0x40;           // Fills what a peer may read, and all that goes out to it.
inline constexpr uint8_t kSecret = 0x80;          // Fills all other memory.

// A place in a region, from the input.
inline size_t TakeOffset(FuzzInput* input) { return input->Whole<uint16_t>() % kRegionSize; }
inline size_t TakeLength(FuzzInput* input, size_t offset, size_t most) {
  return std::min<size_t>(input->Whole<uint16_t>() % (most + 1), kRegionSize - offset);
}

// A region of kRegionSize bytes, and which of them may have changed, as none around them may.
class WatchedMemory {
 public:
  WatchedMemory(ProtectionDomain* domain, MrFlags flags, uint8_t content)
      : content_(content), bytes_(kMargin + kRegionSize + kMargin) {
    region_ = domain->CreateMemoryRegion(false).object;
    Refill();
    Require(region_->Register(&bytes_[kMargin], kRegionSize, flags) == NdkStatus::kSuccess, "a region is registered");
    stag_ = static_cast<uint32_t>(region_->remote_token());
  }

  void Refill() {
    bytes_.assign(bytes_.size(), content_);
    LetNothingChange();
  }
  void Fill(size_t offset, size_t length, uint8_t content) {
    std::fill_n(&bytes_[kMargin + offset], length, content);
    std::fill_n(&expected_[kMargin + offset], length, content);
  }
  void LetChange(size_t offset, size_t length) { std::fill_n(&may_change_[kMargin + offset], length, 1); }
  void LetNothingChange() {
    expected_ = bytes_;
    may_change_.assign(bytes_.size(), 0);
  }
  void Check() const {
    if (bytes_ == expected_) return;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      Require(bytes_[i] == expected_[i] || may_change_[i] != 0, "nothing changes that the peer may not change");
    }
  }

  uint8_t* at(size_t offset) { return &bytes_[kMargin + offset]; }
  uint64_t address(size_t offset) { return reinterpret_cast<uint64_t>(at(offset)); }
  Sge sge(size_t offset, size_t length) { return {at(offset), static_cast<uint32_t>(length), region_->local_token()}; }
  // Good while the region is registered.
  uint32_t stag() const { return stag_; }
  MemoryRegion* region() { return region_; }

 private:
  static constexpr size_t kMargin = 64;  // Bytes before and behind the region.

  const uint8_t content_;
  std::vector<uint8_t> bytes_, expected_, may_change_;
  uint32_t stag_ = 0;
  MemoryRegion* region_ = nullptr;
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WATCHED_MEMORY_FOR_TEST_H_
