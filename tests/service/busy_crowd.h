// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SERVICE_BUSY_CROWD_H_
#define TESTS_SERVICE_BUSY_CROWD_H_

#include <cstddef>
#include <string>

#include "dataplane/ndk/socket_address.h"
#include "tests/service/chatter.h"
#include "tests/service/crowd.h"

namespace rdmabroker::service {

// A crowd of connections, some of which carry messages all the time. What fails while they are made ends the process.
class BusyCrowd {
 public:
  struct Shape {
    std::string socket;  // The broker's control socket.
    std::string device;
    std::string address;  // One of the device's IP addresses.
    size_t connections = 0;
    size_t busy = 0;
    size_t at_once = 32;  // Connections that are made at a time.
  };

  // Returns when all are established and messages travel.
  explicit BusyCrowd(const Shape& shape);
  BusyCrowd(const BusyCrowd&) = delete;
  BusyCrowd& operator=(const BusyCrowd&) = delete;

  const IpAddress& ip() const { return ip_; }
  Chatter& chatter() { return chatter_; }

  // Sends one more message on each connection, prints the counts, and closes everything. Returns the process's exit
  // status: 0 if nothing was lost.
  int Finish();

 private:
  const IpAddress ip_;
  Chatter chatter_;
  Side active_;
  Side passive_;
  Crowd crowd_;
};

}  // namespace rdmabroker::service

#endif  // TESTS_SERVICE_BUSY_CROWD_H_
