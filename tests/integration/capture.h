// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_INTEGRATION_CAPTURE_H_
#define TESTS_INTEGRATION_CAPTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Every packet that passes an interface of this thread's network namespace from its construction on. A packet is there
// before its receiver can know of it. Failing calls fail the test. Needs CAP_NET_RAW.
class Capture {
 public:
  explicit Capture(const std::string& interface = kLoopback);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Takes what has come, all of it: where the kernel had to leave something out, the test has failed.
  const std::vector<std::string>& Packets();

 private:
  static constexpr char kLoopback[] = "lo";

  UniqueFd socket_;
  uint8_t* ring_ = nullptr;  // Shared with the kernel, which fills one slot after the other.
  size_t next_ = 0;
  std::vector<std::string> packets_;  // With Ethernet headers.
};

}  // namespace rdmabroker

#endif  // TESTS_INTEGRATION_CAPTURE_H_
