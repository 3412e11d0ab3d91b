// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_NOTIFIER_H_
#define BROKER_RUNTIME_NOTIFIER_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Sends messages of sd_notify(3) to the supervisor's socket, in order, through one socket that is open from the start.
// A call never waits: while the supervisor does not read, messages are queued, and a thread sends them. Messages that
// are queued at the end of the process are lost. All functions may be called from any thread.
class Notifier {
 public:
  // A process has at most 4096 descriptors kept (Supervisor::kMostKept), and may replace each of them once.
  static constexpr size_t kMostQueued = 10'000;
  // So many descriptors can be queued although the process is at its limit of open files (RLIMIT_NOFILE).
  static constexpr size_t kReserve = 2;

  // `path` is NOTIFY_SOCKET's: absolute, or abstract with "@". INVALID_ARGUMENT: it is neither, or too long.
  // RESOURCE_EXHAUSTED: the process gets no descriptor.
  static absl::StatusOr<std::unique_ptr<Notifier>> Open(absl::string_view path);
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // `fd` goes with the message and stays the caller's; -1: none. A STATUS or WATCHDOG message takes the place of a
  // queued one of its kind. RESOURCE_EXHAUSTED: the queue is full, or the process gets no thread for a message to be
  // queued. Another error: nobody listens on the socket, or the process gets no descriptor and the reserve is used up.
  absl::Status Send(const std::string& state, int fd = -1);

 private:
  struct Message {
    std::string state;
    UniqueFd fd;
  };

  Notifier(std::string address, UniqueFd socket, std::array<UniqueFd, kReserve> reserve)
      : address_(std::move(address)), socket_(std::move(socket)), reserve_(std::move(reserve)) {}
  // 0, or an errno.
  int Connect();
  int TrySend(const std::string& state, int fd);
  absl::Status Queue(const std::string& state, int fd);
  // These two hold the mutex. The first takes from the reserve where the process gets no descriptor; the other fills
  // the reserve with the number of a message's descriptor, which has been sent.
  UniqueFd Duplicate(int fd);
  void Restock(UniqueFd sent);
  void Work();

  const std::string address_;  // The bytes of sun_path.
  const UniqueFd socket_;

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::deque<Message> queue_;
  std::array<UniqueFd, kReserve> reserve_;  // Duplicates of the socket; none where a queued message has it.
  bool stopping_ = false;
  std::thread thread_;  // From the first message that is queued.
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_NOTIFIER_H_
