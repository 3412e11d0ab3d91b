// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_QUEUE_SERVER_H_
#define TESTS_BENCH_QUEUE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>

#include "dataplane/unique_fd.h"

namespace rdmabroker::bench {

// gRPC as the broker has it, with nothing behind: asynchronous services on one queue and one thread, the broker's
// settings, and connections that another thread accepts on a Unix socket.
class QueueServer {
 public:
  // An operation that is under way. Completes on the queue's thread; `ok` as gRPC has it.
  class Tag {
   public:
    virtual ~Tag() = default;
    virtual void Complete(bool ok) = 0;
  };

  // Listens on the socket `path`; connections are accepted, and operations complete, from Start on.
  QueueServer(const std::string& path, grpc::Service* service);
  void Start();
  // Ends what is under way: those operations complete with `ok` false.
  ~QueueServer();
  QueueServer(const QueueServer&) = delete;
  QueueServer& operator=(const QueueServer&) = delete;

  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

 private:
  void Accept();
  void Run();

  UniqueFd listener_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread acceptor_;
  std::thread loop_;
};

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_QUEUE_SERVER_H_
