// SPDX-License-Identifier: Apache-2.0

// For a broker that differs from this one in its records' version alone, as one of another day would: the environment
// says which it is.

#include <cstdlib>
#include <iostream>

#include "broker/store/format.h"

namespace rdmabroker::store {
namespace {

uint32_t FromEnvironment() {
  constexpr char kName[] = "RDMA_BROKERD_FORMAT_VERSION";
  const char* const version = std::getenv(kName);
  if (version != nullptr && std::atoi(version) > 0) return static_cast<uint32_t>(std::atoi(version));
  std::cerr << kName << ": name the version of the store's format\n";
  std::exit(1);
}

}  // namespace

const uint32_t kFormatVersion = FromEnvironment();

}  // namespace rdmabroker::store
