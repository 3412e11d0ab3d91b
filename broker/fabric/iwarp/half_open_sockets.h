// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_HALF_OPEN_SOCKETS_H_
#define BROKER_FABRIC_IWARP_HALF_OPEN_SOCKETS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "broker/core/ids.h"
#include "broker/fabric/iwarp/connection.h"
#include "broker/fabric/iwarp/sockets.h"
#include "broker/runtime/warning_limit.h"
#include "dataplane/iwarp/wire/startup_frame.h"

namespace rdmabroker {

// Accepted sockets until each has sent its MPA request. Their peers are anybody: a socket that sends something else, or
// more, or nothing in time is closed, and so is the oldest one where there are too many. Loop thread only.
class HalfOpenSockets {
 public:
  // Takes a socket that has sent a request, and nothing behind it. Must not call back.
  using Sink = std::function<void(EndpointId, AcceptedSocket, iwarp::StartupFrame)>;

  HalfOpenSockets(const IwarpSurroundings& surroundings, Sink sink);
  ~HalfOpenSockets();
  HalfOpenSockets(const HalfOpenSockets&) = delete;
  HalfOpenSockets& operator=(const HalfOpenSockets&) = delete;

  void Add(EndpointId listener, AcceptedSocket accepted);
  // The listener goes.
  void CloseAll(EndpointId listener);
  // False if there is none.
  bool CloseOldest();
  bool empty() const { return sockets_.empty(); }

 private:
  // Rises with age, so that the first of a map is the oldest.
  using Number = uint64_t;

  struct HalfOpen {
    EndpointId listener;
    AcceptedSocket accepted;
    std::string input;  // At most one request's length.
    WatchId watch = WatchId::kNone;
    TimerId deadline = TimerId::kNone;
  };

  void Receive(Number number);
  // Closes it, since what it sent is no request.
  void Refuse(Number number, const std::string& cause);
  void Close(Number number);
  // Takes the socket out, unwatched.
  HalfOpen Take(Number number);

  const IwarpSurroundings& surroundings_;
  const Sink sink_;
  Number last_number_ = 0;
  std::map<Number, HalfOpen> sockets_;
  std::map<EndpointId, std::set<Number>> of_listener_;
  WarningLimit refusals_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_HALF_OPEN_SOCKETS_H_
