// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_TESTING_STAND_IN_DEVICE_H_
#define DATAPLANE_VERBS_TESTING_STAND_IN_DEVICE_H_

#include <infiniband/verbs.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dataplane/verbs/testing/stand_in.h"

// What the parts of the stand-in share. Objects are libibverbs' structures with what the device itself knows of them;
// callers may change the fields of the former only.
namespace rdmabroker::verbs {

using RetryClock = std::chrono::steady_clock;

inline constexpr int kMostCqEntries = 16'384;
inline constexpr uint32_t kMostRequests = 4096;
inline constexpr uint32_t kMostSges = 16;
inline constexpr uint32_t kMostInlineBytes = 256;

// Events that were handed out, and how many of them have been acknowledged. Who destroys an object waits for these.
struct Handed {
  uint64_t out = 0;
  uint64_t acknowledged = 0;
};

struct StandInContext : verbs_context {
  std::deque<ibv_async_event> events;
  std::thread retries;  // Gives up the sends that have waited too long. There is none before the first that waits.
  bool closing = false;
};

struct StandInChannel : ibv_comp_channel {
  std::deque<ibv_cq*> events;
};

struct StandInDomain : ibv_pd {
  size_t users = 0;
};

struct StandInRegion : ibv_mr {
  unsigned int access = 0;
  size_t windows = 0;  // Bound to it.
};

struct StandInPair;

struct StandInWindow : ibv_mw {
  uint32_t key = 0;                 // The device's own; the structure's is the caller's to change.
  StandInRegion* region = nullptr;  // Null: not bound.
  const StandInPair* pair = nullptr;
  ibv_mw_bind_info range = {};
};

struct Completion {
  ibv_wc wc = {};
  bool solicited = false;
  // Whose places come free when somebody polls it; 0: nobody's.
  uint64_t pair = 0;
  uint64_t shared = 0;
  uint64_t sends_end = 0;  // All sends before this one are done. 0: it is of a receive.
};

struct StandInQueue : ibv_cq {
  enum class Armed : uint8_t { kNot, kSolicited, kAny };

  std::deque<Completion> entries;
  Armed armed = Armed::kNot;
  bool overrun = false;
  size_t users = 0;
  Handed completion_events, async_events;
};

struct PostedReceive {
  uint64_t id = 0;
  std::vector<ibv_sge> sges;
};

struct StandInShared : ibv_srq {
  uint64_t serial = 0;
  std::deque<PostedReceive> receives;
  uint32_t taken_places = 0;
  uint32_t depth = 0;
  uint32_t max_sge = 0;
  uint32_t limit = 0;
  size_t users = 0;
  Handed async_events;
};

struct PostedSend {
  ibv_send_wr request = {};
  std::vector<ibv_sge> sges;
  std::vector<uint8_t> inline_data;
  uint64_t end = 0;
};

struct StandInPair : ibv_qp {
  uint64_t serial = 0;
  ibv_qp_cap cap = {};
  bool signals_all = false;
  unsigned int access = 0;
  uint32_t peer = 0;
  uint8_t receiver_timer = 0;
  uint8_t receiver_retries = 0;
  std::deque<PostedReceive> receives;
  std::deque<PostedSend> sends;
  uint32_t taken_receives = 0;
  uint64_t sends_posted = 0;
  uint64_t sends_done = 0;
  std::optional<RetryClock::time_point> gives_up_at;  // The first of the sends, which waits for a receive.
  Handed async_events;
};

// What of it is about a device of the kernel's; all fields are guarded by the mutex.
struct StandInDevice {
  static StandInDevice& Get();

  std::mutex mutex;
  std::condition_variable acknowledged;
  std::condition_variable retries_changed;
  std::map<uint32_t, StandInPair*> pairs;      // By number.
  std::map<uint32_t, StandInRegion*> regions;  // By key without its last 8 bits, as the next.
  std::map<uint32_t, StandInWindow*> windows;
  std::vector<StandInShared*> shared;
  uint32_t next_key = 1;
  uint64_t next_serial = 1;
  size_t objects = 0;

  StandIn::Flush flush = StandIn::Flush::kAtOnce;
  struct Failure {
    int error = 0;
    int others = 0;
  };
  std::map<std::string, Failure> failures;
  std::map<std::string, int> calls;
  std::map<std::string, std::function<void()>> afterwards;
};

// For one call of a function of libibverbs': counts it and holds the lock. `error` is what the call must fail with; 0:
// it need not fail.
class Call {
 public:
  explicit Call(const char* function);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  int error() const { return error_; }
  // Where a function tells its errors by errno. Returns null.
  static std::nullptr_t Fail(int error);
  std::unique_lock<std::mutex>& lock() { return lock_; }
  StandInDevice* operator->() const { return &device_; }

 private:
  // While it lives, StandIn::IsCalled.
  struct Mark {
    Mark();
    ~Mark();
  };

  const Mark mark_;
  StandInDevice& device_;
  std::unique_lock<std::mutex> lock_;
  int error_ = 0;
  std::function<void()> afterwards_;
};

// All of the following hold the lock.

StandInContext* ContextOf(ibv_context* context);
void FillOperations(StandInContext* context);

// stand_in_events.cc.
void RaiseEvent(ibv_context* context, const ibv_async_event& event);
void RaisePairEvent(StandInPair* pair, ibv_event_type type);
// Takes the object's events back that nobody has got, and waits until the others are acknowledged.
void AwaitEvents(Call* call, ibv_context* context, const void* object, const Handed& handed);

// stand_in_completions.cc; the last two take the lock themselves.
void AddCompletion(StandInQueue* queue, const Completion& completion);
int PollQueue(ibv_cq* cq, int most, ibv_wc* completions);
int ArmQueue(ibv_cq* cq, int solicited_only);

// stand_in_memory.cc. Nothing, or false: a piece lies outside of what its key allows.
std::optional<std::vector<uint8_t>> Gather(const StandInPair& pair, const std::vector<ibv_sge>& sges);
bool Scatter(const StandInPair& pair, const std::vector<uint8_t>& bytes, const std::vector<ibv_sge>& sges);
bool RemoteAllows(const StandInPair& responder, uint32_t key, uint64_t address, uint64_t length, unsigned int right);
ibv_wc_status BindWindow(const StandInPair& pair, const ibv_send_wr& request);
bool InvalidateWindow(const StandInPair& pair, uint32_t key);
void UnbindWindow(StandInWindow* window);
// These take the lock themselves.
ibv_mw* MakeWindow(ibv_pd* domain, ibv_mw_type type);
int FreeWindow(ibv_mw* mw);

// stand_in_requests.cc.
// Once, where fewer receives are there than the limit.
void TellOfLimit(StandInShared* shared);
void CompleteReceive(StandInPair* pair, const PostedReceive& receive, ibv_wc completion, bool solicited);
// Carries out what can be.
void RunSends(StandInPair* pair);
// Moves it to the error state.
void FailPair(StandInPair* pair);
// Cancels everything that is posted.
void FlushPair(StandInPair* pair);
// A receive has come, for which a peer's send may wait.
void RunSendsTo(const StandInPair& pair);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_TESTING_STAND_IN_DEVICE_H_
