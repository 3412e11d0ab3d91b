// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_MISUSE_STAGE_H_
#define TESTS_CONFORMANCE_MISUSE_STAGE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/broker_object.h"
#include "client/session.h"
#include "dataplane/adapter.h"
#include "dataplane/memory.h"
#include "dataplane/ndk/socket_address.h"
#include "tests/conformance/misuse/functions.h"
#include "tests/conformance/misuse/kind.h"
#include "tests/conformance/ndkpi/surroundings.h"

namespace rdmabroker::misuse {

// An object that a program has got from the library.
struct Owned {
  Kind kind = Kind::kAdapter;
  size_t party = 0;
  uint32_t number = 0;
  uint32_t instance = 0;  // The number of the adapter that it belongs to.
  std::shared_ptr<client::BrokerObject> broker;
  DataObject* data = nullptr;  // Of an adapter its data side.
  uint8_t* memory = nullptr;   // Of a region: kMemory bytes that are its own.
  bool fast_register = false;

  bool delivered = false;          // Of a connector: by a listener.
  std::atomic<bool> used = false;  // Of a queue pair: somebody has tried to connect it.
  // The consumer's own serialisation: of the initiator queue and of the receive queue.
  std::array<std::mutex, 2> serial;
  std::atomic<uint32_t> slots = 0;  // Of the memory, given out so far.
  std::atomic<int> running = 0;     // Callbacks.
  std::atomic<bool> closed = false;

  // The stage changes them.
  std::atomic<bool> close_called = false;
  std::atomic<bool> data_closes = false;  // `data` is good only as long as the program has a reference of its own.
  std::atomic<bool> kept = false;         // It has one.
};
using OwnedPtr = std::shared_ptr<Owned>;
std::string NameOf(const Owned& owned);

// A region's memory: what is only read, then slots of which each is written by one request.
inline constexpr size_t kMemory = 2 * kFastRegisterPageSize;
inline constexpr size_t kSlot = 32;
inline constexpr size_t kFirstSlot = kFastRegisterPageSize;

class Stage;

// Leave to use an object: the reference that a program takes before it uses one that others may close meanwhile.
class Lease {
 public:
  Lease() = default;
  // `referenced`: the reference that has been taken, if there is one.
  Lease(OwnedPtr owned, DataObject* referenced) : owned_(std::move(owned)), referenced_(referenced) {}
  Lease(Lease&& other) noexcept
      : owned_(std::move(other.owned_)), referenced_(std::exchange(other.referenced_, nullptr)) {}
  Lease& operator=(Lease&& other) noexcept;
  ~Lease() { Return(); }

  explicit operator bool() const { return owned_ != nullptr; }
  Owned* operator->() const { return owned_.get(); }
  const OwnedPtr& owned() const { return owned_; }
  template <typename Object>
  Object* data() const {
    return static_cast<Object*>(owned_->data);
  }
  template <typename Object>
  std::shared_ptr<Object> broker() const {
    return std::static_pointer_cast<Object>(owned_->broker);
  }

 private:
  void Return();

  OwnedPtr owned_;
  DataObject* referenced_ = nullptr;
};

// Where a call is made.
enum class Where { kMain, kSessionThread, kOther };
struct Place {
  Where where = Where::kMain;
  size_t party = 0;  // Whose session's thread.
};

// A call that ends inline or by its completion.
class Ticket {
 public:
  Ticket(std::shared_ptr<Stage> stage, uint32_t number, std::string what, OwnedPtr owner);

  void Returned(NdkStatus status);
  void Completed();
  // Of a call that waits: it has ended when it returns, whatever it returns.
  void Waited();

  bool ended() const;
  uint32_t number() const { return number_; }
  const OwnedPtr& owner() const { return owner_; }
  std::string ToString() const;

 private:
  void Check();

  const std::shared_ptr<Stage> stage_;
  const uint32_t number_;
  const std::string what_;
  const OwnedPtr owner_;

  mutable std::mutex mutex_;
  std::optional<NdkStatus> returned_;
  bool waited_ = false;
  int completions_ = 0;
};
using TicketPtr = std::shared_ptr<Ticket>;

// One sequence of calls: what two programs own, which of their calls have not ended, and what has gone wrong. Any
// thread.
class Stage : public std::enable_shared_from_this<Stage> {
 public:
  Stage(const ndkpi::Surroundings& surroundings, uint64_t seed, Tally& tally,
        std::array<client::Session*, 2> party_sessions, std::string socket);

  const ndkpi::Surroundings& on;
  const uint64_t seed;
  Tally& tally;
  const std::array<client::Session*, 2> sessions;
  const std::string control_socket;

  // Slow, as it is emulated; some ask a silent peer for minutes.
  bool on_kernels_device() const { return on.adapter == "rxe" || on.adapter == "siw"; }
  // What takes so long elsewhere.
  std::chrono::milliseconds Longer(std::chrono::milliseconds elsewhere) const {
    return elsewhere * (on_kernels_device() ? 50 : 1);
  }

  // --- What is owned ---

  OwnedPtr Add(OwnedPtr object);
  // Empty where the object may not be used any more. Of an adapter, its data side has to be borrowed by itself.
  Lease Borrow(const OwnedPtr& object);
  Lease BorrowData(const OwnedPtr& object);
  std::vector<OwnedPtr> Objects() const;
  // True: the caller is to call Close, the first one for this object. An object of the broker's may be closed again.
  bool BeginClose(const OwnedPtr& object);
  // Takes a reference of the program's own, or gives it back: false where it cannot.
  bool Keep(const OwnedPtr& object);
  bool LetGo(const OwnedPtr& object);
  // The party's session is about to be closed, with the data sides of its adapters.
  void BeginSessionClose(size_t party);
  void SessionClosed(size_t party) { session_closed_[party] = true; }
  bool session_closed(size_t party) const { return session_closed_[party]; }
  bool session_close_called(size_t party) const;

  // Where a blocking listener has listened.
  void NoteAddress(const SocketAddress& address);
  std::vector<SocketAddress> addresses() const;

  // --- Calls and callbacks ---

  // False: there have been enough.
  bool MayCall() { return calls_made_ < kMostCalls; }
  TicketPtr NewTicket(const std::string& what, OwnedPtr owner, const Place& place);
  void Log(const std::string& line);
  void Fail(const std::string& problem);
  std::vector<std::string> problems() const;
  std::vector<std::string> log() const;
  uint32_t calls_made() const { return calls_made_; }
  uint32_t NextCall() { return ++calls_made_; }

  // A thread for calls that wait; joined by the end of the sequence.
  void Spawn(std::function<void()> work);
  void JoinThreads();

  // Whether every call has ended and nothing runs; whether those after a certain one have, and no callback runs.
  bool Idle() const;
  bool IdleSince(uint32_t number) const;
  std::vector<std::string> Unended() const;
  // Waits for the condition, which is asked anew whenever something ends.
  bool AwaitUntil(std::chrono::steady_clock::time_point deadline, const std::function<bool()>& condition);
  void Changed();
  // Forgets everything: nothing is to come any more.
  void Clear();

  void BeginEnding() { ending_ = true; }
  bool ending() const { return ending_; }

 private:
  friend class Callback;
  friend class Ticket;
  // So that a slot of a region's memory is never given out twice.
  static constexpr uint32_t kMostCalls = 120;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<OwnedPtr> objects_;
  std::vector<TicketPtr> tickets_;
  std::vector<std::string> problems_;
  std::vector<std::string> log_;
  std::vector<std::thread> threads_;
  std::vector<SocketAddress> addresses_;
  std::array<bool, 2> session_close_called_ = {};
  uint32_t regions_ = 0;

  std::array<std::atomic<bool>, 2> session_closed_ = {};
  std::atomic<uint32_t> calls_made_ = 0;
  std::atomic<int> running_ = 0;  // Callbacks.
  std::atomic<int> waiting_ = 0;  // Threads of their own.
  std::atomic<bool> ending_ = false;
};
using StagePtr = std::shared_ptr<Stage>;

// What a callback of the library's is, from its first to its last line. `owner`: the object whose close must wait for
// it, if there is one.
class Callback {
 public:
  Callback(StagePtr stage, OwnedPtr owner, const std::string& what, Place place);
  ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

 private:
  const StagePtr stage_;
  const OwnedPtr owner_;
};

}  // namespace rdmabroker::misuse

#endif  // TESTS_CONFORMANCE_MISUSE_STAGE_H_
