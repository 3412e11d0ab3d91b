// SPDX-License-Identifier: Apache-2.0

// Read limits and private data.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/ndkpi/stranger.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::ndkpi {
namespace {

using client::ReadLimits;

// What each side offers, and what both end up with.
struct Offers {
  ReadLimits active;
  ReadLimits passive;
};

ReadLimits LimitsOf(const std::shared_ptr<client::Connector>& connector) {
  ReadLimits limits;
  EXPECT_EQ(connector->GetConnectionData(&limits.inbound, &limits.outbound, nullptr, nullptr), NdkStatus::kSuccess);
  return limits;
}

// As far as Connect's end.
Handshake Offer(World& w, const Offers& offers) {
  const TestListener listener = w.b().Listening();
  Handshake made = w.Request(w.a(), w.b(), listener, {.limits = offers.active});
  made.accept = w.b().Accept(made.passive, made.passive_qp, {.limits = offers.passive});
  EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess);
  return made;
}

Handshake Negotiate(World& w, const Offers& offers) {
  Handshake made = Offer(w, offers);
  made.complete = w.a().CompleteConnect(made.active);
  EXPECT_EQ(made.complete.Status(), NdkStatus::kSuccess);
  EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
  return made;
}

// By the rule that no side serves more reads than the other makes, nor makes more than the other serves.
ReadLimits Effective(const AdapterInfo& info, const ReadLimits& own, const ReadLimits& peers) {
  const uint32_t inbound = std::min(own.inbound, info.max_inbound_read_limit);
  const uint32_t outbound = std::min(own.outbound, info.max_outbound_read_limit);
  return {std::min({inbound, peers.outbound, info.max_outbound_read_limit}),
          std::min({outbound, peers.inbound, info.max_inbound_read_limit})};
}

void ExpectEffective(World& w, const Handshake& made, const Offers& offers) {
  EXPECT_EQ(LimitsOf(made.active), Effective(w.a().info(), offers.active, offers.passive));
  EXPECT_EQ(LimitsOf(made.passive), Effective(w.b().info(), offers.passive, offers.active));
}

// What soft iWARP has where the acceptor serves fewer reads than its peer makes (siw_accept in
// drivers/infiniband/sw/siw/siw_cm.c).
std::vector<Lack> ServesWhatIsAsked() {
  return {{"siw", "soft iWARP's driver serves as many reads as its peer makes, even where the acceptor offers fewer"}};
}

void AskedByAStranger(World& w) {
  const TestListener listener = w.b().Listening();
  const Stranger stranger(w, listener.address);
  const auto connector = listener.Next();
  const AdapterInfo& info = w.b().info();
  EXPECT_EQ(LimitsOf(connector), (ReadLimits{info.max_inbound_read_limit, info.max_outbound_read_limit}));
}

void AddLimits(Cases* cases) {
  cases->push_back({128, "MoreThanTheAdapterHasCountsAsWhatItHas", [](World& w) {
                      const Offers offers = {{100'000, 100'000}, {100'000, 100'000}};
                      ExpectEffective(w, Negotiate(w, offers), offers);
                    }});
  cases->push_back({129, "BothSidesEndUpWithTheLesserOfWhatMeets", [](World& w) {
                      const Offers offers = {{8, 2}, {4, 16}};
                      const Handshake made = Negotiate(w, offers);
                      EXPECT_EQ(LimitsOf(made.active), (ReadLimits{8, 2}));
                      EXPECT_EQ(LimitsOf(made.passive), (ReadLimits{2, 8}));
                    }});
  cases->push_back(
      {130, "BeforeAcceptTheyAreThePeersOfferWithinTheAdaptersLimits", [](World& w) {
         const TestListener listener = w.b().Listening();
         const Handshake made = w.Request(w.a(), w.b(), listener, {.limits = {8, 2}});
         EXPECT_EQ(LimitsOf(made.passive), (ReadLimits{2, 8}));
         const Handshake more = w.Request(w.a(), w.b(), listener, {.limits = {100'000, 100'000}});
         const AdapterInfo& info = w.b().info();
         EXPECT_EQ(LimitsOf(more.passive), (ReadLimits{info.max_inbound_read_limit, info.max_outbound_read_limit}));
       }});
  cases->push_back({130, "OfAPeerThatHasMoreTheyAreTheAdapters", AskedByAStranger});
  cases->push_back({131,
                    "AfterConnectTheActiveSideHasTheFinalOnes",
                    [](World& w) {
                      const Handshake made = Offer(w, {{8, 2}, {1, 3}});
                      EXPECT_EQ(LimitsOf(made.active), (ReadLimits{3, w.lacks() ? 2U : 1U}));
                    },
                    {},
                    false,
                    ServesWhatIsAsked()});
  cases->push_back({132,
                    "OneSidesInboundIsTheOthersOutbound",
                    [](World& w) {
                      const Handshake made = Negotiate(w, {{5, 7}, {6, 3}});
                      const ReadLimits active = LimitsOf(made.active), passive = LimitsOf(made.passive);
                      EXPECT_EQ(active.inbound, passive.outbound);
                      if (w.lacks()) {
                        EXPECT_EQ(active.outbound, 7u);
                      } else {
                        EXPECT_EQ(active.outbound, passive.inbound);
                      }
                    },
                    {},
                    false,
                    ServesWhatIsAsked()});
  static const std::vector<std::pair<std::string, Offers>> kNone = {
      {"ActiveInbound", {{0, 4}, {4, 4}}}, {"ActiveOutbound", {{4, 0}, {4, 4}}}, {"PassiveOutbound", {{4, 4}, {4, 0}}}};
  for (const auto& [side, offers] : kNone) {
    cases->push_back({133, "NoneOnOneSideIsNoneOnTheOther" + side,
                      [&offers = offers](World& w) { ExpectEffective(w, Negotiate(w, offers), offers); }});
  }
  cases->push_back({133,
                    "NoneOnOneSideIsNoneOnTheOtherPassiveInbound",
                    [](World& w) {
                      const Handshake made = Negotiate(w, {{4, 4}, {0, 4}});
                      EXPECT_EQ(LimitsOf(made.active), (ReadLimits{4, w.lacks() ? 4U : 0U}));
                      EXPECT_EQ(LimitsOf(made.passive), (ReadLimits{0, 4}));
                    },
                    {},
                    false,
                    ServesWhatIsAsked()});
  for (const uint32_t limit : {255U, 256U, 0xFFFFFFFFU}) {
    cases->push_back({134, "AnyNumberIsAccepted" + std::to_string(limit), [limit](World& w) {
                        const Offers offers = {{limit, limit}, {limit, limit}};
                        ExpectEffective(w, Negotiate(w, offers), offers);
                      }});
  }
}

void ReadMoreThanTheLimit(World& w) {
  constexpr size_t kReads = 8;
  constexpr size_t kLength = 4096;
  const Handshake made = Negotiate(w, {{1, 1}, {1, 1}});
  DataSide &a = w.a().side(), &b = w.b().side();
  Buffer source(b.domain, kReads * kLength, kAllAccess, 7);
  Buffer sink(a.domain, kReads * kLength, kAllAccess | kMrRdmaReadSink);
  for (size_t i = 0; i < kReads; ++i) {
    const Sge sge = sink.sge(i * kLength, kLength);
    ASSERT_EQ(made.active_qp->Read(Context(i), {&sge, 1}, source.remote(i * kLength), 0), NdkStatus::kSuccess);
  }
  for (const ResultEx& result : a.Results(kReads)) EXPECT_EQ(result.status, NdkStatus::kSuccess);
  EXPECT_EQ(sink.bytes(), source.bytes());
  // The queue pairs still hold the buffers' regions for them.
  w.Close(made);
}

std::string Bytes(size_t length) {
  std::string bytes(length, '\0');
  for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>(i * 7 + 1);
  return bytes;
}

std::string AreaOf(const std::shared_ptr<client::Connector>& connector) {
  uint32_t length = 0;
  EXPECT_EQ(connector->GetConnectionData(nullptr, nullptr, nullptr, &length), NdkStatus::kSuccess);
  std::string area(length, '\0');
  EXPECT_EQ(connector->GetConnectionData(nullptr, nullptr, area.data(), &length), NdkStatus::kSuccess);
  EXPECT_EQ(length, area.size());
  return area;
}

// Which message carries the data: where it goes to is what the third function returns.
struct Carrier {
  std::string name;
  uint32_t (*limit)(const AdapterInfo& info);
  std::shared_ptr<client::Connector> (*carry)(World& w, const std::string& data);
};

const std::array<Carrier, 3> kCarriers = {{
    {"Connect", [](const AdapterInfo& info) { return info.max_caller_data; },
     [](World& w, const std::string& data) {
       const TestListener listener = w.b().Listening();
       return w.Request(w.a(), w.b(), listener, {.private_data = data}).passive;
     }},
    {"Accept", [](const AdapterInfo& info) { return info.max_callee_data; },
     [](World& w, const std::string& data) {
       const Handshake made = w.Request();
       w.b().Accept(made.passive, made.passive_qp, {.private_data = data});
       EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess);
       return made.active;
     }},
    {"Reject", [](const AdapterInfo& info) { return info.max_callee_data; },
     [](World& w, const std::string& data) {
       const Handshake made = w.Request();
       EXPECT_EQ(w.b().Reject(made.passive, data).Status(), NdkStatus::kSuccess);
       EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
       return made.active;
     }},
}};

void ExpectCarried(World& w, const Carrier& carrier, size_t length) {
  const std::string data = Bytes(length);
  EXPECT_EQ(AreaOf(carrier.carry(w, data)).substr(0, length), data);
}

// The peer's data in a buffer of so many bytes more, or fewer, than they are.
void ExpectCopied(World& w, int more) {
  const auto connector = kCarriers[0].carry(w, Bytes(20));
  const std::string area = AreaOf(connector);
  ASSERT_GE(area.size(), 20u);
  std::string buffer(area.size() + 8, '#');
  const auto room = static_cast<uint32_t>(std::max<int64_t>(0, static_cast<int64_t>(area.size()) + more));
  uint32_t length = room;
  EXPECT_EQ(connector->GetConnectionData(nullptr, nullptr, buffer.data(), &length),
            more >= 0 ? NdkStatus::kSuccess : NdkStatus::kBufferTooSmall);
  EXPECT_EQ(length, area.size());
  const size_t copied = std::min<size_t>(room, area.size());
  EXPECT_EQ(buffer.substr(0, copied), area.substr(0, copied));
  EXPECT_EQ(buffer.substr(copied), std::string(buffer.size() - copied, '#'));
}

// One byte more than the adapter carries fails at once, and the same call with as many as it does then works.
void OneByteTooMany(World& w, const Carrier& carrier) {
  const std::string data = Bytes(carrier.limit(w.a().info()) + 1);
  const TestListener listener = w.b().Listening();
  if (carrier.name == "Connect") {
    const auto connector = w.a().NewConnector();
    QueuePair* const qp = w.a().NewQueuePair();
    const Call refused = w.a().Connect(connector, qp, listener.address, {.private_data = data});
    EXPECT_FALSE(refused.pending());
    EXPECT_EQ(refused.Status(), NdkStatus::kInvalidBufferSize);
    w.a().Connect(connector, qp, listener.address, {.private_data = data.substr(1)});
    EXPECT_EQ(AreaOf(listener.Next()).substr(0, data.size() - 1), data.substr(1));
    return;
  }
  const Handshake made = w.Request(w.a(), w.b(), listener);
  const auto answer = [&](const std::string& with) {
    return carrier.name == "Accept" ? w.b().Accept(made.passive, made.passive_qp, {.private_data = with})
                                    : w.b().Reject(made.passive, with);
  };
  const Call refused = answer(data);
  EXPECT_FALSE(refused.pending());
  EXPECT_EQ(refused.Status(), NdkStatus::kInvalidBufferSize);
  answer(data.substr(1));
  EXPECT_EQ(made.connect.Status(), carrier.name == "Accept" ? NdkStatus::kSuccess : NdkStatus::kConnectionRefused);
  EXPECT_EQ(AreaOf(made.active).substr(0, data.size() - 1), data.substr(1));
}

void AddPrivateData(Cases* cases) {
  for (const Carrier& carrier : kCarriers) {
    const int most = carrier.name == "Reject" ? 143 : 142;
    cases->push_back(
        {136, carrier.name + "CarriesItByteForByte", [&carrier](World& w) { ExpectCarried(w, carrier, 33); }});
    cases->push_back({most, carrier.name + "CarriesAsMuchAsTheAdapterSays",
                      [&carrier](World& w) { ExpectCarried(w, carrier, carrier.limit(w.a().info())); }});
    cases->push_back({most, carrier.name + "WithAByteMoreFailsAndCanBeTriedAgain",
                      [&carrier](World& w) { OneByteTooMany(w, carrier); }});
    cases->push_back({145, carrier.name + "WithoutAny", [&carrier](World& w) { ExpectCarried(w, carrier, 0); }});
  }
}

void AddConnectionData(Cases* cases) {
  cases->push_back({137, "WithoutABufferItsSizeIsTold", [](World& w) {
                      const auto connector = kCarriers[0].carry(w, Bytes(20));
                      uint32_t length = 0;
                      EXPECT_EQ(connector->GetConnectionData(nullptr, nullptr, nullptr, &length), NdkStatus::kSuccess);
                      EXPECT_GE(length, 20u);
                      EXPECT_EQ(length, AreaOf(connector).size());
                    }});
  cases->push_back({138, "ABufferThatIsTooSmallGetsWhatFits", [](World& w) { ExpectCopied(w, -1); }});
  cases->push_back({138, "ABufferOfNoBytesGetsNothing", [](World& w) { ExpectCopied(w, INT_MIN); }});
  cases->push_back({139, "ABufferThatIsLargeEnoughGetsAll", [](World& w) { ExpectCopied(w, 4); }});
  cases->push_back({140, "ALengthWithoutABufferFails", [](World& w) {
                      const auto connector = kCarriers[0].carry(w, Bytes(20));
                      uint32_t length = 20;
                      EXPECT_EQ(connector->GetConnectionData(nullptr, nullptr, nullptr, &length),
                                NdkStatus::kInvalidParameter);
                    }});
  cases->push_back(
      {141, "LimitsNeedNotBeAskedFor", [](World& w) {
         const TestListener listener = w.b().Listening();
         const Handshake made = w.Request(w.a(), w.b(), listener, {.limits = {3, 4}});
         uint32_t limit = 0;
         EXPECT_EQ(made.passive->GetConnectionData(nullptr, nullptr, nullptr, nullptr), NdkStatus::kSuccess);
         EXPECT_EQ(made.passive->GetConnectionData(&limit, nullptr, nullptr, nullptr), NdkStatus::kSuccess);
         EXPECT_EQ(limit, 4u);
         EXPECT_EQ(made.passive->GetConnectionData(nullptr, &limit, nullptr, nullptr), NdkStatus::kSuccess);
         EXPECT_EQ(limit, 3u);
       }});
  cases->push_back({144, "ItStaysAfterCompleteConnect", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      Handshake made = w.Request(w.a(), w.b(), listener, {.private_data = "offer"});
                      made.accept = w.b().Accept(made.passive, made.passive_qp, {.private_data = "answer"});
                      EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(AreaOf(made.active).substr(0, 6), "answer");
                      EXPECT_EQ(AreaOf(made.passive).substr(0, 5), "offer");
                    }});
}

}  // namespace

Cases NegotiationCases() {
  Cases cases;
  AddLimits(&cases);
  cases.push_back({135, "MoreReadsThanTheLimitWaitForTheirTurn", ReadMoreThanTheLimit});
  AddPrivateData(&cases);
  AddConnectionData(&cases);
  return cases;
}

}  // namespace rdmabroker::ndkpi
