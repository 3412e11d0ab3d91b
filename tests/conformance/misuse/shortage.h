// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_MISUSE_SHORTAGE_H_
#define TESTS_CONFORMANCE_MISUSE_SHORTAGE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <semaphore>
#include <span>
#include <utility>

#include "client/blocking.h"
#include "client/session.h"
#include "dataplane/testing/descriptor_shortage.h"
#include "dataplane/testing/side.h"
#include "dataplane/testing/thread_shortage.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/memory_shortage.h"

// The rows of shortage_test: a function of the API each, called where something has run out.
namespace rdmabroker::misuse {

enum class Short : uint8_t { kMemory, kDescriptors, kThreads };

struct Kind {
  const char* name;
  Short what;
};

inline constexpr Kind kKinds[] = {
    {"WithoutMemory", Short::kMemory},
    {"WithoutThreads", Short::kThreads},
    {"WithoutDescriptors", Short::kDescriptors},
};

inline bool Accepted(NdkStatus status) { return status == NdkStatus::kSuccess || status == NdkStatus::kPending; }

// Makes one call of a row until it is not refused: without memory again and again, with a little more each time;
// without anything else once, and once more with it.
class Play {
 public:
  explicit Play(Short what) : what_(what) {}

  // `before` gets what it needs: arguments that the call consumes.
  template <typename Call>
  void operator()(
      const Call& call, const std::function<void()>& before = [] {}) {
    ++plays_;
    NdkStatus status = NdkStatus::kNoMemory;
    if (what_ == Short::kMemory) {
      constexpr int64_t kMostAllocations = 2000;
      for (int64_t enough = 0; status == NdkStatus::kNoMemory && enough < kMostAllocations; ++enough) {
        before();
        const auto shortage = MemoryShortage::HereAfter(enough);
        status = call();
        if (status == NdkStatus::kNoMemory) ++refusals_;
        // A thread that does not start may be one for which there is no memory.
        if (shortage.refused() && status == NdkStatus::kInsufficientResources) status = NdkStatus::kNoMemory;
      }
    } else {
      before();
      status = what_ == Short::kDescriptors ? Under<DescriptorShortage>(call) : Under<ThreadShortage>(call);
      if (!Accepted(status)) {
        EXPECT_EQ(status, NdkStatus::kInsufficientResources) << StatusName(status);
        ++refusals_;
        before();
        status = call();
      }
    }
    EXPECT_TRUE(Accepted(status)) << StatusName(status);
  }

  int plays() const { return plays_; }
  int refusals() const { return refusals_; }

 private:
  template <typename Shortage, typename Call>
  static NdkStatus Under(const Call& call) {
    const Shortage shortage;
    return call();
  }

  const Short what_;
  int plays_ = 0;
  int refusals_ = 0;
};

// What a completion tells, which comes once. Passing it on needs no memory.
template <typename Object = void>
class Told {
 public:
  ~Told() { EXPECT_EQ(calls_, 1); }

  auto outcome() {
    return [this](const client::Outcome& outcome) { Tell(outcome, nullptr); };
  }
  auto created() {
    return [this](const client::Outcome& outcome, const std::shared_ptr<Object>& object) { Tell(outcome, object); };
  }
  auto status() {
    return [this](NdkStatus status) { Tell({.status = status}, nullptr); };
  }
  auto called() {
    return [this] { Tell({}, nullptr); };
  }
  std::shared_ptr<Object> Wait() {
    EXPECT_TRUE(told_.try_acquire_for(kPatience)) << "the completion does not come";
    EXPECT_TRUE(outcome_.ok()) << outcome_.hint;
    return object_;
  }

 private:
  void Tell(const client::Outcome& outcome, std::shared_ptr<Object> object) {
    ++calls_;
    outcome_ = outcome;
    object_ = std::move(object);
    told_.release();
  }

  std::binary_semaphore told_{0};
  std::atomic<int> calls_ = 0;
  client::Outcome outcome_;
  std::shared_ptr<Object> object_;
};

struct Row {
  const char* function;
  void (*run)(ndkpi::World& w, Play& play);
  // It has a connection handed over meanwhile, on the session's thread, which without descriptors would be the end of
  // it.
  bool hands_over = false;
};

std::span<const Row> BrokerRows();
std::span<const Row> DataRows();

}  // namespace rdmabroker::misuse

#endif  // TESTS_CONFORMANCE_MISUSE_SHORTAGE_H_
