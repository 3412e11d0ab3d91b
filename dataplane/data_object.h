// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_DATA_OBJECT_H_
#define DATAPLANE_DATA_OBJECT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "dataplane/ndk/extension.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {

// Called at most once, on any thread, with none of the data plane's locks held. Must not block.
using CloseCompletion = std::function<void()>;
using RequestCompletion = std::function<void(NdkStatus)>;

// What NDKPI's data objects have in common: they may be closed in any order, and a close completes when the object's
// last successor is closed and its last callback has returned.
//
// When a close completes, everything that the object used is the consumer's again: the object's rights are revoked, its
// hardware object is destroyed, it calls nothing any more, and no GetResults that begins later returns a result of it.
//
// In a child by fork(2) of the process that has made them, functions return kInvalidDeviceState or, where they have no
// status, nothing at once; closes return kSuccess. None of it touches what is the parent's.
//
// Objects are made by their parent's Create functions, which all complete inline, and destroy themselves. A pointer is
// good until Close is called. All functions of one object may be called from any thread; Close only once.
class DataObject : public Extensible {
 public:
  DataObject(const DataObject&) = delete;
  DataObject& operator=(const DataObject&) = delete;

  // kSuccess: the close has completed, and `completion` will not be called. kPending: `completion` is called when it
  // has, perhaps before Close returns, as the object's last callback. Never fails. Cancels what the object has pending.
  NdkStatus Close(CloseCompletion completion);

  // For whatever depends on this object, as a connector does on its queue pair, and for code that uses it on another
  // thread. Give the reference back with none of the data plane's locks held: that may complete a close.
  void AddReference() { references_.fetch_add(1, std::memory_order_relaxed); }
  // Call it once for each AddReference.
  void ReleaseReference();

 protected:
  DataObject() = default;
  virtual ~DataObject() = default;

 private:
  friend class DroppedReferences;

  // Starts to cancel what is pending. Called once, before the close can complete.
  virtual void OnClose() {}
  // Revokes the object's rights and destroys its hardware object. Called once, after the last reference has gone and
  // before the close completes, with none of the data plane's locks held. Antecedents are still there.
  virtual void Dismantle() {}

  std::atomic<uint32_t> references_{1};  // The first is the consumer's own; Close gives it back.
  CloseCompletion close_completion_;
  DataObject* next_dropped_ = nullptr;  // Of whoever has the last reference.
};

// A counted reference to an antecedent. The member that holds it is destroyed with the successor, after the successor's
// close has completed.
template <typename Object>
class ObjectReference {
 public:
  ObjectReference() = default;
  explicit ObjectReference(Object* object) : object_(object) {
    if (object_ != nullptr) object_->AddReference();
  }
  ObjectReference(ObjectReference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  ObjectReference& operator=(ObjectReference&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~ObjectReference() {
    if (object_ != nullptr) object_->ReleaseReference();
  }

  // The caller gives the reference back.
  [[nodiscard]] Object* Release() { return std::exchange(object_, nullptr); }

  Object* get() const { return object_; }
  Object* operator->() const { return object_; }
  Object& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  Object* object_ = nullptr;
};

// What a Create function returns: kSuccess and the object, or why there is none.
template <typename Object>
struct Created {
  NdkStatus status = NdkStatus::kSuccess;
  Object* object = nullptr;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_DATA_OBJECT_H_
