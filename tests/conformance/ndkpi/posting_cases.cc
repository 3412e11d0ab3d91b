// SPDX-License-Identifier: Apache-2.0

// What may be posted when, and how it ends.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/ndkpi/data_link.h"

namespace rdmabroker::ndkpi {
namespace {

constexpr OpFlags kUnknownFlag = 0x8000;

QueuePairAttributes MostOf(DataSide& side) {
  const AdapterInfo& info = side.adapter->info();
  return {.receive_cq = side.cq,
          .initiator_cq = side.cq,
          .receive_queue_depth = info.max_receive_queue_depth,
          .initiator_queue_depth = info.max_initiator_queue_depth,
          .max_receive_request_sge = info.max_receive_request_sge,
          .max_initiator_request_sge = info.max_initiator_request_sge,
          .inline_data_size = info.max_inline_data_size};
}

struct Limit {
  std::string name;
  uint32_t QueuePairAttributes::*field;
};

const std::array<Limit, 5> kLimits = {{{"ReceiveQueueDepth", &QueuePairAttributes::receive_queue_depth},
                                       {"InitiatorQueueDepth", &QueuePairAttributes::initiator_queue_depth},
                                       {"MaxReceiveRequestSge", &QueuePairAttributes::max_receive_request_sge},
                                       {"MaxInitiatorRequestSge", &QueuePairAttributes::max_initiator_request_sge},
                                       {"InlineDataSize", &QueuePairAttributes::inline_data_size}}};

void AddLimits(Cases* cases) {
  for (const Limit& limit : kLimits) {
    cases->push_back({183, limit.name + "ExceededByOne", [&limit](World& w) {
                        DataSide& side = w.a().side();
                        QueuePairAttributes attributes = MostOf(side);
                        ++(attributes.*limit.field);
                        EXPECT_EQ(side.domain->CreateQueuePair(attributes).status, NdkStatus::kInvalidParameter);
                      }});
  }
  cases->push_back({183, "AllAtTheirMaximum", [](World& w) {
                      const auto made = w.a().side().domain->CreateQueuePair(MostOf(w.a().side()));
                      ASSERT_EQ(made.status, NdkStatus::kSuccess);
                      CloseAndWait(made.object);
                    }});
}

// A request of a queue pair of a that is not connected.
struct EarlyPost {
  std::string name;
  NdkStatus (*post)(QueuePair* qp, DataSide& side, std::span<const Sge> sges, MemoryRegion* region);
  const std::vector<Lack>* lacks = nullptr;
  void (*expect_lack)(World& w) = nullptr;
};

NdkStatus BindEarly(QueuePair* qp, DataSide& side, std::span<const Sge> sges, MemoryRegion* region) {
  const Window window(side);
  return qp->Bind(nullptr, region, window.get(), sges[0].address, 1, kOpAllowRemoteRead);
}

NdkStatus InvalidateEarly(QueuePair* qp, DataSide& side, std::span<const Sge>, MemoryRegion*) {
  const Window window(side);
  return qp->Invalidate(nullptr, window.get(), 0);
}

NdkStatus FastRegisterEarly(QueuePair* qp, DataSide& side, std::span<const Sge>, MemoryRegion*) {
  FastRegion fast(side, true);
  return fast.PostTo(qp, nullptr, kOpAllowRemoteRead);
}

NdkStatus InvalidateRegionEarly(QueuePair* qp, DataSide& side, std::span<const Sge>, MemoryRegion*) {
  const FastRegion fast(side, true);
  return qp->Invalidate(nullptr, fast.region(), 0);
}

const std::array<EarlyPost, 8> kEarlyPosts = {
    {{"Send",
      [](QueuePair* qp, DataSide&, std::span<const Sge> sges, MemoryRegion*) { return qp->Send(nullptr, sges, 0); }},
     {"SendAndInvalidate", [](QueuePair* qp, DataSide&, std::span<const Sge> sges,
                              MemoryRegion*) { return qp->SendAndInvalidate(nullptr, sges, 0, {}); }},
     {"Read", [](QueuePair* qp, DataSide&, std::span<const Sge> sges,
                 MemoryRegion*) { return qp->Read(nullptr, sges, {}, 0); }},
     {"Write", [](QueuePair* qp, DataSide&, std::span<const Sge> sges,
                  MemoryRegion*) { return qp->Write(nullptr, sges, {}, 0); }},
     {"Bind", BindEarly, &kNoWindows, ExpectNoWindows},
     {"Invalidate", InvalidateEarly, &kNoWindows, ExpectNoWindows},
     {"FastRegister", FastRegisterEarly, &kNoFastRegister, ExpectNoFastRegister},
     {"InvalidateOfARegion", InvalidateRegionEarly, &kNoFastRegister, ExpectNoFastRegister}}};

// The flush shows whatever had been posted.
void ExpectRefusedEarly(World& w, const EarlyPost& early) {
  if (w.lacks()) return early.expect_lack(w);
  DataSide& side = w.a().side();
  QueuePair* const qp = w.a().NewQueuePair();
  Buffer buffer(side.domain, 64, kAllAccess);
  const Sge sge = buffer.sge();
  EXPECT_EQ(early.post(qp, side, {&sge, 1}, buffer.region()), NdkStatus::kConnectionInvalid);
  ASSERT_EQ(qp->Receive(Context(1), {}), NdkStatus::kSuccess);
  qp->Flush();
  EXPECT_EQ(side.Next().request_context, Context(1));
  ExpectNoResult(side);
}

// The hardware is ready to send by then.
void WriteBeforeAcceptEnds(World& w) {
  const Handshake made = w.Reply();
  if (w.lacks()) {
    ExpectTwoWay(made);
    EXPECT_EQ(made.passive_qp->Write(nullptr, {}, {}, 0), NdkStatus::kSuccess);
    return;
  }
  EXPECT_EQ(made.passive_qp->Write(nullptr, {}, {}, 0), NdkStatus::kConnectionInvalid);
  w.ExpectPending(made.accept);
  EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kSuccess);
  EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
  w.ExpectCarries(made);
  ExpectNoResult(w.b().side());
}

void AddUnconnected(Cases* cases) {
  for (const EarlyPost& early : kEarlyPosts) {
    cases->push_back({.assertion = 184,
                      .name = early.name + "OnAnUnconnectedQueuePair",
                      .run = [&early](World& w) { ExpectRefusedEarly(w, early); },
                      .lacks = early.lacks == nullptr ? std::vector<Lack>() : *early.lacks});
  }
  cases->push_back(
      {.assertion = 184, .name = "WriteWhereAcceptIsPending", .run = WriteBeforeAcceptEnds, .lacks = {kTwoWay}});
  cases->push_back({185, "ReceiveOnAnUnconnectedQueuePair", [](World& w) {
                      Buffer buffer(w.a().side().domain, 64, kMrAllowLocalWrite);
                      const Sge sge = buffer.sge();
                      EXPECT_EQ(w.a().NewQueuePair()->Receive(nullptr, {&sge, 1}), NdkStatus::kSuccess);
                      ExpectNoResult(w.a().side());
                    }});
  cases->push_back({186, "BetweenConnectAndCompleteConnect", [](World& w) {
                      const Handshake made = w.Reply();
                      EXPECT_EQ(made.active_qp->Send(nullptr, {}, 0), NdkStatus::kConnectionInvalid);
                      ExpectNoResult(w.a().side());
                      EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(made.active_qp->Write(nullptr, {}, {}, 0), NdkStatus::kSuccess);
                      EXPECT_EQ(w.a().side().Next().status, NdkStatus::kSuccess);
                    }});
}

// A request that a connected queue pair, which takes 4 pieces and 64 inline bytes, refuses.
struct Refused {
  std::string name;
  NdkStatus (*post)(QueuePair* qp, std::span<const Sge, 5> pieces);
};

const std::array<Refused, 6> kRefused = {
    {{"ASendInTooManyPieces",
      [](QueuePair* qp, std::span<const Sge, 5> pieces) { return qp->Send(nullptr, pieces, 0); }},
     {"AReceiveInTooManyPieces",
      [](QueuePair* qp, std::span<const Sge, 5> pieces) { return qp->Receive(nullptr, pieces); }},
     {"AWriteInTooManyPieces",
      [](QueuePair* qp, std::span<const Sge, 5> pieces) { return qp->Write(nullptr, pieces, {}, 0); }},
     {"ASendWithAnUnknownFlag",
      [](QueuePair* qp, std::span<const Sge, 5> pieces) { return qp->Send(nullptr, pieces.first(1), kUnknownFlag); }},
     {"AnInlineRead",
      [](QueuePair* qp, std::span<const Sge, 5> pieces) { return qp->Read(nullptr, pieces.first(1), {}, kOpInline); }},
     {"TooMuchInline",
      [](QueuePair* qp, std::span<const Sge, 5> pieces) { return qp->Send(nullptr, pieces.first(2), kOpInline); }}}};

void ExpectRefused(World& w, const Refused& refused) {
  const DataLink link(w);
  Buffer buffer(link.a.domain, 64, kAllAccess);
  std::array<Sge, 5> pieces;
  pieces.fill(buffer.sge(0, 40));
  EXPECT_FALSE(IsSuccess(refused.post(link.at_a, pieces)));
  link.Settle();
  link.at_a->Flush();
  ExpectNoResult(link.a);
}

void ExpectOneResultEach(World& w) {
  constexpr uintptr_t kRequests = 30;
  const DataLink link(w);
  link.PostReceivesAtB(kRequests);
  for (uintptr_t i = 0; i < kRequests; i += 3) {
    ASSERT_EQ(link.at_a->Send(Context(i), {}, 0), NdkStatus::kSuccess);
    ASSERT_EQ(link.at_a->Read(Context(i + 1), {}, {}, 0), NdkStatus::kSuccess);
    ASSERT_EQ(link.at_a->Write(Context(i + 2), {}, {}, 0), NdkStatus::kSuccess);
  }
  std::set<void*> ended;
  for (const ResultEx& result : link.a.Results(kRequests)) ended.insert(result.request_context);
  EXPECT_EQ(ended.size(), kRequests);
  link.Settle();
  ExpectNoResult(link.a);
}

// Hardware may say no more of a local buffer than that the request is bad.
void ExpectBadMemory(const ResultEx& result) {
  EXPECT_TRUE(result.status == NdkStatus::kAccessViolation || result.status == NdkStatus::kInternalError)
      << StatusName(result.status);
}

// Beyond its end.
Sge TooLong(Buffer& buffer) {
  Sge sge = buffer.sge();
  ++sge.length;
  return sge;
}

void AddResults(Cases* cases) {
  for (const Refused& refused : kRefused) {
    cases->push_back({187, refused.name + "YieldsNoCompletion", [&refused](World& w) { ExpectRefused(w, refused); }});
  }
  cases->push_back({187, "SuccessYieldsExactlyOne", ExpectOneResultEach});
  cases->push_back({188, "A_SilentWhereItSucceeds", [](World& w) {
                      const DataLink link(w);
                      link.PostReceivesAtB(1);
                      for (int i = 0; i < 10; ++i) {
                        ASSERT_EQ(link.at_a->Write(nullptr, {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
                        ASSERT_EQ(link.at_a->Read(nullptr, {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
                      }
                      link.SendToB();
                      EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
                      link.Settle();
                      link.at_a->Flush();
                      ExpectNoResult(link.a);
                    }});
  cases->push_back({188, "B_ToldWhereItFails", [](World& w) {
                      const DataLink link(w);
                      Buffer buffer(link.a.domain, 64, kMrAllowLocalRead);
                      const Sge sge = TooLong(buffer);
                      ASSERT_EQ(link.at_a->Send(Context(1), {&sge, 1}, kOpSilentSuccess), NdkStatus::kSuccess);
                      const ResultEx failed = link.a.Next();
                      EXPECT_EQ(failed.request_context, Context(1));
                      ExpectBadMemory(failed);
                    }});
  cases->push_back({188, "C_ToldWhereItIsCancelled", [](World& w) {
                      const DataLink link(w);
                      Buffer buffer(link.a.domain, 64, kMrAllowLocalRead);
                      const Sge sge = TooLong(buffer);
                      ASSERT_EQ(link.at_a->Send(Context(1), {&sge, 1}, kOpDefer), NdkStatus::kSuccess);
                      ASSERT_EQ(link.at_a->Send(Context(2), {}, kOpSilentSuccess), NdkStatus::kSuccess);
                      const auto results = link.a.Results(2);
                      ExpectBadMemory(results[0]);
                      EXPECT_EQ(results[1].request_context, Context(2));
                      EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
                    }});
  cases->push_back({189, "SixteenQueuesFull", [](World& w) {
                      constexpr int kBatch = 32, kBatches = 32;
                      const DataLink link(w);
                      for (int batch = 0; batch < kBatches; ++batch) {
                        link.PostReceivesAtB(kBatch);
                        for (int i = 0; i < kBatch; ++i) {
                          ASSERT_TRUE(Eventually(
                              [&] { return link.at_a->Send(nullptr, {}, kOpSilentSuccess) == NdkStatus::kSuccess; }));
                        }
                        for (const ResultEx& result : link.b.Results(kBatch)) {
                          EXPECT_EQ(result.status, NdkStatus::kSuccess);
                        }
                      }
                      link.Settle();
                      ExpectNoResult(link.a);
                    }});
}

// The write would overtake the read's bytes on their way.
void ExpectFenced(World& w) {
  constexpr size_t kSize = 1'000'000;
  const DataLink link(w);
  Buffer to(link.a.domain, kSize, kMrAllowLocalWrite | kMrRdmaReadSink);
  Buffer from(link.a.domain, kSize, kMrAllowLocalRead);
  from.Fill(2);
  for (uint32_t round = 0; round < 3; ++round) {
    Buffer shared(link.b.domain, kSize, kAllAccess, 10 + round);
    const std::vector<uint8_t> before = shared.bytes();
    const Sge in = to.sge(), out = from.sge();
    ASSERT_EQ(link.at_a->Read(nullptr, {&in, 1}, shared.remote(), 0), NdkStatus::kSuccess);
    ASSERT_EQ(link.at_a->Write(nullptr, {&out, 1}, shared.remote(), kOpReadFence), NdkStatus::kSuccess);
    for (const ResultEx& result : link.a.Results(2)) EXPECT_EQ(result.status, NdkStatus::kSuccess);
    EXPECT_TRUE(to.bytes() == before) << "the write came before the read had ended";
    link.SettleCallbacks();  // What orders b's thread before this one, for a sanitizer, too.
    EXPECT_TRUE(shared.bytes() == from.bytes());
  }
}

// What b receives of `text` that a sends inline from so many pieces of equal length, and overwrites then. What is
// deferred goes out with the next request.
std::string SendInline(World& w, std::string text, size_t pieces, OpFlags flags = 0) {
  const DataLink link(w);
  Buffer to(link.b.domain, 64, kMrAllowLocalWrite);
  const Sge in = to.sge();
  EXPECT_EQ(link.at_b->Receive(nullptr, {&in, 1}), NdkStatus::kSuccess);
  const size_t length = text.size() / pieces;
  std::vector<Sge> sges;
  for (size_t i = 0; i < pieces; ++i) {
    sges.push_back({text.data() + i * length, static_cast<uint32_t>(length), LocalToken{0xDEAD}});
  }
  EXPECT_EQ(link.at_a->Send(nullptr, sges, kOpInline | flags), NdkStatus::kSuccess);
  std::fill(text.begin(), text.end(), 'x');
  if ((flags & kOpDefer) != 0) {
    EXPECT_EQ(link.at_a->Write(nullptr, {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  }
  EXPECT_EQ(link.a.Next().status, NdkStatus::kSuccess);
  const auto received = static_cast<ptrdiff_t>(link.b.Next().bytes_transferred);
  return {to.bytes().begin(), to.bytes().begin() + received};
}

void AddInline(Cases* cases) {
  cases->push_back({191, "A_ATokenThatIsNone", [](World& w) { EXPECT_EQ(SendInline(w, "text", 1), "text"); }});
  cases->push_back({191, "B_TheBufferIsOverwrittenAtOnce", [](World& w) {
                      const std::string text(64, 't');
                      EXPECT_EQ(SendInline(w, text, 1), text);
                    }});
  cases->push_back({191, "B_TheBufferIsOverwrittenBeforeItIsSent", [](World& w) {
                      const std::string text(64, 't');
                      EXPECT_EQ(SendInline(w, text, 1, kOpDefer), text);
                    }});
  cases->push_back({191, "C_MorePiecesThanTheAdapterTakes", [](World& w) {
                      const size_t pieces = w.a().side().adapter->info().max_initiator_request_sge + 1;
                      std::string text;
                      for (size_t i = 0; i < pieces; ++i) text.push_back(static_cast<char>('A' + i));
                      EXPECT_EQ(SendInline(w, text, pieces), text);
                    }});
  cases->push_back({191, "D_MoreBytesThanInlineDataSize", [](World& w) {
                      const DataLink link(w);
                      char much[65] = {};
                      const Sge sge = {much, sizeof much, {}};
                      EXPECT_EQ(link.at_a->Send(nullptr, {&sge, 1}, kOpInline), NdkStatus::kDataOverrun);
                      link.Settle();
                      ExpectNoResult(link.a);
                    }});
}

void ExpectSent(const DataLink& link, uintptr_t count) {
  // Looking into the sender's queue might be what makes it send.
  const auto received = link.b.Results(count), sent = link.a.Results(count);
  for (uintptr_t i = 0; i < count; ++i) {
    EXPECT_EQ(sent[i].request_context, Context(i));
    EXPECT_EQ(sent[i].status, NdkStatus::kSuccess);
    EXPECT_EQ(received[i].request_context, Context(i));
    EXPECT_EQ(received[i].status, NdkStatus::kSuccess);
  }
  ExpectNoResult(link.a);
}

// A request of a that fails as it is posted.
struct FailingPost {
  std::string name;
  NdkStatus (*post)(const DataLink& link);
  const std::vector<Lack>* lacks = nullptr;
  void (*expect_lack)(World& w) = nullptr;
};

NdkStatus BindTooMuch(const DataLink& link) {
  Buffer buffer(link.a.domain, 64, kMrAllowLocalRead);
  const Window window(link.a);
  return link.at_a->Bind(nullptr, buffer.region(), window.get(), buffer.bytes().data(), 64, kOpAllowRemoteWrite);
}

NdkStatus InvalidateTheUnbound(const DataLink& link) {
  const Window window(link.a);
  return link.at_a->Invalidate(nullptr, window.get(), 0);
}

// Of a region that is no fast-registered one: adapters that know none refuse it as well.
NdkStatus FastRegisterTheRegistered(const DataLink& link) {
  Buffer buffer(link.a.domain, 64, kAllAccess);
  void* const pages[] = {buffer.bytes().data()};
  return link.at_a->FastRegister(nullptr, buffer.region(), pages, 0, 64, 0, 0);
}

NdkStatus InvalidateTheRegistered(const DataLink& link) {
  Buffer buffer(link.a.domain, 64, kAllAccess);
  return link.at_a->Invalidate(nullptr, buffer.region(), 0);
}

const std::array<FailingPost, 8> kFailingPosts = {
    {{"Send", [](const DataLink& link) { return link.at_a->Send(nullptr, {}, kUnknownFlag); }},
     {"SendAndInvalidate",
      [](const DataLink& link) { return link.at_a->SendAndInvalidate(nullptr, {}, kUnknownFlag, {}); }},
     {"Read", [](const DataLink& link) { return link.at_a->Read(nullptr, {}, {}, kUnknownFlag); }},
     {"Write", [](const DataLink& link) { return link.at_a->Write(nullptr, {}, {}, kUnknownFlag); }},
     {"Bind", BindTooMuch, &kNoWindows, ExpectNoWindows},
     {"Invalidate", InvalidateTheUnbound, &kNoWindows, ExpectNoWindows},
     {"FastRegister", FastRegisterTheRegistered},
     {"InvalidateOfARegion", InvalidateTheRegistered}}};

void FailBehindAChain(World& w, const FailingPost& failing) {
  if (w.lacks()) return failing.expect_lack(w);
  const DataLink link(w);
  link.PostReceivesAtB(3);
  for (const uintptr_t i : {0u, 1u, 2u}) ASSERT_EQ(link.at_a->Send(Context(i), {}, kOpDefer), NdkStatus::kSuccess);
  EXPECT_FALSE(IsSuccess(failing.post(link)));
  ExpectSent(link, 3);
  link.Settle();
}

void AddDeferred(Cases* cases) {
  cases->push_back({192, "AChainGoesOutWithItsLastRequest", [](World& w) {
                      const DataLink link(w);
                      link.PostReceivesAtB(4);
                      for (const uintptr_t i : {0u, 1u, 2u}) {
                        ASSERT_EQ(link.at_a->Send(Context(i), {}, kOpDefer), NdkStatus::kSuccess);
                      }
                      ASSERT_EQ(link.at_a->Send(Context(3), {}, 0), NdkStatus::kSuccess);
                      ExpectSent(link, 4);
                    }});
  for (const FailingPost& failing : kFailingPosts) {
    cases->push_back({.assertion = 193,
                      .name = "AChainGoesOutWhere" + failing.name + "Fails",
                      .run = [&failing](World& w) { FailBehindAChain(w, failing); },
                      .lacks = failing.lacks == nullptr ? std::vector<Lack>() : *failing.lacks});
  }
}

// Posts so many requests at most, which are numbered, and counts those that were taken.
struct Poster {
  std::atomic<uintptr_t> taken = 0;
  std::atomic<bool> stop = false;

  template <typename Post>
  void Run(uintptr_t most, const Post& post) {
    while (taken < most && !stop) {
      const NdkStatus status = post(Context(taken + 1));
      if (status == NdkStatus::kConnectionInvalid) return;
      if (status == NdkStatus::kSuccess) {
        ++taken;
      } else {
        EXPECT_EQ(status, NdkStatus::kInsufficientResources);
        std::this_thread::yield();
      }
    }
  }
};

void ExpectOneResultEach(DataSide& side, uintptr_t count) {
  std::set<void*> ended;
  for (const ResultEx& result : side.Results(count)) ended.insert(result.request_context);
  EXPECT_EQ(ended.size(), count);
  ExpectNoResult(side);
}

void FlushBesideReceives(World& w) {
  constexpr uintptr_t kReceives = 500;
  QueuePair* const qp = w.a().NewQueuePair();
  Poster poster;
  std::atomic<bool> ended = false;
  std::thread thread([&] {
    poster.Run(kReceives, [qp](void* context) { return qp->Receive(context, {}); });
    ended = true;
  });
  EXPECT_TRUE(Eventually([&] {
    qp->Flush();
    return ended.load();
  }));
  poster.stop = true;
  thread.join();
  qp->Flush();
  EXPECT_EQ(poster.taken, kReceives);
  ExpectOneResultEach(w.a().side(), poster.taken);
}

void FlushBesideWrites(World& w) {
  const DataLink link(w);
  Poster poster;
  // Fewer than the completion queue holds.
  std::thread thread([&] { poster.Run(1000, [&](void* context) { return link.at_a->Write(context, {}, {}, 0); }); });
  EXPECT_TRUE(Eventually([&] { return poster.taken >= 20; }));
  link.at_a->Flush();
  thread.join();
  ExpectOneResultEach(link.a, poster.taken);
}

// Silent requests, too: only their success is.
void FlushBothQueues(World& w) {
  constexpr uintptr_t kEach = 3;
  const DataLink link(w);
  link.PostReceivesAtB(kEach);
  for (uintptr_t i = 0; i < kEach; ++i) {
    const OpFlags silent = i == 1 ? kOpSilentSuccess : 0;
    ASSERT_EQ(link.at_a->Receive(Context(i), {}), NdkStatus::kSuccess);
    ASSERT_EQ(link.at_a->Send(Context(kEach + i), {}, kOpDefer | silent), NdkStatus::kSuccess);
  }
  link.at_a->Flush();
  std::set<void*> ended;
  for (const ResultEx& result : link.a.Results(2 * kEach)) {
    EXPECT_EQ(result.status, NdkStatus::kCancelled);
    ended.insert(result.request_context);
  }
  EXPECT_EQ(ended.size(), 2 * kEach);
  ExpectNoResult(link.a);
}

void FlushUnconnected(World& w, bool armed) {
  DataSide& side = w.a().side();
  QueuePair* const qp = w.a().NewQueuePair();
  ASSERT_EQ(qp->Receive(Context(1), {}), NdkStatus::kSuccess);
  ASSERT_EQ(qp->Receive(Context(2), {}), NdkStatus::kSuccess);
  if (armed) side.cq->Arm(CqNotify::kAny);
  qp->Flush();
  const auto results = side.Results(2);
  for (uintptr_t i = 0; i < 2; ++i) {
    EXPECT_EQ(results[i].request_context, Context(i + 1));
    EXPECT_EQ(results[i].status, NdkStatus::kCancelled);
  }
  AwaitCallbacks(side);
  EXPECT_EQ(side.notifications, armed ? 1 : 0);
  ExpectNoResult(side);
}

void AddFlushes(Cases* cases) {
  cases->push_back({194, "BothQueues", FlushBothQueues});
  cases->push_back({195, "TwoReceivesOfAnUnconnectedQueuePair", [](World& w) { FlushUnconnected(w, false); }});
  cases->push_back({195, "TwoReceivesAndOneNotificationWhereArmed", [](World& w) { FlushUnconnected(w, true); }});
  cases->push_back({196, "BesideReceives", FlushBesideReceives});
  cases->push_back({196, "BesideWrites", FlushBesideWrites});
}

// The read goes out with the send, so that it is under way when the peer objects.
void SendWithoutReceive(World& w) {
  const DataLink link(w, w.a().NewQueuePair(), w.b().NewQueuePair(), {.rnr_retry_count = 6});
  ASSERT_EQ(link.at_a->Send(Context(1), {}, kOpDefer), NdkStatus::kSuccess);
  ASSERT_EQ(link.at_a->Read(Context(2), {}, {}, 0), NdkStatus::kSuccess);
  const auto results = link.a.Results(2);
  EXPECT_EQ(results[0].request_context, Context(1));
  ExpectEnded(link.connection.active_events);
  if (!w.lacks()) {
    EXPECT_EQ(results[0].status, NdkStatus::kIoTimeout);
    EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
    return;
  }
  EXPECT_EQ(link.a.adapter->info().technology, RdmaTechnology::kIwarp);
  EXPECT_EQ(results[0].status, NdkStatus::kSuccess);
  EXPECT_EQ(results[1].status, w.on().adapter == "siw" ? NdkStatus::kCancelled : NdkStatus::kIoTimeout);
}

void SendBeyondTheReceive(World& w) {
  const DataLink link(w);
  Buffer from(link.a.domain, 65, kMrAllowLocalRead);
  Buffer to(link.b.domain, 64, kMrAllowLocalWrite);
  const Sge in = to.sge(), out = from.sge();
  for (const uintptr_t i : {1u, 2u}) ASSERT_EQ(link.at_b->Receive(Context(i), {&in, 1}), NdkStatus::kSuccess);
  ASSERT_EQ(link.at_a->Send(nullptr, {&out, 1}, 0), NdkStatus::kSuccess);
  const auto results = link.b.Results(2);
  EXPECT_EQ(results[0].request_context, Context(1));
  EXPECT_EQ(results[0].status, w.lacks() ? NdkStatus::kInternalError : NdkStatus::kBufferOverflow);
  EXPECT_EQ(results[1].request_context, Context(2));
  EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
  ExpectEnded(link.connection.passive_events);
  ExpectEnded(link.connection.active_events);
}

void FailAndGoOn(World& w) {
  const DataLink link(w);
  Buffer buffer(link.a.domain, 64, kAllAccess);
  const Sge sge = TooLong(buffer);
  ASSERT_EQ(link.at_a->Receive(Context(1), {}), NdkStatus::kSuccess);
  ASSERT_EQ(link.at_a->Send(Context(2), {&sge, 1}, kOpDefer), NdkStatus::kSuccess);
  ASSERT_EQ(link.at_a->Send(Context(3), {}, 0), NdkStatus::kSuccess);
  auto results = link.a.Results(3);
  std::sort(results.begin(), results.end(),
            [](const ResultEx& one, const ResultEx& other) { return one.request_context < other.request_context; });
  EXPECT_EQ(results[0].status, NdkStatus::kCancelled);
  ExpectBadMemory(results[1]);
  EXPECT_EQ(results[2].status, NdkStatus::kCancelled);
  ASSERT_EQ(link.at_a->Send(Context(4), {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(link.a.Next().status, NdkStatus::kCancelled);
  ASSERT_EQ(link.at_a->Receive(Context(5), {}), NdkStatus::kSuccess);
  EXPECT_EQ(link.a.Next().status, NdkStatus::kCancelled);
  ExpectEnded(link.connection.active_events);
  ExpectEnded(link.connection.passive_events);
}

void AddFailures(Cases* cases) {
  static const std::string kDone =
      "a send has succeeded when TCP has it; the connection ends, and a read behind it with ";
  cases->push_back(
      {.assertion = 197,
       .name = "ASendWithoutAReceive",
       .run = SendWithoutReceive,
       .lacks = {{"fake", kDone + "IO_TIMEOUT"}, {"iwarp", kDone + "IO_TIMEOUT"}, {"siw", kDone + "CANCELLED"}}});
  cases->push_back({.assertion = 198,
                    .name = "ASendLongerThanItsReceive",
                    .run = SendBeyondTheReceive,
                    .lacks = {{"rxe", "the driver says no more than that the receive failed: INTERNAL_ERROR"}}});
  cases->push_back({199, "ABufferThatMayNotBeUsed", FailAndGoOn});
}

void AddZeroLengths(Cases* cases) {
  cases->push_back({200, "A_Send", [](World& w) {
                      const DataLink link(w);
                      Buffer to(link.b.domain, 64, kMrAllowLocalWrite);
                      const Sge in = to.sge();
                      ASSERT_EQ(link.at_b->Receive(nullptr, {&in, 1}), NdkStatus::kSuccess);
                      ASSERT_EQ(link.at_a->Send(nullptr, {}, 0), NdkStatus::kSuccess);
                      EXPECT_EQ(link.a.Next().status, NdkStatus::kSuccess);
                      const ResultEx received = link.b.Next();
                      EXPECT_EQ(received.status, NdkStatus::kSuccess);
                      EXPECT_EQ(received.bytes_transferred, 0u);
                    }});
  cases->push_back({200, "B_Read", [](World& w) {
                      const DataLink link(w);
                      ASSERT_EQ(link.at_a->Read(nullptr, {}, {}, 0), NdkStatus::kSuccess);
                      EXPECT_EQ(link.a.Next().status, NdkStatus::kSuccess);
                    }});
  cases->push_back({200, "C_Write", [](World& w) {
                      const DataLink link(w);
                      ASSERT_EQ(link.at_a->Write(nullptr, {}, {}, 0), NdkStatus::kSuccess);
                      EXPECT_EQ(link.a.Next().status, NdkStatus::kSuccess);
                      link.Settle();
                    }});
}

void ExpectFull(NdkStatus status) {
  EXPECT_TRUE(status == NdkStatus::kNoMoreEntries || status == NdkStatus::kInsufficientResources) << StatusName(status);
}

void FillReceives(World& w) {
  constexpr uintptr_t kDepth = 8;
  const DataLink link(w, w.a().NewQueuePair(),
                      w.b().NewQueuePair({.receive_queue_depth = kDepth, .initiator_queue_depth = 1}));
  link.PostReceivesAtB(kDepth);
  ExpectFull(link.at_b->Receive(nullptr, {}));
  for (uintptr_t i = 0; i < kDepth; ++i) link.SendToB();
  for (const ResultEx& result : link.b.Results(kDepth)) EXPECT_EQ(result.status, NdkStatus::kSuccess);
  link.PostReceivesAtB(1);
  link.SendToB();
  EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
}

// Reads take longer than posts.
void FillInitiator(World& w) {
  constexpr size_t kSize = 1'000'000;
  constexpr size_t kMost = 10'000;
  const DataLink link(w, w.a().NewQueuePair({.initiator_queue_depth = 4, .max_initiator_request_sge = 1}),
                      w.b().NewQueuePair());
  Buffer to(link.a.domain, kSize, kMrAllowLocalWrite | kMrRdmaReadSink);
  Buffer from(link.b.domain, kSize, kMrAllowRemoteRead);
  const Sge in = to.sge();
  NdkStatus status = NdkStatus::kSuccess;
  size_t taken = 0;
  for (; taken < kMost; ++taken) {
    status = link.at_a->Read(Context(taken), {&in, 1}, from.remote(), 0);
    if (status != NdkStatus::kSuccess) break;
  }
  ExpectFull(status);
  EXPECT_GE(taken, 4u);
  const auto results = link.a.Results(taken);
  for (size_t i = 0; i < taken; ++i) {
    EXPECT_EQ(results[i].request_context, Context(i));
    EXPECT_EQ(results[i].status, NdkStatus::kSuccess);
  }
  link.Settle();
}

}  // namespace

Cases PostingCases() {
  Cases cases;
  AddLimits(&cases);
  AddUnconnected(&cases);
  AddResults(&cases);
  cases.push_back({190, "AWriteBehindARead", ExpectFenced});
  AddInline(&cases);
  AddDeferred(&cases);
  AddFlushes(&cases);
  AddFailures(&cases);
  AddZeroLengths(&cases);
  cases.push_back({201, "A_Receives", FillReceives});
  cases.push_back({201, "B_InitiatorRequests", FillInitiator});
  return cases;
}

}  // namespace rdmabroker::ndkpi
