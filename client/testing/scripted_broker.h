// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_TESTING_SCRIPTED_BROKER_H_
#define CLIENT_TESTING_SCRIPTED_BROKER_H_

#include <google/protobuf/message.h>
#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dataplane/ndk/status.h"
#include "proto/rdmabroker/v1/outcome.pb.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker::client {

// A server that speaks the wire contract on a control socket of its own and does what a test says: by default every
// request succeeds at once, whether it comes by RPC or on the stream. It has one thread.
class ScriptedBroker {
 public:
  // What becomes of a request.
  struct Answer {
    enum class Kind {
      kReply,    // The outcome: as the reply, or as a failure's detail.
      kLose,     // The RPC, or the stream that the request came on, fails as if the connection had broken.
      kUnknown,  // As a broker that does not have the RPC. Of a request by RPC only.
      kHold,     // Nothing, until Release. On a stream, later ones may be answered before.
    };
    Kind kind = Kind::kReply;
    v1::Outcome outcome;
  };
  struct Request {
    std::string method;
    uint64_t request_id = 0;
    uint64_t acknowledged_event = 0;
    uint64_t object = 0;  // The id that the request names first.
    std::shared_ptr<google::protobuf::Message> message;

    template <typename Message>
    const Message& As() const {
      return static_cast<const Message&>(*message);
    }
  };
  using Script = std::function<Answer(const Request&)>;

  ScriptedBroker();
  // As Die.
  ~ScriptedBroker();

  // The id of the first object that it makes; the next has the next.
  static constexpr uint64_t kFirstObject = 101;

  const std::string& control_socket() const { return control_socket_; }
  const std::string& folder() const { return folder_; }

  // From any thread. A copy of the script runs on the broker's own: what it names by reference outlives the broker.
  void On(const std::string& method, Script script);
  // It has every feature that the client names; one without features gets RPCs.
  void OnOpen(std::function<void(v1::SessionOpened*)> adjust);
  // How a stream that returns to the session is answered; with success, the default, it is opened.
  void RefuseReturns(v1::Outcome outcome);
  // What a message on a stream ends the stream with; OK: what it would without a script.
  void OnStream(std::function<grpc::Status(const v1::SessionRequest&)> script);

  // Numbers the event, unless it has a number, and sends it on the stream.
  void Emit(v1::SessionEvent event);
  void EmitOutcome(uint64_t request_id, v1::Outcome outcome);
  void EndStream(const grpc::Status& status);
  // Ends the stream as a broker does that cannot wait until its client reads.
  void BreakStream();
  void Release(uint64_t request_id, const Answer& answer);
  // Closes the socket and every connection at once.
  void Die();

  // Wait for what is sure to come; after 20 seconds the test's process ends.
  Request WaitFor(const std::string& method, size_t count = 1);
  void WaitForStreams(size_t count);
  // Sessions that were opened or returned to, in vain or not.
  size_t streams();
  uint64_t WaitForAcknowledgement(uint64_t at_least);
  std::vector<Request> requests();

  static Answer Success();
  static Answer Pending();
  static Answer Failure(NdkStatus status, const std::string& hint = "as the script has it");
  static v1::Outcome Error(NdkStatus status);
  // What a broker says that ends a stream and keeps the session.
  static v1::Outcome KeptSession();
  static grpc::Status FailedRpc(const v1::Outcome& outcome);
  static v1::Outcome Connected(const std::string& private_data = {});
  static v1::Outcome Established(const std::string& handoff_secret = {});
  static v1::SessionEvent ConnectEvent(uint64_t listener, uint64_t connector, const std::string& private_data = {});
  static v1::SessionEvent DisconnectEvent(uint64_t connector, NdkStatus status = NdkStatus::kSuccess);

 private:
  struct Step;
  struct Call;

  void Run();
  void Perform(std::function<void()> work);
  void Arrive(Call* call);
  void HandleRequest(Call* call);
  void HandleStreamMessage(Call* call);
  // False: the stream ends of it.
  bool HandleBatch(Call* call, const v1::RequestBatch& batch);
  // What the test has of it, filled in.
  Answer Decide(const Request& request);
  void Reply(Call* call, const Answer& answer);
  void ReplyOnStream(Call* call, uint64_t request_id, const Answer& answer);
  Answer DefaultAnswer(const Request& request);
  void WriteNext(Call* call);
  void WaitUntil(const std::function<bool()>& condition);

  std::string folder_;
  std::string control_socket_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
  grpc::Alarm wake_;
  bool dead_ = false;

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::vector<std::function<void()>> work_;
  bool waking_ = false;
  std::map<std::string, Script> scripts_;
  std::function<void(v1::SessionOpened*)> adjust_opened_;
  v1::Outcome refuse_returns_;
  std::function<grpc::Status(const v1::SessionRequest&)> on_stream_;
  std::vector<Request> requests_;
  size_t streams_ = 0;
  uint64_t acknowledged_ = 0;

  // The thread's own.
  std::set<Call*> calls_;
  std::map<uint64_t, Call*> held_;  // Calls of requests.
  Call* stream_ = nullptr;
  uint64_t last_event_ = 0;
  uint64_t last_object_ = kFirstObject - 1;
  bool stopping_ = false;
  bool down_ = false;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_TESTING_SCRIPTED_BROKER_H_
