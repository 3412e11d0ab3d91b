// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_TESTING_STAND_IN_H_
#define DATAPLANE_VERBS_TESTING_STAND_IN_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace rdmabroker::verbs {

// A program that links this has one RDMA device, in its own memory, in place of the kernel's: the program's own ibv_*
// functions take precedence over libibverbs'. The device is like a small InfiniBand adapter that reaches itself. It
// delivers at once: what is posted to a connected queue pair has moved its bytes, and has added the completions at both
// ends, when the post returns; only a send that finds no receive waits as long as its retries last.
//
// Where devices differ, this one is as unhelpful as any: it gives the lowest number that is free to the next queue
// pair, leaves completions of a destroyed queue pair in their queue, makes queues no deeper than they were asked for,
// tells nothing in a failed completion but what must be there, and finds a new shared receive queue below any limit.
//
// What follows steers it, for all its contexts. Thread-safe.
class StandIn {
 public:
  static constexpr char kName[] = "stand_in_0";

  // As if nobody had steered it.
  static void Reset();

  // The next call of this function ("ibv_create_qp") fails with this errno, after `others` that do not.
  static void FailNext(const std::string& function, int error, int others = 0);
  // How often a function was called since Reset.
  static int Calls(const std::string& function);

  // The next call of this function calls this when it has done its work, before it returns.
  static void CallAfter(const std::string& function, std::function<void()> callback);

  // When a queue pair in its error state cancels what is posted to it.
  enum class Flush : uint8_t { kAtOnce, kWhenDestroyed, kNever };
  static void SetFlush(Flush flush);

  // Adds a completion to the queue for receives, or that for sends, of the queue pair with this number.
  static void Push(uint32_t number, bool receive, ibv_wc completion);
  // Of the queue pair with this number; or of its shared receive queue, its queue for receives, or the whole device,
  // where the event is of one of these.
  static void Raise(uint32_t number, ibv_event_type type);

  // Whether this thread is in one of the device's functions.
  static bool IsCalled();
  // How many objects of all kinds there are that were made and not destroyed.
  static size_t Objects();
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_TESTING_STAND_IN_H_
