// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_MISUSE_GRAPH_H_
#define TESTS_CONFORMANCE_MISUSE_GRAPH_H_

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/misuse/kind.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::misuse {

// One object of each kind on an instance of the adapter of their own, of a's: the listener listens, the connector is
// connected to b through the shared endpoint, the window is on the region.
class Graph {
 public:
  explicit Graph(ndkpi::World& w);
  // Closes what is open, and waits for all closes.
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // The window's is null where the adapter has none.
  bool has(Kind part) const;
  // The first close of a part, on whatever thread.
  void Close(Kind part);
  // Takes a reference, with which a data object may be used while its close is pending; the destructor gives it back.
  void Keep();
  void LetGo();
  // Whether the part's close has ended.
  bool closed(Kind part) const { return closes_[static_cast<size_t>(part)].ended(); }

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

  // What the queues' notifications do.
  std::shared_ptr<std::function<void()>> on_notification = std::make_shared<std::function<void()>>();

 private:
  void Connect();
  std::shared_ptr<client::BrokerObject> broker_object(Kind part) const;
  DataObject* data_object(Kind part) const;

  std::array<bool, kKindNames.size()> close_called_ = {};
  std::vector<ndkpi::Call> closes_;
  ndkpi::Connection connection_;
  bool kept_ = false;
};

}  // namespace rdmabroker::misuse

#endif  // TESTS_CONFORMANCE_MISUSE_GRAPH_H_
