// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_NDKPI_PAGE_H_
#define TESTS_CONFORMANCE_NDKPI_PAGE_H_

#include <map>
#include <string>

#include "tests/conformance/ndkpi/case.h"

namespace rdmabroker::ndkpi {

// The sentences of assertions.txt, which has one a line as "NUMBER|SENTENCE", by their numbers.
std::map<int, std::string> ParseAssertions(const std::string& text);

// docs/conformance.md, as the cases make it.
std::string ConformancePage(const std::map<int, std::string>& assertions, const Cases& cases);

}  // namespace rdmabroker::ndkpi

#endif  // TESTS_CONFORMANCE_NDKPI_PAGE_H_
