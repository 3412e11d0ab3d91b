// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/require.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rdmabroker::bench {

void Fail(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

}  // namespace rdmabroker::bench
