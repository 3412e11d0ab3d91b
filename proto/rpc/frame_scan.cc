// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/frame_scan.h"

#include <algorithm>

namespace rdmabroker::rpc {

FrameScan::Step FrameScan::Next(std::string_view octets) {
  const size_t skipped = std::min(skip_, octets.size());
  skip_ -= skipped;
  octets.remove_prefix(skipped);
  const size_t read = std::min(header_.size() - size_, octets.size());
  std::copy_n(octets.begin(), read, header_.begin() + size_);
  size_ += read;
  if (size_ < header_.size()) return {.octets = skipped + read};
  const uint32_t length = uint32_t{header_[0]} << 16 | uint32_t{header_[1]} << 8 | header_[2];
  const FrameHeader frame{.length = length, .type = header_[3], .flags = header_[4]};
  skip_ = frame.length;
  size_ = 0;
  return {.octets = skipped + read, .frame = frame};
}

}  // namespace rdmabroker::rpc
