// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_STORE_COMMIT_MARK_H_
#define BROKER_STORE_COMMIT_MARK_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::store {

// The number of the last commit that was made, in a file of its own, whose lock is the store's.
//
// It is written after the commit and before what depends on it happens. A store has therefore that commit, or one more
// where its broker died between the two. The records' file cannot tell by itself: LMDB keeps the state before the last
// commit, too, and takes that where the page that leads to the last one is damaged. So the number has a checksum of its
// own: one that is damaged must not fit to that state.
//
// The file is mapped, so that Set takes no system call. A process that dies in Set may leave the next number with the
// checksum of the last one. That is read as the last number.
class CommitMark {
 public:
  // UNAVAILABLE where another process has it.
  static absl::StatusOr<CommitMark> Open(const std::string& path);

  // 0 in a file that is not there yet, nothing in one that Set has not written so.
  [[nodiscard]] std::optional<uint64_t> commit() const { return commit_; }
  // An error if the file has no room for the number yet: only the first call can fail.
  absl::Status Set(uint64_t commit);

 private:
  // The number and its checksum, both with the least significant byte first.
  using Content = std::array<uint64_t, 2>;
  struct Unmap {
    void operator()(Content* content) const;
  };

  CommitMark(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  static Content ContentFor(uint64_t commit);
  static std::optional<uint64_t> CommitIn(const Content& content);
  absl::Status Map();

  std::string path_;
  UniqueFd file_;
  std::unique_ptr<Content, Unmap> mapped_;  // Null before the first call of Set.
  std::optional<uint64_t> commit_ = 0;
};

}  // namespace rdmabroker::store

#endif  // BROKER_STORE_COMMIT_MARK_H_
