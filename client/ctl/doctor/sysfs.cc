// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/doctor/sysfs.h"

#include <algorithm>
#include <fstream>
#include <system_error>

namespace rdmabroker::ctl {

std::string FirstLine(const std::filesystem::path& file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

std::vector<std::string> NamesIn(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end(), [](const std::string& one, const std::string& other) {
    const auto number = LeadingNumber<uint64_t>(one);
    const auto other_number = LeadingNumber<uint64_t>(other);
    return number.has_value() && other_number.has_value() && number != other_number ? number < other_number
                                                                                    : one < other;
  });
  return names;
}

}  // namespace rdmabroker::ctl
