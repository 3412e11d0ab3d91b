// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_TEMPORARY_FOLDER_H_
#define TESTS_CONTROL_TEMPORARY_FOLDER_H_

#include <string>

namespace rdmabroker {

// A folder of its own with a short path, since a socket's path has at most 107 bytes; gone with its object. Where none
// can be made, the test's process ends.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // Where such folders are made from now on: not in /tmp any more, and by a short path, too.
  static void MakeIn(const std::string& place);

 private:
  std::string path_;
};

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_TEMPORARY_FOLDER_H_
