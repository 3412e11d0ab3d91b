// SPDX-License-Identifier: Apache-2.0

// What two processes say to each other when rdma-brokerd has connected them over user-space iWARP, as somebody sees it
// who knows nothing of the product: TCP streams put together from the packets of a network namespace, and what tshark's
// dissectors make of them.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/blocking.h"
#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/negotiation.h"
#include "dataplane/iwarp/wire/startup_frame.h"
#include "dataplane/testing/side.h"
#include "tests/control/child_process.h"
#include "tests/control/temporary_folder.h"
#include "tests/integration/capture.h"
#include "tests/integration/interface.h"
#include "tests/integration/library_client.h"
#include "tests/integration/neighbour.h"
#include "tests/integration/own_namespaces.h"
#include "tests/integration/running_broker.h"
#include "tests/integration/tcp_packets.h"

namespace rdmabroker {
namespace {

using iwarp::Side;

constexpr std::string_view kRequestKey = "MPA ID Req Frame";  // RFC 5044, section 7.1.
constexpr std::string_view kReplyKey = "MPA ID Rep Frame";
constexpr char kPrivateData[] = "no, thank you";
constexpr int kEthernetMtu = 1500;
constexpr int kLoopbackMtu = 65536;
// What remains of that behind the headers of IPv4 and TCP and TCP's timestamps.
constexpr size_t kEthernetSegment = kEthernetMtu - 20 - 20 - 12;

size_t Count(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

SocketAddress Loopback(int family) { return {*IpAddress::Parse(family == AF_INET ? "127.0.0.1" : "::1"), 0}; }

// As TcpStreams names it.
TcpDirection DirectionOf(const SocketAddress& from, const SocketAddress& to) {
  TcpDirection direction;
  for (const SocketAddress* address : {&from, &to}) {
    direction.append(address->ip.bytes.begin(),
                     address->ip.bytes.begin() + (address->ip.family == IpFamily::kIpv4 ? 4 : 16));
  }
  for (const uint16_t port : {from.port, to.port}) {
    direction += {static_cast<char>(port >> 8), static_cast<char>(port & 0xFF)};
  }
  return direction;
}

sockaddr_storage ToSystem(const SocketAddress& address, socklen_t* length) {
  sockaddr_storage storage = {};
  if (address.ip.family == IpFamily::kIpv4) {
    auto& in = reinterpret_cast<sockaddr_in&>(storage);
    in = {.sin_family = AF_INET, .sin_port = htons(address.port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *length = sizeof in;
  } else {
    auto& in6 = reinterpret_cast<sockaddr_in6&>(storage);
    in6 = {.sin6_family = AF_INET6, .sin6_port = htons(address.port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    *length = sizeof in6;
  }
  return storage;
}

// An iWARP endpoint without a broker, which knows RFC 5044 but not RFC 6581's third step: a handshake with it has two.
class Stranger {
 public:
  explicit Stranger(bool crc) { offer_.crc = crc; }

  void ConnectTo(const SocketAddress& to) {
    socklen_t length = 0;
    const sockaddr_storage address = ToSystem(to, &length);
    UniqueFd socket(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
    iwarp::StartupFrame request = *iwarp::BuildRequest(offer_, "");
    request.revision = iwarp::kRevision1;
    request.enhanced = std::nullopt;
    SendFrame(socket.get(), request);
    const auto outcome = iwarp::CheckReply(request, offer_, Receive(socket.get(), iwarp::StartupKind::kReply));
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    side.Attach(std::move(socket), std::get<iwarp::ConnectionState>(*outcome));
  }

  SocketAddress Listen(int family) {
    listener_.Reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    socklen_t length = 0;
    sockaddr_storage address = ToSystem(Loopback(family), &length);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), generic, length), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener_.get(), generic, &length), 0);
    SocketAddress bound = Loopback(family);
    bound.port = ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);  // Where IPv6 has it, too.
    return bound;
  }
  void Accept() {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(socket);
    iwarp::StartupFrame request = Receive(socket.get(), iwarp::StartupKind::kRequest);
    ASSERT_TRUE(request.enhanced.has_value());
    request.enhanced->peer_to_peer = false;
    const auto accepted = iwarp::BuildReply(request, offer_, "");
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    SendFrame(socket.get(), accepted->reply);
    side.Attach(std::move(socket), accepted->state);
  }

  void Disconnect() {
    std::atomic<bool> disconnected = false;
    ASSERT_EQ(side.qp->Disconnect(kPatience,
                                  [&](NdkStatus status) {
                                    EXPECT_EQ(status, NdkStatus::kSuccess);
                                    disconnected = true;
                                  }),
              NdkStatus::kPending);
    EXPECT_TRUE(Eventually([&] { return disconnected.load(); }));
  }

  Side side;

 private:
  static void SendFrame(int socket, const iwarp::StartupFrame& frame) {
    const std::string bytes = *iwarp::EncodeStartupFrame(frame);
    EXPECT_EQ(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // Byte by byte, so that nothing behind it is taken.
  static iwarp::StartupFrame Receive(int socket, iwarp::StartupKind kind) {
    std::string bytes;
    char byte = 0;
    while (::recv(socket, &byte, 1, 0) == 1) {
      bytes += byte;
      const auto decoded = iwarp::DecodeStartupFrame(iwarp::AsBytes(bytes), kind);
      EXPECT_TRUE(decoded.ok()) << decoded.status();
      if (!decoded.ok()) break;
      if (decoded->has_value()) return (*decoded)->frame;
    }
    ADD_FAILURE() << "no start-up frame";
    return {};
  }

  // FPDUs of its own fit into Ethernet's segments.
  iwarp::Offer offer_ = {.inbound_read_limit = 4, .outbound_read_limit = 4, .fpdu_limit = kEthernetSegment};
  UniqueFd listener_;
};

// Of each kind of message one, in both directions where that is different. Returns what the active side has written and
// what it has read, so that it can be looked for on the wire.
std::pair<std::string, std::string> Exchange(DataSide& active, DataSide& passive) {
  constexpr size_t kWritten = 150'001;
  constexpr size_t kRead = 90'003;
  Buffer ours(active.domain, 400'000, kAllAccess);
  Buffer theirs(passive.domain, 400'000, kAllAccess);
  std::mt19937 random(1);
  for (Buffer* buffer : {&ours, &theirs}) {
    for (uint8_t& byte : buffer->bytes()) byte = static_cast<uint8_t>(random());
  }
  const auto expect = [](DataSide& side, OperationType type, size_t received = 0) {
    const ResultEx result = side.Next();
    EXPECT_EQ(result.status, NdkStatus::kSuccess);
    EXPECT_EQ(result.type, type);
    EXPECT_EQ(result.bytes_transferred, received);
  };
  const auto send = [&](DataSide& from, Buffer& out, DataSide& to, Buffer& in, size_t length) {
    const Sge target = in.sge(0, length);
    const Sge source = out.sge(0, length);
    ASSERT_EQ(to.qp->Receive(nullptr, {&target, 1}), NdkStatus::kSuccess);
    ASSERT_EQ(from.qp->Send(nullptr, {&source, 1}, 0), NdkStatus::kSuccess);
    expect(to, OperationType::kReceive, length);
    expect(from, OperationType::kSend);
  };
  send(active, ours, passive, theirs, 99);
  send(passive, theirs, active, ours, 3);
  send(active, ours, passive, theirs, 0);
  send(passive, theirs, active, ours, 70'000);

  const Sge written = ours.sge(100'000, kWritten);
  EXPECT_EQ(active.qp->Write(nullptr, {&written, 1}, theirs.remote(0), 0), NdkStatus::kSuccess);
  expect(active, OperationType::kWrite);
  const Sge sink = ours.sge(0, kRead);
  EXPECT_EQ(active.qp->Read(nullptr, {&sink, 1}, theirs.remote(200'000), 0), NdkStatus::kSuccess);
  expect(active, OperationType::kRead);

  // The peer's token ends with a message.
  MemoryRegion* const fast = passive.domain->CreateMemoryRegion(true).object;
  EXPECT_EQ(fast->InitializeFastRegister(1, true), NdkStatus::kSuccess);
  alignas(kFastRegisterPageSize) static uint8_t page[kFastRegisterPageSize];
  void* const pages[] = {page};
  EXPECT_EQ(passive.qp->FastRegister(nullptr, fast, pages, 0, sizeof page, 0, kOpAllowRemoteRead), NdkStatus::kSuccess);
  expect(passive, OperationType::kFastRegister);
  EXPECT_EQ(passive.qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  EXPECT_EQ(active.qp->SendAndInvalidate(nullptr, {}, kOpSendAndSolicitEvent, fast->remote_token()),
            NdkStatus::kSuccess);
  expect(passive, OperationType::kReceiveAndInvalidate);
  expect(active, OperationType::kSend);
  CloseAndWait(fast);

  EXPECT_TRUE(
      std::equal(ours.bytes().begin() + 100'000, ours.bytes().begin() + 100'000 + kWritten, theirs.bytes().begin()));
  EXPECT_TRUE(std::equal(ours.bytes().begin(), ours.bytes().begin() + kRead, theirs.bytes().begin() + 200'000));
  const auto text = [](Buffer& buffer, size_t offset) {
    return std::string(iwarp::AsText(std::span(buffer.bytes()).subspan(offset, 64)));
  };
  return {text(ours, 100'000 + 777), text(theirs, 200'000 + 777)};
}

// As UnitLength: of a start-up frame or of an FPDU behind it.
size_t MpaUnitLength(std::string_view stream, size_t at) {
  const auto number_at = [stream](size_t offset) -> size_t {
    return static_cast<uint8_t>(stream[offset]) << 8 | static_cast<uint8_t>(stream[offset + 1]);
  };
  size_t length = 0;
  if (at == 0) {
    if (stream.size() < iwarp::kStartupHeaderLength) return 0;
    length = iwarp::kStartupHeaderLength + number_at(18);  // And the private data.
  } else {
    if (stream.size() < at + 2) return 0;
    length = (2 + number_at(at) + 3) / 4 * 4 + 4;
  }
  return at + length <= stream.size() ? length : 0;
}

// The lengths of the FPDUs that a stream consists of behind its start-up frame; nothing if it is anything else.
std::optional<std::vector<size_t>> FpduLengths(std::string_view stream) {
  std::vector<size_t> lengths;
  size_t at = MpaUnitLength(stream, 0);
  while (const size_t length = at == 0 ? 0 : MpaUnitLength(stream, at)) {
    lengths.push_back(length);
    at += length;
  }
  return at > 0 && at == stream.size() ? std::optional(lengths) : std::nullopt;
}

std::optional<size_t> CountFpdus(std::string_view stream) {
  const auto lengths = FpduLengths(stream);
  return lengths ? std::optional(lengths->size()) : std::nullopt;
}

// 0 where the stream has none or is anything else.
size_t LongestFpdu(std::string_view stream) {
  const std::vector<size_t> lengths = FpduLengths(stream).value_or(std::vector<size_t>());
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

class Wire : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string& problem = EnterOwnNamespaces(); !problem.empty()) GTEST_SKIP() << problem;
    folder_ = std::make_unique<TemporaryFolder>();
    // Nobody's own settings.
    ::setenv("WIRESHARK_CONFIG_DIR", folder_->path().c_str(), 1);
  }
  void TearDown() override {
    const char* const outputs = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
    if (!HasFailure() || capture_ == nullptr || outputs == nullptr) return;
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    const std::string name = absl::StrReplaceAll(test->name(), {{"/", "_"}});
    WritePcap(absl::StrCat(outputs, "/", name, ".pcap"), capture_->Packets());
  }

  void Start(bool crc) {
    broker_ = std::make_unique<RunningBroker>(crc ? "" : "iwarp.crc = false");
    capture_ = std::make_unique<Capture>();
  }

  // The streams of that many connections, and nothing else in the capture: each with one request frame, which begins
  // what the initiator says, and one reply frame.
  std::map<TcpDirection, std::string> Streams(size_t connections) {
    auto streams = TcpStreams(capture_->Packets());
    size_t requests = 0, replies = 0;
    for (const auto& [direction, bytes] : streams) {
      EXPECT_EQ(Count(bytes, kRequestKey) + Count(bytes, kReplyKey), 1u);
      requests += bytes.rfind(kRequestKey, 0) == 0;
      replies += bytes.rfind(kReplyKey, 0) == 0;
    }
    EXPECT_EQ(streams.size(), 2 * connections);
    EXPECT_EQ(requests, connections);
    EXPECT_EQ(replies, connections);
    return streams;
  }

  // What the initiator and the responder of the only connection have said.
  std::pair<std::string, std::string> OnlyConnection() {
    std::pair<std::string, std::string> connection;
    for (const auto& [direction, bytes] : Streams(1)) {
      (bytes.rfind(kRequestKey, 0) == 0 ? connection.first : connection.second) = bytes;
    }
    return connection;
  }

  std::string RunTshark(const std::vector<std::string>& arguments) {
    const std::string path = folder_->path() + "/wire.pcap";
    WritePcap(path, ResegmentTcp(capture_->Packets(), MpaUnitLength));
    std::vector<std::string> command = {"tshark", "-n", "-2", "-r", path};
    for (const char* const preference : {"tcp.desegment_tcp_streams:TRUE", "tcp.try_heuristic_first:TRUE"}) {
      command.insert(command.end(), {"-o", preference});
    }
    // What iWARP carries here is neither of these.
    for (const char* const guess : {"rpcordma", "smb_direct"}) {
      command.insert(command.end(), {"--disable-protocol", guess});
    }
    command.insert(command.end(), arguments.begin(), arguments.end());
    ChildProcess tshark(command);
    std::string text = tshark.ReadAll();
    EXPECT_EQ(tshark.End(), 0);
    return text;
  }

  // Every byte of TCP payload is part of a start-up frame or of one of that many FPDUs, and nothing is wrong with them
  // but what is expected to be worth a note. Fills values_.
  void ExpectTsharkIsContent(size_t fpdus, bool crc, const std::vector<std::string>& notes = {}) {
    std::vector<std::string> command = {"-Y", "tcp.len > 0", "-T", "fields"};
    for (const char* const field : kFields) command.insert(command.end(), {"-e", field});
    size_t segments = 0;
    for (const auto& segment : absl::StrSplit(RunTshark(command), '\n', absl::SkipEmpty())) {
      ++segments;
      const std::vector<std::string> fields = absl::StrSplit(segment, '\t');
      ASSERT_EQ(fields.size(), std::size(kFields)) << segment;
      for (size_t i = 0; i < fields.size(); ++i) {
        for (const auto& value : absl::StrSplit(fields[i], ',', absl::SkipEmpty())) {
          values_[kFields[i]].emplace_back(value);
        }
      }
      const bool is_start_up = !fields[2].empty() || !fields[3].empty();
      const bool goes_on_later = !fields[1].empty();
      EXPECT_TRUE(goes_on_later ||
                  absl::StrContains(fields[0], is_start_up ? ":iwarp_mpa" : ":iwarp_mpa:iwarp_ddp_rdmap"))
          << segment;
    }
    EXPECT_GE(segments, 2u);
    EXPECT_EQ(values_["iwarp_mpa.ulpdulength"].size(), fpdus);
    EXPECT_EQ(values_["iwarp_rdma.opcode"].size(), fpdus);
    const std::string all = RunTshark({"-V", "-O", "iwarp_mpa,iwarp_ddp_rdmap", "-z", "expert,note"});
    EXPECT_EQ(Count(all, "(Good CRC32)"), crc ? fpdus : 0);
    EXPECT_EQ(Count(all, "Bad CRC32"), 0u);
    EXPECT_EQ(Count(all, "Malformed"), 0u);
    EXPECT_EQ(Notes(all), notes);
  }

  // What tshark's experts found worth a note or more, but for TCP's flow control, which is its own affair. They stand
  // behind the packets, in a table for each severity: how often, which group, which protocol, what.
  static std::vector<std::string> Notes(const std::string& text) {
    std::vector<std::string> notes;
    bool table_seen = false;
    for (const char* const table : {"\nErrors (", "\nWarns (", "\nNotes ("}) {
      const size_t at = text.find(table);
      if (at == text.npos) continue;
      table_seen = true;
      for (const auto& line : absl::StrSplit(text.substr(at + 1, text.find("\n\n", at) - at - 1), '\n')) {
        const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
        if (words.size() < 4 || words[0] == "Frequency" || words[2] == "TCP") continue;
        notes.push_back(absl::StrJoin(words.begin() + 2, words.end(), " "));
      }
    }
    EXPECT_TRUE(table_seen) << "the end of each TCP connection is worth a note";
    return notes;
  }

  // What a row of fields consists of: what the checks of each segment need, and what tests ask for.
  static constexpr const char* kFields[] = {"frame.protocols",           "tcp.reassembled_in",
                                            "iwarp_mpa.key.req",         "iwarp_mpa.key.rep",
                                            "iwarp_mpa.ulpdulength",     "iwarp_rdma.opcode",
                                            "iwarp_mpa.rej_flag",        "iwarp_rdma.term_layer",
                                            "iwarp_rdma.term_etype_ddp", "iwarp_rdma.term_errcode_ddp_tagged"};
  std::map<std::string, std::vector<std::string>> values_;  // Of each field, in the order of the packets.
  std::unique_ptr<TemporaryFolder> folder_;
  std::unique_ptr<RunningBroker> broker_;
  std::unique_ptr<Capture> capture_;
};

enum class Kind { kTwoClients, kStrangerConnects, kStrangerListens };

class Conversation : public Wire, public testing::WithParamInterface<std::tuple<Kind, int, bool>> {
 protected:
  std::pair<std::string, std::string> Converse(Kind kind, int family, bool crc) {
    LibraryClient client(broker_->control_socket());
    std::pair<std::string, std::string> said;
    if (kind == Kind::kStrangerListens) {
      Stranger stranger(crc);
      const SocketAddress address = stranger.Listen(family);
      std::thread connecting([&] { EXPECT_TRUE(client.Connect(address.ip, address).ok()); });
      stranger.Accept();
      connecting.join();
      said = Exchange(client.side, stranger.side);
      std::thread disconnecting([&] { client.Disconnect(); });
      stranger.Disconnect();
      disconnecting.join();
      return said;
    }
    auto [listening, listener] = client::BlockingListener::Listen(client.adapter, Loopback(family));
    EXPECT_TRUE(listening.ok()) << listening.hint;
    std::thread accepting([&, &listens = *listener] { EXPECT_TRUE(client.Accept(listens).ok()); });
    if (kind == Kind::kTwoClients) {
      LibraryClient other(broker_->control_socket());
      const client::Outcome connected = other.Connect(listener->address().ip, listener->address());
      EXPECT_TRUE(connected.ok()) << connected.hint;
      accepting.join();
      said = Exchange(other.side, client.side);
      std::thread disconnecting([&] { other.Disconnect(); });
      client.Disconnect();
      disconnecting.join();
    } else {
      Stranger stranger(crc);
      stranger.ConnectTo(listener->address());
      accepting.join();
      said = Exchange(stranger.side, client.side);
      std::thread disconnecting([&] { stranger.Disconnect(); });
      client.Disconnect();
      disconnecting.join();
    }
    return said;
  }
};

TEST_P(Conversation, IsMpaAndNothingElse) {
  const auto [kind, family, crc] = GetParam();
  Start(crc);
  const auto [written, read] = Converse(kind, family, crc);
  const auto [initiators, responders] = OnlyConnection();
  const auto from_initiator = CountFpdus(initiators);
  const auto from_responder = CountFpdus(responders);
  ASSERT_TRUE(from_initiator && from_responder);
  EXPECT_EQ(Count(initiators, written), 1u);
  EXPECT_EQ(Count(responders, read), 1u);
  // Nothing here has segments worth keeping to, so that the library's FPDUs are long; the stranger keeps to its own.
  EXPECT_EQ(LongestFpdu(initiators) > kEthernetSegment, kind != Kind::kStrangerConnects);
  EXPECT_EQ(LongestFpdu(responders) > kEthernetSegment, kind != Kind::kStrangerListens);
  ExpectTsharkIsContent(*from_initiator + *from_responder, crc);
  // Write, read request, read response, send, send with invalidate and solicited event.
  const std::vector<std::string> opcodes = values_["iwarp_rdma.opcode"];
  EXPECT_EQ(std::set<std::string>(opcodes.begin(), opcodes.end()),
            std::set<std::string>({"0x00", "0x01", "0x02", "0x03", "0x06"}));
}

std::string NameOf(const testing::TestParamInfo<std::tuple<Kind, int, bool>>& of) {
  const auto [kind, family, crc] = of.param;
  const std::map<Kind, std::string> names = {{Kind::kTwoClients, "TwoClients"},
                                             {Kind::kStrangerConnects, "AStrangerConnects"},
                                             {Kind::kStrangerListens, "AStrangerListens"}};
  return names.at(kind) + (family == AF_INET ? "OverIpv4" : "OverIpv6") + (crc ? "" : "WithoutCrc");
}

INSTANTIATE_TEST_SUITE_P(Loopback, Conversation,
                         testing::Combine(testing::Values(Kind::kTwoClients, Kind::kStrangerConnects,
                                                          Kind::kStrangerListens),
                                          testing::Values(AF_INET, AF_INET6), testing::Bool()),
                         NameOf);

// Paths whose segments are Ethernet's. What a machine does not let a test make is a failure here.
class WireOfEthernet : public Wire {
 protected:
  void SetUp() override {
    ASSERT_EQ(EnterOwnNamespaces(), "");
    Wire::SetUp();
  }

  // A conversation of two clients from `active` to an address of `passive`, in which no FPDU is longer than a segment,
  // and long ones are as long as one.
  void ExpectFpdusOfASegment(LibraryClient& active, const char* from, LibraryClient& passive, const char* to) {
    auto [listening, listener] = client::BlockingListener::Listen(passive.adapter, {*IpAddress::Parse(to), 0});
    ASSERT_TRUE(listening.ok()) << listening.hint;
    std::thread accepting([&, &listens = *listener] { EXPECT_TRUE(passive.Accept(listens).ok()); });
    const client::Outcome connected = active.Connect(*IpAddress::Parse(from), listener->address());
    EXPECT_TRUE(connected.ok()) << connected.hint;
    accepting.join();
    if (HasFailure()) return;
    Exchange(active.side, passive.side);
    std::thread disconnecting([&] { active.Disconnect(); });
    passive.Disconnect();
    disconnecting.join();
    const auto [initiators, responders] = OnlyConnection();
    // All lengths are multiples of four.
    EXPECT_EQ(LongestFpdu(initiators), kEthernetSegment / 4 * 4);
    EXPECT_EQ(LongestFpdu(responders), kEthernetSegment / 4 * 4);
  }
};

TEST_F(WireOfEthernet, NoFpduToAnotherHostIsLongerThanASegment) {
  Neighbour neighbour;
  ASSERT_FALSE(HasFailure());
  broker_ = std::make_unique<RunningBroker>();
  std::unique_ptr<RunningBroker> its_broker;
  neighbour.Run([&] { its_broker = std::make_unique<RunningBroker>(); });
  capture_ = std::make_unique<Capture>(Neighbour::kInterface);
  LibraryClient active(broker_->control_socket());
  LibraryClient passive(its_broker->control_socket());
  ExpectFpdusOfASegment(active, Neighbour::kAddress, passive, Neighbour::kItsAddress);
}

// As where the kernel forwards what is sent to a local address.
TEST_F(WireOfEthernet, NoFpduToALocalAddressIsLongerThanASegmentWhereThatIsShort) {
  ASSERT_TRUE(SetMtu("lo", kEthernetMtu)) << std::strerror(errno);
  Start(true);
  LibraryClient active(broker_->control_socket());
  LibraryClient passive(broker_->control_socket());
  ExpectFpdusOfASegment(active, "127.0.0.1", passive, "127.0.0.1");
  ASSERT_TRUE(SetMtu("lo", kLoopbackMtu)) << std::strerror(errno);
}

TEST_F(Wire, EachConnectionOfTwoClientsHasItsOwnFramesAndItsOwnData) {
  Start(true);
  constexpr size_t kConnections = 4;
  struct Pair {
    std::unique_ptr<LibraryClient> active, passive;
    std::string written;
    TcpDirection direction;
  };
  std::vector<Pair> pairs;
  for (size_t i = 0; i < kConnections; ++i) {
    Pair& pair = pairs.emplace_back(Pair{std::make_unique<LibraryClient>(broker_->control_socket()),
                                         std::make_unique<LibraryClient>(broker_->control_socket()), "", ""});
    auto [listening, listener] = client::BlockingListener::Listen(pair.passive->adapter, Loopback(AF_INET));
    ASSERT_TRUE(listening.ok()) << listening.hint;
    std::thread accepting([&, &listens = *listener] { EXPECT_TRUE(pair.passive->Accept(listens).ok()); });
    EXPECT_TRUE(pair.active->Connect(listener->address().ip, listener->address()).ok());
    accepting.join();
    pair.direction =
        DirectionOf(pair.active->connector->connection_data()->local, pair.active->connector->connection_data()->peer);
  }
  // All of them are there at the same time.
  for (Pair& pair : pairs) pair.written = Exchange(pair.active->side, pair.passive->side).first;
  for (Pair& pair : pairs) {
    std::thread disconnecting([&] { pair.active->Disconnect(); });
    pair.passive->Disconnect();
    disconnecting.join();
  }
  auto streams = Streams(kConnections);
  size_t fpdus = 0;
  for (const auto& [direction, bytes] : streams) fpdus += CountFpdus(bytes).value_or(0);
  for (const Pair& pair : pairs) EXPECT_EQ(Count(streams[pair.direction], pair.written), 1u);
  ExpectTsharkIsContent(fpdus, true);
}

TEST_F(Wire, ARejectIsAReplyWithTheFlagAndThePrivateData) {
  Start(true);
  {
    LibraryClient passive(broker_->control_socket());
    LibraryClient active(broker_->control_socket());
    auto [listening, listener] = client::BlockingListener::Listen(passive.adapter, Loopback(AF_INET));
    ASSERT_TRUE(listening.ok()) << listening.hint;
    std::thread rejecting([&, &listens = *listener] {
      auto [arrived, connector] = listens.Next();
      ASSERT_TRUE(arrived.ok()) << arrived.hint;
      EXPECT_EQ(connector->Reject(kPrivateData), NdkStatus::kSuccess);
      client::BlockingClose(connector);
    });
    EXPECT_EQ(active.Connect(listener->address().ip, listener->address()).status, NdkStatus::kConnectionRefused);
    rejecting.join();
  }
  const auto [initiators, responders] = OnlyConnection();
  EXPECT_EQ(CountFpdus(initiators), 0u);
  EXPECT_EQ(CountFpdus(responders), 0u);
  EXPECT_EQ(Count(responders, kPrivateData), 1u);
  ExpectTsharkIsContent(0, true, {"IWARP_MPA Reject bit set by Responder"});
  EXPECT_EQ(values_["iwarp_mpa.rej_flag"], std::vector<std::string>({"0", "1"}));
}

TEST_F(Wire, AForbiddenWriteIsAnsweredByATerminate) {
  Start(true);
  {
    LibraryClient passive(broker_->control_socket());
    LibraryClient active(broker_->control_socket());
    auto [listening, listener] = client::BlockingListener::Listen(passive.adapter, Loopback(AF_INET));
    ASSERT_TRUE(listening.ok()) << listening.hint;
    std::thread accepting([&, &listens = *listener] { EXPECT_TRUE(passive.Accept(listens).ok()); });
    ASSERT_TRUE(active.Connect(listener->address().ip, listener->address()).ok());
    accepting.join();
    Buffer source(active.side.domain, 100, kMrAllowLocalRead);
    const Sge sge = source.sge();
    EXPECT_EQ(active.side.qp->Write(nullptr, {&sge, 1}, {.address = 0, .token = RemoteToken{0xBAD}}, 0),
              NdkStatus::kSuccess);
    EXPECT_EQ(active.side.qp->Read(nullptr, {}, {}, 0), NdkStatus::kSuccess);
    active.side.Results(2);
    source.Close();
    for (LibraryClient* client : {&passive, &active}) client::BlockingClose(std::exchange(client->connector, nullptr));
  }
  const auto [initiators, responders] = OnlyConnection();
  const auto from_initiator = CountFpdus(initiators);
  ASSERT_TRUE(from_initiator.has_value());
  EXPECT_EQ(CountFpdus(responders), 1u);
  ExpectTsharkIsContent(*from_initiator + 1, true);
  const std::vector<std::string>& opcodes = values_["iwarp_rdma.opcode"];
  EXPECT_EQ(std::count(opcodes.begin(), opcodes.end(), "0x07"), 1);
  // DDP, tagged buffer error, invalid STag (RFC 5040, section 4.8).
  EXPECT_EQ(values_["iwarp_rdma.term_layer"], std::vector<std::string>({"0x01"}));
  EXPECT_EQ(values_["iwarp_rdma.term_etype_ddp"], std::vector<std::string>({"0x01"}));
  EXPECT_EQ(values_["iwarp_rdma.term_errcode_ddp_tagged"], std::vector<std::string>({"0x00"}));
}

}  // namespace
}  // namespace rdmabroker
