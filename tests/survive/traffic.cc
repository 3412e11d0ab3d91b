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
  for (uint32_t seed = 1; !testing::Test::HasFailure(); ++seed) {
    SendOne(sent, received, seed);
    ++messages_;
    if (!Pause()) return;
  }
}

void Traffic::SendOne(Buffer& sent, Buffer& received, uint32_t seed) {
  sent.Fill(seed);
  const Sge source = sent.sge(), target = received.sge();
  EXPECT_EQ(connection_.passive_qp->Receive(&received, {&target, 1}), NdkStatus::kSuccess);
  EXPECT_EQ(connection_.active_qp->Send(&sent, {&source, 1}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(sender_.side().Next().status, NdkStatus::kSuccess);
  EXPECT_EQ(receiver_.side().Next().status, NdkStatus::kSuccess);
  EXPECT_EQ(received.bytes(), sent.bytes()) << "message " << seed << " has not arrived as it was sent";
}

bool Traffic::Pause() {
  constexpr std::chrono::milliseconds kPause(1);
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, kPause, [this] { return stopping_; });
}

}  // namespace rdmabroker
