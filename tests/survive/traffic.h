// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_TRAFFIC_H_
#define TESTS_SURVIVE_TRAFFIC_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker {

// An established connection, of two parties of its own, over which messages go all the time. It has nothing to do with
// the broker, whatever becomes of that: every message arrives as it was sent, and nobody hears of a disconnect.
class Traffic {
 public:
  explicit Traffic(ndkpi::World& world);
  // Stops, and ends connection and parties.
  ~Traffic();
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  // Messages that were compared so far.
  uint64_t messages() const { return messages_; }
  // Waits until some more have been.
  void ExpectGoesOn() const;

 private:
  void Run();
  // False, and the test has failed: it has not arrived.
  bool SendOne(Buffer& sent, Buffer& received, uint32_t seed);
  // Leaves the processors to the others for a moment. False: it is to stop.
  bool Pause();

  ndkpi::World& world_;
  ndkpi::Party& sender_;
  ndkpi::Party& receiver_;
  ndkpi::Connection connection_;
  std::atomic<uint64_t> messages_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_TRAFFIC_H_
