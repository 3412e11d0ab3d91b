// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_NDKPI_STANDSTILL_H_
#define TESTS_CONFORMANCE_NDKPI_STANDSTILL_H_

#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::ndkpi {

// As long as it lives, the fake says nothing of what it does. The other adapters go on.
class Standstill {
 public:
  explicit Standstill(World& w) : world_(w), holds_(w.on().adapter == "fake") {
    if (holds_) world_.Tell("stand");
  }
  ~Standstill() {
    if (holds_) world_.Tell("go");
  }
  Standstill(const Standstill&) = delete;
  Standstill& operator=(const Standstill&) = delete;

  // Whether this adapter does stand still.
  explicit operator bool() const { return holds_; }

 private:
  World& world_;
  const bool holds_;
};

}  // namespace rdmabroker::ndkpi

#endif  // TESTS_CONFORMANCE_NDKPI_STANDSTILL_H_
