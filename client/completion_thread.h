// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_COMPLETION_THREAD_H_
#define CLIENT_COMPLETION_THREAD_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace rdmabroker::client {

// One thread that runs one gRPC completion queue, work from other threads, and timers. Whatever it runs needs no lock.
// It lives until Stop was called and everything begun on its queue has completed. Functions are for the thread itself,
// except where they say otherwise.
class CompletionThread {
 public:
  // An operation of gRPC's that is under way.
  class Tag {
   public:
    virtual void Complete(bool ok) = 0;

   protected:
    ~Tag() = default;
  };
  using Work = std::function<void()>;
  // One work that is made before it is posted: posting it needs no memory.
  using Reserved = std::list<Work>;
  enum class TimerId : uint64_t {};  // 0 is none.

  // Null where the process gets no more threads.
  static std::shared_ptr<CompletionThread> Start();
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;
  ~CompletionThread();

  // Any thread. Work runs in the order of posting, never within Post. False: the thread is stopping and will not run
  // it; it is left to the caller, who may hold locks under which it must not be destroyed.
  bool Post(Work&& work);
  // The same, of what is posted last: later work is refused.
  bool PostLast(Work&& work);
  // The same, of work that was reserved.
  bool PostReserved(Reserved&& work);
  // Any thread.
  bool IsCurrent() const { return std::this_thread::get_id() == id_; }

  // What to pass to gRPC for an operation that will complete.
  void* Begin(Tag* tag);
  grpc::CompletionQueue* queue() { return &grpc_->queue; }

  // Runs the work once, not before the delay.
  TimerId After(std::chrono::milliseconds delay, Work work);
  // Its work does not run any more. Unknown ones are ignored.
  void Cancel(TimerId timer);

  // Ends the thread when the queue is empty: whoever has calls on it cancels them. Timers do not run any more.
  void Stop();
  // Once, after Start: waits for the thread's end; where OnCallbackThread it lets go of it instead. Any thread.
  void Join();

 private:
  struct WakeTag final : Tag {
    void Complete(bool) override {}
  };
  struct Timer;
  // Made after the thread: gRPC starts with its first object, and hangs if it gets no threads for itself.
  struct Grpc {
    grpc::CompletionQueue queue;
    grpc::Alarm wake;
  };

  CompletionThread() = default;
  bool PostAnd(bool accept_more, Work&& work);
  bool PostAnd(bool accept_more, Reserved& work);
  void Run();
  void RunPosted();
  void ShutDownIfIdle();

  std::optional<Grpc> grpc_;
  std::thread thread_;
  std::thread::id id_;  // Outlives thread_'s own.
  WakeTag wake_tag_;

  std::mutex mutex_;  // Guards the next three.
  std::list<Work> posted_;
  bool wake_set_ = false;
  bool accepting_ = true;

  uint64_t begun_ = 0;
  bool stopping_ = false;
  bool shut_down_ = false;
  uint64_t last_timer_ = 0;
  std::map<TimerId, std::unique_ptr<Timer>> timers_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_COMPLETION_THREAD_H_
