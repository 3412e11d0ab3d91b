// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SERVICE_CROWD_H_
#define TESTS_SERVICE_CROWD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <semaphore>
#include <string>
#include <vector>

#include "client/adapter.h"
#include "client/connector.h"
#include "client/listener.h"
#include "client/session.h"
#include "dataplane/adapter.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::service {

// Says what went wrong and ends the process.
[[noreturn]] void Fail(const std::string& what);
inline void Require(bool fine, const char* what) {
  if (!fine) Fail(what);
}

// One of the two clients: a session, and a queue pair for its end of each connection.
class Side {
 public:
  // `context_of` gives each queue pair's context, by the connection's number.
  Side(const std::string& socket, const std::string& device, size_t connections, CqNotification notification,
       const std::function<void*(size_t)>& context_of);
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  // Until nothing is left of it.
  void Close();

  client::Adapter& adapter() { return *adapter_; }
  ProtectionDomain& domain() { return *domain_; }
  CompletionQueue& queue() { return *queue_; }
  const std::vector<QueuePair*>& queue_pairs() const { return queue_pairs_; }
  // Each connection's, once it is under way.
  std::vector<std::shared_ptr<client::Connector>>& connectors() { return connectors_; }

  // To be called when one of its connections has ended.
  client::DisconnectEventCallback NotesDisconnect();
  size_t disconnects() const { return disconnects_; }
  // From now on they are not counted.
  void ExpectDisconnects() { closing_ = true; }

 private:
  std::unique_ptr<client::Session> session_;
  std::shared_ptr<client::Adapter> adapter_;
  ProtectionDomain* domain_ = nullptr;
  CompletionQueue* queue_ = nullptr;
  std::vector<QueuePair*> queue_pairs_;
  std::vector<std::shared_ptr<client::Connector>> connectors_;
  std::atomic<size_t> disconnects_ = 0;
  std::atomic<bool> closing_ = false;
};

// Connections of one device with itself by way of a broker: the two ends of each belong to two sessions, which meet
// like strangers. What fails while they are made ends the process.
class Crowd {
 public:
  Crowd(Side& active, Side& passive, const IpAddress& ip);

  // All of them, so many at a time.
  void Establish(size_t at_once);
  void Close();

 private:
  void Listen();
  void ConnectNext();
  void Connect(size_t number, const std::shared_ptr<client::Connector>& connector);
  void Accept(const std::shared_ptr<client::Connector>& connector);
  // Of both ends of all connections.
  void NoteEstablished();

  Side& active_;
  Side& passive_;
  const IpAddress ip_;
  std::shared_ptr<client::Listener> listener_;
  std::atomic<size_t> begun_ = 0;
  std::atomic<size_t> ends_established_ = 0;
  std::binary_semaphore established_{0};
};

}  // namespace rdmabroker::service

#endif  // TESTS_SERVICE_CROWD_H_
