// SPDX-License-Identifier: Apache-2.0

#include "tests/survive/traffic.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/control/patience.h"

namespace rdmabroker {

using ndkpi::TestListener;

Traffic::Traffic(ndkpi::World& world) : world_(world), sender_(world.NewParty(0)), receiver_(world.NewParty(1)) {
  const TestListener listener = receiver_.Listening();
  connection_ = world.Establish(sender_, receiver_, listener);
  receiver_.Close(listener.object);
  thread_ = std::thread([this] { Run(); });
}

Traffic::~Traffic() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  EXPECT_EQ(connection_.active_events.count(), 0u) << "the sender was told of a disconnect";
  EXPECT_EQ(connection_.passive_events.count(), 0u) << "the receiver was told of a disconnect";
  world_.End(sender_);
  world_.End(receiver_);
}

void Traffic::ExpectGoesOn() const {
  constexpr uint64_t kSome = 5;
  const uint64_t before = messages_;
  EXPECT_TRUE(Becomes([&] { return messages_ >= before + kSome; })) << "messages no longer arrive";
}

void Traffic::Run() {
  constexpr size_t kLength = 1024;
  Buffer sent(sender_.side().domain, kLength, kMrAllowLocalRead);
  Buffer received(receiver_.side().domain, kLength, kMrAllowLocalWrite);
  for (uint32_t seed = 1; SendOne(sent, received, seed) && Pause(); ++seed) continue;
}

bool Traffic::SendOne(Buffer& sent, Buffer& received, uint32_t seed) {
  sent.Fill(seed);
  const Sge source = sent.sge(), target = received.sge();
  const bool arrived = connection_.passive_qp->Receive(&received, {&target, 1}) == NdkStatus::kSuccess &&
                       connection_.active_qp->Send(&sent, {&source, 1}, 0) == NdkStatus::kSuccess &&
                       sender_.side().Next().status == NdkStatus::kSuccess &&
                       receiver_.side().Next().status == NdkStatus::kSuccess && received.bytes() == sent.bytes();
  EXPECT_TRUE(arrived) << "message " << seed << " has not arrived as it was sent";
  if (arrived) ++messages_;
  return arrived;
}

bool Traffic::Pause() {
  constexpr std::chrono::milliseconds kPause(1);
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, kPause, [this] { return stopping_; });
}

}  // namespace rdmabroker
