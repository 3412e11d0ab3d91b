// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_INTEGRATION_LIBRARY_CLIENT_H_
#define TESTS_INTEGRATION_LIBRARY_CLIENT_H_

#include <memory>
#include <string>

#include "client/blocking.h"
#include "dataplane/testing/side.h"

namespace rdmabroker {

// A client of a broker, on the library, with a queue pair for one connection. Failing calls that no function returns
// fail the test, which ends where there is no session or no adapter.
struct LibraryClient {
  explicit LibraryClient(const std::string& control_socket, const std::string& on_device = "iwarp0",
                         const SideOptions& options = {});
  ~LibraryClient();

  // Accepts the listener's next peer.
  client::Outcome Accept(client::BlockingListener& listener, client::DisconnectEventCallback on_disconnect = {});
  client::Outcome Connect(const IpAddress& from, const SocketAddress& to,
                          client::DisconnectEventCallback on_disconnect = {});
  void Disconnect();
  // The device's first IPv4 address.
  IpAddress ip() const;

  const std::string device;
  std::unique_ptr<client::Session> session;
  std::shared_ptr<client::Adapter> adapter;
  DataSide side;  // The adapter's.
  std::shared_ptr<client::Connector> connector;
};

}  // namespace rdmabroker

#endif  // TESTS_INTEGRATION_LIBRARY_CLIENT_H_
