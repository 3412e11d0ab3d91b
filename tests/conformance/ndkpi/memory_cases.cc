// SPDX-License-Identifier: Apache-2.0

// Regions, windows, and what their tokens are good for.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/ndkpi/data_link.h"

namespace rdmabroker::ndkpi {
namespace {

constexpr MrFlags kSink = kMrAllowLocalWrite | kMrRdmaReadSink;

// a reads b's bytes into the buffer.
NdkStatus ReadInto(const DataLink& link, Buffer& buffer) {
  Buffer from(link.b.domain, 64, kMrAllowRemoteRead, 3);
  const Sge in = buffer.sge();
  EXPECT_EQ(link.at_a->Read(nullptr, {&in, 1}, from.remote(), 0), NdkStatus::kSuccess);
  const NdkStatus status = link.a.Next().status;
  EXPECT_EQ(buffer.bytes() == from.bytes(), status == NdkStatus::kSuccess);
  return status;
}

void ReceiveInto(World& w, MrFlags flags) {
  const DataLink link(w);
  Buffer from(link.a.domain, 64, kMrAllowLocalRead);
  Buffer to(link.b.domain, 64, flags);
  from.Fill(1);
  const Sge in = to.sge(), out = from.sge();
  ASSERT_EQ(link.at_b->Receive(nullptr, {&in, 1}), NdkStatus::kSuccess);
  ASSERT_EQ(link.at_a->Send(nullptr, {&out, 1}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
  EXPECT_EQ(to.bytes(), from.bytes());
}

void ExpectSinkFlag(World& w) {
  const uint32_t flags = w.a().side().adapter->info().adapter_flags;
  EXPECT_EQ((flags & kRdmaReadSinkNotRequired) == 0, w.lacks());
}

// Of the flag alone.
void ReadIntoNothingButASink(World& w) {
  ExpectSinkFlag(w);
  const DataLink link(w);
  Buffer to(link.a.domain, 64, kMrRdmaReadSink);
  EXPECT_EQ(ReadInto(link, to) == NdkStatus::kSuccess, w.lacks());
}

void WriteToASink(World& w) {
  ExpectSinkFlag(w);
  const DataLink link(w);
  Buffer from(link.a.domain, 64, kMrAllowLocalRead);
  Buffer to(link.b.domain, 64, kSink);
  from.Fill(4);
  const Sge out = from.sge();
  ASSERT_EQ(link.at_a->Write(nullptr, {&out, 1}, to.remote(), kOpSilentSuccess | kOpDefer), NdkStatus::kSuccess);
  // Over iWARP it is only what follows that fails.
  ASSERT_EQ(link.at_a->Read(nullptr, {}, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(link.a.Next().status == NdkStatus::kSuccess, w.lacks());
  EXPECT_EQ(to.bytes(), w.lacks() ? from.bytes() : std::vector<uint8_t>(64));
}

void AddRegions(Cases* cases) {
  cases->push_back({202, "AReceiveIntoIt", [](World& w) { ReceiveInto(w, kMrAllowRemoteWrite); }});
  cases->push_back({202, "AReceiveIntoItWithoutTheBitOfLocalWrite",
                    [](World& w) { ReceiveInto(w, kMrAllowRemoteWrite & ~kMrAllowLocalWrite); }});
  const std::vector<Lack> needs_sinks = {
      {"siw", "the flag is not set: sinks are what a read's answer may be written to"}};
  cases->push_back({.assertion = 203,
                    .name = "A_ItIsAccepted",
                    .run =
                        [](World& w) {
                          ExpectSinkFlag(w);
                          const DataLink link(w);
                          Buffer to(link.a.domain, 64, kSink);
                          EXPECT_EQ(ReadInto(link, to), NdkStatus::kSuccess);
                        },
                    .lacks = needs_sinks});
  cases->push_back(
      {.assertion = 203, .name = "B_ItOpensNothingToReads", .run = ReadIntoNothingButASink, .lacks = needs_sinks});
  cases->push_back({.assertion = 203, .name = "C_ItOpensNothingToThePeer", .run = WriteToASink, .lacks = needs_sinks});
  cases->push_back({.assertion = 204,
                    .name = "AReadIntoMemoryThatIsNoSink",
                    .run =
                        [](World& w) {
                          ExpectSinkFlag(w);
                          const DataLink link(w);
                          Buffer to(link.a.domain, 64, w.lacks() ? kSink : kMrAllowLocalWrite);
                          EXPECT_EQ(ReadInto(link, to), NdkStatus::kSuccess);
                        },
                    .lacks = needs_sinks});
  static const std::array<size_t, 2> kLengths = {0, 64};
  for (const size_t length : kLengths) {
    cases->push_back({209, length == 0 ? "NoLength" : "NoAddress", [length](World& w) {
                        std::vector<uint8_t> memory(64);
                        MemoryRegion* const region = w.a().side().domain->CreateMemoryRegion(false).object;
                        const NdkStatus status = region->Register(length == 0 ? memory.data() : nullptr, length, 0);
                        EXPECT_TRUE(status == NdkStatus::kInvalidParameter || status == NdkStatus::kInvalidBufferSize)
                            << StatusName(status);
                        CloseAndWait(region);
                      }});
  }
}

NdkStatus Bind(const DataLink& link, const Window& window, Buffer& buffer, size_t length, OpFlags flags) {
  return link.at_b->Bind(nullptr, buffer.region(), window.get(), buffer.bytes().data(), length, flags);
}

// A part in the middle of 64 bytes.
constexpr size_t kPart = 16;
constexpr size_t kPartLength = 32;

NdkStatus BindPart(const DataLink& link, const Window& window, Buffer& buffer, OpFlags flags) {
  return link.at_b->Bind(nullptr, buffer.region(), window.get(), buffer.bytes().data() + kPart, kPartLength, flags);
}

void BindMoreThanTheRegionHas(World& w) {
  if (w.lacks()) return ExpectNoWindows(w);
  const DataLink link(w);
  for (const MrFlags flags : {kMrAllowLocalRead, kMrAllowRemoteRead}) {
    Buffer buffer(link.b.domain, 64, flags);
    const Window window(link.b);
    EXPECT_EQ(Bind(link, window, buffer, 64, kOpAllowRemoteWrite), NdkStatus::kAccessViolation);
    EXPECT_EQ(Bind(link, window, buffer, 64, kOpAllowRemoteWrite | kOpAllowRemoteRead), NdkStatus::kAccessViolation);
  }
  ExpectNoResult(link.b);
}

// The token is taken before the bind's result is, and before what is deferred goes out with the next request.
void UseTheTokenOfAReturnedBind(World& w, OpFlags flags) {
  if (w.lacks()) return ExpectNoWindows(w);
  const DataLink link(w);
  Buffer to(link.a.domain, kPartLength, kSink);
  Buffer shared(link.b.domain, 64, kAllAccess);
  const Window window(link.b);
  shared.Fill(5);
  ASSERT_EQ(BindPart(link, window, shared, kOpAllowRemoteRead | flags), NdkStatus::kSuccess);
  const RemoteMemory source = window.remote(shared, kPart);
  EXPECT_NE(source.token, RemoteToken{});
  EXPECT_NE(source.token, shared.remote().token);
  if ((flags & kOpDefer) != 0) {
    ASSERT_EQ(link.at_b->Write(nullptr, {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  }
  EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
  EXPECT_EQ(window.get()->remote_token(), source.token);
  const Sge in = to.sge();
  ASSERT_EQ(link.at_a->Read(nullptr, {&in, 1}, source, 0), NdkStatus::kSuccess);
  EXPECT_EQ(link.a.Next().status, NdkStatus::kSuccess);
  EXPECT_TRUE(std::equal(to.bytes().begin(), to.bytes().end(), shared.bytes().begin() + kPart));
}

void DeregisterUnderAWindow(World& w) {
  if (w.lacks()) return ExpectNoWindows(w);
  const DataLink link(w);
  Buffer shared(link.b.domain, 64, kAllAccess);
  const Window window(link.b);
  ASSERT_EQ(Bind(link, window, shared, 64, kOpAllowRemoteRead), NdkStatus::kSuccess);
  EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
  EXPECT_EQ(shared.region()->Deregister(), NdkStatus::kDeviceBusy);
  ASSERT_EQ(link.at_b->Invalidate(nullptr, window.get(), 0), NdkStatus::kSuccess);
  EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
  EXPECT_EQ(shared.region()->Deregister(), NdkStatus::kSuccess);
}

void AddWindows(Cases* cases) {
  cases->push_back({.assertion = 205, .name = "BindAsksForMore", .run = BindMoreThanTheRegionHas, .lacks = kNoWindows});
  cases->push_back({.assertion = 206,
                    .name = "TheTokenIsThere",
                    .run = [](World& w) { UseTheTokenOfAReturnedBind(w, 0); },
                    .lacks = kNoWindows});
  cases->push_back({.assertion = 206,
                    .name = "TheTokenOfADeferredBindIsThere",
                    .run = [](World& w) { UseTheTokenOfAReturnedBind(w, kOpDefer); },
                    .lacks = kNoWindows});
  cases->push_back(
      {.assertion = 208, .name = "TheWindowHoldsTheRegion", .run = DeregisterUnderAWindow, .lacks = kNoWindows});
}

constexpr size_t kAccessLength = 8;

// What of b's 64 bytes a's access of 8 has no right to.
struct Violation {
  std::string name;
  bool windowed;
  bool invalidated;
  bool other_right;
  size_t offset;  // Of the access.
};

// The window opens the part.
const std::array<Violation, 6> kViolations = {
    {{"ThroughAnInvalidatedWindow", true, true, false, kPart},
     {"BeforeAWindow", true, false, false, kPart - kAccessLength / 2},
     {"BeyondAWindow", true, false, false, kPart + kPartLength - kAccessLength / 2},
     {"WithoutTheWindowsRight", true, false, true, kPart},
     {"BeyondARegion", false, false, false, 64 - kAccessLength / 2},
     {"WithoutTheRegionsRight", false, false, true, 0}}};

// Over iWARP a write has succeeded when TCP has it, and the objection is met by what comes behind it.
struct Access {
  std::string name;
  bool writes;
  std::vector<Lack> lacks;
};

const std::string kDone = "a write has succeeded when TCP has it; the connection ends, and a read behind it with ";
const std::array<Access, 2> kAccesses = {
    {{"ARead", false, {{"siw", "the driver does not say why the connection has ended: CANCELLED"}}},
     {"AWrite",
      true,
      {{"fake", kDone + "ACCESS_VIOLATION"}, {"iwarp", kDone + "ACCESS_VIOLATION"}, {"siw", kDone + "CANCELLED"}}}}};

// What a driver does not look at.
struct Blindness {
  Lack lack;
  bool (*applies)(const Violation& violation, const Access& access);
};

const std::array<Blindness, 2> kBlindnesses = {
    {{{"siw", "the driver lets a peer read whatever is registered: the read succeeds"},
      [](const Violation& violation, const Access& access) {
        return violation.other_right && !violation.windowed && !access.writes;
      }},
     {{"rxe", "the driver lets a peer go beyond a window, up to its region's bounds: the access succeeds"},
      [](const Violation& violation, const Access&) { return violation.windowed && violation.offset != kPart; }}}};

bool DriverIsBlind(World& w, const Violation& violation, const Access& access) {
  return std::any_of(kBlindnesses.begin(), kBlindnesses.end(), [&](const Blindness& blindness) {
    return blindness.lack.adapter == w.on().adapter && blindness.applies(violation, access);
  });
}

// Opens b's buffer but for what the violation says, and returns where the access goes.
RemoteMemory Open(const DataLink& link, Buffer& shared, const Window* window, const Violation& violation, bool writes) {
  if (window == nullptr) return shared.remote(violation.offset);
  const OpFlags right = writes != violation.other_right ? kOpAllowRemoteWrite : kOpAllowRemoteRead;
  EXPECT_EQ(BindPart(link, *window, shared, right), NdkStatus::kSuccess);
  const RemoteMemory opened = window->remote(shared, violation.offset);
  EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
  if (violation.invalidated) {
    EXPECT_EQ(link.at_b->Invalidate(nullptr, window->get(), 0), NdkStatus::kSuccess);
    EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
  }
  return opened;
}

void ExpectInitiatorsFailure(const DataLink& link, bool writes) {
  World& w = link.world;
  const bool siw = w.on().adapter == "siw";
  if (!w.lacks()) {
    EXPECT_EQ(link.a.Next().status, NdkStatus::kAccessViolation);
  } else if (writes) {
    const auto results = link.a.Results(2);
    // Where the objection comes while the write is under way, soft iWARP cancels that, too (siw_sq_flush).
    EXPECT_TRUE(results[0].status == NdkStatus::kSuccess || (siw && results[0].status == NdkStatus::kCancelled));
    EXPECT_EQ(results[1].status, siw ? NdkStatus::kCancelled : NdkStatus::kAccessViolation);
  } else {
    EXPECT_EQ(link.a.Next().status, NdkStatus::kCancelled);
  }
}

void ExpectViolation(World& w, const Violation& violation, const Access& access) {
  if (violation.windowed && w.b().side().adapter->info().max_window_size == 0) {
    EXPECT_TRUE(w.lacks());
    return ExpectNoWindows(w);
  }
  const DataLink link(w);
  Buffer here(link.a.domain, 64, kSink);
  here.Fill(6);
  const MrFlags right = access.writes != violation.other_right ? kMrAllowRemoteWrite : kMrAllowRemoteRead;
  Buffer shared(link.b.domain, 64, violation.windowed ? kAllAccess : right);
  const std::vector<uint8_t> before = here.bytes();
  const auto window = violation.windowed ? std::make_unique<Window>(link.b) : nullptr;
  const RemoteMemory remote = Open(link, shared, window.get(), violation, access.writes);
  link.PostReceivesAtB(1);
  const Sge sge = here.sge(0, kAccessLength);
  const bool is_blind = DriverIsBlind(w, violation, access);
  if (access.writes) {
    // With the read behind it, where that is what fails.
    const bool late = w.lacks() && !is_blind;
    ASSERT_EQ(link.at_a->Write(nullptr, {&sge, 1}, remote, late ? kOpDefer : 0), NdkStatus::kSuccess);
    if (late) {
      ASSERT_EQ(link.at_a->Read(nullptr, {}, {}, 0), NdkStatus::kSuccess);
    }
  } else {
    ASSERT_EQ(link.at_a->Read(nullptr, {&sge, 1}, remote, 0), NdkStatus::kSuccess);
  }
  if (is_blind) {
    EXPECT_TRUE(w.lacks());
    EXPECT_EQ(link.a.Next().status, NdkStatus::kSuccess);
    return link.Settle();
  }
  ExpectInitiatorsFailure(link, access.writes);
  ExpectEnded(link.connection.active_events);
  ExpectEnded(link.connection.passive_events);
  EXPECT_EQ(link.b.Next().status, NdkStatus::kCancelled);
  EXPECT_EQ(shared.bytes(), std::vector<uint8_t>(64));
  EXPECT_EQ(here.bytes(), before);
}

// What else is said of the adapter is not met then.
void Replace(const Lack& lack, std::vector<Lack>* lacks) {
  std::erase_if(*lacks, [&lack](const Lack& other) { return other.adapter == lack.adapter; });
  lacks->push_back(lack);
}

void AddViolations(Cases* cases) {
  for (const Access& access : kAccesses) {
    for (const Violation& violation : kViolations) {
      std::vector<Lack> lacks = access.lacks;
      if (violation.windowed) Replace(kNoWindows.front(), &lacks);
      for (const Blindness& blindness : kBlindnesses) {
        if (blindness.applies(violation, access)) Replace(blindness.lack, &lacks);
      }
      cases->push_back({.assertion = 207,
                        .name = access.name + violation.name,
                        .run = [&](World& w) { ExpectViolation(w, violation, access); },
                        .lacks = lacks});
    }
  }
}

// A token that was good and is no more.
RemoteToken DeadToken(DataSide& side) {
  Buffer gone(side.domain, 64, kAllAccess);
  return gone.remote().token;
}

// b's token is none that this connection's peer may invalidate.
void InvalidateWrongly(const DataLink& link, RemoteToken token) {
  link.PostReceivesAtB(2);
  ASSERT_EQ(link.at_a->SendAndInvalidate(nullptr, {}, 0, token), NdkStatus::kSuccess);
  for (const ResultEx& result : link.b.Results(2)) EXPECT_FALSE(IsSuccess(result.status));
  ExpectEnded(link.connection.passive_events);
  ExpectEnded(link.connection.active_events);
}

void InvalidateAnothersWindow(World& w) {
  const bool blind = w.lacks() && w.b().side().adapter->info().max_window_size > 0;
  if (w.lacks() && !blind) return ExpectNoWindows(w);
  const DataLink link(w), other(w);
  Buffer shared(link.b.domain, 64, kAllAccess);
  const Window window(link.b);
  ASSERT_EQ(Bind(other, window, shared, 64, kOpAllowRemoteRead), NdkStatus::kSuccess);
  EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
  const RemoteToken token = window.get()->remote_token();
  if (!blind) return InvalidateWrongly(link, token);
  link.PostReceivesAtB(1);
  ASSERT_EQ(link.at_a->SendAndInvalidate(nullptr, {}, 0, token), NdkStatus::kSuccess);
  const ResultEx received = link.b.Next();
  EXPECT_EQ(received.status, NdkStatus::kSuccess);
  EXPECT_EQ(received.invalidated_token, token);
}

void ExpectTypeSend(World& w) {
  const DataLink link(w);
  Buffer shared(link.b.domain, 64, kAllAccess);
  link.PostReceivesAtB(1);
  if (w.lacks()) {
    ExpectNoWindows(w);
    ASSERT_EQ(link.at_a->SendAndInvalidate(Context(1), {}, 0, DeadToken(link.b)), NdkStatus::kSuccess);
    EXPECT_EQ(link.a.Next().type, OperationType::kSend);
    return;
  }
  const Window window(link.b);
  ASSERT_EQ(Bind(link, window, shared, 64, kOpAllowRemoteRead), NdkStatus::kSuccess);
  EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
  ASSERT_EQ(link.at_a->SendAndInvalidate(Context(1), {}, 0, window.get()->remote_token()), NdkStatus::kSuccess);
  const ResultEx sent = link.a.Next();
  EXPECT_EQ(sent.request_context, Context(1));
  EXPECT_EQ(sent.status, NdkStatus::kSuccess);
  EXPECT_EQ(sent.type, OperationType::kSend);
  EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
}

void AddInvalidations(Cases* cases) {
  cases->push_back({210, "ATokenThatIsDead", [](World& w) {
                      const DataLink link(w);
                      InvalidateWrongly(link, DeadToken(link.b));
                    }});
  cases->push_back({210, "ARegistrationsToken", [](World& w) {
                      const DataLink link(w);
                      Buffer registered(link.b.domain, 64, kAllAccess);
                      InvalidateWrongly(link, registered.remote().token);
                    }});
  std::vector<Lack> anothers = kNoWindows;
  anothers.push_back({"rxe", "the driver lets a peer invalidate every queue pair's windows: the receive succeeds"});
  cases->push_back({.assertion = 210,
                    .name = "TheTokenOfAnotherQueuePairsWindow",
                    .run = InvalidateAnothersWindow,
                    .lacks = anothers});
  cases->push_back({.assertion = 211,
                    .name = "ItsResultIsASends",
                    .run = ExpectTypeSend,
                    .lacks = {{"siw", "no memory windows: the token is one that the peer cannot invalidate"}}});
}

struct RemoteRight {
  std::string name;
  OpFlags flags;
};

const std::array<RemoteRight, 2> kRemoteRights = {
    {{"RemoteRead", kOpAllowRemoteRead}, {"RemoteWrite", kOpAllowRemoteWrite}}};

void FastRegisterLocalOnly(World& w, OpFlags flags) {
  if (w.lacks()) return ExpectNoFastRegister(w);
  const DataLink link(w);
  FastRegion local(link.a, false);
  EXPECT_EQ(local.PostTo(link.at_a, nullptr, flags), NdkStatus::kAccessViolation);
  EXPECT_EQ(local.PostTo(link.at_a, nullptr, kOpAllowLocalWrite), NdkStatus::kSuccess);
  EXPECT_EQ(link.a.Next().status, NdkStatus::kSuccess);
  ExpectNoResult(link.a);
}

void InitializeTooManyPages(World& w) {
  if (w.lacks()) return ExpectNoFastRegister(w);
  DataSide& side = w.a().side();
  MemoryRegion* const region = side.domain->CreateMemoryRegion(true).object;
  const uint32_t most = side.adapter->info().frmr_page_count;
  EXPECT_EQ(region->InitializeFastRegister(most + 1, true), NdkStatus::kImplementationLimit);
  EXPECT_EQ(region->InitializeFastRegister(most, true), NdkStatus::kSuccess);
  CloseAndWait(region);
}

void ExpectFastRegisterOrNot(World& w) {
  DataSide& side = w.a().side();
  if (!w.lacks()) {
    ExpectNoFastRegister(w);
    MemoryRegion* const region = side.domain->CreateMemoryRegion(true).object;
    EXPECT_EQ(side.qp->Invalidate(nullptr, region, 0), NdkStatus::kNotSupported);
    const DataLink link(w);
    void* const pages[] = {&w};
    EXPECT_EQ(link.at_a->FastRegister(nullptr, region, pages, 0, 1, 0, 0), NdkStatus::kNotSupported);
    EXPECT_EQ(link.at_a->Invalidate(nullptr, region, 0), NdkStatus::kNotSupported);
    return CloseAndWait(region);
  }
  EXPECT_GE(side.adapter->info().frmr_page_count, 16u);
  const DataLink link(w);
  FastRegion fast(link.a, true);
  EXPECT_EQ(fast.PostTo(link.at_a, nullptr, kOpAllowRemoteRead), NdkStatus::kSuccess);
  EXPECT_EQ(link.at_a->Invalidate(nullptr, fast.region(), 0), NdkStatus::kSuccess);
  for (const ResultEx& result : link.a.Results(2)) EXPECT_EQ(result.status, NdkStatus::kSuccess);
}

// Token 0, with which other transports have it, names no memory to anybody.
void ExpectNoPrivilegedToken(World& w) {
  EXPECT_TRUE(w.lacks());
  const DataLink link(w);
  Buffer to(link.a.domain, 64, kSink);
  Buffer shared(link.b.domain, 64, kAllAccess);
  shared.Fill(8);
  const Sge in = to.sge();
  ASSERT_EQ(link.at_a->Read(nullptr, {&in, 1}, {shared.remote().address, RemoteToken{}}, 0), NdkStatus::kSuccess);
  EXPECT_FALSE(IsSuccess(link.a.Next().status));
  ExpectEnded(link.connection.active_events);
  ExpectEnded(link.connection.passive_events);
  EXPECT_EQ(to.bytes(), std::vector<uint8_t>(64));
  const DataLink other(w);
  Sge privileged = to.sge();
  privileged.token = {};
  ASSERT_EQ(other.at_a->Send(nullptr, {&privileged, 1}, 0), NdkStatus::kSuccess);
  EXPECT_FALSE(IsSuccess(other.a.Next().status));
}

void AddFastRegister(Cases* cases) {
  for (const RemoteRight& right : kRemoteRights) {
    cases->push_back({.assertion = 212,
                      .name = right.name + "OfARegionWithoutRemoteAccess",
                      .run = [&right](World& w) { FastRegisterLocalOnly(w, right.flags); },
                      .lacks = kNoFastRegister});
  }
  cases->push_back(
      {.assertion = 213, .name = "OnePageTooMany", .run = InitializeTooManyPages, .lacks = kNoFastRegister});
  std::vector<Lack> nowhere;
  for (const std::string& adapter : Adapters()) {
    nowhere.push_back({adapter, "no privileged token in user space; token 0 grants nothing"});
  }
  cases->push_back({.assertion = 214, .name = "TokenZero", .run = ExpectNoPrivilegedToken, .lacks = nowhere});
  cases->push_back({.assertion = 215,
                    .name = "FastRegisterIsOfferedNowhereOrThroughout",
                    .run = ExpectFastRegisterOrNot,
                    .lacks = {{"fake", "fast-register is offered"}, {"iwarp", "fast-register is offered"}}});
}

}  // namespace

Cases MemoryCases() {
  Cases cases;
  AddRegions(&cases);
  AddWindows(&cases);
  AddViolations(&cases);
  AddInvalidations(&cases);
  AddFastRegister(&cases);
  return cases;
}

}  // namespace rdmabroker::ndkpi
