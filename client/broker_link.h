// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_BROKER_LINK_H_
#define CLIENT_BROKER_LINK_H_

#include <grpcpp/channel.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "client/back_off.h"
#include "client/broker_object.h"
#include "client/completion_thread.h"
#include "client/grpc_transport.h"
#include "client/handoff.h"
#include "client/protocol/session_protocol.h"
#include "client/qp_numbers.h"
#include "client/session_options.h"
#include "client/values.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker::client {

class BrokerLink;

// Never destroys the link: a forked child has none of the threads that would end it.
void Leak(const std::shared_ptr<BrokerLink>& link);

// What a session is made of inside: the connection to the broker, the protocol, the objects, and the thread that all of
// it belongs to. On that thread only, but for what says otherwise. It lives until Close.
class BrokerLink : public std::enable_shared_from_this<BrokerLink>, private SessionProtocol::Owner {
 public:
  // Null where the process gets no more threads.
  static std::shared_ptr<BrokerLink> Start(SessionOptions options);

  // Any thread. kPending: the work runs later, on the session's thread, and before Close ends anything; else what the
  // session has ended with, and the work is left to the caller.
  NdkStatus Post(CompletionThread::Work&& work);
  // Any thread. Likewise, also when the session is over, unless by Close.
  NdkStatus PostUntilClose(CompletionThread::Work&& work);
  // Any thread. Likewise, also then; false: the session is closed, and nothing runs any more.
  bool PostAlways(CompletionThread::Work&& work) { return thread_->Post(std::move(work)); }
  bool PostReserved(CompletionThread::Reserved&& work) { return thread_->PostReserved(std::move(work)); }
  // Any thread. What the session has ended with; kSuccess while it has not.
  NdkStatus over() const { return over_; }
  // Any thread. Whether it has ended since the broker lost it with its records, which ends no connection.
  bool forgotten() const { return forgotten_; }
  QpNumbers& qp_numbers() { return qp_numbers_; }
  const SessionOptions& options() const { return options_; }

  // Once: opens the session and tells how that went.
  void Open(OutcomeCompletion opened);
  // Any thread, once: ends the session, then everything that is left of it, then the thread. Needs no memory on the
  // caller's thread.
  void PostClose(CloseCompletion completion);
  // Any thread, once. Waits for the thread's end, unless on a callback's.
  void Join() { thread_->Join(); }

  void ListAdapters(std::function<void(const Outcome&, std::vector<Device>)> completion);

  // Makes a request; `done` is called once.
  void Ask(v1::BatchedRequest request, RequestQueue::Done done);
  const v1::SessionOpened& session() const { return protocol_.session(); }
  std::chrono::milliseconds disconnect_timeout() const;
  Handoff::Patience handoff_patience() const;
  // Runs the work on the session's thread after the delay, unless the session is closed by then.
  void After(std::chrono::milliseconds delay, CompletionThread::Work work) { thread_->After(delay, std::move(work)); }

  // False if the key is taken.
  bool Register(const ObjectKey& key, std::shared_ptr<BrokerObject> object);
  void Unregister(const ObjectKey& key) { objects_.erase(key); }
  // Null if there is none.
  std::shared_ptr<BrokerObject> Find(const ObjectKey& key) const;
  // Tells all objects that the device of `adapter` is gone.
  void TellDeviceRemoval(const Adapter& adapter);
  // Closes a connector that the broker delivered and nobody wants: its peer is turned down.
  void CloseUnwanted(uint64_t connector_id);

 private:
  struct DeviceListing;

  // `status`, with a hint.
  NdkStatus RefuseAfterEnd(NdkStatus status) const;

  BrokerLink(SessionOptions options, std::shared_ptr<CompletionThread> thread);
  void Close(CloseCompletion completion);
  // Has the protocol told of the time when it asks for that. After each call of it.
  void Wake();
  void Opened() override;
  void Happened(const v1::SessionEvent& event) override;
  void Over(const Outcome& outcome) override;
  void Ended(const Outcome& outcome) override;
  void Closed() override;
  void SetOver(NdkStatus status);
  void List(std::function<void(const Outcome&, std::vector<Device>)> completion,
            std::chrono::system_clock::time_point deadline, int before);
  void ListAgain(std::shared_ptr<DeviceListing> failed, std::chrono::milliseconds wait);
  void EndListings(const Outcome& outcome);

  const SessionOptions options_;
  const std::shared_ptr<CompletionThread> thread_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Inspection::Stub> inspection_;
  QpNumbers qp_numbers_;
  std::mutex posting_mutex_;  // So that what has ended is known to whoever posts, and posted work comes before the end.
  std::atomic<NdkStatus> over_ = NdkStatus::kSuccess;  // Otherwise what the session has ended with.
  bool close_called_ = false;                          // Guarded by posting_mutex_.
  CompletionThread::Reserved close_;                   // Runs Close; posted by PostClose, which sets the next two.
  CloseCompletion close_completion_;
  std::shared_ptr<BrokerLink> closing_;

  GrpcTransport transport_;
  SessionProtocol protocol_;
  CompletionThread::TimerId wake_ = {};
  SessionProtocol::Instant wakes_at_ = SessionProtocol::kNever;
  OutcomeCompletion opened_;
  CloseCompletion closed_;
  std::shared_ptr<BrokerLink> alive_;  // From Open to the end.
  std::map<ObjectKey, std::shared_ptr<BrokerObject>> objects_;
  std::set<DeviceListing*> listings_;  // Under way.
  std::atomic<bool> forgotten_ = false;
  RandomBackOff back_off_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_BROKER_LINK_H_
