// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_DOCTOR_SYSFS_H_
#define CLIENT_CTL_DOCTOR_SYSFS_H_

#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdmabroker::ctl {

// The file's first line; empty where it cannot be read. Some of sysfs's files cannot, depending on their object.
std::string FirstLine(const std::filesystem::path& file);

// The names in a folder, numbers by value; none where it cannot be read.
std::vector<std::string> NamesIn(const std::filesystem::path& folder);

// A number that the text begins with.
template <typename Number>
std::optional<Number> LeadingNumber(std::string_view text, int base = 10) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return std::nullopt;
  return number;
}

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_DOCTOR_SYSFS_H_
