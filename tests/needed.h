// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_NEEDED_H_
#define TESTS_NEEDED_H_

#include <stdexcept>
#include <string>

namespace rdmabroker {

// What a test cannot go on without: a pointer, or an optional. Where it is empty an exception ends the test, which
// GoogleTest reports with these words, and the tests after it run: an assertion would end a function only, whose caller
// went on with nothing, and the process with it. Not for callbacks, nor for a thread of a test's own, which nobody
// catches it on.
template <typename Object>
Object Needed(Object object, const std::string& what) {
  if (!object) throw std::runtime_error("there is no " + what);
  return object;
}

}  // namespace rdmabroker

#endif  // TESTS_NEEDED_H_
