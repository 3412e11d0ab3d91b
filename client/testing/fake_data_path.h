// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_TESTING_FAKE_DATA_PATH_H_
#define CLIENT_TESTING_FAKE_DATA_PATH_H_

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "client/data_path.h"
#include "dataplane/adapter.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::client {

// A queue pair that moves nothing and notes what happens to it.
class FakeQueuePair final : public QueuePair {
 public:
  explicit FakeQueuePair(const rdmabroker::Adapter* adapter) : adapter_(adapter) {}

  NdkStatus Send(void*, std::span<const Sge>, OpFlags) override { return NdkStatus::kNotSupported; }
  NdkStatus SendAndInvalidate(void*, std::span<const Sge>, OpFlags, RemoteToken) override {
    return NdkStatus::kNotSupported;
  }
  NdkStatus Receive(void*, std::span<const Sge>) override { return NdkStatus::kNotSupported; }
  NdkStatus Read(void*, std::span<const Sge>, RemoteMemory, OpFlags) override { return NdkStatus::kNotSupported; }
  NdkStatus Write(void*, std::span<const Sge>, RemoteMemory, OpFlags) override { return NdkStatus::kNotSupported; }
  NdkStatus Bind(void*, MemoryRegion*, MemoryWindow*, void*, size_t, OpFlags) override {
    return NdkStatus::kNotSupported;
  }
  NdkStatus FastRegister(void*, MemoryRegion*, std::span<void* const>, size_t, size_t, uint64_t, OpFlags) override {
    return NdkStatus::kNotSupported;
  }
  NdkStatus Invalidate(void*, MemoryRegion*, OpFlags) override { return NdkStatus::kNotSupported; }
  NdkStatus Invalidate(void*, MemoryWindow*, OpFlags) override { return NdkStatus::kNotSupported; }
  uint32_t number() const override { return 0; }
  const rdmabroker::Adapter* adapter() const override { return adapter_; }

  NdkStatus Attach(Attachment attachment, ConnectionEndCallback on_end) override {
    const std::lock_guard lock(mutex_);
    if (attach_status_ != NdkStatus::kSuccess) return attach_status_;
    const bool step = attachment.socket || !attachment.state.empty();
    if (step) {
      attachment_ = std::move(attachment);
    } else {
      established_.emplace(attachment.local, attachment.peer);
    }
    on_end_ = std::move(on_end);
    return NdkStatus::kSuccess;
  }
  void Flush() override { EndWith(NdkStatus::kConnectionAborted); }
  void WatchAlone() override { alone_ = true; }
  NdkStatus Disconnect(std::chrono::milliseconds, RequestCompletion completion) override {
    const std::lock_guard lock(mutex_);
    if (!attachment_.socket) return NdkStatus::kConnectionInvalid;
    disconnect_ = std::move(completion);
    return NdkStatus::kPending;
  }

  // What the peer or a fault does.
  void ConnectionEnds(const ConnectionEnd& end) {
    ConnectionEndCallback callback;
    {
      const std::lock_guard lock(mutex_);
      callback = std::exchange(on_end_, nullptr);
    }
    if (callback) callback(end);
  }
  void CompleteDisconnect(NdkStatus status) { EndWith(status); }

  void set_attach_status(NdkStatus status) { attach_status_ = status; }
  // Of the last attachment that had one.
  std::string state() {
    const std::lock_guard lock(mutex_);
    return attachment_.state;
  }
  // The local address and the peer's, of an attachment that says no more than them.
  std::optional<std::pair<SocketAddress, SocketAddress>> established() {
    const std::lock_guard lock(mutex_);
    return established_;
  }
  int flushes() const { return flushes_; }
  bool alone() const { return alone_; }
  bool disconnecting() {
    const std::lock_guard lock(mutex_);
    return disconnect_ != nullptr;
  }

 private:
  void EndWith(NdkStatus status) {
    RequestCompletion completion;
    {
      const std::lock_guard lock(mutex_);
      if (status == NdkStatus::kConnectionAborted) ++flushes_;
      on_end_ = nullptr;
      attachment_.socket.Reset();
      completion = std::exchange(disconnect_, nullptr);
    }
    if (completion) completion(status);
  }

  const rdmabroker::Adapter* const adapter_;
  std::mutex mutex_;
  NdkStatus attach_status_ = NdkStatus::kSuccess;
  Attachment attachment_;
  std::optional<std::pair<SocketAddress, SocketAddress>> established_;
  ConnectionEndCallback on_end_;
  RequestCompletion disconnect_;
  std::atomic<int> flushes_ = 0;
  std::atomic<bool> alone_ = false;
};

// Opens, and makes nothing: its queue pairs are FakeQueuePairs of the test's own.
class FakeDataAdapter final : public rdmabroker::Adapter {
 public:
  const AdapterInfo& info() const override { return info_; }
  Created<ProtectionDomain> CreateProtectionDomain() override { return {NdkStatus::kNotSupported, nullptr}; }
  Created<CompletionQueue> CreateCompletionQueue(uint32_t, CqNotification) override {
    return {NdkStatus::kNotSupported, nullptr};
  }

  bool released() const { return released_; }
  void Release() { released_ = true; }

 private:
  const AdapterInfo info_ = {};
  std::atomic<bool> released_ = false;
};

inline DataPath FakeDataPath(bool client_ends_connections = true) {
  return {.technology = RdmaTechnology::kIwarp,
          .client_ends_connections = client_ends_connections,
          .open =
              [](const std::string&) {
                return Created<rdmabroker::Adapter>{NdkStatus::kSuccess, new FakeDataAdapter};
              },
          .release_device = [](rdmabroker::Adapter* adapter) { static_cast<FakeDataAdapter*>(adapter)->Release(); }};
}

}  // namespace rdmabroker::client

#endif  // CLIENT_TESTING_FAKE_DATA_PATH_H_
