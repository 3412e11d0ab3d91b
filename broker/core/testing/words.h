// SPDX-License-Identifier: Apache-2.0

// How the sentences of text.h write values.

#ifndef BROKER_CORE_TESTING_WORDS_H_
#define BROKER_CORE_TESTING_WORDS_H_

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "broker/core/messages.h"
#include "broker/core/state.h"

namespace rdmabroker {

// "hello", with \x00 for what is not printable; 57*"a" for more than sixteen equal bytes.
std::string DataText(const Bytes& data);

// Returns an empty text for the defaults.
inline std::string WithOptions(const ConnectionOptions& options) {
  if (options == ConnectionOptions()) return {};
  return absl::StrCat(", tried ", options.rnr_retry_count, " times");
}
// "8/2": inbound, then outbound.
inline std::string ReadsText(const ReadLimits& limits) { return absl::StrCat(limits.inbound, "/", limits.outbound); }

// "listener 7".
inline std::string NameOf(const ObjectId& object) {
  static constexpr const char* kKinds[] = {"adapter ", "listener ", "shared endpoint ", "reservation ", "connector "};
  return std::visit([&](auto id) { return absl::StrCat(kKinds[object.index()], id.value()); }, object);
}

inline ObjectId ObjectOf(const AddressHolder& holder) {
  return std::visit([](auto id) -> ObjectId { return id; }, holder);
}

// "connection 3"; "incoming 2" for the second that device 1 reported, "incoming 2 of device 4" for another's.
std::string ConnectionText(ConnectionId connection);

// ", data "hello"", or nothing where there is none.
inline std::string WithData(const Bytes& data) { return data.empty() ? "" : ", data " + DataText(data); }

// ", since "the cable is out"", or nothing where there is no text.
inline std::string WithQuoted(const char* words, const std::string& text) {
  return text.empty() ? "" : absl::StrCat(", ", words, " ", DataText({text.begin(), text.end()}));
}

inline std::string StatusText(NdkStatus status) { return std::string(StatusName(status)); }

inline std::string WithError(uint32_t provider_error) {
  return provider_error == 0 ? "" : absl::StrCat(", error ", provider_error);
}

// A secret that tests use is one byte again and again; the byte stands for it.
template <typename Secret>
Secret SecretOf(uint8_t byte) {
  Secret secret;
  secret.fill(byte);
  return secret;
}

}  // namespace rdmabroker

#endif  // BROKER_CORE_TESTING_WORDS_H_
