// SPDX-License-Identifier: Apache-2.0

#include "broker/control/lasting_complaint.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rdmabroker {
namespace {

// Which of the looks, from 1 on, have something said.
std::vector<int> SaidAt(const std::vector<std::string>& looks) {
  LastingComplaint complaint;
  std::vector<int> said;
  for (size_t i = 0; i < looks.size(); ++i) {
    if (complaint.Note(looks[i])) said.push_back(static_cast<int>(i) + 1);
  }
  return said;
}

TEST(LastingComplaint, IsSaidOnceWhenASecondLookInARowHasIt) {
  const struct {
    std::vector<std::string> looks;
    std::vector<int> said;
  } rows[] = {
      {{"", "", ""}, {}},
      {{"", "key", ""}, {}},
      {{"key", "", "key", ""}, {}},
      {{"cert", "key", ""}, {}},
      {{"key", "key"}, {2}},
      {{"key", "key", "key", "key"}, {2}},
      {{"cert", "key", "key"}, {3}},
      {{"key", "key", "cert", "cert"}, {2, 4}},
      {{"key", "key", "", "key", "key"}, {2, 5}},
  };
  for (const auto& row : rows) EXPECT_EQ(SaidAt(row.looks), row.said) << testing::PrintToString(row.looks);
}

}  // namespace
}  // namespace rdmabroker
