// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_INTEGRATION_HELD_CONNECTIONS_H_
#define TESTS_INTEGRATION_HELD_CONNECTIONS_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/blocking.h"
#include "dataplane/ndk/socket_address.h"
#include "tests/integration/library_client.h"

namespace rdmabroker {

// Many connections of one client, each with a queue pair of its own. Calls that fail fail the test.
class HeldConnections {
 public:
  HeldConnections(const std::string& control_socket, const std::string& device);
  // Closes them all, and waits.
  ~HeldConnections();

  // The device's first IPv4 address, which it listens on and connects from.
  const IpAddress& ip() const { return ip_; }
  // Of a queue pair that no connection has.
  uint32_t spare_queue_pair() const { return client_.side.qp->number(); }

  // Where it listens.
  SocketAddress Listen();
  // Each accepts or makes so many, one after the other.
  void Accept(size_t count);
  void Connect(const SocketAddress& peer, size_t count);
  // Waits until every connection has ended: how each did.
  std::vector<NdkStatus> Ends();
  LibraryClient& client() { return client_; }

 private:
  // A new queue pair for the next connection.
  QueuePair* NewQueuePair();
  client::DisconnectEventCallback NotesEnd();

  LibraryClient client_;
  IpAddress ip_;
  std::unique_ptr<client::BlockingListener> listener_;
  std::vector<QueuePair*> queue_pairs_;
  std::vector<std::shared_ptr<client::Connector>> connectors_;
  std::mutex mutex_;
  std::vector<NdkStatus> ends_;  // Guarded by mutex_.
};

}  // namespace rdmabroker

#endif  // TESTS_INTEGRATION_HELD_CONNECTIONS_H_
