// SPDX-License-Identifier: Apache-2.0

// Names in an etcd of the test's own, which loses, refuses and is silent as it is told.

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/names/etcd.pb.h"
#include "client/names/names.h"
#include "tests/memory_shortage.h"

namespace rdmabroker::client {
namespace {

using namespace std::chrono_literals;
using std::chrono::system_clock;

constexpr int kKeysOfAName = 20;  // Whatever limit the question has.
constexpr auto kPatience = 40s;   // For what is sure to happen on a busy machine.

template <typename Message>
grpc::ByteBuffer Bytes(const Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

template <typename Message>
Message Parsed(const grpc::ByteBuffer& bytes) {
  grpc::Slice slice;
  Message message;
  EXPECT_TRUE(bytes.DumpToSingleSlice(&slice).ok());
  EXPECT_TRUE(message.ParseFromArray(slice.begin(), static_cast<int>(slice.size())));
  return message;
}

class EtcdServer : private grpc::CallbackGenericService {
 public:
  EtcdServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~EtcdServer() override { server_->Shutdown(system_clock::now()); }

  std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }
  NameOptions options() const {
    NameOptions options;
    options.source = "etcd://" + endpoint();
    options.timeout = kPatience;
    return options;
  }

  // Calls whose method ends so are not answered from now on; "" is all of them.
  void BeSilent(const std::string& method) {
    const std::lock_guard lock(mutex_);
    silent_ = method;
    deadlines_.clear();
  }
  // Loses all leases and so all keys, and refuses the next Put.
  void LoseAllAndRefuseAPut() {
    const std::lock_guard lock(mutex_);
    leases_.clear();
    keys_.clear();
    refuses_ = true;
  }
  // Waits until such a call has come, since it is silent where it is: how long it was to take at most, from then on.
  std::optional<system_clock::time_point> AwaitCall(const std::string& method) {
    return Await([&] { return deadlines_.count(method) != 0; }) ? std::optional(deadlines_[method]) : std::nullopt;
  }
  bool AwaitRefusedPut() {
    return Await([this] { return !refuses_; });
  }
  bool AwaitKey(const std::string& key) {
    return Await([&] { return keys_.count(key) != 0; });
  }
  // Waits until a call that was not answered has been given up: how long before it would have ended by itself.
  system_clock::duration AwaitGivenUp() {
    return Await([this] { return given_up_.has_value(); }) ? *given_up_ : system_clock::duration();
  }

 private:
  class Reactor : public grpc::ServerGenericBidiReactor {
   public:
    Reactor(EtcdServer* server, const grpc::GenericCallbackServerContext* context)
        : server_(server), method_(context->method()), deadline_(context->deadline()) {
      StartRead(&request_);
    }
    void OnReadDone(bool ok) override {
      if (!ok) return End(grpc::Status::CANCELLED);
      const auto status = server_->Answer(method_, deadline_, request_, &response_);
      if (!status.has_value() || ended_.exchange(true)) return;
      if (status->ok()) {
        StartWriteAndFinish(&response_, {}, *status);
      } else {
        Finish(*status);
      }
    }
    void OnCancel() override {
      server_->GiveUp(deadline_);
      End(grpc::Status::CANCELLED);
    }
    void OnDone() override { delete this; }

   private:
    void End(const grpc::Status& status) {
      if (!ended_.exchange(true)) Finish(status);
    }

    EtcdServer* const server_;
    const std::string method_;
    const system_clock::time_point deadline_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer response_;
    std::atomic<bool> ended_ = false;
  };

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    return new Reactor(this, context);
  }

  template <typename Condition>
  bool Await(const Condition& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, condition);
  }

  void GiveUp(system_clock::time_point deadline) {
    const std::lock_guard lock(mutex_);
    if (!given_up_.has_value()) given_up_ = deadline - system_clock::now();
    changed_.notify_all();
  }

  // Nothing: the call is not answered.
  std::optional<grpc::Status> Answer(const std::string& path, system_clock::time_point deadline,
                                     const grpc::ByteBuffer& request, grpc::ByteBuffer* response) {
    const std::lock_guard lock(mutex_);
    const std::string method = path.substr(path.rfind('/') + 1);
    deadlines_[method] = deadline;
    changed_.notify_all();
    if (silent_.has_value() && (silent_->empty() || *silent_ == method)) return std::nullopt;
    if (method == "LeaseGrant") {
      etcd::LeaseGrantResponse granted;
      granted.set_id(++last_lease_);
      leases_[last_lease_] = Parsed<etcd::LeaseGrantRequest>(request).ttl();
      *response = Bytes(granted);
    } else if (method == "LeaseKeepAlive") {
      etcd::LeaseResponse renewed;
      const auto lease = leases_.find(Parsed<etcd::LeaseRequest>(request).id());
      if (lease != leases_.end()) renewed.set_ttl(lease->second);
      *response = Bytes(renewed);
    } else if (method == "LeaseRevoke") {
      *response = Bytes(etcd::LeaseResponse());
    } else if (method == "Range") {
      etcd::RangeResponse found;
      for (int port = 1; port <= kKeysOfAName; ++port) {
        found.add_kvs()->set_value("127.0.0.1:" + std::to_string(port));
      }
      *response = Bytes(found);
    } else if (method != "Put") {
      return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, method);
    } else if (std::exchange(refuses_, false)) {
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no space");
    } else {
      keys_[Parsed<etcd::PutRequest>(request).key()] = Parsed<etcd::PutRequest>(request).lease();
      *response = Bytes(etcd::PutResponse());
    }
    return grpc::Status();
  }

  int port_ = 0;
  std::mutex mutex_;  // Guards what follows, but for the server.
  std::condition_variable changed_;
  std::optional<std::string> silent_;
  bool refuses_ = false;
  int64_t last_lease_ = 0;
  std::map<int64_t, int64_t> leases_;                          // With their seconds.
  std::map<std::string, int64_t> keys_;                        // With their leases.
  std::map<std::string, system_clock::time_point> deadlines_;  // By method, of the newest call.
  std::optional<system_clock::duration> given_up_;
  std::unique_ptr<grpc::Server> server_;
};

TEST(Resolution, AnEtcdThatMindsNoLimitGivesSixteenAddresses) {
  EtcdServer etcd;
  const Resolution resolution = ResolveName("rdma-broker://a", etcd.options());
  ASSERT_TRUE(resolution.outcome.ok()) << resolution.outcome.hint;
  EXPECT_EQ(resolution.addresses.size(), 16u);
  EXPECT_EQ(resolution.addresses.back().port, 16);
}

NameRegistration::Registering Register(const NameOptions& options) {
  return NameRegistration::Register("rdma-broker://a", *SocketAddress::Parse("127.0.0.1:4420"), options, 1s);
}

TEST(Registration, ANameThatCouldNotBePutOnceIsPutAgain) {
  EtcdServer etcd;
  const auto made = Register(etcd.options());
  ASSERT_TRUE(made.outcome.ok()) << made.outcome.hint;
  etcd.LoseAllAndRefuseAPut();
  EXPECT_TRUE(etcd.AwaitRefusedPut());
  EXPECT_TRUE(etcd.AwaitKey("rdma-broker/a/127.0.0.1:4420"));
}

// Without any memory: what comes after the first allocations is gRPC's, which ends the process where it gets none.
template <typename Function>
void ExpectRefusedWithoutMemory(const Function& function) {
  const auto shortage = MemoryShortage::HereAfter(0);
  EXPECT_EQ(function().outcome.status, NdkStatus::kNoMemory);
}

TEST(Registration, MemoryThatRunsOutIsAStatus) {
  EtcdServer etcd;
  const NameOptions options = etcd.options();
  ExpectRefusedWithoutMemory([&] { return Register(options); });
  EXPECT_TRUE(Register(options).outcome.ok());
}

TEST(Resolution, MemoryThatRunsOutIsAStatus) {
  EtcdServer etcd;
  const NameOptions options = etcd.options();
  ExpectRefusedWithoutMemory([&] { return ResolveName("rdma-broker://a", options); });
  EXPECT_TRUE(ResolveName("rdma-broker://a", options).outcome.ok());
}

// One of two servers takes its share of the time for nothing, in the lease's call and in the key's.
TEST(Registration, TheLeaseAndTheKeyHaveOneDeadline) {
  EtcdServer silent;
  EtcdServer etcd;
  silent.BeSilent("");
  NameOptions options;
  options.source = "etcd://" + silent.endpoint() + "," + etcd.endpoint();
  options.timeout = 4s;
  const auto made = Register(options);
  ASSERT_TRUE(made.outcome.ok()) << made.outcome.hint;
  EXPECT_LT(*etcd.AwaitCall("Put"), *etcd.AwaitCall("LeaseGrant") + 1s);  // Two seconds later, each with all of it.
}

TEST(Registration, EndsSoonThoughARenewalIsUnderWay) {
  EtcdServer etcd;
  auto made = Register(etcd.options());
  ASSERT_TRUE(made.outcome.ok()) << made.outcome.hint;
  etcd.BeSilent("LeaseKeepAlive");
  EXPECT_TRUE(etcd.AwaitCall("LeaseKeepAlive").has_value());
  made.registration.reset();
  EXPECT_GT(etcd.AwaitGivenUp(), kPatience / 2);
}

}  // namespace
}  // namespace rdmabroker::client
