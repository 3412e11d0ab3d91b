// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_STORE_FIELD_H_
#define BROKER_STORE_FIELD_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rdmabroker::store {

// A field of a stored record that is being read, by its place in the record: "outcome.listening.address.port". The
// first complaint about any of a record's fields is kept, and the others are dropped.
class Field {
 public:
  // The record itself, which outlives its fields, as each outlives those within it.
  explicit Field(absl::Status& complaint) : complaint_(complaint) {}
  Field(const Field& outer, const char* name) : complaint_(outer.complaint_), outer_(&outer), name_(name) {}
  Field(const Field& outer, const char* name, int index)
      : complaint_(outer.complaint_), outer_(&outer), name_(name), index_(index) {}

  template <typename... Parts>
  void Complain(const Parts&... parts) const {
    if (complaint_.ok()) complaint_ = absl::InvalidArgumentError(absl::StrCat(Name(), ": ", parts...));
  }

  // `value` as a narrower number, or a complaint.
  template <typename Number>
  [[nodiscard]] Number Narrow(uint64_t value) const {
    constexpr uint64_t kMost = std::numeric_limits<Number>::max();
    if (value > kMost) Complain(value, "; at most ", kMost);
    return static_cast<Number>(value);
  }

  // Fills `bytes`, an array, from a text that must be as long, or complains.
  template <typename Array>
  void Fill(const std::string& text, Array& bytes) const {
    if (text.size() != bytes.size()) return Complain(text.size(), " bytes; ", bytes.size(), " are wanted");
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(text[i]);
  }

 private:
  [[nodiscard]] std::string Name() const {
    const std::string own = index_ < 0 ? name_ : absl::StrCat(name_, "[", index_, "]");
    const std::string outer = outer_ == nullptr ? "" : outer_->Name();
    return outer.empty() ? own : absl::StrCat(outer, ".", own);
  }

  absl::Status& complaint_;
  const Field* outer_ = nullptr;
  const char* name_ = "";
  int index_ = -1;
};

}  // namespace rdmabroker::store

#endif  // BROKER_STORE_FIELD_H_
