// SPDX-License-Identifier: Apache-2.0

#include "broker/control/session_features.h"

#include <algorithm>
#include <cstddef>

namespace rdmabroker {
namespace {

// session.proto, OpenSession.features.
constexpr int kMaxFeatures = 64;
constexpr size_t kMaxFeatureName = 63;

struct Feature {
  const char* name;
  bool Features::*named;
};
constexpr Feature kFeatures[] = {
    {"listener-address-events", &Features::listener_address_events},
    {"endpoint-address-events", &Features::endpoint_address_events},
    {"requests-on-stream", &Features::requests_on_stream},
};

Outcome Malformed(const std::string& hint) { return {.status = NdkStatus::kInvalidParameter, .hint = hint}; }

}  // namespace

std::variant<Features, Outcome> ReadFeatures(uint32_t api_minor,
                                             const google::protobuf::RepeatedPtrField<std::string>& names) {
  if (api_minor == 0) return Malformed("api_minor: missing; 1 is the first");
  if (names.size() > kMaxFeatures) return Malformed("features: more than 64 names");
  const bool fits =
      std::all_of(names.begin(), names.end(), [](const std::string& name) { return name.size() <= kMaxFeatureName; });
  if (!fits) return Malformed("features: a name of more than 63 bytes");
  Features features;
  for (const Feature& known : kFeatures) {
    features.*known.named = std::find(names.begin(), names.end(), known.name) != names.end();
  }
  return features;
}

AddressNews NewsFor(const Features& features) {
  if (features.endpoint_address_events) return AddressNews::kOfAll;
  return features.listener_address_events ? AddressNews::kOfListeners : AddressNews::kNone;
}

void ToProto(const Features& features, v1::SessionOpened* opened) {
  for (const Feature& known : kFeatures) {
    if (features.*known.named) opened->add_features(known.name);
  }
}

}  // namespace rdmabroker
