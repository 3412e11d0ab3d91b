// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_BROKER_OBJECT_H_
#define CLIENT_BROKER_OBJECT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "client/values.h"
#include "dataplane/data_object.h"
#include "dataplane/ndk/extension.h"

namespace rdmabroker::v1 {
class Outcome;
class SessionEvent;
}  // namespace rdmabroker::v1

namespace rdmabroker::client {

class Adapter;
class BrokerLink;
struct ReservedClose;

// The kinds of a session's objects.
enum class ObjectKind : uint8_t { kConnector, kSharedEndpoint, kListener, kReservation, kAdapter };

// Names an object of the session. The order puts successors before antecedents.
struct ObjectKey {
  ObjectKind kind = ObjectKind::kConnector;
  uint64_t id = 0;  // 0: the broker has not given it yet.

  auto operator<=>(const ObjectKey&) const = default;
};

// What all objects that the broker knows have in common: how they end.
//
// Objects are handed out as shared pointers. The pointer keeps the memory, Close ends the object: a function of an
// object that is closed or closing fails with kInvalidDeviceState, and none is ever unsafe to call. Dropping all
// pointers without Close leaves the object as it is until its session ends.
//
// All functions may be called from any thread and from any callback; none waits. Callbacks run on the session's thread
// (see Session).
class BrokerObject : public std::enable_shared_from_this<BrokerObject>, public Extensible {
 public:
  BrokerObject(const BrokerObject&) = delete;
  BrokerObject& operator=(const BrokerObject&) = delete;
  virtual ~BrokerObject();

  // NDK_FN_CLOSE_OBJECT. Never fails. kPending: the completion is called once, as the object's last callback: after the
  // completions of its pending requests, which end with kCancelled, and after the close completion of every object that
  // depends on it has returned. kSuccess: the object's session is closed or Close was called before, and the completion
  // is not called. The completion may be empty.
  NdkStatus Close(CloseCompletion completion);

  // Has `on_end` called with the status that the session ends with, if it ends other than by Session::Close before this
  // object is closed; at once if it has ended already. A later call replaces an earlier one.
  // kSuccess: it will be. kInvalidDeviceState: the object is closed or closing. kNoMemory: nothing has changed.
  // kRequestAborted: the session is closed.
  NdkStatus OnSessionEnd(std::function<void(NdkStatus)> on_end);

 protected:
  // Called on the session's thread, as is all of the following that does not say otherwise.
  using Done = std::function<void(const Outcome&, const v1::Outcome&)>;

  BrokerObject(std::shared_ptr<BrokerLink> link, ObjectKind kind);

  // From any thread: runs the work on the session's thread later and returns kPending, or returns why the object takes
  // no more requests.
  NdkStatus Post(std::function<void()> work);
  // Likewise, also when the session is over but not closed.
  NdkStatus PostUntilClose(std::function<void()> work);
  // Whether there is such an object, and it is of this one's session.
  bool IsOfThisSession(const BrokerObject* object) const;
  // kInvalidParameter, for an argument of which that is not so.
  static NdkStatus RefuseForeign(const char* name);

  // Asks the broker for an object and hands it out. `accept` takes what the reply yields and returns the object's id, 0
  // if the reply has none. The antecedents' closes wait for `completion`, and then for the object.
  template <typename Object, typename Message, typename Accept>
  static void Create(std::shared_ptr<Object> object, std::vector<std::shared_ptr<BrokerObject>> antecedents,
                     Message message, Accept accept, CreateCompletion<Object> completion);

  // Makes `id` known and the antecedents wait for this object. False: the broker gave an id twice, or 0.
  bool Adopt(uint64_t id, std::vector<std::shared_ptr<BrokerObject>> antecedents);
  void AddAntecedent(std::shared_ptr<BrokerObject> antecedent);
  // Takes back what one AddAntecedent did; the antecedent's close may complete by it.
  void RemoveAntecedent(const std::shared_ptr<BrokerObject>& antecedent);
  // Makes a request; the object's close waits until `done` has returned.
  template <typename Message>
  void Submit(Message message, Done done);
  // Likewise, for the close itself and for requests that nobody waits for.
  template <typename Message>
  void SubmitUncounted(Message message, Done done);
  // Mark the beginning and the end of a request that is not made through Submit.
  void Hold() { ++unfinished_; }
  void Release();

  virtual void SubmitClose(Done done) = 0;
  // Called when the object's close begins or its session is closed: ends what the object does in this process.
  virtual void OnClosing() {}
  // Whether all that the close waits for besides has happened.
  virtual bool ReadyToFinish() const { return true; }
  // Called when the session is closed: ends the requests that only this process knows of.
  virtual void EndLocalRequests() {}
  // Called when the close has completed and its callback has returned.
  virtual void OnFinished() {}
  void MaybeFinish();

  BrokerLink& link() const { return *link_; }
  uint64_t id() const { return key_.id; }
  // Whether Close has been called, even if the close has not begun yet.
  bool closing() const { return close_called_; }

 private:
  NdkStatus RefuseClosed() const;
  friend class BrokerLink;

  virtual void HandleEvent(const v1::SessionEvent& event) = 0;
  // Called when the session has ended other than by Session::Close, after the end of the pending requests.
  virtual void HandleSessionEnd(NdkStatus) {}
  // Called for every object of the session when the device of `adapter` is gone.
  virtual void HandleDeviceRemoval(const Adapter& /*adapter*/) {}
  void TellSessionEnd(NdkStatus status);

  void StartClose(CloseCompletion completion);
  void ForceFinish();
  void Finish();

  const std::shared_ptr<BrokerLink> link_;
  std::mutex posting_mutex_;  // So that no request is posted behind the close.
  std::atomic<bool> close_called_ = false;

  ObjectKey key_;
  const std::unique_ptr<ReservedClose> reserved_;
  std::vector<std::shared_ptr<BrokerObject>> antecedents_;
  CloseCompletion close_completion_;
  std::function<void(NdkStatus)> on_session_end_;
  int unfinished_ = 0;  // Requests whose completion has not returned.
  int successors_ = 0;
  bool closing_ = false;
  bool broker_closed_ = false;
  bool finished_ = false;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_BROKER_OBJECT_H_
