// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_ACCEPTING_THREAD_H_
#define BROKER_CONTROL_ACCEPTING_THREAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"
#include "broker/control/tls.h"
#include "broker/runtime/loop.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Accepts connections and does their TLS handshakes on a thread of its own, and gives them to the loop thread. A
// handshake costs a millisecond, and a user may connect and leave thousands of times a second; neither may hold the
// loop up. All functions are called on the loop thread, or before that runs.
class AcceptingThread {
 public:
  // The most connections of a listening socket that wait for the loop thread, give or take one, and so the most that it
  // takes in a turn. Each takes some ten microseconds, so they take no longer than a user's share of the turn. Further
  // connections wait in the backlog.
  static constexpr int kMostUnderWay = 32;

  struct Listener {
    const char* name = "";  // For logs.
    // Returns whether to take this connection or to close it. Called on the accepting thread. Null: take all.
    std::function<bool(int socket)> may_enter;
    // Receives each connection. Called on the loop thread.
    std::function<void(UniqueFd socket)> take;
    // Receives the number of connections that may_enter has refused since the last call. Called on the loop thread.
    std::function<void(uint64_t count)> refused;
  };
  // Names a listening socket.
  enum class ListenerId : uint64_t { kNone = 0 };

  // `loop` outlives it.
  explicit AcceptingThread(Loop& loop);
  // Ends the thread, and with it the handshakes under way.
  ~AcceptingThread();
  AcceptingThread(const AcceptingThread&) = delete;
  AcceptingThread& operator=(const AcceptingThread&) = delete;

  // Accepts on `socket` from now on.
  ListenerId Accept(UniqueFd socket, Listener listener);
  // Closes the socket soon, and the connections that wait for the loop thread. Ignores kNone and unknown ids.
  void Stop(ListenerId id);

  // Does the server's part of a TLS handshake, until `end` at most. Calls `done` on the loop thread. `tls` is open if
  // the handshake has succeeded, null if the socket failed, and otherwise in the state in which the handshake ended.
  using Shaken = std::function<void(UniqueFd socket, std::unique_ptr<TlsConnection> tls)>;
  void Shake(UniqueFd socket, std::shared_ptr<const TlsServer> server, absl::Time end, Shaken done);

 private:
  class Entrance;
  class Handshake;

  Loop& loop_;
  Loop accepting_;
  std::unordered_map<uint64_t, std::shared_ptr<Entrance>> entrances_;  // By ListenerId.
  uint64_t last_id_ = 0;
  std::unordered_map<Handshake*, std::unique_ptr<Handshake>> handshakes_;  // Accepting thread only.
  std::thread thread_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_ACCEPTING_THREAD_H_
