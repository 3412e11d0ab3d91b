// SPDX-License-Identifier: Apache-2.0

// Holds docs/conformance.md against the cases. `--rewrite` writes it into the source tree.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>

#include "tests/conformance/ndkpi/case.h"
#include "tests/conformance/ndkpi/page.h"
#include "tests/conformance/ndkpi/surroundings.h"

namespace rdmabroker::ndkpi {
namespace {

constexpr char kPage[] = "docs/conformance.md";
constexpr int kAssertions = 225;

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::map<int, std::string> Assertions() { return ParseAssertions(ReadFile("tests/conformance/ndkpi/assertions.txt")); }

TEST(ConformancePage, IsAsTheCasesMakeIt) {
  EXPECT_TRUE(ReadFile(kPage) == ConformancePage(Assertions(), AllCases()))
      << kPage << " is stale; run: bazel run //tests/conformance/ndkpi:page_test -- --rewrite";
}

TEST(ConformanceCases, EveryAssertionHasSome) {
  std::set<int> missing;
  for (const auto& [number, sentence] : Assertions()) missing.insert(number);
  ASSERT_EQ(missing.size(), static_cast<size_t>(kAssertions));
  for (const Case& one : AllCases()) {
    EXPECT_TRUE(Assertions().contains(one.assertion)) << NameOf(one) << " is of no assertion";
    missing.erase(one.assertion);
  }
  EXPECT_EQ(missing, std::set<int>());
}

TEST(ConformanceCases, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const Case& one : AllCases()) {
    EXPECT_TRUE(names.insert(NameOf(one)).second) << NameOf(one);
    EXPECT_EQ(NameOf(one).find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"),
              std::string::npos)
        << NameOf(one);
  }
}

TEST(ConformanceCases, SayWhatIsInTheirSteadOnAdaptersThatThereAre) {
  for (const Case& one : AllCases()) {
    for (const Lack& lack : one.lacks) {
      EXPECT_THAT(Adapters(), testing::Contains(lack.adapter)) << NameOf(one);
      EXPECT_NE(lack.instead, "") << NameOf(one);
      EXPECT_FALSE(one.core_only) << NameOf(one) << " reaches no adapter that could lack something";
    }
  }
}

TEST(ConformancePage, TellsWhatAnAdapterLacksFromWhatItShows) {
  const Cases cases = {{1, "One", {}, {}, true},
                       {2, "One", {}, {}, false, {{"siw", "something else"}}},
                       {2, "Two", {}},
                       {3, "One", {}, {}, false, {{"siw", "something else"}}}};
  const std::string page = ConformancePage({{1, "a."}, {2, "b|c."}, {3, "d."}, {4, "e."}}, cases);
  EXPECT_THAT(page, testing::HasSubstr("| 1 | a. | core | core | core | core |\n"
                                       "| 2 | b\\|c. | yes, 2 | yes, 2 | yes, 2 | yes [1] |\n"
                                       "| 3 | d. | yes | yes | yes | [1] |\n"
                                       "| 4 | e. | open | open | open | open |\n\n1. something else\n"));
}

int Rewrite() {
  // Where `bazel run` has been called.
  const char* const folder = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (folder == nullptr) {
    std::cerr << "--rewrite: run it by bazel run\n";
    return 1;
  }
  std::ofstream(std::string(folder) + "/" + kPage) << ConformancePage(Assertions(), AllCases());
  return 0;
}

}  // namespace
}  // namespace rdmabroker::ndkpi

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--rewrite") return rdmabroker::ndkpi::Rewrite();
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
