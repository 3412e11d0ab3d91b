// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CONNECTOR_H_
#define CLIENT_CONNECTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client/broker_object.h"
#include "client/local_address.h"
#include "client/values.h"
#include "dataplane/queue_pair.h"

namespace rdmabroker::v1 {
class ConnectEvent;
class ConnectionEstablished;
class QpAttributes;
}  // namespace rdmabroker::v1

namespace rdmabroker::client {

class Adapter;
class Handoff;
class HeldQueuePair;
class Listener;
class SharedEndpoint;

// What Connect offers, and to whom.
struct ConnectParameters {
  // For Connect: one of the adapter's addresses, or a wildcard, as by default, for the address that the route to
  // `destination` leaves from. kInvalidAddress: that is not the adapter's, as the hint says. Port 0 asks for a free
  // one.
  SocketAddress source = {};
  SocketAddress destination;
  ReadLimits limits = kAdaptersReads;
  std::string private_data;  // At most AdapterInfo::max_caller_data bytes.
  ConnectionOptions options = {};
};

// What Accept answers.
struct AcceptParameters {
  ReadLimits limits = kAdaptersReads;
  std::string private_data;  // At most AdapterInfo::max_callee_data bytes.
  ConnectionOptions options = {};
};

// NDK_CONNECTOR. Functions that take a completion return kPending and call it once, or return a failure and do not call
// it. They fail inline with kInvalidParameter (a pointer or the completion is missing), kInvalidParameterMix (the queue
// pair is another adapter's), kInvalidBufferSize (private data is too long), kInvalidDeviceState (the connector is
// closing) and the status that the session has ended with; and, like the outcomes, with what the RPC of the same name
// in broker.proto lists.
//
// From Connect or Accept on, the queue pair's close waits for this connector's. Closing a connector with an established
// connection ends it and flushes the queue pair.
class Connector : public BrokerObject {
 public:
  ~Connector() override;

  // The adapter that the connector was created on, or that its peer has reached. Connect and Accept take queue pairs of
  // this adapter.
  const std::shared_ptr<Adapter>& adapter() const { return adapter_; }

  // Ends when the peer has accepted or rejected. Success: the connection is not established yet, CompleteConnect or
  // Reject is next. After a failure with `retryable` the connector may connect again.
  NdkStatus Connect(QueuePair* queue_pair, const ConnectParameters& parameters, OutcomeCompletion completion);
  // `parameters.source` is ignored.
  NdkStatus ConnectWithSharedEndpoint(QueuePair* queue_pair, const std::shared_ptr<SharedEndpoint>& endpoint,
                                      const ConnectParameters& parameters, OutcomeCompletion completion);
  // Success: the connection is established and the queue pair can send. `on_disconnect` may be empty. It is called at
  // most once, never before the completion, and not after the consumer's own Disconnect has been carried out.
  // kInsufficientResources also where this process gets no descriptor for the connection, which is over then.
  NdkStatus CompleteConnect(DisconnectEventCallback on_disconnect, OutcomeCompletion completion);
  // As CompleteConnect, for a connector of a ConnectEvent.
  NdkStatus Accept(QueuePair* queue_pair, const AcceptParameters& parameters, DisconnectEventCallback on_disconnect,
                   OutcomeCompletion completion);
  // Turns the peer down, instead of Accept or CompleteConnect. The completion says whether the peer was still waiting:
  // kConnectionAborted where it had given up. Without a completion the function returns kSuccess in place of kPending,
  // and nobody is told.
  NdkStatus Reject(const std::string& private_data, OutcomeCompletion completion = {});
  // Ends when the peer has disconnected too; the queue pair is flushed then. Call it after the queue pair's requests
  // have completed. After the session's end it still works where the data path ends connections, or where the
  // connection goes on without a broker (session.h).
  NdkStatus Disconnect(OutcomeCompletion completion);

  // NDK_FN_GET_CONNECTION_DATA: each pointer may be null. *private_data_length is the buffer's size and becomes the
  // size of the private data area; as much as fits is copied. kBufferTooSmall: not all of it fits; not so where the
  // buffer is null and its length null or 0. kInvalidParameter: a length without a buffer, or the reverse.
  // kConnectionInvalid: nothing is known yet. Works also after a reject by the peer, and until the connector is closed.
  NdkStatus GetConnectionData(uint32_t* inbound_read_limit, uint32_t* outbound_read_limit, void* private_data,
                              uint32_t* private_data_length) const;
  // Writes a sockaddr_in or sockaddr_in6. *length is the buffer's size and becomes the address's; `address` may be null
  // if it is 0. kBufferTooSmall: nothing but *length has changed. kInvalidParameter: a pointer is null.
  // kConnectionInvalid where GetConnectionData returns it.
  NdkStatus GetLocalAddress(sockaddr* address, uint32_t* length) const;
  // As GetLocalAddress.
  NdkStatus GetPeerAddress(sockaddr* address, uint32_t* length) const;
  // The same three, at once, as they are now; null where nothing is known yet. Needs no memory.
  std::shared_ptr<const ConnectionData> connection_data() const;

 private:
  friend class Adapter;
  friend class Listener;

  enum class Phase {
    kIdle,
    kConnecting,     // Connect is pending.
    kReplied,        // The peer has accepted.
    kRequested,      // Delivered, undecided.
    kDeciding,       // Accept or CompleteConnect is pending.
    kEstablished,    // Data may flow.
    kPeerEnded,      // Ended, but not by this side.
    kDisconnecting,  // Disconnect is pending.
    kDead,           // Can only be closed.
  };

  Connector(std::shared_ptr<BrokerLink> link, std::shared_ptr<Adapter> adapter, bool delivered);
  // Null if the broker has delivered it before.
  static std::shared_ptr<Connector> Delivered(const std::shared_ptr<Adapter>& adapter,
                                              const std::shared_ptr<Listener>& listener, const v1::ConnectEvent& event,
                                              const ConnectionData& data);

  std::shared_ptr<Connector> Self() { return std::static_pointer_cast<Connector>(shared_from_this()); }
  // Any thread: whether the phase was `from`, and is now `to`.
  bool Enter(Phase from, Phase to);
  // kConnectionInvalid.
  NdkStatus RefuseStep(const char* wanted) const;
  NdkStatus EnterConnecting();
  // Likewise, and tells the phase before; where nobody is left who disconnects, what the session has ended with.
  NdkStatus EnterDisconnecting(Phase* before);
  // Posts the work; if that fails, restores the phase.
  NdkStatus PostOr(Phase back, std::function<void()> work);
  void SetPhase(Phase phase);
  Phase phase() const;
  // A connector depends on the shared endpoint of its last attempt only, as it does at the broker; on none if it is
  // null.
  void UseEndpoint(const std::shared_ptr<SharedEndpoint>& endpoint);
  NdkStatus CheckQueuePair(const QueuePair* queue_pair, bool has_completion) const;
  NdkStatus CheckConnect(const QueuePair* queue_pair, const ConnectParameters& parameters,
                         const OutcomeCompletion& completion) const;

  template <typename Message>
  Message ConnectMessage(const ConnectParameters& parameters) const;
  void HandleConnected(const Outcome& outcome, const v1::Outcome& reply, const OutcomeCompletion& completion);
  void StartComplete(DisconnectEventCallback on_disconnect, const OutcomeCompletion& completion);
  void StartAccept(const AcceptParameters& parameters, DisconnectEventCallback on_disconnect,
                   const OutcomeCompletion& completion);
  void HandleEstablished(const Outcome& outcome, const v1::Outcome& reply, const OutcomeCompletion& completion,
                         bool accepting);
  // With the read limits that the broker has told, where it has told that the connection is established.
  void FinishEstablished(const Outcome& outcome, const ReadLimits& limits, const OutcomeCompletion& completion,
                         bool accepting);

  // connector_data_path.cc: where the broker's part and the data path's meet.
  NdkStatus ApplyTransitions(const ReadLimits* lowered);
  void TakeOver(const v1::ConnectionEstablished& established, OutcomeCompletion done);
  void GoOnWithHandoff();
  // Does nothing if no hand-off is under way.
  void EndHandoff(const Outcome& outcome);
  Outcome AttachAs(Attachment attachment);
  ConnectionEndCallback EndCallback();
  void HandleDataPathEnd(const ConnectionEnd& end);
  void TellOfEnd(NdkStatus status, uint32_t provider_error);
  void HandleDisconnectEvent(const DisconnectEvent& event);
  void Report(bool graceful, uint32_t provider_error);
  // Whether the connection ends without the broker's help.
  bool EndsByItself() const;
  void RunDisconnect(OutcomeCompletion completion);
  void HandleDisconnected(NdkStatus status);
  void FinishDisconnect(const Outcome& outcome);

  void SubmitClose(Done done) override;
  void OnClosing() override;
  void EndLocalRequests() override;
  void OnFinished() override;
  void HandleEvent(const v1::SessionEvent& event) override;
  void HandleSessionEnd(NdkStatus status) override;

  const std::shared_ptr<Adapter> adapter_;
  const bool delivered_;

  mutable std::mutex mutex_;  // Guards the next two.
  Phase phase_;
  std::shared_ptr<const ConnectionData> data_;

  std::shared_ptr<HeldQueuePair> queue_pair_;
  std::shared_ptr<SharedEndpoint> endpoint_;
  std::vector<v1::QpAttributes> transitions_;
  std::unique_ptr<Handoff> handoff_;    // Null: none is under way.
  OutcomeCompletion taken_over_;        // Called when it has ended.
  std::atomic<bool> attached_ = false;  // The queue pair is, or was, connected by this connector.
  DisconnectEventCallback on_disconnect_;
  std::optional<DisconnectEvent> held_event_;  // Until Accept or CompleteConnect has completed.
  OutcomeCompletion disconnect_completion_;
  bool reported_ = false;
  bool report_pending_ = false;
  std::optional<Outcome> disconnect_outcome_;  // Until the report has been answered.
  bool peer_ended_ = false;                    // As the data path has seen it.
};

}  // namespace rdmabroker::client

#endif  // CLIENT_CONNECTOR_H_
