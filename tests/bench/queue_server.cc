// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/queue_server.h"

#include <fcntl.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/socket.h>

#include <optional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "broker/control/listening_socket.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {

QueueServer::QueueServer(const std::string& path, grpc::Service* service) {
  // As the broker does.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  auto listener = ListenOnUnixSocket({path, SOCK_STREAM, 0600, std::nullopt});
  Require(listener.ok(), "no socket for a server");
  listener_ = *std::move(listener);
  grpc::ServerBuilder builder;
  // A window of 64 KiB for each stream, as the broker's clients have.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.RegisterService(service);
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
}

void QueueServer::Start() {
  acceptor_ = std::thread([this] { Accept(); });
  loop_ = std::thread([this] { Run(); });
}

QueueServer::~QueueServer() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  server_->Shutdown();
  queue_->Shutdown();
  loop_.join();
}

// Until the socket is shut down.
void QueueServer::Accept() {
  pollfd ready = {listener_.get(), POLLIN, 0};
  while (::poll(&ready, 1, -1) == 1) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    grpc::AddInsecureChannelFromFd(server_.get(), fd);
  }
}

void QueueServer::Run() {
  void* tag = nullptr;
  for (bool ok = false; queue_->Next(&tag, &ok);) static_cast<Tag*>(tag)->Complete(ok);
}

}  // namespace rdmabroker::bench
