// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_MISUSE_CALLBACKS_H_
#define TESTS_CONFORMANCE_MISUSE_CALLBACKS_H_

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <utility>

#include "tests/conformance/misuse/graph.h"

namespace rdmabroker::misuse {

// Work that a callback does once, and for which the test waits.
class Once {
 public:
  explicit Once(std::function<void()> work) : state_(std::make_shared<State>(std::move(work))) {}
  void operator()() const;
  void Await() const;

 private:
  struct State {
    explicit State(std::function<void()> its_work) : work(std::move(its_work)) {}

    const std::function<void()> work;
    std::atomic<bool> begun = false;
    std::promise<void> done;
  };

  std::shared_ptr<State> state_;
};

// Has the library call something back, where the work is done.
struct CallbackRow {
  const char* name;
  // Where the API takes the callback: functions_test.cc holds the rows against the headers.
  const char* callback;
  void (*run)(Graph& g, const Once& once);
  Graph::Session session = Graph::Session::kOfA;
};

std::span<const CallbackRow> CallbackRows();

}  // namespace rdmabroker::misuse

#endif  // TESTS_CONFORMANCE_MISUSE_CALLBACKS_H_
