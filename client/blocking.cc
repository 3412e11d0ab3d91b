// SPDX-License-Identifier: Apache-2.0

#include "client/blocking.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "client/catch_as_outcome.h"
#include "dataplane/callback_thread.h"
#include "dataplane/forked_child.h"
#include "dataplane/last_hint.h"
#include "dataplane/refusal.h"

namespace rdmabroker::client {
namespace {

constexpr char kWithinCallback[] = "a callback must not wait; use the form with a completion";

Outcome WithinCallback() { return {.status = NdkStatus::kInvalidDeviceState, .hint = kWithinCallback}; }

Outcome WithinForkedChild() { return {.status = NdkStatus::kInvalidDeviceState, .hint = kForkedChildHint}; }

// A value that another thread sets once. It is on the waiting thread's stack, so that waiting needs no memory;
// callbacks have a pointer to it, which std::function stores without memory.
template <typename Value>
class Told {
 public:
  void Tell(Value value) {
    // The waiting thread destroys this object as soon as it gets the lock.
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
    changed_.notify_one();
  }
  Value Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return value_.has_value(); });
    return *std::move(value_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Value> value_;
};

// Waits for what `start` starts, by a completion that it is given. That comes: the broker ends by its timeouts what a
// peer leaves pending, and requests and the session end where it does not answer or is away for too long. One that
// hangs, and is asked nothing more, is its supervisor's to end, by the watchdog.
template <typename Value, typename Start>
Made<Value> Await(const Start& start) {
  return CatchAsOutcome([&]() -> Made<Value> {
    if (IsForkedChild()) return {.outcome = WithinForkedChild()};
    if (OnCallbackThread()) return {.outcome = WithinCallback()};
    Told<Made<Value>> made;
    const NdkStatus status = start(
        [&made](const Outcome& outcome, Value value) { made.Tell({.outcome = outcome, .object = std::move(value)}); });
    if (status != NdkStatus::kPending) return {.outcome = {.status = status, .hint = LastHint()}};
    return made.Wait();
  });
}

template <typename Start>
Outcome AwaitOutcome(const Start& start) {
  const auto adapted = [&start](auto completion) {
    return start([completion](const Outcome& outcome) { completion(outcome, true); });
  };
  return Await<bool>(adapted).outcome;
}

// Waits as NDKPI's close does, with no end: until what depends on the object is closed, which is the caller's to do.
template <typename Close>
NdkStatus AwaitClose(const Close& close) {
  if (OnCallbackThread()) return Refuse(NdkStatus::kInvalidDeviceState, "%s", kWithinCallback);
  Told<bool> closed;
  if (close([&closed] { closed.Tell(true); }) == NdkStatus::kPending) closed.Wait();
  return NdkStatus::kSuccess;
}

// A connector of its own, whose connect `connect` starts by a completion that it is given.
template <typename Connect>
Made<std::shared_ptr<Connector>> ConnectAndComplete(const std::shared_ptr<Adapter>& adapter, const Connect& connect,
                                                    DisconnectEventCallback&& on_disconnect) {
  return CatchAsOutcome([&]() -> Made<std::shared_ptr<Connector>> {
    auto made =
        Await<std::shared_ptr<Connector>>([&](auto completion) { return adapter->CreateConnector(completion); });
    if (!made.outcome.ok()) return made;
    Connector& connector = *made.object;
    made.outcome = AwaitOutcome([&](auto completion) { return connect(connector, completion); });
    if (made.outcome.ok()) {
      made.outcome = AwaitOutcome(
          [&](auto completion) { return connector.CompleteConnect(std::move(on_disconnect), completion); });
    }
    if (!made.outcome.ok()) BlockingClose(std::exchange(made.object, nullptr));
    return made;
  });
}

}  // namespace

Made<std::vector<Device>> BlockingListAdapters(Session& session) {
  return Await<std::vector<Device>>([&](auto completion) { return session.ListAdapters(completion); });
}

Made<std::shared_ptr<Adapter>> BlockingOpenAdapter(Session& session, const std::string& device, NdkVersion version) {
  return Await<std::shared_ptr<Adapter>>(
      [&](auto completion) { return session.OpenAdapter(device, version, {}, completion); });
}

Made<std::shared_ptr<SharedEndpoint>> BlockingCreateSharedEndpoint(const std::shared_ptr<Adapter>& adapter,
                                                                   const SocketAddress& address) {
  return Await<std::shared_ptr<SharedEndpoint>>(
      [&](auto completion) { return adapter->CreateSharedEndpoint(address, completion); });
}

Made<std::shared_ptr<Reservation>> BlockingReservePort(const std::shared_ptr<Adapter>& adapter,
                                                       const SocketAddress& address) {
  return Await<std::shared_ptr<Reservation>>(
      [&](auto completion) { return adapter->ReservePort(address, completion); });
}

Made<std::shared_ptr<Connector>> BlockingConnect(const std::shared_ptr<Adapter>& adapter, QueuePair* queue_pair,
                                                 const ConnectParameters& parameters,
                                                 DisconnectEventCallback on_disconnect) {
  return ConnectAndComplete(
      adapter,
      [&](Connector& connector, auto completion) { return connector.Connect(queue_pair, parameters, completion); },
      std::move(on_disconnect));
}

Made<std::shared_ptr<Connector>> BlockingConnect(const std::shared_ptr<Adapter>& adapter, QueuePair* queue_pair,
                                                 const std::shared_ptr<SharedEndpoint>& endpoint,
                                                 const ConnectParameters& parameters,
                                                 DisconnectEventCallback on_disconnect) {
  return ConnectAndComplete(
      adapter,
      [&](Connector& connector, auto completion) {
        return connector.ConnectWithSharedEndpoint(queue_pair, endpoint, parameters, completion);
      },
      std::move(on_disconnect));
}

Outcome BlockingAccept(const std::shared_ptr<Connector>& connector, QueuePair* queue_pair,
                       const AcceptParameters& parameters, DisconnectEventCallback on_disconnect) {
  return AwaitOutcome(
      [&](auto completion) { return connector->Accept(queue_pair, parameters, std::move(on_disconnect), completion); });
}

Outcome BlockingReject(const std::shared_ptr<Connector>& connector, const std::string& private_data) {
  return AwaitOutcome([&](auto completion) { return connector->Reject(private_data, completion); });
}

Outcome BlockingDisconnect(const std::shared_ptr<Connector>& connector) {
  return AwaitOutcome([&](auto completion) { return connector->Disconnect(completion); });
}

NdkStatus BlockingClose(const std::shared_ptr<BrokerObject>& object) {
  return AwaitClose([&](CloseCompletion completion) { return object->Close(std::move(completion)); });
}

NdkStatus BlockingClose(DataObject* object) {
  return AwaitClose([&](CloseCompletion completion) { return object->Close(std::move(completion)); });
}

struct BlockingListener::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Connector>> waiting;
  NdkStatus over = NdkStatus::kSuccess;  // Otherwise nothing comes any more.

  void Add(std::shared_ptr<Connector> connector) {
    const std::lock_guard lock(mutex);
    if (over != NdkStatus::kSuccess) {
      connector->Close({});
      return;
    }
    waiting.push_back(std::move(connector));
    changed.notify_one();
  }
  void End(NdkStatus status) {
    const std::lock_guard lock(mutex);
    if (over == NdkStatus::kSuccess) over = status;
    // Those can only be closed: nobody shall try to accept them first.
    if (status == NdkStatus::kDeviceRemoved) Clear();
    changed.notify_all();
  }
  // With the lock held.
  void Clear() {
    for (; !waiting.empty(); waiting.pop_front()) waiting.front()->Close({});
  }
};

namespace {

const char* WhyNoPeerComes(NdkStatus over) {
  switch (over) {
    case NdkStatus::kCancelled:
      return "the listener was closed";
    case NdkStatus::kDeviceRemoved:
      return "the listener's device is gone; close the listener, and everything else on its adapter, and open the "
             "device again when it is back";
    default:
      return "the session is over; open a new one";
  }
}

}  // namespace

Made<std::unique_ptr<BlockingListener>> BlockingListener::Listen(const std::shared_ptr<Adapter>& adapter,
                                                                 const SocketAddress& address,
                                                                 const ListenOptions& options) {
  return CatchAsOutcome([&]() -> Made<std::unique_ptr<BlockingListener>> {
    const auto queue = std::make_shared<Queue>();
    // The listener forgets its callback, and this with it, when it or its session is closed.
    const std::shared_ptr<void> closed(nullptr, [queue](void*) { queue->End(NdkStatus::kCancelled); });
    auto made = Await<std::shared_ptr<Listener>>([&](auto completion) {
      return adapter->CreateListener(
          [queue, closed](std::shared_ptr<Connector> connector) { queue->Add(std::move(connector)); }, completion);
    });
    if (!made.outcome.ok()) return {.outcome = made.outcome};
    const std::shared_ptr<Listener> listener = std::move(made.object);
    auto listening = CatchAsOutcome([&]() -> Made<std::unique_ptr<BlockingListener>> {
      std::unique_ptr<BlockingListener> object(new BlockingListener(listener, queue));
      for (const NdkStatus status : {listener->OnSessionEnd([queue](NdkStatus over) { queue->End(over); }),
                                     listener->OnDeviceRemoval([queue] { queue->End(NdkStatus::kDeviceRemoved); })}) {
        if (status != NdkStatus::kSuccess) return {.outcome = {.status = status, .hint = LastHint()}};
      }
      const Outcome outcome =
          AwaitOutcome([&](auto completion) { return listener->Listen(address, options, completion); });
      return {.outcome = outcome, .object = std::move(object)};
    });
    if (listening.outcome.ok()) return listening;
    BlockingClose(listener);
    return {.outcome = listening.outcome};
  });
}

BlockingListener::BlockingListener(std::shared_ptr<Listener> listener, std::shared_ptr<Queue> queue)
    : listener_(std::move(listener)), queue_(std::move(queue)) {}

BlockingListener::~BlockingListener() {
  if (IsForkedChild()) return;
  queue_->End(NdkStatus::kCancelled);
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->Clear();
  }
  listener_->Close({});
}

SocketAddress BlockingListener::address() const { return listener_->address().value_or(SocketAddress()); }

Made<std::shared_ptr<Connector>> BlockingListener::Next(std::chrono::milliseconds timeout) {
  return CatchAsOutcome([&]() -> Made<std::shared_ptr<Connector>> {
    if (IsForkedChild()) return {.outcome = WithinForkedChild()};
    if (OnCallbackThread()) return {.outcome = WithinCallback()};
    std::unique_lock lock(queue_->mutex);
    queue_->changed.wait_for(lock, timeout,
                             [this] { return !queue_->waiting.empty() || queue_->over != NdkStatus::kSuccess; });
    if (!queue_->waiting.empty()) {
      std::shared_ptr<Connector> connector = std::move(queue_->waiting.front());
      queue_->waiting.pop_front();
      return {.outcome = {}, .object = std::move(connector)};
    }
    if (queue_->over != NdkStatus::kSuccess) {
      return {.outcome = {.status = queue_->over, .hint = WhyNoPeerComes(queue_->over)}};
    }
    return {.outcome = {.status = NdkStatus::kIoTimeout, .retryable = true, .hint = "no peer has connected in time"}};
  });
}

}  // namespace rdmabroker::client
