// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_NDKPI_CALL_H_
#define TESTS_CONFORMANCE_NDKPI_CALL_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/values.h"
#include "dataplane/ndk/status.h"
#include "dataplane/testing/side.h"

namespace rdmabroker::ndkpi {

// What came of a call that ends inline or, where it has returned kPending, by its completion. All functions may be
// called from any thread.
class Call {
 public:
  explicit Call(std::string what);

  // The completions to pass on; each may be called as often as an implementation's faults allow.
  client::OutcomeCompletion completion() const;
  std::function<void()> close_completion() const;
  // It begins, on this thread, and what it has returned there.
  void Calling() const;
  const Call& Returned(NdkStatus status) const;

  bool pending() const;  // It has returned kPending.
  bool ended() const;
  // Waits for the end: what it ended with, inline or by its completion.
  client::Outcome Wait(std::chrono::seconds patience = kPatience) const;
  NdkStatus Status() const { return Wait().status; }
  // Fails the test unless the completion was called just as often as what the call returned allows, and not within the
  // call. When nothing of it can come any more.
  void Check() const;

 private:
  struct Record {
    explicit Record(std::string name) : what(std::move(name)) {}

    const std::string what;
    std::mutex mutex;
    std::condition_variable changed;
    bool has_returned = false;
    NdkStatus returned = NdkStatus::kPending;
    std::thread::id calling;  // Until it has returned.
    int completions = 0;
    bool inline_completion = false;
    client::Outcome outcome;

    void Complete(const client::Outcome& how);
    bool Ended() const { return completions > 0 || (has_returned && returned != NdkStatus::kPending); }
  };

  std::shared_ptr<Record> record_;
};

// Every call of a case, so that none goes unchecked.
class Calls {
 public:
  // Makes a call: `start` gets it, passes its completion on and returns what the called function returned.
  template <typename Start>
  Call Make(std::string what, const Start& start) {
    const Call call = Add(std::move(what));
    call.Calling();
    return call.Returned(start(call));
  }
  void CheckAll();

 private:
  Call Add(std::string what);

  std::mutex mutex_;
  std::vector<Call> calls_;
};

}  // namespace rdmabroker::ndkpi

#endif  // TESTS_CONFORMANCE_NDKPI_CALL_H_
