// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_REQUIRE_H_
#define TESTS_BENCH_REQUIRE_H_

#include <cerrno>
#include <string>

namespace rdmabroker::bench {

// Ends the process with `what` and errno's text.
[[noreturn]] void Fail(const std::string& what);

// Where what a benchmark needs is not so.
inline void Require(bool fine, const char* what) {
  if (!fine) [[unlikely]]
    Fail(what);
}
inline void Require(bool fine, const std::string& what) { Require(fine, what.c_str()); }

// Of calls that return 0 or an errno.
inline void RequireNoError(int error, const char* call) {
  if (error == 0) [[likely]]
    return;
  errno = error;
  Fail(call);
}

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_REQUIRE_H_
