// SPDX-License-Identifier: Apache-2.0

// Random traffic in both directions, judged by what arrives; and connections that end at random moments, judged by
// every request having exactly one result.

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "dataplane/iwarp/side_for_test.h"
#include "tests/random_seed.h"

namespace rdmabroker::iwarp {
namespace {

constexpr size_t kSlots = 16;
constexpr size_t kSlotBytes = 70'000;
constexpr uintptr_t kReceiveBase = 1000;

// One end of a random conversation: sends, writes into the peer's slots, reads of the peer's constant area.
class Talker {
 public:
  Talker(Side* side, uint32_t seed)
      : side_(side),
        random_(seed),
        constant(side->domain, kSlotBytes, kMrAllowRemoteRead),
        target(side->domain, kSlots * kSlotBytes, kMrAllowRemoteWrite),
        source_(side->domain, kSlots * kSlotBytes, kMrAllowLocalWrite),
        sink_(side->domain, kSlots * kSlotBytes, kMrAllowLocalWrite),
        inbox_(side->domain, kSlots * kSlotBytes, kMrAllowLocalWrite) {
    constant.Fill(seed);
    for (size_t i = 0; i < kSlots; ++i) free_.push_back(i);
  }

  void PostReceives() {
    for (size_t i = 0; i < kSlots; ++i) PostReceive(i);
  }

  // Posts `operations` requests and takes all results, until the peer has had its own share, too.
  void Run(Talker* peer, size_t operations, std::atomic<int>* running) {
    size_t posted = 0;
    const auto deadline = std::chrono::steady_clock::now() + 3 * kPatience;
    while (posted < operations || free_.size() < kSlots || *running > 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << posted << " posted, " << free_.size() << " slots free";
      if (posted < operations && !free_.empty()) {
        if (Post(peer)) ++posted;
        if (posted == operations) --*running;
      }
      Take(peer);
    }
  }

  std::atomic<int> credit = kSlots;  // Receives of this side that the peer may use.

 private:
  void PostReceive(size_t slot) {
    const Sge sge = inbox_.sge(slot * kSlotBytes, kSlotBytes);
    ASSERT_EQ(side_->qp->Receive(Context(kReceiveBase + slot), {&sge, 1}), NdkStatus::kSuccess);
  }

  bool Post(Talker* peer) {
    const size_t slot = free_.front();
    const size_t length = random_() % 3 == 0 ? random_() % kSlotBytes : random_() % 300;
    const size_t at = slot * kSlotBytes;
    const size_t half = length / 2;
    const OpFlags fence = random_() % 8 == 0 ? kOpReadFence : 0;
    NdkStatus status = NdkStatus::kSuccess;
    switch (random_() % 3) {
      case 0: {
        if (peer->credit.fetch_sub(1) <= 0) {
          ++peer->credit;
          return false;
        }
        for (size_t i = 0; i < length; ++i) source_.bytes()[at + i] = static_cast<uint8_t>(length + i);
        const Sge out[] = {source_.sge(at, half), source_.sge(at + half, length - half)};
        status = side_->qp->Send(Context(slot), out, fence);
        break;
      }
      case 1: {
        const Sge out = source_.sge(at, length);
        status = side_->qp->Write(Context(slot), {&out, 1}, peer->target.remote(at), fence);
        break;
      }
      default: {
        reads_[slot] = length;
        const Sge in[] = {sink_.sge(at, half), sink_.sge(at + half, length - half)};
        status = side_->qp->Read(Context(slot), in, peer->constant.remote(kSlotBytes - length), fence);
      }
    }
    EXPECT_EQ(status, NdkStatus::kSuccess);
    free_.pop_front();
    return true;
  }

  void Take(Talker* peer) {
    ResultEx results[8];
    const size_t got = side_->cq->GetResultsEx(results);
    for (size_t i = 0; i < got; ++i) {
      const auto context = reinterpret_cast<uintptr_t>(results[i].request_context);
      ASSERT_EQ(results[i].status, NdkStatus::kSuccess);
      if (results[i].type == OperationType::kReceive) {
        const size_t slot = context - kReceiveBase;
        for (size_t j = 0; j < results[i].bytes_transferred; ++j) {
          ASSERT_EQ(inbox_.bytes()[slot * kSlotBytes + j], static_cast<uint8_t>(results[i].bytes_transferred + j));
        }
        PostReceive(slot);
        ++credit;
        continue;
      }
      if (results[i].type == OperationType::kRead) {
        const size_t length = reads_[context];
        ASSERT_TRUE(std::equal(peer->constant.bytes().end() - static_cast<ptrdiff_t>(length),
                               peer->constant.bytes().end(),
                               sink_.bytes().begin() + static_cast<ptrdiff_t>(context * kSlotBytes)));
      }
      free_.push_back(context);
    }
  }

  Side* const side_;
  std::mt19937 random_;

 public:
  Buffer constant, target;

 private:
  Buffer source_, sink_, inbox_;
  std::deque<size_t> free_;
  std::map<size_t, size_t> reads_;
};

TEST(Stress, RandomTrafficInBothDirectionsArrivesWhole) {
  const uint32_t seed = RandomSeed();
  SCOPED_TRACE(seed);
  for (const auto& [crc, limit] : {std::pair(true, kMaxFpduLength), std::pair(false, 1448u), std::pair(true, 9000u)}) {
    Side a, b;
    auto left = std::make_unique<Talker>(&a, seed);
    auto right = std::make_unique<Talker>(&b, seed + 1);
    left->PostReceives();
    right->PostReceives();
    Connect(a, b, StatesFor(crc, limit, 3));
    std::atomic<int> running = 2;
    std::thread other([&] { right->Run(left.get(), 600, &running); });
    left->Run(right.get(), 600, &running);
    other.join();
    a.qp->Flush();
    b.qp->Flush();
  }
}

TEST(Stress, HoweverAConnectionEndsEveryRequestHasOneResult) {
  const uint32_t seed = RandomSeed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    Side a, b;
    Buffer from(a.domain, 1 << 20, kMrAllowRemoteRead);
    Buffer to(b.domain, 1 << 20, kAllAccess);
    Connect(a, b);
    std::atomic<int> posted = 0;
    std::atomic<bool> stop = false;
    std::thread poster([&] {
      const Sge sge = from.sge(0, 200'000);
      for (uintptr_t i = 0; !stop && posted < 900; ++i) {
        const NdkStatus status = i % 3 == 0   ? a.qp->Write(Context(i), {&sge, 1}, to.remote(), 0)
                                 : i % 3 == 1 ? a.qp->Receive(Context(i), {})
                                              : a.qp->Send(Context(i), {}, kOpDefer);
        if (status == NdkStatus::kSuccess) ++posted;
      }
    });
    const auto ender = random() % 4;
    for (uint32_t spin = random() % 20'000; spin > 0; --spin) std::this_thread::yield();
    if (ender == 0) a.qp->Flush();
    if (ender == 1) b.qp->Flush();
    if (ender == 2) {
      EXPECT_EQ(to.region()->Deregister(), NdkStatus::kSuccess);
    }
    if (ender == 3) {
      EXPECT_EQ(a.qp->Disconnect(std::chrono::milliseconds(5), [](NdkStatus) {}), NdkStatus::kPending);
    }
    for (uint32_t spin = random() % 1000; spin > 0; --spin) std::this_thread::yield();
    stop = true;
    poster.join();
    a.qp->Flush();
    std::map<void*, int> seen;
    for (const ResultEx& result : a.Results(static_cast<size_t>(posted))) {
      EXPECT_EQ(++seen[result.request_context], 1);
    }
    ResultEx extra;
    EXPECT_EQ(a.cq->GetResultsEx({&extra, 1}), 0u);
  }
}

TEST(Stress, RegistrationsComeAndGoUnderTheEyesOfAWritingPeer) {
  Side a, b;
  Buffer from(a.domain, 100'000, kMrAllowLocalRead);
  Connect(a, b);
  // A region that is registered all the time keeps the connection alive; others come and go beside it.
  Buffer steady(b.domain, 100'000, kMrAllowRemoteWrite);
  std::atomic<bool> stop = false;
  std::thread registrar([&] {
    while (!stop) {
      Buffer passing(b.domain, 5000, kAllAccess);
      EXPECT_EQ(passing.region()->Deregister(), NdkStatus::kSuccess);
    }
  });
  const Sge sge = from.sge();
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(a.qp->Write(nullptr, {&sge, 1}, steady.remote(), 0), NdkStatus::kSuccess);
    EXPECT_EQ(a.Next().status, NdkStatus::kSuccess);
  }
  stop = true;
  registrar.join();
}

}  // namespace
}  // namespace rdmabroker::iwarp
