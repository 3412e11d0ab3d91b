// SPDX-License-Identifier: Apache-2.0

// The functions of the C interface, each called where something has run out, and then with enough: what was refused has
// changed nothing, so that a whole program runs to its end.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "client/c/rdma_broker.h"
#include "tests/conformance/misuse/shortage.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker {
namespace {

// A bound for what is sure to happen, so that a test that fails ends.
constexpr int kPatienceMs = 60'000;

template <typename Struct>
Struct Sized() {
  Struct made = {};
  made.size = sizeof made;
  return made;
}

// A queue pair's end, with memory of its own.
struct End {
  rdma_broker_handle queue_pair = 0;
  rdma_broker_handle region = 0;
  uint32_t local_token = 0, remote_token = 0;
  std::array<uint8_t, 64> bytes = {};

  rdma_broker_sge sge() {
    return {.address = bytes.data(), .length = static_cast<uint32_t>(bytes.size()), .token = local_token};
  }
};

class CShortage : public testing::TestWithParam<misuse::Kind> {
 protected:
  // Calls a function until it is not refused. Returns what it returned then.
  template <typename Function>
  rdma_broker_status Enough(const std::string& name, const Function& function,
                            rdma_broker_status expected = RDMA_BROKER_STATUS_SUCCESS) {
    SCOPED_TRACE(name);
    called_.insert(name);
    rdma_broker_status status = expected;
    misuse::Play play(GetParam().what);
    play([&] {
      status = function();
      return status == expected ? NdkStatus::kSuccess : static_cast<NdkStatus>(status);
    });
    return status;
  }
  template <typename Function>
  void Succeeds(const std::string& name, const Function& function) {
    EXPECT_EQ(Enough(name, function), RDMA_BROKER_STATUS_SUCCESS) << name << ": " << rdma_broker_last_hint();
  }
  // One that waits for what the library's threads do, and these shall have descriptors and threads.
  template <typename Function>
  void Waits(const std::string& name, const Function& function,
             rdma_broker_status expected = RDMA_BROKER_STATUS_SUCCESS) {
    called_.insert(name);
    const bool here = GetParam().what == misuse::Short::kMemory;
    EXPECT_EQ(here ? Enough(name, function) : function(), expected) << name << ": " << rdma_broker_last_hint();
  }
  // One that asks the broker, and whose outcome is waited for later.
  template <typename Function>
  uint64_t Starts(const std::string& name, const Function& function) {
    const uint64_t context = ++contexts_;
    EXPECT_EQ(Enough(name, [&] { return function(context); }), RDMA_BROKER_STATUS_PENDING)
        << name << ": " << rdma_broker_last_hint();
    return context;
  }
  // Returns the object that the request has made.
  rdma_broker_handle Await(uint64_t context, rdma_broker_status expected = RDMA_BROKER_STATUS_SUCCESS) {
    Waits("events_await", [&] { return rdma_broker_events_await(events_, context, kPatienceMs, &event_); });
    EXPECT_EQ(event_.status, expected) << event_.hint;
    return event_.object;
  }
  template <typename Function>
  rdma_broker_handle Makes(const std::string& name, const Function& function) {
    return Await(Starts(name, function));
  }
  // The object of the next event of this kind, past others.
  rdma_broker_handle Next(uint32_t kind) {
    do {
      Waits("events_next", [&] { return rdma_broker_events_next(events_, kPatienceMs, &event_); });
    } while (event_.kind != kind && !HasFailure());
    return event_.object;
  }
  void Close(rdma_broker_handle object) {
    const uint64_t context = ++contexts_;
    const rdma_broker_status status = Enough("close", [&] { return rdma_broker_close(object, context); });
    if (status == RDMA_BROKER_STATUS_PENDING) return void(Await(context));
    EXPECT_EQ(status, RDMA_BROKER_STATUS_SUCCESS);
  }
  std::string AddressOf(rdma_broker_handle object) {
    char address[RDMA_BROKER_ADDRESS_SIZE] = "";
    Succeeds("get_local_address", [&] { return rdma_broker_get_local_address(object, address); });
    return address;
  }

  void OpenSession(const std::string& socket) {
    Succeeds("events_create", [&] { return rdma_broker_events_create(&events_); });
    int descriptor = -1;
    Succeeds("events_descriptor", [&] { return rdma_broker_events_descriptor(events_, &descriptor); });
    auto options = Sized<rdma_broker_session_options>();
    options.control_socket = socket.c_str();
    Succeeds("session_open", [&] { return rdma_broker_session_open(&options, events_, &session_, &event_); });
  }

  void ListDevices() {
    const rdma_broker_handle list =
        Makes("list_devices", [&](uint64_t context) { return rdma_broker_list_devices(session_, context); });
    auto device = Sized<rdma_broker_device>();
    Succeeds("list_device", [&] { return rdma_broker_list_device(list, 0, &device); });
    char address[RDMA_BROKER_ADDRESS_SIZE];
    Succeeds("list_address", [&] { return rdma_broker_list_address(list, 0, 0, address); });
    Close(list);
  }

  void OpenAdapter(const std::string& device) {
    adapter_ = Makes("adapter_open",
                     [&](uint64_t context) { return rdma_broker_adapter_open(session_, device.c_str(), 0, context); });
    auto info = Sized<rdma_broker_adapter_info>();
    Succeeds("adapter_get_info", [&] { return rdma_broker_adapter_get_info(adapter_, &info); });
    Succeeds("domain_create", [&] { return rdma_broker_domain_create(adapter_, &domain_); });
    Succeeds("completion_queue_create",
             [&] { return rdma_broker_completion_queue_create(adapter_, 64, events_, 0, &queue_); });
  }

  void Make(End& end) {
    Succeeds("memory_register", [&] {
      constexpr uint32_t kAll = RDMA_BROKER_MR_REMOTE_READ | RDMA_BROKER_MR_REMOTE_WRITE | RDMA_BROKER_MR_READ_SINK;
      return rdma_broker_memory_register(domain_, end.bytes.data(), end.bytes.size(), kAll, &end.region,
                                         &end.local_token, &end.remote_token);
    });
    auto attributes = Sized<rdma_broker_queue_pair_attributes>();
    attributes.receive_queue_depth = attributes.initiator_queue_depth = 4;
    attributes.receive_cq = attributes.initiator_cq = queue_;
    Succeeds("queue_pair_create", [&] { return rdma_broker_queue_pair_create(domain_, &attributes, &end.queue_pair); });
  }
  void Close(End& end) { Close(end.queue_pair), Close(end.region); }

  rdma_broker_handle NewListener() {
    return Makes("listener_create",
                 [&](uint64_t context) { return rdma_broker_listener_create(adapter_, 0, context); });
  }
  rdma_broker_handle NewReservation(const std::string& address) {
    return Makes("reserve_port",
                 [&](uint64_t context) { return rdma_broker_reserve_port(adapter_, address.c_str(), context); });
  }
  rdma_broker_handle NewConnector() {
    return Makes("connector_create", [&](uint64_t context) { return rdma_broker_connector_create(adapter_, context); });
  }

  // What takes an address up, besides the listener that the rest connects to.
  void TakeAddresses(const std::string& address) {
    const rdma_broker_handle plain = NewListener();
    Makes("listen", [&](uint64_t context) { return rdma_broker_listen(plain, address.c_str(), context); });
    Succeeds("listener_pause", [&] { return rdma_broker_listener_pause(plain, 1); });
    Close(plain);
    const rdma_broker_handle reserved = NewListener();
    const rdma_broker_handle first = NewReservation(address);
    Makes("listen_reserved", [&](uint64_t context) { return rdma_broker_listen_reserved(reserved, first, context); });
    Close(first), Close(reserved);
    const rdma_broker_handle second = NewReservation(address);
    Close(Makes("shared_endpoint_create_reserved", [&](uint64_t context) {
      return rdma_broker_shared_endpoint_create_reserved(adapter_, second, context);
    }));
    Close(second);
    Close(Makes("shared_endpoint_create", [&](uint64_t context) {
      return rdma_broker_shared_endpoint_create(adapter_, address.c_str(), context);
    }));
  }

  uint64_t Connect(rdma_broker_handle connector, const End& end, const std::string& source,
                   const std::string& destination) {
    auto parameters = Sized<rdma_broker_connect_parameters>();
    parameters.source = source.c_str();
    parameters.destination = destination.c_str();
    return Starts("connect", [&](uint64_t context) {
      return rdma_broker_connect(connector, end.queue_pair, &parameters, context);
    });
  }

  void AwaitResults(uint32_t wanted) {
    for (uint32_t taken = 0; taken < wanted && !HasFailure();) {
      std::array<rdma_broker_result, 4> results;
      uint32_t count = results.size();
      Succeeds("completion_queue_take", [&] {
        count = results.size();
        return rdma_broker_completion_queue_take(queue_, results.data(), &count);
      });
      for (uint32_t i = 0; i < count; ++i) EXPECT_EQ(results[i].status, RDMA_BROKER_STATUS_SUCCESS);
      taken += count;
    }
  }

  void Use(End& from, End& to) {
    const rdma_broker_sge into = to.sge(), sge = from.sge();
    const auto remote = reinterpret_cast<uint64_t>(to.bytes.data());
    Succeeds("receive", [&] { return rdma_broker_receive(to.queue_pair, 1, &into, 1); });
    Succeeds("completion_queue_arm", [&] { return rdma_broker_completion_queue_arm(queue_, RDMA_BROKER_NOTIFY_ANY); });
    Succeeds("send", [&] { return rdma_broker_send(from.queue_pair, 2, &sge, 1, 0); });
    Next(RDMA_BROKER_EVENT_COMPLETION_QUEUE);
    AwaitResults(2);
    Succeeds("write", [&] { return rdma_broker_write(from.queue_pair, 3, &sge, 1, remote, to.remote_token, 0); });
    AwaitResults(1);
    Succeeds("read", [&] { return rdma_broker_read(from.queue_pair, 4, &sge, 1, remote, to.remote_token, 0); });
    AwaitResults(1);
  }

  // A connection from its begin to its end, and one that is turned down.
  void ConnectAndUse(rdma_broker_handle listener, const std::string& source) {
    End a, b;
    Make(a), Make(b);
    const std::string destination = AddressOf(listener);
    const rdma_broker_handle active = NewConnector();
    const uint64_t connect = Connect(active, a, source, destination);
    const rdma_broker_handle passive = Next(RDMA_BROKER_EVENT_CONNECT);
    rdma_broker_handle adapter = 0;
    Succeeds("connector_get_adapter", [&] { return rdma_broker_connector_get_adapter(passive, &adapter); });
    EXPECT_EQ(adapter, adapter_);
    auto parameters = Sized<rdma_broker_accept_parameters>();
    constexpr char kPrivateData[] = "text that does not fit into a string without memory";
    parameters.private_data = kPrivateData;
    parameters.private_data_length = sizeof kPrivateData;
    const uint64_t accept = Starts(
        "accept", [&](uint64_t context) { return rdma_broker_accept(passive, b.queue_pair, &parameters, 0, context); });
    Await(connect);
    const uint64_t complete = ++contexts_;
    // The connection is handed over meanwhile, which without descriptors would be the end of it.
    Waits(
        "complete_connect", [&] { return rdma_broker_complete_connect(active, 0, complete); },
        RDMA_BROKER_STATUS_PENDING);
    Await(complete);
    Await(accept);
    auto data = Sized<rdma_broker_connection_data>();
    Succeeds("get_connection_data", [&] { return rdma_broker_get_connection_data(active, &data); });
    Use(a, b);
    const uint64_t ends[] = {
        Starts("disconnect", [&](uint64_t context) { return rdma_broker_disconnect(active, context); }),
        Starts("disconnect", [&](uint64_t context) { return rdma_broker_disconnect(passive, context); })};
    for (const uint64_t end : ends) Await(end);
    Close(active), Close(passive), Close(a), Close(b);
  }
  void ConnectAndBeTurnedDown(rdma_broker_handle listener, const std::string& source) {
    End end;
    Make(end);
    const rdma_broker_handle connector = NewConnector();
    const uint64_t connect = Connect(connector, end, source, AddressOf(listener));
    const rdma_broker_handle arrived = Next(RDMA_BROKER_EVENT_CONNECT);
    Makes("reject", [&](uint64_t context) { return rdma_broker_reject(arrived, "no", 2, context); });
    Await(connect, RDMA_BROKER_STATUS_CONNECTION_REFUSED);
    Succeeds("flush", [&] { return rdma_broker_flush(end.queue_pair); });
    Close(arrived), Close(connector), Close(end);
  }

  void AskForAText() {
    char text[RDMA_BROKER_HINT_SIZE];
    Succeeds("provider_error_text", [&] { return rdma_broker_provider_error_text(1, text); });
  }

  // Names are kept nowhere here; a literal address stands for itself.
  void AskForNames() {
    rdma_broker_address address;
    uint32_t count = 1;
    Succeeds("resolve_name", [&] {
      return rdma_broker_resolve_name("rdma-broker://127.0.0.1:4420", 0, &address, &count, nullptr, nullptr);
    });
    rdma_broker_handle registration = 0;
    Enough(
        "register_name",
        [&] { return rdma_broker_register_name("rdma-broker://name", "127.0.0.1:4420", 0, 0, &registration, nullptr); },
        RDMA_BROKER_STATUS_NOT_SUPPORTED);
  }

  // As the library's list of symbols has them.
  static std::set<std::string> AllFunctions() {
    std::ifstream in("client/c/symbols.txt");
    std::set<std::string> all;
    constexpr char kPrefix[] = "rdma_broker_";
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with(kPrefix)) all.insert(line.substr(sizeof kPrefix - 1, line.find('@') - sizeof kPrefix + 1));
    }
    return all;
  }

  rdma_broker_handle events_ = 0, session_ = 0, adapter_ = 0, domain_ = 0, queue_ = 0;
  rdma_broker_event event_ = Sized<rdma_broker_event>();
  std::set<std::string> called_ = {"status_name", "last_hint"};  // Which have no status.
  uint64_t contexts_ = 0;
};

TEST_P(CShortage, AWholeProgramRunsThoughEachCallIsRefusedFirst) {
  static const ndkpi::Surroundings kSurroundings = ndkpi::Prepare("iwarp");
  static const ndkpi::Case kAny = {.name = "CShortage"};
  ndkpi::World world(kSurroundings, kAny);
  const std::string address = world.a().At().ToString();
  OpenSession(world.broker().control_socket());
  ListDevices();
  OpenAdapter(kSurroundings.device);
  TakeAddresses(address);
  const rdma_broker_handle listener = NewListener();
  Makes("listen_with",
        [&](uint64_t context) { return rdma_broker_listen_with(listener, address.c_str(), 0, context); });
  ConnectAndUse(listener, address);
  ConnectAndBeTurnedDown(listener, address);
  AskForNames();
  AskForAText();
  for (const rdma_broker_handle object : {listener, queue_, domain_, adapter_, session_, events_}) Close(object);
  EXPECT_EQ(called_, AllFunctions());
}

INSTANTIATE_TEST_SUITE_P(Of, CShortage, testing::ValuesIn(misuse::kKinds),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace rdmabroker
