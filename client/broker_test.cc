// SPDX-License-Identifier: Apache-2.0

// The library with the broker itself, over the fake fabric, in another process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/blocking.h"
#include "client/testing/exactly_once.h"
#include "client/testing/fake_data_path.h"
#include "client/testing/handoff_server.h"
#include "client/testing/later.h"
#include "proto/rdmabroker/v1/connection.pb.h"

namespace rdmabroker::client {
namespace {

using testing::ElementsAre;

constexpr std::chrono::seconds kGrace{30};
constexpr std::chrono::seconds kHandoff{10};

// Runs broker_process.
class Brokers {
 public:
  Brokers(const char* kind, int count, std::chrono::milliseconds grace = kGrace,
          std::chrono::milliseconds handoff = kHandoff) {
    const std::string grace_ms = std::to_string(grace.count());
    const std::string handoff_ms = std::to_string(handoff.count());
    int input[2];
    int output[2];
    EXPECT_TRUE(::pipe(input) == 0 && ::pipe(output) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(input[0], STDIN_FILENO);
      ::dup2(output[1], STDOUT_FILENO);
      for (const int fd : {input[0], input[1], output[0], output[1]}) ::close(fd);
      ::execl("client/broker_process", "broker_process", kind, std::to_string(count).c_str(), grace_ms.c_str(),
              handoff_ms.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(input[0]);
    ::close(output[1]);
    input_ = input[1];
    lines_.reset(::fdopen(output[0], "r"));
    for (int i = 0; i < count; ++i) sockets_.push_back(Line());
  }
  ~Brokers() {
    if (pid_ > 0) Kill();
  }

  const std::string& socket(size_t i) const { return sockets_.at(i); }
  void Kill() {
    ::kill(pid_, SIGKILL);
    Wait();
  }
  // Its process stands still; until it goes on.
  void Freeze() { EXPECT_EQ(::kill(pid_, SIGSTOP), 0); }
  void Thaw() { EXPECT_EQ(::kill(pid_, SIGCONT), 0); }
  void Stop() { EXPECT_EQ(::write(input_, "s", 1), 1); }
  void RemoveDevices() { EXPECT_EQ(::write(input_, "d", 1), 1); }
  // After Stop, on the same sockets.
  void StartAgain() {
    EXPECT_EQ(::write(input_, "r", 1), 1);
    EXPECT_EQ(Line(), "again");
  }
  // Whether the brokers end with nothing left in them.
  bool EndEmpty() {
    ::close(input_);
    return Wait() == 0;
  }

 private:
  int Wait() {
    int status = -1;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

  std::string Line() {
    char line[256];
    EXPECT_NE(std::fgets(line, sizeof line, lines_.get()), nullptr);
    return std::string(line, std::string_view(line).find('\n'));
  }

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  pid_t pid_ = -1;
  int input_ = -1;
  std::unique_ptr<std::FILE, CloseFile> lines_;
  std::vector<std::string> sockets_;
};

SocketAddress TestAddress(int id) { return {*IpAddress::Parse("192.0.2." + std::to_string(id)), 0}; }

// For the fake fabric's devices, whose queue pairs are moved by attributes.
DataPath FakeVerbs(bool client_ends_connections) {
  DataPath path = FakeDataPath();
  path.technology = RdmaTechnology::kRoceV2;
  path.client_ends_connections = client_ends_connections;
  path.transition = [](const v1::QpAttributes& attributes) {
    return Attachment{.socket = {}, .state = attributes.SerializeAsString()};
  };
  return path;
}

// One process's session at a broker, with an adapter and a queue pair.
struct Side {
  Side(const std::string& socket, const std::string& device) {
    SessionOptions options;
    options.control_socket = socket;
    options.data_paths = {FakeVerbs(false), FakeVerbs(true)};
    auto opening = Session::Open(std::move(options));
    EXPECT_TRUE(opening.outcome.ok()) << opening.outcome.hint;
    session = std::move(opening.session);
    auto made = BlockingOpenAdapter(*session, device);
    EXPECT_TRUE(made.outcome.ok()) << made.outcome.hint;
    adapter = std::move(made.object);
    qp = new FakeQueuePair(adapter->data());
  }
  ~Side() {
    session = nullptr;
    EXPECT_EQ(qp->Close({}), NdkStatus::kSuccess);
  }

  std::unique_ptr<Session> session;
  std::shared_ptr<Adapter> adapter;
  std::shared_ptr<Connector> connector;
  FakeQueuePair* qp = nullptr;
  Log ends;

  DisconnectEventCallback LogsEnd() {
    return [this](const DisconnectEvent& event) { ends.Add(std::string(StatusName(event.status))); };
  }
};

void Connect(Side& passive, const SocketAddress& local, Side& active, const SocketAddress& source) {
  auto [outcome, listener] = BlockingListener::Listen(passive.adapter, local);
  ASSERT_TRUE(outcome.ok()) << outcome.hint;
  EXPECT_GE(listener->address().port, 49152);
  std::thread server([&passive, &listening = *listener] {
    passive.connector = listening.Next().object;
    ASSERT_NE(passive.connector, nullptr);
    EXPECT_EQ(passive.connector->connection_data()->private_data.substr(0, 5), "hello");
    const Outcome accepted =
        BlockingAccept(passive.connector, passive.qp, {.limits = {.inbound = 4, .outbound = 16}}, passive.LogsEnd());
    EXPECT_TRUE(accepted.ok()) << accepted.hint;
  });
  auto made = BlockingConnect(active.adapter, active.qp,
                              {.source = source,
                               .destination = listener->address(),
                               .limits = {.inbound = 8, .outbound = 2},
                               .private_data = "hello"},
                              active.LogsEnd());
  EXPECT_TRUE(made.outcome.ok()) << made.outcome.hint;
  active.connector = std::move(made.object);
  server.join();
  v1::QpAttributes last;
  if (!active.adapter->client_ends_connections()) {
    EXPECT_TRUE(last.ParseFromString(active.qp->state()));
    EXPECT_EQ(last.qp_state(), 3u) << "the queue pair was not taken to ready-to-send";
    for (const Side* const side : {&active, &passive}) {
      const auto data = side->connector->connection_data();
      EXPECT_EQ(side->qp->established(), std::pair(data->local, data->peer));
    }
  }
  EXPECT_EQ(active.connector->connection_data()->limits.outbound, 2u);
  EXPECT_EQ(passive.connector->connection_data()->limits.inbound, 2u);
  EXPECT_EQ(active.connector->connection_data()->local, passive.connector->connection_data()->peer);
}

TEST(Broker, TwoProcessesConnectAndTheBrokerDisconnects) {
  Brokers brokers("stream", 1);
  {
    Side passive(brokers.socket(0), "fake1");
    Side active(brokers.socket(0), "fake1");
    Connect(passive, TestAddress(1), active, TestAddress(1));
    const Later<Outcome> disconnected;
    ASSERT_EQ(active.connector->Disconnect([disconnected](const Outcome& outcome) { disconnected.Set(outcome); }),
              NdkStatus::kPending);
    EXPECT_THAT(passive.ends.WaitFor(1), ElementsAre("STATUS_SUCCESS"));
    EXPECT_TRUE(BlockingDisconnect(passive.connector).ok());
    BlockingClose(passive.connector);
    EXPECT_TRUE(disconnected.Get().ok());
    BlockingClose(active.connector);
    BlockingClose(passive.adapter);
    BlockingClose(active.adapter);
    EXPECT_THAT(active.ends.lines(), ElementsAre());
  }
  EXPECT_TRUE(brokers.EndEmpty());
}

TEST(Broker, TransportsReachTheQueuePairsOfTwoBrokersClients) {
  Brokers brokers("handoff", 2);
  {
    Side passive(brokers.socket(0), "fake1");
    Side active(brokers.socket(1), "fake2");
    Connect(passive, TestAddress(1), active, TestAddress(2));
    EXPECT_TRUE(passive.adapter->client_ends_connections());
    // Each has a stream, or it could not disconnect.
    const Later<Outcome> disconnected;
    active.connector->Disconnect([disconnected](const Outcome& outcome) { disconnected.Set(outcome); });
    while (!active.qp->disconnecting()) std::this_thread::yield();
    passive.qp->ConnectionEnds({.graceful = true});
    EXPECT_THAT(passive.ends.WaitFor(1), ElementsAre("STATUS_SUCCESS"));
    active.qp->CompleteDisconnect(NdkStatus::kSuccess);
    EXPECT_TRUE(disconnected.Get().ok());
    // The rest is left to the sessions' ends.
  }
  EXPECT_TRUE(brokers.EndEmpty());
}

// The first of two brokers is reached by another folder, whose hand-off socket notices that it is asked, stops the
// brokers' process and leads to theirs from then on.
class FrozenAtTheHandOff : public testing::Test {
 protected:
  void Freeze(std::chrono::milliseconds grace, std::chrono::milliseconds handoff) {
    brokers_.emplace("handoff", 2, grace, handoff);
    const std::string real = Folder(brokers_->socket(0));
    folder_ = real + "/aside";
    ASSERT_TRUE(std::filesystem::create_directory(folder_));
    std::filesystem::create_symlink(brokers_->socket(0), folder_ + "/control.sock");
    gate_.emplace(folder_ + "/handoff.sock", 1, [this, real](const v1::HandoffRequest&) {
      brokers_->Freeze();
      std::filesystem::create_symlink(real + "/handoff.sock", folder_ + "/next");
      std::filesystem::rename(folder_ + "/next", folder_ + "/handoff.sock");
      frozen_.Set(true);
      return HandoffServer::Step();
    });
    passive_.emplace(folder_ + "/control.sock", "fake1");
    active_.emplace(brokers_->socket(1), "fake2");
    auto [outcome, listener] = BlockingListener::Listen(passive_->adapter, TestAddress(1));
    ASSERT_TRUE(outcome.ok()) << outcome.hint;
    connects_ = std::async(std::launch::async, [this, destination = listener->address()] {
      auto made =
          BlockingConnect(active_->adapter, active_->qp, {.source = TestAddress(2), .destination = destination});
      active_->connector = std::move(made.object);
      return made.outcome;
    });
    passive_->connector = listener->Next().object;
    ASSERT_NE(passive_->connector, nullptr);
    accepts_ = std::async(std::launch::async, [this] { return BlockingAccept(passive_->connector, passive_->qp, {}); });
    frozen_.Get();
  }
  void TearDown() override {
    active_.reset();
    passive_.reset();
  }

  std::optional<Brokers> brokers_;
  std::optional<Side> passive_;
  std::optional<Side> active_;
  std::future<Outcome> connects_;
  std::future<Outcome> accepts_;

 private:
  static std::string Folder(const std::string& socket) { return std::filesystem::path(socket).parent_path(); }

  std::string folder_;
  Later<bool> frozen_;
  std::optional<HandoffServer> gate_;
};

// For longer than one answer may take.
TEST_F(FrozenAtTheHandOff, ABrokerThatGoesOnHandsOver) {
  constexpr std::chrono::milliseconds kShort{100};
  Freeze(kGrace, kShort);
  EXPECT_EQ(accepts_.wait_for(3 * kShort), std::future_status::timeout);
  brokers_->Thaw();
  const Outcome accepted = accepts_.get();
  EXPECT_TRUE(accepted.ok()) << accepted.hint;
  const Outcome connected = connects_.get();
  EXPECT_TRUE(connected.ok()) << connected.hint;
  EXPECT_EQ(passive_->connector->connection_data()->peer, active_->connector->connection_data()->local);
}

TEST_F(FrozenAtTheHandOff, ABrokerThatDoesNotGoOnIsGivenUpInTime) {
  const auto began = std::chrono::steady_clock::now();
  Freeze(std::chrono::milliseconds(900), std::chrono::milliseconds(100));
  const Outcome accepted = accepts_.get();
  EXPECT_EQ(accepted.status, NdkStatus::kIoTimeout) << accepted.hint;
  EXPECT_THAT(accepted.hint, testing::HasSubstr("see whether rdma-brokerd runs"));
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::seconds(1));
  brokers_->Thaw();
  connects_.get();
}

TEST(Broker, ASharedEndpointHoldsItsAddressUntilItsLastConnectorIsClosed) {
  Brokers brokers("stream", 1);
  {
    Side passive(brokers.socket(0), "fake1");
    Side active(brokers.socket(0), "fake1");
    auto [made, endpoint] = BlockingCreateSharedEndpoint(active.adapter, TestAddress(1));
    ASSERT_TRUE(made.ok()) << made.hint;
    EXPECT_GE(endpoint->address().port, 49152);
    auto [listening, listener] = BlockingListener::Listen(passive.adapter, TestAddress(1));
    ASSERT_TRUE(listening.ok()) << listening.hint;
    std::thread server([&passive, &heard = *listener] {
      passive.connector = heard.Next().object;
      ASSERT_NE(passive.connector, nullptr);
      EXPECT_TRUE(BlockingAccept(passive.connector, passive.qp, {}).ok());
    });
    auto connected = BlockingConnect(active.adapter, active.qp, endpoint, {.destination = listener->address()});
    server.join();
    ASSERT_TRUE(connected.outcome.ok()) << connected.outcome.hint;
    EXPECT_EQ(connected.object->connection_data()->local, endpoint->address());
    const Later<bool> closed;
    ASSERT_EQ(endpoint->Close([closed] { closed.Set(true); }), NdkStatus::kPending);
    EXPECT_EQ(BlockingReservePort(active.adapter, endpoint->address()).outcome.status, NdkStatus::kSharingViolation);
    BlockingClose(connected.object);
    EXPECT_TRUE(closed.Get());
    auto [reserved, reservation] = BlockingReservePort(active.adapter, endpoint->address());
    EXPECT_TRUE(reserved.ok()) << reserved.hint;
    EXPECT_EQ(reservation->address(), endpoint->address());
  }
  EXPECT_TRUE(brokers.EndEmpty());
}

TEST(Broker, ItsDeathIsToldWhereNoneFollows) {
  Brokers brokers("stream", 1, std::chrono::milliseconds(300));
  Side passive(brokers.socket(0), "fake1");
  Side active(brokers.socket(0), "fake1");
  Connect(passive, TestAddress(1), active, TestAddress(1));
  brokers.Kill();
  EXPECT_THAT(active.ends.WaitFor(1), ElementsAre("STATUS_CONNECTION_DISCONNECTED"));
  EXPECT_THAT(passive.ends.WaitFor(1), ElementsAre("STATUS_CONNECTION_DISCONNECTED"));
  EXPECT_EQ(BlockingClose(active.connector), NdkStatus::kSuccess);
}

TEST(Broker, OneThatDoesNotKnowThemEndsSessionsAtOnceAndNewOnesOpen) {
  Brokers brokers("stream", 1);
  {
    Side passive(brokers.socket(0), "fake1");
    Side active(brokers.socket(0), "fake1");
    Connect(passive, TestAddress(1), active, TestAddress(1));
    const Later<NdkStatus> over;
    const auto told = std::chrono::steady_clock::now();
    active.adapter->OnSessionEnd([over](NdkStatus status) { over.Set(status); });
    brokers.Stop();
    brokers.StartAgain();
    EXPECT_EQ(over.Get(), NdkStatus::kConnectionDisconnected);
    EXPECT_LT(std::chrono::steady_clock::now() - told, kGrace / 2) << "a session that nobody keeps was waited for";
    EXPECT_THAT(active.ends.WaitFor(1), ElementsAre("STATUS_CONNECTION_DISCONNECTED"));
    EXPECT_THAT(passive.ends.WaitFor(1), ElementsAre("STATUS_CONNECTION_DISCONNECTED"));
    EXPECT_EQ(active.adapter->CreateConnector([](const Outcome&, auto) {}), NdkStatus::kConnectionDisconnected);
    EXPECT_EQ(BlockingClose(active.connector), NdkStatus::kSuccess);
  }
  {
    Side passive(brokers.socket(0), "fake1");
    Side active(brokers.socket(0), "fake1");
    Connect(passive, TestAddress(1), active, TestAddress(1));
  }
  EXPECT_TRUE(brokers.EndEmpty());
}

// Queue pairs besides the sides' own, to be made before the sides.
class MorePairs {
 public:
  ~MorePairs() {
    for (FakeQueuePair* const pair : pairs_) EXPECT_EQ(pair->Close({}), NdkStatus::kSuccess);
  }
  FakeQueuePair* New(const Side& side) { return pairs_.emplace_back(new FakeQueuePair(side.adapter->data())); }

 private:
  std::vector<FakeQueuePair*> pairs_;
};

// Over a real broker, whose device goes in the middle of what both sides do on it.
class RemovedDevice : public testing::Test {
 protected:
  void SetUp() override {
    auto made = BlockingListener::Listen(passive_.adapter, TestAddress(1));
    ASSERT_TRUE(made.outcome.ok()) << made.outcome.hint;
    listener_ = std::move(made.object);
  }

  // Has the call wait on a thread of its own.
  void Start(const char* name, std::function<Outcome()> call) {
    calls_.emplace_back(name, std::async(std::launch::async, std::move(call)));
  }
  ConnectParameters ToListener() const { return {.source = TestAddress(1), .destination = listener_->address()}; }

  MorePairs more_;
  Brokers brokers_{"stream", 1};
  Side passive_{brokers_.socket(0), "fake1"};
  Side active_{brokers_.socket(0), "fake1"};
  std::unique_ptr<BlockingListener> listener_;
  std::vector<std::pair<const char*, std::future<Outcome>>> calls_;
};

TEST_F(RemovedDevice, EveryBlockingCallThatWaitsEndsAndSaysSo) {
  // As far as the request, which nobody decides on.
  Start("BlockingConnect",
        [this, pair = more_.New(active_)] { return BlockingConnect(active_.adapter, pair, ToListener()).outcome; });
  const auto undecided = listener_->Next().object;
  ASSERT_NE(undecided, nullptr);
  // As far as the reply, after which nobody completes.
  const Later<std::shared_ptr<Connector>> made;
  const Later<Outcome> replied;
  active_.adapter->CreateConnector([made](const Outcome&, auto connector) { made.Set(connector); });
  const auto connecting = made.Get();
  ASSERT_EQ(
      connecting->Connect(more_.New(active_), ToListener(), [=](const Outcome& outcome) { replied.Set(outcome); }),
      NdkStatus::kPending);
  const auto accepted = listener_->Next().object;
  ASSERT_NE(accepted, nullptr);
  Start("BlockingAccept", [accepted, pair = more_.New(passive_)] { return BlockingAccept(accepted, pair, {}); });
  ASSERT_TRUE(replied.Get().ok());
  // As far as the first side's disconnect.
  Connect(passive_, TestAddress(1), active_, TestAddress(1));
  Start("BlockingDisconnect", [this] { return BlockingDisconnect(active_.connector); });
  EXPECT_THAT(passive_.ends.WaitFor(1), ElementsAre("STATUS_SUCCESS"));
  for (int i = 0; i < 2; ++i) Start("Next", [this] { return listener_->Next().outcome; });

  brokers_.RemoveDevices();
  for (auto& [name, call] : calls_) {
    const Outcome outcome = call.get();
    EXPECT_EQ(outcome.status, NdkStatus::kDeviceRemoved) << name;
    EXPECT_FALSE(outcome.hint.empty()) << name;
  }
}

TEST_F(RemovedDevice, EveryBlockingCallThatFollowsSaysSoAtOnceAndClosesReturn) {
  std::vector<std::shared_ptr<Connector>> undecided;
  for (int i = 0; i < 2; ++i) {
    Start("BlockingConnect",
          [this, pair = more_.New(active_)] { return BlockingConnect(active_.adapter, pair, ToListener()).outcome; });
    undecided.push_back(listener_->Next().object);
    ASSERT_NE(undecided.back(), nullptr);
  }
  brokers_.RemoveDevices();
  EXPECT_EQ(listener_->Next().outcome.status, NdkStatus::kDeviceRemoved);

  const std::pair<const char*, Outcome> rows[] = {
      {"BlockingConnect", BlockingConnect(active_.adapter, active_.qp, ToListener()).outcome},
      {"BlockingAccept", BlockingAccept(undecided[0], passive_.qp, {})},
      {"BlockingReject", BlockingReject(undecided[1], "")},
      {"BlockingCreateSharedEndpoint", BlockingCreateSharedEndpoint(active_.adapter, TestAddress(1)).outcome},
      {"BlockingReservePort", BlockingReservePort(active_.adapter, TestAddress(1)).outcome},
      {"BlockingListener::Listen", BlockingListener::Listen(active_.adapter, TestAddress(1)).outcome},
      {"Next", listener_->Next().outcome},
  };
  for (const auto& [name, outcome] : rows) {
    EXPECT_EQ(outcome.status, NdkStatus::kDeviceRemoved) << name;
    EXPECT_FALSE(outcome.hint.empty()) << name;
  }
  EXPECT_EQ(BlockingOpenAdapter(*active_.session, "fake1").outcome.status, NdkStatus::kObjectNameNotFound);

  for (const auto& connector : undecided) EXPECT_EQ(BlockingClose(connector), NdkStatus::kSuccess);
  for (auto& [name, call] : calls_) EXPECT_EQ(call.get().status, NdkStatus::kDeviceRemoved);
  listener_ = nullptr;
  for (const Side* const side : {&passive_, &active_}) EXPECT_EQ(BlockingClose(side->adapter), NdkStatus::kSuccess);
}

}  // namespace
}  // namespace rdmabroker::client
