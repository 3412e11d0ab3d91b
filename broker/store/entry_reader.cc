// SPDX-License-Identifier: Apache-2.0

#include "broker/store/entry_reader.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::store {
namespace {

// Before each key and value that the child sends. The last one has no key, and LMDB's error in the place of the size.
struct Frame {
  uint32_t key_size = 0;
  uint32_t value_size = 0;
};

// The largest store takes seconds; whoever takes longer goes round in circles.
constexpr rlim_t kCpuSeconds = 60;
// Of these the child dies by its own doing, which is the file's. Any other signal comes from outside, as SIGKILL does
// where memory is short, and says nothing of the file.
constexpr int kOwnDeaths[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU, SIGPIPE};

// --- The child ---

// A lack of memory would look like a damaged file, so the supervisor's bound for the broker does not hold here.
void RaiseMemoryLimit() {
  rlimit data = {};
  if (::getrlimit(RLIMIT_DATA, &data) != 0) return;
  data.rlim_cur = data.rlim_max;
  ::setrlimit(RLIMIT_DATA, &data);
}

// Dies quietly of whatever it dies of: without a core and without the handlers of the broker or a sanitizer.
void PrepareToDie() {
  for (const int signal : kOwnDeaths) std::signal(signal, SIG_DFL);
  const rlimit no_core = {};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // At the first limit the kernel sends SIGXCPU; where the second is the same, SIGKILL, as others do.
  const rlimit cpu = {kCpuSeconds, kCpuSeconds + 1};
  ::setrlimit(RLIMIT_CPU, &cpu);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

class Sender {
 public:
  explicit Sender(int pipe) : pipe_(pipe) {}

  void Send(const Frame& frame, const MDB_val& key, const MDB_val& value) {
    Append(&frame, sizeof frame);
    Append(key.mv_data, key.mv_size);
    Append(value.mv_data, value.mv_size);
  }
  void Flush() {
    size_t sent = 0;
    while (sent < buffer_.size()) {
      const ssize_t size = ::write(pipe_, buffer_.data() + sent, buffer_.size() - sent);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) ::_exit(1);
      sent += static_cast<size_t>(size);
    }
    buffer_.clear();
  }

 private:
  void Append(const void* bytes, size_t size) {
    constexpr size_t kPortion = 65536;
    buffer_.append(static_cast<const char*>(bytes), size);
    if (buffer_.size() >= kPortion) Flush();
  }

  const int pipe_;
  std::string buffer_;
};

// Sends all entries. Returns LMDB's error, MDB_NOTFOUND after the last one.
int SendEntries(const char* path, Sender& sender) {
  MDB_env* env = nullptr;
  MDB_txn* transaction = nullptr;
  MDB_dbi database = 0;
  MDB_cursor* cursor = nullptr;
  int error = ::mdb_env_create(&env);
  if (error == MDB_SUCCESS) error = ::mdb_env_set_assert(env, [](MDB_env*, const char*) { ::_exit(1); });
  if (error == MDB_SUCCESS) error = ::mdb_env_open(env, path, MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK, 0);
  if (error == MDB_SUCCESS) error = ::mdb_txn_begin(env, nullptr, MDB_RDONLY, &transaction);
  if (error == MDB_SUCCESS) error = ::mdb_dbi_open(transaction, nullptr, 0, &database);
  if (error == MDB_SUCCESS) error = ::mdb_cursor_open(transaction, database, &cursor);
  while (error == MDB_SUCCESS) {
    MDB_val key = {};
    MDB_val value = {};
    error = ::mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    if (error != MDB_SUCCESS) break;
    if (key.mv_size == 0 || value.mv_size > UINT32_MAX) return MDB_CORRUPTED;
    sender.Send({static_cast<uint32_t>(key.mv_size), static_cast<uint32_t>(value.mv_size)}, key, value);
  }
  return error;
}

[[noreturn]] void RunChild(const char* path, int pipe) {
  PrepareToDie();
  RaiseMemoryLimit();
  Sender sender(pipe);
  const int error = SendEntries(path, sender);
  sender.Send({0, static_cast<uint32_t>(error)}, {}, {});
  sender.Flush();
  ::_exit(0);
}

// --- The parent ---

// Children's ends are told while this lives. Whoever started this process may have had it ignore SIGCHLD, and then the
// kernel forgets them.
class HearsOfChildren {
 public:
  HearsOfChildren() {
    const struct sigaction plain = {};
    ::sigaction(SIGCHLD, &plain, &former_);
  }
  ~HearsOfChildren() { ::sigaction(SIGCHLD, &former_, nullptr); }
  HearsOfChildren(const HearsOfChildren&) = delete;
  HearsOfChildren& operator=(const HearsOfChildren&) = delete;

 private:
  struct sigaction former_ = {};
};

// All that comes, or a byte more than `most`. The child closes the pipe when it ends, or dies of its CPU seconds.
std::string ReceiveAll(int pipe, size_t most) {
  std::string all;
  char portion[65536];
  while (all.size() <= most) {
    const ssize_t size = ::read(pipe, portion, sizeof portion);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    all.append(portion, static_cast<size_t>(size));
  }
  return all;
}

// Returns the signal from outside that has ended the child, and 0 where none has.
int AwaitEnd(pid_t child, bool sent_too_much) {
  // It might go on for ever. One that has closed the pipe ends, unless it hangs in a file system, which would hang this
  // process's store as well.
  if (sent_too_much) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (sent_too_much || !WIFSIGNALED(status)) return 0;
  const int signal = WTERMSIG(status);
  return std::find(std::begin(kOwnDeaths), std::end(kOwnDeaths), signal) == std::end(kOwnDeaths) ? signal : 0;
}

absl::Status Damaged(const std::string& path, const std::string& why) {
  return absl::DataLossError(absl::StrCat(path, ": damaged: ", why));
}

absl::Status Unreadable(const std::string& path, const std::string& why) {
  return absl::InternalError(absl::StrCat(path, ": cannot be read: ", why));
}

// Not ENOMEM, which mmap gives for a damaged size of the map, too: no start would get past that.
bool LacksDescriptors(int error) { return error == EMFILE || error == ENFILE; }

// `signal`: AwaitEnd's.
absl::Status TakeAll(const std::string& path, std::string_view all, int signal,
                     absl::FunctionRef<absl::Status(std::string_view key, std::string_view value)> take) {
  while (true) {
    Frame frame;
    if (all.size() < sizeof frame) break;
    std::memcpy(&frame, all.data(), sizeof frame);
    all.remove_prefix(sizeof frame);
    if (frame.key_size == 0) {
      const int error = static_cast<int>(frame.value_size);
      if (error == MDB_NOTFOUND) return absl::OkStatus();
      const std::string why = absl::StrCat("LMDB: ", ::mdb_strerror(error));
      return LacksDescriptors(error) ? Unreadable(path, why + "; raise the limit on open files") : Damaged(path, why);
    }
    if (all.size() < size_t{frame.key_size} + frame.value_size) break;
    const absl::Status taken = take(all.substr(0, frame.key_size), all.substr(frame.key_size, frame.value_size));
    if (!taken.ok()) return absl::Status(taken.code(), absl::StrCat(path, ": ", taken.message()));
    all.remove_prefix(size_t{frame.key_size} + frame.value_size);
  }
  if (signal == 0) return Damaged(path, "LMDB cannot read it to its end");
  return Unreadable(path, absl::StrCat("the process that reads it was ended from outside, by signal ", signal,
                                       "; where memory is short the kernel does so: give the broker more"));
}

absl::Status SystemError(const std::string& path, const char* what) {
  const int error = errno;
  const std::string message = absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::InternalError(message);
}

}  // namespace

absl::Status ReadEntries(const std::string& path,
                         absl::FunctionRef<absl::Status(std::string_view key, std::string_view value)> take) {
  // Whether it can be read at all is not for the child to say, most of whose failures are a damaged file's.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  if (!file || ::fstat(file.get(), &status) != 0) return SystemError(path, "cannot be read");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return SystemError(path, "cannot be read: pipe");
  UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const HearsOfChildren hears;
  const pid_t child = ::fork();
  if (child < 0) return SystemError(path, "cannot be read: fork");
  if (child == 0) RunChild(path.c_str(), to.get());
  to.Reset();
  // Each entry lies in the file once, with as many bytes beside it as a frame has.
  const size_t most = static_cast<size_t>(status.st_size) + sizeof(Frame);
  const std::string all = ReceiveAll(from.get(), most);
  from.Reset();
  return TakeAll(path, all, AwaitEnd(child, all.size() > most), take);
}

}  // namespace rdmabroker::store
