// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_SESSION_H_
#define CLIENT_SESSION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/adapter.h"
#include "client/session_options.h"
#include "client/values.h"

namespace rdmabroker::client {

// A process's lease with the broker, and everything it has through it; a process may have several.
//
// Threads: each session has one thread, which talks to the broker and runs every callback of the session and of its
// objects, one after the other, in the order in which things happened. No library lock is held meanwhile. A callback
// may call everything, but must not wait for another callback: blocking.h is not for callbacks. All functions of the
// session and of its objects may be called from any thread at any time.
//
// If the session ends other than by Close (the broker has gone for good, or an administrator ended it), every pending
// request completes with the reason, kConnectionDisconnected or kRequestAborted; then every established connector gets
// its DisconnectEvent with that reason; then SessionOptions.on_end is called. Objects take no more requests but Close,
// and, where Connector::Disconnect says so, Disconnect. A new session can be opened as soon as a broker runs. A request
// that completes with kConnectionDisconnected may have been carried out, where its hint says so; what it made ends with
// the session, though perhaps only when Limits.session_grace_ms are over. So look at what is there (rdma-brokerctl
// lists it) before making it again in the new session.
//
// Where the broker has lost the session with all its records, as a damaged store makes it, nobody has ended the
// connections: they get no DisconnectEvent, and go on without a broker until a peer ends them, they are disconnected,
// or the session is closed. For the kernel's devices, only QueuePairAttributes::keepalive then reveals a peer's end.
//
// The session does not end where the broker ends its stream but keeps the session, as when callbacks hold this thread
// up for long, nor where the broker dies and another process goes on in its place: the session tries to return for
// Limits.session_grace_ms, and requests wait until then. A process that has changed its user since can then only close
// and disconnect what it has: so open it as the user that the process will stay, who must be allowed to use the socket.
//
// Forks: in a child by fork(2) of a process that has called Open before, with whatever result, objects that it has
// inherited return kInvalidDeviceState at once, closes kSuccess, and their destructors do nothing: the connections are
// the parent's. Open returns kNotSupported. Fork before the first Open, or let the child start another program. The
// session ends with the process that has opened it, even if a child lives on.
class Session {
 public:
  struct Opening;
  // Waits for the broker, or for its successor where it has gone and a supervisor keeps its socket, for
  // SessionOptions.open_timeout at most. kConnectionRefused: nobody listens on the socket, or whoever does turns every
  // attempt away; kIoTimeout; kInvalidParameter: the socket's path; kInsufficientResources: this process gets no more
  // threads or descriptors; kNotSupported: in a forked child; and those of Broker.Session in broker.proto.
  static Opening Open(SessionOptions options = {});

  // Closes the session, and waits for the last of its callbacks unless it is called from one.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Lists the devices that the broker knows, including those that cannot be used now. kPending: the completion is
  // called once.
  NdkStatus ListAdapters(std::function<void(const Outcome&, std::vector<Device>)> completion);

  // Opens an instance of a device's adapter, by Device::name. `on_event` may be empty. Returns as Adapter's Create
  // functions do; kInvalidParameter also for a name that is not UTF-8.
  NdkStatus OpenAdapter(const std::string& device, NdkVersion version, AdapterEventCallback on_event,
                        CreateCompletion<Adapter> completion);

  // Ends the session with everything in it: pending requests complete with kCancelled, pending closes complete,
  // connections end, and their peers learn of it. kPending: the completion is the session's last callback. kSuccess,
  // and no completion: Close was called before. The completion may be empty. A session that is away from its broker, or
  // whose broker goes away meanwhile, first tries to return for two seconds at most; failing that, the broker ends it
  // when Limits.session_grace_ms are over.
  NdkStatus Close(CloseCompletion completion);

 private:
  explicit Session(std::shared_ptr<BrokerLink> link);

  const std::shared_ptr<BrokerLink> link_;
  std::atomic<bool> close_called_ = false;
};

// The result of Session::Open.
struct Session::Opening {
  Outcome outcome;
  std::unique_ptr<Session> session;  // Null unless the outcome is success.
};

}  // namespace rdmabroker::client

#endif  // CLIENT_SESSION_H_
