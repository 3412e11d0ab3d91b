// SPDX-License-Identifier: Apache-2.0

// What the C interface does without a broker: with handles and pointers that are no good, with its events, and with a
// data plane of the test's own.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "client/c/event_queue.h"
#include "client/c/handle_table.h"
#include "client/c/interface.h"
#include "client/c/rdma_broker.h"
#include "dataplane/adapter.h"
#include "dataplane/data_object.h"
#include "dataplane/forked_child.h"
#include "dataplane/iwarp/adapter.h"
#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/memory.h"
#include "dataplane/ndk/status.h"
#include "dataplane/provider_error.h"
#include "dataplane/testing/tcp_pair.h"
#include "dataplane/unique_fd.h"
#include "tests/memory_shortage.h"
#include "tests/random_seed.h"

namespace rdmabroker {
namespace {

constexpr rdma_broker_handle kMadeUp = 0xdeadbeefcafe;

rdma_broker_handle MakeEvents() {
  rdma_broker_handle events = 0;
  EXPECT_EQ(rdma_broker_events_create(&events), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_NE(events, 0u);
  return events;
}

template <typename Struct>
Struct Sized() {
  Struct made = {};
  made.size = sizeof made;
  return made;
}

// Each function, called with a handle in the place of the first, and with all else as it should be.
struct Function {
  const char* name;
  std::function<rdma_broker_status(rdma_broker_handle)> call;
};

const std::vector<Function>& Functions() {
  static thread_local int descriptor = 0;
  static thread_local char text[RDMA_BROKER_ADDRESS_SIZE];
  static thread_local uint32_t count = 1;
  static thread_local rdma_broker_handle made = 0;
  static thread_local rdma_broker_result result;
  static thread_local rdma_broker_sge sge;
  static thread_local auto event = Sized<rdma_broker_event>();
  static thread_local auto device = Sized<rdma_broker_device>();
  static thread_local auto info = Sized<rdma_broker_adapter_info>();
  static thread_local auto data = Sized<rdma_broker_connection_data>();
  static thread_local auto connect = Sized<rdma_broker_connect_parameters>();
  static thread_local auto accept = Sized<rdma_broker_accept_parameters>();
  static thread_local auto pair = Sized<rdma_broker_queue_pair_attributes>();
  using H = rdma_broker_handle;
  static const std::vector<Function> kFunctions = {
      {"events_descriptor", [](H h) { return rdma_broker_events_descriptor(h, &descriptor); }},
      {"events_next", [](H h) { return rdma_broker_events_next(h, 0, &event); }},
      {"events_await", [](H h) { return rdma_broker_events_await(h, 1, 0, &event); }},
      {"close", [](H h) { return rdma_broker_close(h, 1); }},
      {"session_open", [](H h) { return rdma_broker_session_open(nullptr, h, &made, nullptr); }},
      {"list_devices", [](H h) { return rdma_broker_list_devices(h, 1); }},
      {"list_device", [](H h) { return rdma_broker_list_device(h, 0, &device); }},
      {"list_address", [](H h) { return rdma_broker_list_address(h, 0, 0, text); }},
      {"adapter_open", [](H h) { return rdma_broker_adapter_open(h, "iwarp0", 0, 1); }},
      {"adapter_get_info", [](H h) { return rdma_broker_adapter_get_info(h, &info); }},
      {"listener_create", [](H h) { return rdma_broker_listener_create(h, 0, 1); }},
      {"listen", [](H h) { return rdma_broker_listen(h, "127.0.0.1:0", 1); }},
      {"listen_with", [](H h) { return rdma_broker_listen_with(h, "127.0.0.1:0", 0, 1); }},
      {"listen_reserved", [](H h) { return rdma_broker_listen_reserved(h, h, 1); }},
      {"listener_pause", [](H h) { return rdma_broker_listener_pause(h, 1); }},
      {"shared_endpoint_create", [](H h) { return rdma_broker_shared_endpoint_create(h, "127.0.0.1:0", 1); }},
      {"shared_endpoint_create_reserved", [](H h) { return rdma_broker_shared_endpoint_create_reserved(h, h, 1); }},
      {"reserve_port", [](H h) { return rdma_broker_reserve_port(h, "127.0.0.1:0", 1); }},
      {"get_local_address", [](H h) { return rdma_broker_get_local_address(h, text); }},
      {"connector_create", [](H h) { return rdma_broker_connector_create(h, 1); }},
      {"connector_get_adapter", [](H h) { return rdma_broker_connector_get_adapter(h, &made); }},
      {"connect", [](H h) { return rdma_broker_connect(h, h, &connect, 1); }},
      {"complete_connect", [](H h) { return rdma_broker_complete_connect(h, 0, 1); }},
      {"accept", [](H h) { return rdma_broker_accept(h, h, &accept, 0, 1); }},
      {"reject", [](H h) { return rdma_broker_reject(h, nullptr, 0, 1); }},
      {"disconnect", [](H h) { return rdma_broker_disconnect(h, 1); }},
      {"get_connection_data", [](H h) { return rdma_broker_get_connection_data(h, &data); }},
      {"domain_create", [](H h) { return rdma_broker_domain_create(h, &made); }},
      {"completion_queue_create", [](H h) { return rdma_broker_completion_queue_create(h, 1, 0, 0, &made); }},
      {"completion_queue_arm", [](H h) { return rdma_broker_completion_queue_arm(h, 1); }},
      {"completion_queue_take", [](H h) { return rdma_broker_completion_queue_take(h, &result, &count); }},
      {"memory_register",
       [](H h) { return rdma_broker_memory_register(h, text, sizeof text, 0, &made, nullptr, nullptr); }},
      {"queue_pair_create", [](H h) { return rdma_broker_queue_pair_create(h, &pair, &made); }},
      {"send", [](H h) { return rdma_broker_send(h, 0, &sge, 1, 0); }},
      {"receive", [](H h) { return rdma_broker_receive(h, 0, &sge, 1); }},
      {"read", [](H h) { return rdma_broker_read(h, 0, &sge, 1, 0, 0, 0); }},
      {"write", [](H h) { return rdma_broker_write(h, 0, &sge, 1, 0, 0, 0); }},
      {"flush", [](H h) { return rdma_broker_flush(h); }},
  };
  return kFunctions;
}

bool IsForEvents(const Function& function) {
  const std::string name = function.name;
  return name.starts_with("events_") || name == "close" || name == "session_open";
}

TEST(CInterface, AHandleOfNothingIsAStatusAndNoMore) {
  for (const Function& function : Functions()) {
    SCOPED_TRACE(function.name);
    EXPECT_EQ(function.call(0), RDMA_BROKER_STATUS_INVALID_PARAMETER);
    EXPECT_EQ(function.call(kMadeUp), RDMA_BROKER_STATUS_OBJECT_NAME_NOT_FOUND);
    EXPECT_NE(std::strstr(rdma_broker_last_hint(), std::to_string(kMadeUp).c_str()), nullptr);
    EXPECT_EQ(function.call(~rdma_broker_handle{0}), RDMA_BROKER_STATUS_OBJECT_NAME_NOT_FOUND);
  }
}

TEST(CInterface, AForkedChildTouchesNothingOfItsParents) {
  const rdma_broker_handle events = MakeEvents();
  NoticeForks();  // As a session would.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(30);  // For one that waits.
    for (size_t i = 0; i < Functions().size(); ++i) {
      const bool opens = std::string(Functions()[i].name) == "session_open";
      const auto expected = opens ? RDMA_BROKER_STATUS_NOT_SUPPORTED : RDMA_BROKER_STATUS_INVALID_DEVICE_STATE;
      if (Functions()[i].call(events) != expected) ::_exit(static_cast<int>(i) + 1);
    }
    auto failure = Sized<rdma_broker_event>();
    rdma_broker_handle session = 0;
    (void)rdma_broker_session_open(nullptr, events, &session, &failure);
    ::_exit(failure.hint[0] != '\0' ? 0 : 200);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  const auto failed = static_cast<size_t>(WEXITSTATUS(status));
  EXPECT_EQ(failed, 0u) << (failed > 0 && failed <= Functions().size() ? Functions()[failed - 1].name : "no hint");
  EXPECT_EQ(rdma_broker_close(events, 1), RDMA_BROKER_STATUS_SUCCESS);
}

TEST(CInterface, AHandleOfAnotherKindIsAStatusAndNoMore) {
  const rdma_broker_handle events = MakeEvents();
  for (const Function& function : Functions()) {
    if (IsForEvents(function)) continue;
    EXPECT_EQ(function.call(events), RDMA_BROKER_STATUS_OBJECT_NAME_NOT_FOUND) << function.name;
  }
  EXPECT_EQ(rdma_broker_close(events, 0), RDMA_BROKER_STATUS_SUCCESS);
}

TEST(CInterface, AClosedHandleNamesNothing) {
  const rdma_broker_handle events = MakeEvents();
  EXPECT_EQ(rdma_broker_close(events, 0), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_NE(MakeEvents(), events);
  for (const Function& function : Functions()) {
    EXPECT_EQ(function.call(events), RDMA_BROKER_STATUS_OBJECT_NAME_NOT_FOUND) << function.name;
  }
}

TEST(CInterface, NullAndMalformedArgumentsAreInvalid) {
  const rdma_broker_handle events = MakeEvents();
  auto small = Sized<rdma_broker_event>();
  small.size -= 1;
  auto wrong = Sized<rdma_broker_session_options>();
  wrong.size = 0;
  auto huge = Sized<rdma_broker_session_options>();
  huge.size = ~0u;
  rdma_broker_handle session = 0;
  rdma_broker_flush(0);
  const std::string another = rdma_broker_last_hint();
  const auto refused = [&another](rdma_broker_status status) {
    EXPECT_NE(rdma_broker_last_hint(), another) << "this call has no hint of its own";
    rdma_broker_flush(0);
    return status;
  };
  const rdma_broker_status statuses[] = {
      refused(rdma_broker_events_create(nullptr)),
      refused(rdma_broker_events_descriptor(events, nullptr)),
      refused(rdma_broker_events_next(events, 0, nullptr)),
      refused(rdma_broker_events_next(events, 0, &small)),
      refused(rdma_broker_events_await(events, 0, 0, nullptr)),
      refused(rdma_broker_session_open(nullptr, events, nullptr, nullptr)),
      refused(rdma_broker_session_open(nullptr, events, &session, &small)),
      refused(rdma_broker_session_open(&wrong, events, &session, nullptr)),
      refused(rdma_broker_session_open(&huge, events, &session, nullptr)),
      refused(rdma_broker_list_device(kMadeUp, 0, nullptr)),
      refused(rdma_broker_list_address(kMadeUp, 0, 0, nullptr)),
      refused(rdma_broker_adapter_open(kMadeUp, nullptr, 0, 0)),
      refused(rdma_broker_adapter_get_info(kMadeUp, nullptr)),
      refused(rdma_broker_listen(kMadeUp, nullptr, 0)),
      refused(rdma_broker_listen(kMadeUp, "somewhere", 0)),
      refused(rdma_broker_listen_with(kMadeUp, "127.0.0.1:0", 4, 0)),
      refused(rdma_broker_connector_get_adapter(kMadeUp, nullptr)),
      refused(rdma_broker_shared_endpoint_create(kMadeUp, "127.0.0.1", 0)),
      refused(rdma_broker_reserve_port(kMadeUp, "127.0.0.1:65536", 0)),
      refused(rdma_broker_get_local_address(kMadeUp, nullptr)),
      refused(rdma_broker_connect(kMadeUp, kMadeUp, nullptr, 0)),
      refused(rdma_broker_reject(kMadeUp, nullptr, 1, 0)),
      refused(rdma_broker_get_connection_data(kMadeUp, nullptr)),
      refused(rdma_broker_provider_error_text(1, nullptr)),
      refused(rdma_broker_resolve_name(nullptr, 0, nullptr, nullptr, nullptr, nullptr)),
      refused(rdma_broker_register_name("rdma-broker://a", "somewhere", 0, 0, &session, nullptr)),
      refused(rdma_broker_domain_create(kMadeUp, nullptr)),
      refused(rdma_broker_completion_queue_create(kMadeUp, 1, 0, 0, nullptr)),
      refused(rdma_broker_completion_queue_arm(kMadeUp, 3)),
      refused(rdma_broker_completion_queue_take(kMadeUp, nullptr, nullptr)),
      refused(rdma_broker_memory_register(kMadeUp, nullptr, 0, 0, nullptr, nullptr, nullptr)),
      refused(rdma_broker_queue_pair_create(kMadeUp, nullptr, nullptr)),
      refused(rdma_broker_send(kMadeUp, 0, nullptr, 1, 0)),
      refused(rdma_broker_receive(kMadeUp, 0, nullptr, 1)),
      refused(rdma_broker_read(kMadeUp, 0, nullptr, 1, 0, 0, 0)),
      refused(rdma_broker_write(kMadeUp, 0, nullptr, 1, 0, 0, 0)),
  };
  for (size_t i = 0; i < std::size(statuses); ++i) {
    EXPECT_EQ(statuses[i], RDMA_BROKER_STATUS_INVALID_PARAMETER) << "the call at " << i;
  }
  rdma_broker_close(events, 0);
}

// What a program of a later library knows and this library does not.
struct LaterOptions {
  rdma_broker_session_options known;
  uint64_t more;
};

TEST(CInterface, ALaterProgramsStructIsTakenWhereItAsksForNothingMore) {
  const rdma_broker_handle events = MakeEvents();
  rdma_broker_handle session = 0;
  LaterOptions options = {};
  options.known.size = sizeof options;
  options.known.control_socket = "/nowhere/control.sock";
  EXPECT_EQ(rdma_broker_session_open(&options.known, events, &session, nullptr), RDMA_BROKER_STATUS_CONNECTION_REFUSED);
  options.more = 1;
  EXPECT_EQ(rdma_broker_session_open(&options.known, events, &session, nullptr), RDMA_BROKER_STATUS_INVALID_PARAMETER);
  EXPECT_EQ(session, 0u);
  rdma_broker_close(events, 0);
}

TEST(CInterface, ASessionWithoutABrokerSaysWhatToDo) {
  const rdma_broker_handle events = MakeEvents();
  rdma_broker_handle session = 0;
  auto options = Sized<rdma_broker_session_options>();
  options.control_socket = "/nowhere/control.sock";
  auto failure = Sized<rdma_broker_event>();
  EXPECT_EQ(rdma_broker_session_open(&options, events, &session, &failure), RDMA_BROKER_STATUS_CONNECTION_REFUSED);
  EXPECT_EQ(failure.status, RDMA_BROKER_STATUS_CONNECTION_REFUSED);
  EXPECT_NE(std::strstr(failure.hint, "/nowhere/control.sock"), nullptr) << failure.hint;
  rdma_broker_close(events, 0);
}

TEST(CInterface, NamesAreResolvedAndAHintSaysWhyNot) {
  rdma_broker_address addresses[2] = {};
  uint32_t count = std::size(addresses);
  uint32_t time_to_live = 1;
  auto failure = Sized<rdma_broker_event>();
  ASSERT_EQ(rdma_broker_resolve_name("rdma-broker://192.0.2.1:4420", 0, addresses, &count, &time_to_live, &failure),
            RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(time_to_live, 0u);
  EXPECT_STREQ(addresses[0].text, "192.0.2.1:4420");
  EXPECT_EQ(rdma_broker_resolve_name("storage", 0, addresses, &count, nullptr, &failure),
            RDMA_BROKER_STATUS_INVALID_PARAMETER);
  EXPECT_NE(std::strstr(failure.hint, "storage"), nullptr) << failure.hint;
}

TEST(CInterface, AHintNamesTheInterfaceThatDoesNotExist) {
  EXPECT_EQ(rdma_broker_reserve_port(1, "[fe80::1%nobodys0]:1", 0), RDMA_BROKER_STATUS_INVALID_PARAMETER);
  EXPECT_NE(std::strstr(rdma_broker_last_hint(), "no interface \"nobodys0\""), nullptr) << rdma_broker_last_hint();
}

TEST(CInterface, AQueueWithoutEventsTimesOutAndItsDescriptorIsQuiet) {
  const rdma_broker_handle events = MakeEvents();
  pollfd poller = {.fd = -1, .events = POLLIN, .revents = 0};
  ASSERT_EQ(rdma_broker_events_descriptor(events, &poller.fd), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_EQ(::poll(&poller, 1, 0), 0);
  auto event = Sized<rdma_broker_event>();
  EXPECT_EQ(rdma_broker_events_next(events, 0, &event), RDMA_BROKER_STATUS_TIMEOUT);
  EXPECT_EQ(rdma_broker_events_await(events, 1, 1, &event), RDMA_BROKER_STATUS_TIMEOUT);
  rdma_broker_close(events, 0);
}

TEST(CInterface, ClosingAQueueEndsTheWaitForItsEvents) {
  const rdma_broker_handle events = MakeEvents();
  rdma_broker_status ended = RDMA_BROKER_STATUS_PENDING;
  std::thread waiter([&] {
    auto event = Sized<rdma_broker_event>();
    ended = rdma_broker_events_next(events, -1, &event);
  });
  rdma_broker_close(events, 0);
  waiter.join();
  // The waiter may have come too late to have waited.
  EXPECT_TRUE(ended == RDMA_BROKER_STATUS_CANCELLED || ended == RDMA_BROKER_STATUS_OBJECT_NAME_NOT_FOUND)
      << rdma_broker_status_name(ended);
}

TEST(CInterface, ClosingAQueueWakesWhoPollsADuplicateOfItsDescriptor) {
  const rdma_broker_handle events = MakeEvents();
  int descriptor = -1;
  ASSERT_EQ(rdma_broker_events_descriptor(events, &descriptor), RDMA_BROKER_STATUS_SUCCESS);
  const UniqueFd duplicate(::dup(descriptor));
  rdma_broker_close(events, 0);
  pollfd poller = {.fd = duplicate.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&poller, 1, 0), 1);
  EXPECT_EQ(poller.revents, POLLIN);
  auto event = Sized<rdma_broker_event>();
  EXPECT_EQ(rdma_broker_events_next(events, 0, &event), RDMA_BROKER_STATUS_OBJECT_NAME_NOT_FOUND);
}

class FakeRegion final : public MemoryRegion {
 public:
  FakeRegion() { ++count; }
  ~FakeRegion() override { --count; }

  static inline std::atomic<int> count = 0;  // Those that there are.

  NdkStatus Register(void*, size_t, MrFlags) override { return NdkStatus::kSuccess; }
  NdkStatus Deregister() override { return NdkStatus::kSuccess; }
  NdkStatus InitializeFastRegister(uint32_t, bool) override { return NdkStatus::kNotSupported; }
  LocalToken local_token() const override { return LocalToken{1}; }
  RemoteToken remote_token() const override { return RemoteToken{2}; }
};

// A domain of regions, which are made after what a test has happen.
class FakeDomain final : public ProtectionDomain {
 public:
  explicit FakeDomain(std::function<void()> before = [] {}) : before_(std::move(before)) {}

  Created<MemoryRegion> CreateMemoryRegion(bool) override {
    before_();
    return {NdkStatus::kSuccess, new FakeRegion};
  }
  Created<MemoryWindow> CreateMemoryWindow() override { return {NdkStatus::kNotSupported, nullptr}; }
  Created<SharedReceiveQueue> CreateSharedReceiveQueue(SharedReceiveQueueAttributes) override {
    return {NdkStatus::kNotSupported, nullptr};
  }
  Created<QueuePair> CreateQueuePair(const QueuePairAttributes&) override {
    return {NdkStatus::kNotSupported, nullptr};
  }

 private:
  const std::function<void()> before_;
};

TEST(CInterface, WhatIsMadeOnADomainThatIsClosedMeanwhileTellsOfItsClose) {
  const rdma_broker_handle events = MakeEvents();
  auto& table = c::HandleTable::Get();
  const rdma_broker_handle domain = table.NewHandle();
  table.Add(domain, {new FakeDomain([domain] { EXPECT_EQ(rdma_broker_close(domain, 7), RDMA_BROKER_STATUS_PENDING); }),
                     {table.Find<c::EventQueue>(events).object, 0},
                     {}});
  char memory[1];
  rdma_broker_handle region = 0;
  ASSERT_EQ(rdma_broker_memory_register(domain, memory, sizeof memory, 0, &region, nullptr, nullptr),
            RDMA_BROKER_STATUS_SUCCESS);
  auto event = Sized<rdma_broker_event>();
  EXPECT_EQ(rdma_broker_events_await(events, 7, 0, &event), RDMA_BROKER_STATUS_SUCCESS);
  {
    const auto in_use = table.Refer<MemoryRegion>(region);
    EXPECT_EQ(rdma_broker_close(region, 8), RDMA_BROKER_STATUS_PENDING);
  }
  EXPECT_EQ(rdma_broker_events_await(events, 8, 0, &event), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_EQ(event.kind, RDMA_BROKER_EVENT_CLOSED);
  EXPECT_EQ(event.source, region);
  rdma_broker_close(events, 0);
}

TEST(CInterface, NoResultOfAQueuePairIsTakenOnceItIsClosed) {
  const rdma_broker_handle events = MakeEvents();
  auto& table = c::HandleTable::Get();
  const c::Affiliation affiliation = {table.Find<c::EventQueue>(events).object, 0};
  Adapter* const adapter = iwarp::OpenAdapter().object;
  const rdma_broker_handle domain = table.Add({adapter->CreateProtectionDomain().object, affiliation, {}});
  const rdma_broker_handle queue = table.Add({adapter->CreateCompletionQueue(4, {}).object, affiliation, {}});
  auto attributes = Sized<rdma_broker_queue_pair_attributes>();
  attributes.receive_queue_depth = attributes.initiator_queue_depth = 2;
  attributes.receive_cq = attributes.initiator_cq = queue;
  rdma_broker_handle queue_pair = 0;
  ASSERT_EQ(rdma_broker_queue_pair_create(domain, &attributes, &queue_pair), RDMA_BROKER_STATUS_SUCCESS);
  for (const uint64_t context : {1, 2}) {
    ASSERT_EQ(rdma_broker_receive(queue_pair, context, nullptr, 0), RDMA_BROKER_STATUS_SUCCESS);
  }
  ASSERT_EQ(rdma_broker_flush(queue_pair), RDMA_BROKER_STATUS_SUCCESS);
  rdma_broker_result result;
  uint32_t count = 1;
  ASSERT_EQ(rdma_broker_completion_queue_take(queue, &result, &count), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(rdma_broker_close(queue_pair, 0), RDMA_BROKER_STATUS_SUCCESS);
  count = 1;
  ASSERT_EQ(rdma_broker_completion_queue_take(queue, &result, &count), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_EQ(count, 0u);
  for (const rdma_broker_handle object : {queue, domain, events}) rdma_broker_close(object, 0);
  adapter->Close({});
}

// A C program's queue pair, without a broker, that is connected to a peer.
class CQueuePair : public testing::Test {
 protected:
  void SetUp() override {
    domain_ = table_.Add({adapter_->CreateProtectionDomain().object, affiliation_, {}});
    queue_ = table_.Add({adapter_->CreateCompletionQueue(4, {}).object, affiliation_, {}});
    auto attributes = Sized<rdma_broker_queue_pair_attributes>();
    attributes.receive_queue_depth = attributes.initiator_queue_depth = 2;
    attributes.receive_cq = attributes.initiator_cq = queue_;
    ASSERT_EQ(rdma_broker_queue_pair_create(domain_, &attributes, &queue_pair_), RDMA_BROKER_STATUS_SUCCESS);
    const iwarp::States states = iwarp::StatesFor();
    TcpPair sockets = ConnectTcpPair();
    ASSERT_EQ(peer_.Attach(std::move(sockets.active), states.active), NdkStatus::kSuccess);
    ASSERT_EQ(table_.Refer<QueuePair>(queue_pair_)
                  ->Attach({std::move(sockets.passive), iwarp::EncodeConnectionState(states.passive)},
                           [this](const ConnectionEnd& end) { end_.set_value(end); }),
              NdkStatus::kSuccess);
  }
  void TearDown() override {
    for (const rdma_broker_handle object : {queue_pair_, queue_, domain_, events_}) rdma_broker_close(object, 0);
    adapter_->Close({});
  }

  c::HandleTable& table_ = c::HandleTable::Get();
  const rdma_broker_handle events_ = MakeEvents();
  const c::Affiliation affiliation_ = {table_.Find<c::EventQueue>(events_).object, 0};
  Adapter* const adapter_ = iwarp::OpenAdapter().object;
  rdma_broker_handle domain_ = 0, queue_ = 0, queue_pair_ = 0;
  std::promise<ConnectionEnd> end_;
  iwarp::Side peer_;
};

TEST_F(CQueuePair, ARegionsRightsHaveEndedWhenItsClosedEventComes) {
  std::array<char, 64> memory = {};
  rdma_broker_handle region = 0;
  uint32_t token = 0;
  ASSERT_EQ(rdma_broker_memory_register(domain_, memory.data(), memory.size(), RDMA_BROKER_MR_REMOTE_READ, &region,
                                        nullptr, &token),
            RDMA_BROKER_STATUS_SUCCESS);
  Buffer sink(peer_.domain, memory.size(), kMrAllowLocalWrite | kMrRdmaReadSink);
  const auto read = [&] {
    const Sge into = sink.sge();
    const RemoteMemory from = {reinterpret_cast<uint64_t>(memory.data()), RemoteToken{token}};
    EXPECT_EQ(peer_.qp->Read(nullptr, {&into, 1}, from, 0), NdkStatus::kSuccess);
    return peer_.Next().status;
  };
  EXPECT_EQ(read(), NdkStatus::kSuccess);
  {
    const auto in_use = table_.Refer<MemoryRegion>(region);
    EXPECT_EQ(rdma_broker_close(region, 8), RDMA_BROKER_STATUS_PENDING);
  }
  auto event = Sized<rdma_broker_event>();
  ASSERT_EQ(rdma_broker_events_await(events_, 8, -1, &event), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_EQ(event.kind, RDMA_BROKER_EVENT_CLOSED);
  EXPECT_EQ(read(), NdkStatus::kAccessViolation);
}

TEST_F(CQueuePair, TheTextOfAResultsNumberIsThatOfTheConnectionsEnd) {
  std::array<char, 64> memory = {};
  rdma_broker_handle region = 0;
  rdma_broker_sge into = {memory.data(), memory.size(), 0};
  ASSERT_EQ(
      rdma_broker_memory_register(domain_, memory.data(), memory.size(),
                                  RDMA_BROKER_MR_LOCAL_WRITE | RDMA_BROKER_MR_READ_SINK, &region, &into.token, nullptr),
      RDMA_BROKER_STATUS_SUCCESS);
  // By a token that the peer does not have.
  ASSERT_EQ(rdma_broker_read(queue_pair_, 0, &into, 1, 4096, 0, 0), RDMA_BROKER_STATUS_SUCCESS);
  const ConnectionEnd end = end_.get_future().get();
  rdma_broker_result result = {};
  uint32_t count = 0;
  while (count == 0) {
    count = 1;
    ASSERT_EQ(rdma_broker_completion_queue_take(queue_, &result, &count), RDMA_BROKER_STATUS_SUCCESS);
  }
  EXPECT_EQ(result.status, RDMA_BROKER_STATUS_ACCESS_VIOLATION);
  char text[RDMA_BROKER_HINT_SIZE];
  ASSERT_EQ(rdma_broker_provider_error_text(result.provider_error, text), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_EQ(text, ConnectionEndText(NdkStatus::kConnectionAborted, end.provider_error));
  ASSERT_EQ(rdma_broker_provider_error_text(0, text), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_STREQ(text, "");
  rdma_broker_close(region, 0);
}

TEST(CInterface, ARegistrationThatMemoryRunsOutInLeavesNothing) {
  const rdma_broker_handle events = MakeEvents();
  auto& table = c::HandleTable::Get();
  const rdma_broker_handle domain = table.Add({new FakeDomain, {table.Find<c::EventQueue>(events).object, 0}, {}});
  char memory[1];
  rdma_broker_handle region = 0;
  uint32_t local = 0;
  uint32_t remote = 0;
  const auto make = [&](int64_t allocations) {
    const auto shortage = MemoryShortage::HereAfter(allocations);
    return rdma_broker_memory_register(domain, memory, sizeof memory, 0, &region, &local, &remote);
  };
  int64_t allocations = 0;
  rdma_broker_status status = make(allocations);
  for (; status == RDMA_BROKER_STATUS_NO_MEMORY; status = make(++allocations)) {
    ASSERT_EQ(FakeRegion::count, 0) << "left behind after " << allocations << " allocations";
    ASSERT_EQ(region + local + remote, 0u);
  }
  EXPECT_EQ(status, RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_GT(allocations, 1);
  EXPECT_EQ(rdma_broker_close(region, 0), RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_EQ(FakeRegion::count, 0);
  rdma_broker_close(domain, 0);
  rdma_broker_close(events, 0);
}

TEST(CInterface, ACloseThatMemoryRunsOutInHasChangedNothing) {
  const rdma_broker_handle events = MakeEvents();
  auto& table = c::HandleTable::Get();
  const rdma_broker_handle domain = table.Add({new FakeDomain, {table.Find<c::EventQueue>(events).object, 0}, {}});
  int refusals = -1;
  rdma_broker_status status = RDMA_BROKER_STATUS_NO_MEMORY;
  while (status == RDMA_BROKER_STATUS_NO_MEMORY) {
    const auto shortage = MemoryShortage::HereAfter(++refusals);
    status = rdma_broker_close(domain, 0);
  }
  EXPECT_EQ(status, RDMA_BROKER_STATUS_SUCCESS);
  EXPECT_GT(refusals, 0);
  EXPECT_EQ(rdma_broker_close(domain, 0), RDMA_BROKER_STATUS_OBJECT_NAME_NOT_FOUND);
  rdma_broker_close(events, 0);
}

TEST(CInterface, AThreadThatTheProcessDoesNotGetIsAStatus) {
  const auto start = []() -> NdkStatus { throw std::system_error(EAGAIN, std::generic_category()); };
  EXPECT_EQ(c::Guarded(start), RDMA_BROKER_STATUS_INSUFFICIENT_RESOURCES);
}

TEST(CInterface, ThreadsThatCloseWhatOthersUseDoNoHarm) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 2000;
  std::array<std::atomic<rdma_broker_handle>, 4> shared = {};
  std::vector<std::thread> threads;
  const uint32_t seed = RandomSeed();
  SCOPED_TRACE("RDMA_BROKER_SEED=" + std::to_string(seed));
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&shared, random = std::minstd_rand(seed + static_cast<uint32_t>(i))]() mutable {
      for (int turn = 0; turn < kTurns; ++turn) {
        std::atomic<rdma_broker_handle>& place = shared[random() % shared.size()];
        if (random() % 8 == 0) {
          rdma_broker_close(place.exchange(MakeEvents()), 0);
        } else {
          const Function& function = Functions()[random() % Functions().size()];
          if (std::string(function.name) != "session_open") function.call(place);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& handle : shared) rdma_broker_close(handle, 0);
}

TEST(CInterface, StatusesHaveTheNumbersAndNamesOfTheLibrary) {
  const struct {
    rdma_broker_status number;
    NdkStatus status;
  } rows[] = {
#define ROW(name, ours) {RDMA_BROKER_##name, NdkStatus::ours}
      ROW(STATUS_SUCCESS, kSuccess),
      ROW(STATUS_TIMEOUT, kTimeout),
      ROW(STATUS_PENDING, kPending),
      ROW(STATUS_BUFFER_OVERFLOW, kBufferOverflow),
      ROW(STATUS_DEVICE_BUSY, kDeviceBusy),
      ROW(STATUS_NO_MORE_ENTRIES, kNoMoreEntries),
      ROW(STATUS_UNSUCCESSFUL, kUnsuccessful),
      ROW(STATUS_ACCESS_VIOLATION, kAccessViolation),
      ROW(STATUS_INVALID_PARAMETER, kInvalidParameter),
      ROW(STATUS_INVALID_DEVICE_REQUEST, kInvalidDeviceRequest),
      ROW(STATUS_NO_MEMORY, kNoMemory),
      ROW(STATUS_ACCESS_DENIED, kAccessDenied),
      ROW(STATUS_BUFFER_TOO_SMALL, kBufferTooSmall),
      ROW(STATUS_INVALID_PARAMETER_MIX, kInvalidParameterMix),
      ROW(STATUS_OBJECT_NAME_NOT_FOUND, kObjectNameNotFound),
      ROW(STATUS_DATA_OVERRUN, kDataOverrun),
      ROW(STATUS_DATA_ERROR, kDataError),
      ROW(STATUS_SHARING_VIOLATION, kSharingViolation),
      ROW(STATUS_INSUFFICIENT_RESOURCES, kInsufficientResources),
      ROW(STATUS_IO_TIMEOUT, kIoTimeout),
      ROW(STATUS_NOT_SUPPORTED, kNotSupported),
      ROW(STATUS_INTERNAL_ERROR, kInternalError),
      ROW(STATUS_CANCELLED, kCancelled),
      ROW(STATUS_REMOTE_RESOURCES, kRemoteResources),
      ROW(STATUS_INVALID_ADDRESS, kInvalidAddress),
      ROW(STATUS_INVALID_DEVICE_STATE, kInvalidDeviceState),
      ROW(STATUS_INVALID_BUFFER_SIZE, kInvalidBufferSize),
      ROW(STATUS_TOO_MANY_ADDRESSES, kTooManyAddresses),
      ROW(STATUS_ADDRESS_ALREADY_EXISTS, kAddressAlreadyExists),
      ROW(STATUS_CONNECTION_DISCONNECTED, kConnectionDisconnected),
      ROW(STATUS_CONNECTION_REFUSED, kConnectionRefused),
      ROW(STATUS_ADDRESS_ALREADY_ASSOCIATED, kAddressAlreadyAssociated),
      ROW(STATUS_ADDRESS_NOT_ASSOCIATED, kAddressNotAssociated),
      ROW(STATUS_CONNECTION_INVALID, kConnectionInvalid),
      ROW(STATUS_CONNECTION_ACTIVE, kConnectionActive),
      ROW(STATUS_NETWORK_UNREACHABLE, kNetworkUnreachable),
      ROW(STATUS_HOST_UNREACHABLE, kHostUnreachable),
      ROW(STATUS_REQUEST_ABORTED, kRequestAborted),
      ROW(STATUS_CONNECTION_ABORTED, kConnectionAborted),
      ROW(STATUS_DEVICE_REMOVED, kDeviceRemoved),
      ROW(STATUS_IMPLEMENTATION_LIMIT, kImplementationLimit),
      ROW(NDIS_STATUS_BAD_VERSION, kBadVersion),
      ROW(NDIS_STATUS_ADAPTER_NOT_READY, kAdapterNotReady),
#undef ROW
  };
  for (const auto& row : rows) {
    EXPECT_EQ(row.number, static_cast<uint32_t>(row.status));
    EXPECT_EQ(rdma_broker_status_name(row.number), StatusName(row.status));
    EXPECT_EQ(RDMA_BROKER_IS_SUCCESS(row.number), IsSuccess(row.status));
  }
  EXPECT_STREQ(rdma_broker_status_name(0x12345678), "STATUS_UNSUCCESSFUL");
}

}  // namespace
}  // namespace rdmabroker
