// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_WORKLOAD_H_
#define TESTS_SURVIVE_WORKLOAD_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/ndkpi/world.h"
#include "tests/survive/price.h"

namespace rdmabroker {

// What consumers do with a broker that may die at any moment. Each activity ends with all that it has made closed, and
// checks what it is told on the way: a request ends as it would without a death, or with kConnectionAborted where it
// belongs to a handshake during which the process died, which is then begun again; each end of a connection hears of
// its disconnect once.
class Workload {
 public:
  struct Activity {
    const char* name;
    void (Workload::*run)();
    // It leaves something behind for a grace period where the broker dies within it, or needs long.
    bool special = false;
    // Those of a device in the kernel's network.
    bool changes_addresses = false;
  };

  explicit Workload(ndkpi::World& world) : world_(world) {}

  static const std::vector<Activity>& Activities();
  void Run(const Activity& activity);

  // A connection of world's a to a listener of b's, from its first day to its last.
  void Use(const ndkpi::TestListener& listener);

 private:
  // What the passive side does with a request.
  enum class Reply { kAccept, kReject };
  // One that was delivered.
  struct Arrival {
    std::shared_ptr<client::Connector> connector;
    QueuePair* queue_pair = nullptr;
    ndkpi::Call call;  // Accept or Reject.
    ndkpi::DisconnectEvents events;
  };
  // An attempt to connect, and all that it has led to at the listener.
  struct Attempt {
    ndkpi::Connection active;  // The passive half is empty.
    client::Outcome outcome;   // Of Connect.
    std::vector<Arrival> arrivals;
    pid_t daemon = -1;  // When it began.
    pid_t former = -1;  // When the one before began, whose connect request may arrive only now.
  };

  using Connecting = std::function<ndkpi::Call(const ndkpi::Connection&)>;

  ndkpi::Party& a() { return world_.a(); }
  ndkpi::Party& b() { return world_.b(); }
  // Whether a handshake that began with that daemon may end so: another one is there now.
  bool IsOfADeath(pid_t daemon, HandshakeStep step, NdkStatus status) const;

  Attempt Try(const ndkpi::TestListener& listener, Reply reply, const Connecting& connect);
  // The rest of a handshake. Nothing where a death has ended it; what was left of it is closed then.
  std::optional<ndkpi::Connection> Complete(Attempt& attempt);
  // Empty, and the test has failed, where none is made.
  ndkpi::Connection Establish(const ndkpi::TestListener& listener, const Connecting& connect);
  Connecting ConnectTo(const SocketAddress& address);
  void Take(const ndkpi::TestListener& listener, Reply reply, std::vector<Arrival>* arrivals);
  void Close(Attempt& attempt);
  void CloseArrivals(const Attempt& attempt);
  void Close(const ndkpi::Connection& connection);
  // Until a connect attempt ends other than by a death: that status.
  NdkStatus ConnectInVain(const ndkpi::TestListener& listener, Reply reply);

  void ConnectAndDisconnect();
  void EndPassively();
  void Reject();
  void RejectTheReply();
  void Refuse();
  void ConnectThroughSharedEndpoint();
  void ListenAtReservedPort();
  void GiveUpAConnect();
  void ComeAndGo();
  void ChangeAddresses();
  void OpenTooManySessions();
  void ReplaceAStream();
  void MakeManyObjects();

  ndkpi::World& world_;
  std::optional<pid_t> last_daemon_;  // When the last attempt began.
};

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_WORKLOAD_H_
