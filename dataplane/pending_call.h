// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_PENDING_CALL_H_
#define DATAPLANE_PENDING_CALL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "dataplane/data_object.h"

namespace rdmabroker {

// A call that an adapter's thread is to make for an object. It is a member of that object, so that there is memory for
// it when it becomes due, which nobody could be told of otherwise.
class PendingCall {
 public:
  // `run` may be empty: then the thread does no more than give references back.
  PendingCall(DataObject* object, std::function<void()> run) : object_(object), run_(std::move(run)) {}
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;

 private:
  friend class PendingCalls;

  DataObject* const object_;
  const std::function<void()> run_;
  PendingCall* next_ = nullptr;
  bool waiting_ = false;
  uint32_t references_ = 0;  // To the object, which are given back after the call.
};

// The calls that wait for a thread, oldest first. Needs no memory. Used under its owner's lock.
class PendingCalls {
 public:
  // The call will run after all that wait, once: it may be waiting already. Holds a reference to its object until then.
  void Add(PendingCall* call);
  // The same without a call of its own to make: gives a reference of the caller's back on the thread.
  void LetGo(PendingCall* call);

  size_t size() const { return size_; }

  // One that has been taken out, with its references.
  class Taken {
   public:
    // With none of the data plane's locks held. Once; the call's object may be gone afterwards.
    void Run() const;

   private:
    friend class PendingCalls;
    Taken(const PendingCall* call, uint32_t references) : call_(call), references_(references) {}
    const PendingCall* call_;
    uint32_t references_;
  };
  // The oldest; there must be one.
  Taken Take();

 private:
  PendingCall* first_ = nullptr;
  PendingCall* last_ = nullptr;
  size_t size_ = 0;
};

// An object whose references may have to be given back where its last one must not go, under locks of the data plane.
template <typename Object>
class LetGoOnThread : public Object {
 public:
  PendingCall* let_go() { return &let_go_; }

 private:
  PendingCall let_go_{this, {}};
};

// A thread that makes such calls. Any thread may ask it to.
class CallingThread {
 public:
  virtual void Call(PendingCall* call) = 0;

 protected:
  ~CallingThread() = default;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_PENDING_CALL_H_
