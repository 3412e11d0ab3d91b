// SPDX-License-Identifier: Apache-2.0

// Names that are malformed or mean nothing, and those of a name server of the test's own, which answers as it is told.

#include "client/names/names.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dataplane/testing/thread_shortage.h"
#include "dataplane/unique_fd.h"
#include "tests/memory_shortage.h"

namespace rdmabroker::client {
namespace {

using namespace std::chrono_literals;

constexpr uint16_t kA = 1, kCname = 5, kAaaa = 28, kSrv = 33;

std::string Number(uint32_t number, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(number >> (8 * i));
  return text;
}

// "a.b" as on the wire.
std::string Labels(std::string_view name) {
  std::string wire;
  while (!name.empty()) {
    const std::string_view label = name.substr(0, name.find('.'));
    wire += static_cast<char>(label.size()) + std::string(label);
    name.remove_prefix(std::min(label.size() + 1, name.size()));
  }
  return wire + '\0';
}

struct Record {
  uint16_t type = 0;
  std::string data;
  uint32_t time_to_live = 60;
};

Record Srv(uint16_t priority, uint16_t weight, uint16_t port, std::string_view host, uint32_t time_to_live = 60) {
  return {kSrv, Number(priority, 2) + Number(weight, 2) + Number(port, 2) + Labels(host), time_to_live};
}
Record A(uint32_t address, uint32_t time_to_live = 60) { return {kA, Number(address, 4), time_to_live}; }

class NameServer {
 public:
  // What is asked for, "name type", and its records; `mangle` may change an answer before it is sent.
  using Zone = std::map<std::pair<std::string, uint16_t>, std::vector<Record>>;

  explicit NameServer(Zone zone, std::function<std::string(std::string)> mangle = {})
      : zone_(std::move(zone)), mangle_(std::move(mangle)), socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~NameServer() {
    over_ = true;
    ::shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
  }

  NameOptions options() const {
    NameOptions options;
    options.source = "dns://127.0.0.1:" + std::to_string(port_);
    options.timeout = 20s;  // A machine may be slow.
    return options;
  }

 private:
  void Serve() {
    while (!over_) {
      std::string question(512, '\0');
      sockaddr_in from = {};
      socklen_t length = sizeof from;
      const ssize_t size =
          ::recvfrom(socket_.get(), question.data(), question.size(), 0, reinterpret_cast<sockaddr*>(&from), &length);
      if (size < 12) continue;
      question.resize(static_cast<size_t>(size));
      std::string answer = Answer(question);
      if (mangle_) answer = mangle_(std::move(answer));
      ::sendto(socket_.get(), answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from), length);
    }
  }

  std::string Answer(const std::string& question) const {
    std::string name;
    size_t at = 12;
    for (; question[at] != '\0'; at += 1 + static_cast<size_t>(question[at])) {
      if (!name.empty()) name += '.';
      name += question.substr(at + 1, static_cast<size_t>(question[at]));
    }
    const auto type =
        static_cast<uint16_t>(static_cast<uint8_t>(question[at + 1]) << 8 | static_cast<uint8_t>(question[at + 2]));
    const auto found = zone_.find({name, type});
    const std::vector<Record> records = found == zone_.end() ? std::vector<Record>() : found->second;
    const bool exists =
        std::any_of(zone_.begin(), zone_.end(), [&](const auto& one) { return one.first.first == name; });
    // The question's id, an authoritative answer, one question, so many answers.
    std::string answer = question.substr(0, 2) + Number(exists ? 0x8580 : 0x8583, 2) + Number(1, 2) +
                         Number(static_cast<uint32_t>(records.size()), 2) + Number(0, 4) +
                         question.substr(12, at + 5 - 12);
    for (const Record& record : records) {
      answer += Number(0xc00c, 2) + Number(record.type, 2) + Number(1, 2) + Number(record.time_to_live, 4) +
                Number(static_cast<uint32_t>(record.data.size()), 2) + record.data;
    }
    return answer;
  }

  const Zone zone_;
  const std::function<std::string(std::string)> mangle_;
  const UniqueFd socket_;
  uint16_t port_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

std::vector<std::string> Texts(const Resolution& resolution) {
  std::vector<std::string> texts;
  for (const SocketAddress& address : resolution.addresses) texts.push_back(address.ToString());
  return texts;
}

TEST(Names, MalformedNamesAndSourcesAreRefused) {
  const struct {
    const char* name;
    const char* source;
    NdkStatus status;
  } rows[] = {
      {"storage", "dns", NdkStatus::kInvalidParameter},
      {"rdma-broker://", "dns", NdkStatus::kInvalidParameter},
      {"rdma-broker://a/b", "etcd://127.0.0.1:1", NdkStatus::kInvalidParameter},
      {"rdma-broker://a b", "dns", NdkStatus::kInvalidParameter},
      {"rdma-broker://a..b", "dns", NdkStatus::kInvalidParameter},
      {"rdma-broker://.a", "dns", NdkStatus::kInvalidParameter},
      {"rdma-broker://a:0", "dns", NdkStatus::kInvalidParameter},
      {"rdma-broker://a:65536", "dns", NdkStatus::kInvalidParameter},
      {"rdma-broker://a:1:2", "dns", NdkStatus::kInvalidParameter},
      {"rdma-broker://0.0.0.0:1", "dns", NdkStatus::kInvalidParameter},
      {"rdma-broker://224.0.0.1:1", "dns", NdkStatus::kInvalidParameter},
      {"rdma-broker://[fe80::1]:1", "dns", NdkStatus::kInvalidParameter},
      {"rdma-broker://[fe80::1%nobodys0]:1", "dns", NdkStatus::kInvalidParameter},
      {"rdma-broker://a", "", NdkStatus::kNotSupported},
      {"rdma-broker://a", "ldap://b", NdkStatus::kInvalidParameter},
      {"rdma-broker://a", "dns://name:53", NdkStatus::kInvalidParameter},
      {"rdma-broker://a", "dns://127.0.0.1:0", NdkStatus::kInvalidParameter},
      {"rdma-broker://a", "etcd://", NdkStatus::kInvalidParameter},
      {"rdma-broker://a", "etcd://b", NdkStatus::kInvalidParameter},
      {"rdma-broker://a", "etcd://b:1,", NdkStatus::kInvalidParameter},
      {"rdma-broker://a", "etcd://b:1/", NdkStatus::kInvalidParameter},
      {"rdma-broker://a:1", "etcd://127.0.0.1:1", NdkStatus::kInvalidParameter},
  };
  for (const auto& row : rows) {
    NameOptions options;
    options.source = row.source;
    const Resolution resolution = ResolveName(row.name, options);
    EXPECT_EQ(StatusName(resolution.outcome.status), StatusName(row.status)) << row.name << ", " << row.source;
    EXPECT_FALSE(resolution.outcome.hint.empty());
    EXPECT_TRUE(resolution.addresses.empty());
  }
  EXPECT_EQ(ResolveName("rdma-broker://" + std::string(254, 'a')).outcome.status, NdkStatus::kInvalidParameter);
}

TEST(Names, AnAddressStandsForItself) {
  NameOptions nowhere;
  nowhere.source = "";
  EXPECT_EQ(Texts(ResolveName("rdma-broker://192.0.2.1:4420", nowhere)), std::vector<std::string>{"192.0.2.1:4420"});
  EXPECT_EQ(Texts(ResolveName("rdma-broker://[2001:db8::1]:4420", nowhere)),
            std::vector<std::string>{"[2001:db8::1]:4420"});
  EXPECT_EQ(Texts(ResolveName("rdma-broker://[fe80::1%lo]:4420", nowhere)),
            std::vector<std::string>{"[fe80::1%1]:4420"});
  const std::string hint = ResolveName("rdma-broker://[fe80::1%nobodys0]:4420", nowhere).outcome.hint;
  EXPECT_NE(hint.find("no interface \"nobodys0\""), std::string::npos) << hint;
  EXPECT_TRUE(IsName("rdma-broker://a"));
  EXPECT_FALSE(IsName("192.0.2.1:4420"));
}

TEST(Names, ServiceRecordsGiveHostsInTheOrderOfTheirPriorityWithTheirPorts) {
  const NameServer server({
      {{"_rdma-broker._tcp.storage.test", kSrv},
       {Srv(20, 0, 4421, "second.test"), Srv(10, 0, 4420, "first.test"), Srv(30, 0, 4422, "third.test")}},
      {{"first.test", kA}, {A(0x7f000001), A(0x7f000002)}},
      {{"second.test", kA}, {A(0x7f000003)}},
      {{"third.test", kAaaa}, {{kAaaa, std::string("\xfd") + std::string(14, '\0') + "\x01"}}},
  });
  const Resolution resolution = ResolveName("rdma-broker://storage.test", server.options());
  EXPECT_EQ(StatusName(resolution.outcome.status), "STATUS_SUCCESS") << resolution.outcome.hint;
  EXPECT_EQ(Texts(resolution),
            (std::vector<std::string>{"127.0.0.1:4420", "127.0.0.2:4420", "127.0.0.3:4421", "[fd00::1]:4422"}));
}

TEST(Names, AmongEqualsTheHeavierComesFirstMoreOften) {
  const NameServer server({
      {{"_rdma-broker._tcp.a.test", kSrv}, {Srv(1, 1, 1, "light.test"), Srv(1, 9999, 2, "heavy.test")}},
      {{"light.test", kA}, {A(0x7f000001)}},
      {{"heavy.test", kA}, {A(0x7f000002)}},
  });
  int heavy = 0;
  for (int i = 0; i < 10; ++i) {
    const auto texts = Texts(ResolveName("rdma-broker://a.test", server.options()));
    ASSERT_EQ(texts.size(), 2u);
    if (texts[0] == "127.0.0.2:2") ++heavy;
  }
  EXPECT_GT(heavy, 5);  // Fails once in 10^15 times.
}

TEST(Names, ANameWithAPortHasAddressesAndTheShortestLifeCounts) {
  const NameServer server({{{"a.test", kA}, {A(0x7f000001, 300), A(0x7f000002, 7)}}});
  const Resolution resolution = ResolveName("rdma-broker://a.test:4420", server.options());
  EXPECT_EQ(Texts(resolution), (std::vector<std::string>{"127.0.0.1:4420", "127.0.0.2:4420"}));
  EXPECT_EQ(resolution.time_to_live, 7s);
}

TEST(Names, AnAliasLivesNoLongerThanItself) {
  const NameServer server({{{"a.test", kA}, {{kCname, Labels("b.test"), 5}, A(0x7f000001, 3600)}}});
  const Resolution resolution = ResolveName("rdma-broker://a.test:1", server.options());
  EXPECT_EQ(Texts(resolution), std::vector<std::string>{"127.0.0.1:1"});
  EXPECT_EQ(resolution.time_to_live, 5s);
}

// The status of a process that resolves where there is a search list, as in a pod of Kubernetes. The C library reads
// the environment once.
int ResolveWithSearchList() {
  ::setenv("LOCALDOMAIN", "search.test", 1);
  ::setenv("RES_OPTIONS", "ndots:5", 1);
  const NameServer server({
      {{"_rdma-broker._tcp.storage.search.test", kSrv}, {Srv(0, 0, 4420, "node.test")}},
      {{"node.test", kA}, {A(0x7f000001)}},
      {{"node.test.search.test", kA}, {A(0x7f000002)}},
  });
  const auto found = Texts(ResolveName("rdma-broker://storage", server.options()));
  return found == std::vector<std::string>{"127.0.0.1:4420"} ? 0 : 1;
}

TEST(Names, TheSearchListIsForTheNameAndNotForTheTargetsOfItsServices) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(ResolveWithSearchList()), testing::ExitedWithCode(0), "");
}

// The status of a process whose thread that asks the name server gets no memory.
int ResolveWithoutMemory() {
  NameOptions options;
  options.source = "dns://127.0.0.1:1";
  const auto shortage = MemoryShortage::Elsewhere();
  return ResolveName("rdma-broker://storage.test", options).outcome.status == NdkStatus::kNoMemory ? 0 : 1;
}

TEST(Names, MemoryThatRunsOutOnTheThreadThatAsksIsAStatus) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(ResolveWithoutMemory()), testing::ExitedWithCode(0), "");
}

// The status of a process that gets no thread to ask the name server.
int ResolveWithoutThreads() {
  const ThreadShortage shortage;
  NameOptions options;
  options.source = "dns://127.0.0.1:1";
  const Outcome outcome = ResolveName("rdma-broker://storage.test", options).outcome;
  return outcome.status == NdkStatus::kInsufficientResources && outcome.retryable ? 0 : 1;
}

TEST(Names, WhereThereIsNoThreadToAskTheStatusSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(ResolveWithoutThreads()), testing::ExitedWithCode(0), "");
}

// Says that the answer is cut short.
std::string CutShort(std::string answer) {
  answer[2] |= 0x02;
  return answer;
}

TEST(Names, WhatAnAnswerHoldsThatIsCutShortIsUsed) {
  const NameServer server(
      {
          {{"_rdma-broker._tcp.a.test", kSrv}, {Srv(1, 0, 1, "b.test"), Srv(2, 0, 2, "c.test")}},
          {{"b.test", kA}, {A(0x7f000001)}},
          {{"c.test", kA}, {A(0x7f000002)}},
      },
      &CutShort);
  EXPECT_EQ(Texts(ResolveName("rdma-broker://a.test", server.options())),
            (std::vector<std::string>{"127.0.0.1:1", "127.0.0.2:2"}));
}

TEST(Names, AnAnswerThatIsCutToNothingDoesNotSayThatThereIsNothing) {
  // Without any record, and with an alias alone.
  for (const std::vector<Record>& left : {std::vector<Record>(), {{kCname, Labels("b.test")}}}) {
    const NameServer server({{{"a.test", kA}, left}}, &CutShort);
    const Resolution resolution = ResolveName("rdma-broker://a.test:1", server.options());
    EXPECT_EQ(StatusName(resolution.outcome.status), "STATUS_UNSUCCESSFUL");
  }
}

TEST(Names, ANewAnswerIsSeenAtOnce) {
  int questions = 0;  // Two for each name: for IPv4 and IPv6 addresses.
  const NameServer server({{{"a.test", kA}, {A(0x7f000001, 3600)}}}, [&questions](std::string answer) {
    if (++questions == 3) answer.back() = 2;
    return answer;
  });
  EXPECT_EQ(Texts(ResolveName("rdma-broker://a.test:1", server.options())), std::vector<std::string>{"127.0.0.1:1"});
  EXPECT_EQ(Texts(ResolveName("rdma-broker://a.test:1", server.options())), std::vector<std::string>{"127.0.0.2:1"});
}

TEST(Names, WhatIsNotThereIsNotFoundAndSaysWhatItTakes) {
  const NameServer server({
      {{"_rdma-broker._tcp.closed.test", kSrv}, {Srv(0, 0, 0, "")}},
      {{"alias.test", kCname}, {{kCname, Labels("b.test")}}},
  });
  for (const char* name : {"rdma-broker://nobody.test", "rdma-broker://closed.test", "rdma-broker://alias.test:1"}) {
    const Resolution resolution = ResolveName(name, server.options());
    EXPECT_EQ(StatusName(resolution.outcome.status), "STATUS_OBJECT_NAME_NOT_FOUND") << name;
  }
  const Resolution resolution = ResolveName("rdma-broker://nobody.test", server.options());
  EXPECT_NE(resolution.outcome.hint.find("_rdma-broker._tcp.nobody.test"), std::string::npos);
}

TEST(Names, AddressesThatNobodyCouldConnectToAreLeftOut) {
  const Record link_local = {kAaaa, std::string("\xfe\x80") + std::string(13, '\0') + "\x01"};
  const NameServer server(
      {{{"a.test", kA}, {A(0), A(0xe0000001), A(0xffffffff), A(0x7f000001)}}, {{"a.test", kAaaa}, {link_local}}});
  EXPECT_EQ(Texts(ResolveName("rdma-broker://a.test:1", server.options())), std::vector<std::string>{"127.0.0.1:1"});
}

TEST(Names, AnAnswerWithoutAnEndIsCutToSixteen) {
  std::vector<Record> many;
  for (uint32_t i = 1; i <= 30; ++i) many.push_back(A(0x7f000000 + i));
  const NameServer server({{{"a.test", kA}, many}});
  EXPECT_EQ(ResolveName("rdma-broker://a.test:1", server.options()).addresses.size(), 16u);
}

// Each answer damaged in one place: none may be taken for what it is not, and none is waited for.
TEST(Names, DamagedAnswersAreRefused) {
  const NameServer::Zone zone = {
      {{"_rdma-broker._tcp.a.test", kSrv}, {Srv(1, 1, 1, "b.test")}},
      {{"b.test", kA}, {A(0x7f000001)}},
  };
  const struct {
    const char* what;
    std::function<std::string(std::string)> mangle;
  } rows[] = {
      {"a record longer than the answer",
       [](const std::string& answer) { return answer.substr(0, answer.size() - 2); }},
      {"a target that leads nowhere",
       [](std::string answer) {
         answer.replace(answer.size() - 8, 8, std::string("\x3f") + std::string(7, 'x'));
         return answer;
       }},
      {"a target that leads to itself",
       [](std::string answer) {
         const auto at = static_cast<char>(answer.size() - 2);
         answer.replace(answer.size() - 8, 8, std::string("\x05zzzzz\xc0") + at);
         return answer;
       }},
      {"an address of five bytes",
       [](std::string answer) {
         answer[answer.size() - 5] += 1;
         return answer + "\x01";
       }},
  };
  for (const auto& row : rows) {
    const NameServer server(zone, row.mangle);
    NameOptions options = server.options();
    options.timeout = 3s;
    const Resolution resolution = ResolveName("rdma-broker://a.test", options);
    EXPECT_NE(resolution.outcome.status, NdkStatus::kSuccess) << row.what;
    EXPECT_TRUE(resolution.addresses.empty()) << row.what;
  }
}

// The flaw is in a record of its own, so that the answer as a whole is well formed.
TEST(Names, NothingIsUsedOfAnAnswerWithADamagedRecord) {
  const std::string before_target = Number(1, 2) + Number(1, 2) + Number(1, 2);
  const NameServer::Zone zone = {
      {{"address.test", kA}, {A(0x7f000001), {kA, std::string(5, '\1')}}},
      {{"_rdma-broker._tcp.target.test", kSrv},
       {Srv(1, 1, 1, "b.test"), {kSrv, before_target + Labels("b.test") + "x"}}},
      {{"_rdma-broker._tcp.none.test", kSrv}, {Srv(1, 1, 1, "b.test"), {kSrv, before_target}}},
      {{"b.test", kA}, {A(0x7f000001)}},
  };
  const NameServer server(zone);
  for (const char* name : {"rdma-broker://address.test:1", "rdma-broker://target.test", "rdma-broker://none.test"}) {
    const Resolution resolution = ResolveName(name, server.options());
    EXPECT_EQ(StatusName(resolution.outcome.status), "STATUS_UNSUCCESSFUL") << name;
    EXPECT_TRUE(resolution.addresses.empty()) << name;
  }
}

class SilentServer {
 public:
  SilentServer() : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }

  NameOptions options(const std::string& scheme, std::chrono::milliseconds timeout) const {
    NameOptions options;
    options.source = scheme + "://127.0.0.1:" + std::to_string(port_);
    options.timeout = timeout;
    return options;
  }

 private:
  const UniqueFd socket_;
  uint16_t port_ = 0;
};

TEST(Names, ThoseThatNobodyWaitsForAnyMoreHaveABoundAndMakeRoomWhenTheyAreGivenUp) {
  {
    const SilentServer silent;
    NdkStatus status = NdkStatus::kIoTimeout;
    int asked = 0;
    for (; status == NdkStatus::kIoTimeout && asked < 1000; ++asked) {
      status = ResolveName("rdma-broker://a.test:1", silent.options("dns", 0ms)).outcome.status;
    }
    EXPECT_EQ(StatusName(status), "STATUS_INSUFFICIENT_RESOURCES");
    EXPECT_GT(asked, 100);  // Of the 128 other tests may have left some.
  }
  const NameServer server({{{"a.test", kA}, {A(0x7f000001)}}});
  Resolution resolution;
  do {
    std::this_thread::yield();
    resolution = ResolveName("rdma-broker://a.test:1", server.options());
  } while (resolution.outcome.status == NdkStatus::kInsufficientResources);
  EXPECT_EQ(Texts(resolution), std::vector<std::string>{"127.0.0.1:1"});
}

TEST(Names, AServerThatIsSilentIsGivenUpInTime) {
  const SilentServer silent;
  for (const char* scheme : {"dns", "etcd"}) {
    const NameOptions options = silent.options(scheme, 200ms);
    const Resolution resolution = ResolveName("rdma-broker://a", options);
    EXPECT_TRUE(resolution.outcome.status == NdkStatus::kIoTimeout ||
                resolution.outcome.status == NdkStatus::kHostUnreachable)
        << StatusName(resolution.outcome.status);
    EXPECT_TRUE(resolution.outcome.retryable);
  }
}

TEST(Names, RegistrationsThatMakeNoSenseAreRefused) {
  const SocketAddress address = *SocketAddress::Parse("127.0.0.1:4420");
  NameOptions etcd;
  etcd.source = "etcd://127.0.0.1:1";
  NameOptions dns;
  dns.source = "dns";
  NameOptions nowhere;
  nowhere.source = "";
  const auto status = [](NameRegistration::Registering made) { return StatusName(made.outcome.status); };
  EXPECT_EQ(status(NameRegistration::Register("a", address, etcd)), "STATUS_INVALID_PARAMETER");
  EXPECT_EQ(status(NameRegistration::Register("rdma-broker://a:1", address, etcd)), "STATUS_INVALID_PARAMETER");
  EXPECT_EQ(status(NameRegistration::Register("rdma-broker://a", SocketAddress(), etcd)), "STATUS_INVALID_PARAMETER");
  EXPECT_EQ(status(NameRegistration::Register("rdma-broker://a", *SocketAddress::Parse("[fe80::1%1]:1"), etcd)),
            "STATUS_INVALID_PARAMETER");
  EXPECT_EQ(status(NameRegistration::Register("rdma-broker://a", address, etcd, 0s)), "STATUS_INVALID_PARAMETER");
  EXPECT_EQ(status(NameRegistration::Register("rdma-broker://a", address, dns)), "STATUS_NOT_SUPPORTED");
  EXPECT_EQ(status(NameRegistration::Register("rdma-broker://a", address, nowhere)), "STATUS_NOT_SUPPORTED");
}

}  // namespace
}  // namespace rdmabroker::client
