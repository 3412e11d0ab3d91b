// SPDX-License-Identifier: Apache-2.0

#include "broker/control/session_features.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace rdmabroker {
namespace {

TEST(SessionFeatures, SayOfWhoseAddressesAClientHears) {
  const struct {
    std::vector<std::string> names;
    AddressNews news;
  } rows[] = {
      {{}, AddressNews::kNone},
      {{"requests-on-stream", "made-up"}, AddressNews::kNone},
      {{"listener-address-events"}, AddressNews::kOfListeners},
      {{"endpoint-address-events"}, AddressNews::kOfAll},
      {{"listener-address-events", "endpoint-address-events"}, AddressNews::kOfAll},
  };
  for (const auto& [names, news] : rows) {
    const auto features = ReadFeatures(kApiMinor, {names.begin(), names.end()});
    ASSERT_TRUE(std::holds_alternative<Features>(features));
    EXPECT_EQ(NewsFor(std::get<Features>(features)), news);
  }
}

}  // namespace
}  // namespace rdmabroker
