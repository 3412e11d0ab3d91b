// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_STEPPED_DAEMON_H_
#define TESTS_CONTROL_STEPPED_DAEMON_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "broker/control/configuration.h"
#include "broker/control/control_server.h"
#include "broker/core/ids.h"
#include "broker/core/state.h"
#include "broker/fabric/fake/fake_fabric.h"
#include "broker/fabric/fake/fake_network.h"
#include "broker/monitoring/metrics.h"
#include "proto/rdmabroker/v1/session.pb.h"
#include "tests/control/raw_client.h"
#include "tests/control/stopped_clock.h"
#include "tests/control/temporary_folder.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {

// rdma-brokerd in this process, on the test's own thread: its loop runs when the test says so, a turn at a time. What
// clients have sent and its fabric has reported between two turns comes in one turn, whatever time that takes: the
// clock stands still. It has one device, TestDevice(1).
class SteppedDaemon {
 public:
  explicit SteppedDaemon(Configuration configuration = TestConfiguration());
  SteppedDaemon(const SteppedDaemon&) = delete;
  SteppedDaemon& operator=(const SteppedDaemon&) = delete;

  // Runs one turn. False: there was nothing to do.
  bool RunTurn() { return loop().RunTurn(Loop::Now()); }
  // Runs turns, and delivers what the fabric reports, until it is so. False where it is not so after a while.
  bool RunUntil(const std::function<bool()>& condition);
  // The same until there is nothing to do.
  void Settle();
  // The fabric's reports come in the next turn, before all else.
  void Report() { network_.DeliverAll(); }

  // A client's connection, which the broker has taken.
  std::unique_ptr<RawClient> Connect(const rpc::ClientConnection::Limits& limits = {});
  std::string handoff_path() const { return folder_.path() + "/handoff.sock"; }
  // Opens the session that the client has begun. 0 where that fails.
  SessionId Open(RawClient& client, RawSession& session);

  const Records& records() const { return server_->broker().core().records(); }
  // Octets that clients' connections hold (UserCosts).
  size_t held() const { return server_->costs().held(); }
  const Metrics& metrics() { return server_->metrics(); }
  FakeFabric& fabric() { return *fabric_; }
  StoppedClock& clock() { return clock_; }
  Loop& loop() { return server_->loop(); }

 private:
  StoppedClock clock_;
  const TemporaryFolder folder_;
  FakeNetwork network_;
  std::unique_ptr<ControlServer> server_;
  FakeFabric* fabric_ = nullptr;
};

// A client of a SteppedDaemon with a session, which has an adapter of the device "fake1". What it sends comes in the
// next turn.
class SteppedClient {
 public:
  explicit SteppedClient(SteppedDaemon& daemon, const std::vector<std::string>& features = {},
                         const rpc::ClientConnection::Limits& limits = {});

  // Sends a request of the session.
  template <typename Request>
  rpc::CallId Ask(Request request) {
    request.mutable_header()->set_session_id(id_.value());
    request.mutable_header()->set_request_id(++last_);
    const rpc::CallId call = raw_->Ask(request);
    raw_->Flush();
    return call;
  }
  // Sends a message of the session.
  void Send(const v1::SessionRequest& message);
  // Asks for a port, in a turn, and leaves the reply unread. That it has one is an event, once the fabric reports it.
  void Reserve();
  // So many further requests that make a connector.
  v1::SessionRequest BatchOf(int requests);
  // A batch of this many requests that reserve a port.
  v1::SessionRequest ReservationsOf(int requests);
  // A batch that releases all reservations.
  v1::SessionRequest ReleaseOfAll();
  // Reads until the session's stream has ended; false where it does not end.
  bool StreamEnds();

  RawClient& raw() { return *raw_; }
  RawSession& session() { return session_; }
  SessionId id() const { return id_; }
  uint64_t adapter() const { return adapter_; }

 private:
  uint64_t OpenAdapter();
  // Adds a request of the session to a batch.
  v1::BatchedRequest& AddRequest(v1::SessionRequest& message);

  SteppedDaemon& daemon_;
  const std::unique_ptr<RawClient> raw_;
  RawSession session_;
  const SessionId id_;
  uint64_t last_ = 0;
  const uint64_t adapter_;
};

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_STEPPED_DAEMON_H_
