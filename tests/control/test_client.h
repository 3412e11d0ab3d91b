// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_TEST_CLIENT_H_
#define TESTS_CONTROL_TEST_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "broker/core/requests.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"
#include "dataplane/unique_fd.h"
#include "proto/rdmabroker/v1/broker.grpc.pb.h"
#include "tests/control/patience.h"

namespace rdmabroker {

// For GoogleTest.
void PrintTo(NdkStatus status, std::ostream* out);

// A gRPC channel over TLS to IP:PORT, with a connection of its own. All but the address are in PEM.
std::shared_ptr<grpc::Channel> TlsChannel(const std::string& address, const std::string& authority,
                                          const std::string& certificate, const std::string& private_key);
// A gRPC channel of one connection, which is made now, as ConnectAs.
std::shared_ptr<grpc::Channel> ChannelAs(uid_t uid, const std::string& path);
// A gRPC channel over a connection that exists, and which it closes.
std::shared_ptr<grpc::Channel> ChannelOver(UniqueFd connection);
// A gRPC channel with a connection of its own, as this process.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& target);
// The same with the smallest window that gRPC offers, 64 KiB, as the C++ library's channels have: soon full for who
// does not read.
std::shared_ptr<grpc::Channel> NarrowChannel(const std::string& target);

// The Outcome that a failed call carries; nothing where it carries none.
std::optional<v1::Outcome> DetailOf(const grpc::Status& status);
// The status that a finished call or stream ends with: SUCCESS for OK, the detail's otherwise. UNSUCCESSFUL without.
NdkStatus NdkStatusOf(const grpc::Status& status);
NdkStatus NdkStatusOf(const v1::Outcome& outcome);
// Sets a deadline, so that a call that never ends fails its test.
void Limit(grpc::ClientContext& context);

v1::SocketAddress ToMessage(const SocketAddress& address);
SocketAddress FromMessage(const v1::SocketAddress& message);

// A client of the control contract on gRPC's plain blocking stubs, with a thread that reads its session's events. Safe
// for one thread besides that.
class TestClient {
 public:
  explicit TestClient(std::shared_ptr<grpc::Channel> channel);
  // As if its process had died, unless it has closed its session.
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  // Opens a session with these features of the contract, and waits until it is open.
  NdkStatus Open(const std::vector<std::string>& features = {});
  // Returns to the session of `former`, which has lost its stream or is about to.
  NdkStatus Resume(const TestClient& former, uint64_t acknowledged, const std::vector<std::string>& features = {});
  // Ends the session, and waits for the stream's end.
  NdkStatus Close();
  // Ends the stream as the death of the process does, and waits for its end.
  void Vanish();
  // Waits for the stream's end, and tells how it ended.
  grpc::Status WaitForEnd();
  // Sends any message on the stream.
  bool Send(const v1::SessionRequest& message) { return stream_->Write(message); }

  const v1::SessionOpened& opened() const { return opened_; }
  uint64_t session_id() const { return opened_.session_id(); }
  v1::Broker::Stub& stub() { return *stub_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // Of the next request.
  uint64_t next_request_id() const { return next_request_id_; }

  // Makes a request. Its header is filled in, as far as it is empty. The immediate outcome, of a failed call too.
  template <typename Request>
  v1::Outcome Ask(grpc::Status (v1::Broker::Stub::*method)(grpc::ClientContext*, const Request&, v1::Outcome*),
                  Request request) {
    FillIn(request.mutable_header());
    v1::Outcome outcome;
    grpc::ClientContext context;
    Limit(context);
    const grpc::Status status = (stub_.get()->*method)(&context, request, &outcome);
    return Told(status, std::move(outcome));
  }

  // As Ask, and waits for the outcome of a request that is pending.
  template <typename Request>
  v1::Outcome Finish(grpc::Status (v1::Broker::Stub::*method)(grpc::ClientContext*, const Request&, v1::Outcome*),
                     Request request) {
    FillIn(request.mutable_header());
    const uint64_t id = request.header().request_id();
    v1::Outcome outcome = Ask(method, std::move(request));
    return outcome.status() == v1::STATUS_PENDING ? WaitForOutcome(id) : outcome;
  }

  // Waits for the first event that fits, and takes it out. Fails the test, and gives an empty one, if none comes.
  v1::SessionEvent WaitFor(const std::function<bool(const v1::SessionEvent&)>& fits);
  // The next event, however long it takes; an empty one where the stream has ended.
  v1::SessionEvent WaitForever();
  v1::Outcome WaitForOutcome(uint64_t request_id);
  // For requests on the stream: until the broker says that it has taken this one. Returns the answers that have come by
  // then, which a pending one has not.
  std::map<uint64_t, v1::Outcome> WaitUntilTaken(uint64_t request_id);
  v1::ConnectEvent WaitForConnect();
  v1::DisconnectEvent WaitForDisconnect(uint64_t connector);
  // Events that nobody has waited for yet, taken out.
  std::deque<v1::SessionEvent> TakeEvents();
  uint64_t last_event();
  // Events stay where gRPC has them.
  void PauseReading() { SetPaused(true); }
  void GoOnReading() { SetPaused(false); }

  // The usual steps; each fails the test if it does not succeed.
  uint64_t OpenAdapter(const std::string& device);
  // The listener's id and address.
  std::pair<uint64_t, SocketAddress> Listen(uint64_t adapter, const SocketAddress& address);
  uint64_t CreateConnector(uint64_t adapter);
  // The request's id: its outcome is pending.
  uint64_t StartConnect(uint64_t connector, uint32_t qp, const SocketAddress& source, const SocketAddress& peer);
  v1::Outcome Accept(uint64_t connector, uint32_t qp);
  v1::Outcome CompleteConnect(uint64_t connector);
  v1::Outcome CloseConnector(uint64_t connector);
  v1::Outcome CloseListener(uint64_t listener);
  v1::Outcome CloseAdapter(uint64_t adapter);

 private:
  void FillIn(v1::RequestHeader* header);
  v1::Outcome Told(const grpc::Status& status, v1::Outcome outcome);
  NdkStatus Start(const v1::SessionRequest& first);
  void ReadEvents();
  void Take(const v1::SessionEvent& event);
  void SetPaused(bool paused);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Broker::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SessionRequest, v1::SessionReply>> stream_;
  v1::SessionOpened opened_;
  uint64_t next_request_id_ = 1;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::SessionEvent> events_;      // Guarded by mutex_.
  uint64_t last_event_ = 0;                  // Guarded by mutex_.
  uint64_t taken_ = 0;                       // Guarded by mutex_.
  std::map<uint64_t, v1::Outcome> answers_;  // Guarded by mutex_.
  bool paused_ = false;                      // Guarded by mutex_.
  bool ended_ = false;                       // Guarded by mutex_.
  grpc::Status end_;                         // Guarded by mutex_.
  std::thread reader_;
};

// Two clients' connectors, connected to each other.
struct TestConnection {
  uint64_t passive = 0;  // The listening client's connector.
  uint64_t active = 0;
  v1::Outcome accepted;   // Of Accept.
  v1::Outcome completed;  // Of CompleteConnect.
};
TestConnection ConnectClients(TestClient& listening, const SocketAddress& listens_on, TestClient& connecting,
                              uint64_t adapter, const SocketAddress& source);

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_TEST_CLIENT_H_
