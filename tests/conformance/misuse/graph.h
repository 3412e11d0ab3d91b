// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_MISUSE_GRAPH_H_
#define TESTS_CONFORMANCE_MISUSE_GRAPH_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/conformance/misuse/kind.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::misuse {

// A callback that does what a test says when it next comes, and otherwise nothing. Copies are one.
class Hook {
 public:
  void Set(std::function<void()> work) const;
  void operator()(const auto&... /*told*/) const { Run(); }

 private:
  struct State {
    std::mutex mutex;
    std::function<void()> work;
  };

  void Run() const;

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// One object of each kind on an instance of the adapter of their own: the listener listens, the connector is connected
// to b through the shared endpoint, the window is on the region.
class Graph {
 public:
  // Whose the adapter is: a's, or of one more, which a test may end.
  enum class Session : uint8_t { kOfA, kOwn };

  explicit Graph(ndkpi::World& w, Session whose = Session::kOfA);
  // Closes what is open, and waits for all closes.
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // The window's is null where the adapter has none.
  bool has(Kind part) const;
  // One more, which is not a part.
  std::shared_ptr<client::Connector> NewConnector();
  // The first close of a part, on whatever thread.
  void Close(Kind part);
  // Takes a reference, with which a data object may be used while its close is pending; the destructor gives it back.
  void Keep();
  void LetGo();
  // Whether the part's close has ended.
  bool closed(Kind part) const { return closes_[static_cast<size_t>(part)].ended(); }

  client::Session& session() { return own_session_ == nullptr ? world.a().session() : *own_session_; }

  ndkpi::World& world;
  std::shared_ptr<client::Adapter> adapter;
  std::shared_ptr<client::Listener> listener;
  std::shared_ptr<client::SharedEndpoint> endpoint;
  std::shared_ptr<client::Reservation> reservation;
  std::shared_ptr<client::Connector> connector;
  Adapter* data = nullptr;
  ProtectionDomain* domain = nullptr;
  CompletionQueue* cq = nullptr;
  SharedReceiveQueue* srq = nullptr;
  QueuePair* qp = nullptr;
  QueuePair* spare = nullptr;  // Not connected; closed by the destructor.
  MemoryRegion* region = nullptr;
  MemoryWindow* window = nullptr;
  std::vector<uint8_t> memory;

  const Hook on_notification;  // Of either queue.
  const Hook on_adapter_event;
  const Hook on_disconnect;
  // Those of a session of its own.
  const Hook on_session_end;
  const Hook on_data_path_open;
  const Hook on_transition;

 private:
  void OpenSession();
  void Connect();
  std::shared_ptr<client::BrokerObject> broker_object(Kind part) const;
  DataObject* data_object(Kind part) const;

  std::unique_ptr<client::Session> own_session_;
  std::array<bool, kKindNames.size()> close_called_ = {};
  std::vector<ndkpi::Call> closes_;
  ndkpi::Connection connection_;
  bool kept_ = false;
};

}  // namespace rdmabroker::misuse

#endif  // TESTS_CONFORMANCE_MISUSE_GRAPH_H_
