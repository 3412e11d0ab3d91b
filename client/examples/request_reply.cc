// SPDX-License-Identifier: Apache-2.0

// Requests and replies with a shared receive queue: however many clients there are, the server posts its receives to
// one queue and takes all results from another. The context of its queue pair says whose a request is.

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <mutex>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/examples/connection.h"
#include "client/examples/opened_device.h"
#include "client/examples/roles.h"

namespace rdmabroker::examples {
namespace {

constexpr uint32_t kMessageSize = 64;         // Bytes of the longest request.
constexpr uint32_t kSlotsForEach = 2;         // A client asks on before the server sees that its reply is out.
constexpr std::chrono::minutes kPatience{1};  // With clients that have nothing to say.

// Serves a number of clients at once.
class Server {
 public:
  explicit Server(const Task& task)
      : adapter_(task.adapter),
        clients_(task.count),
        slots_(kSlotsForEach * task.count),
        memory_(size_t{slots_} * kMessageSize) {}
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  absl::Status Open();
  // Those who are here already may ask meanwhile: what they say waits.
  absl::Status AwaitClients(client::BlockingListener& listener);
  // Until all have gone.
  absl::Status Serve();

 private:
  struct Client {
    QueuePair* queue_pair = nullptr;
    std::shared_ptr<client::Connector> connector;
    bool replying = false;
    std::deque<ResultEx> requests;  // Wait until the reply to the last one is out, which frees a slot.
  };

  absl::Status HandleResult(const ResultEx& result);
  absl::Status Reply(Client& client);
  absl::Status PostReceive(size_t slot);
  Sge Slot(size_t slot, uint32_t length) { return {&memory_[slot * kMessageSize], length, region_->local_token()}; }
  void Wake(int gone) {
    const std::lock_guard lock(mutex_);
    gone_ += gone;
    woken_ = true;
    changed_.notify_all();
  }

  const std::shared_ptr<client::Adapter> adapter_;
  std::vector<Client> clients_;
  const uint32_t slots_;         // Each is a receive of the shared queue's, or a reply on its way.
  std::vector<uint8_t> memory_;  // The slots'.
  ProtectionDomain* domain_ = nullptr;
  CompletionQueue* queue_ = nullptr;
  SharedReceiveQueue* receives_ = nullptr;
  MemoryRegion* region_ = nullptr;
  uint32_t requests_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  size_t gone_ = 0;
};

absl::Status Server::Open() {
  const uint32_t most = adapter_->info().max_srq_depth;
  if (most == 0) return absl::UnimplementedError("the device has no shared receive queues (max_srq_depth)");
  if (most < slots_) return absl::OutOfRangeError(absl::StrCat("the device's max_srq_depth is ", most));
  const auto domain = adapter_->data()->CreateProtectionDomain();
  if ((domain_ = domain.object) == nullptr) return Report("protection domain", domain.status);
  const auto queue = adapter_->data()->CreateCompletionQueue(slots_, [this](NdkStatus) { Wake(0); });
  if ((queue_ = queue.object) == nullptr) return Report("completion queue", queue.status);
  const auto receives = domain_->CreateSharedReceiveQueue({.depth = slots_});
  if ((receives_ = receives.object) == nullptr) return Report("shared receive queue", receives.status);
  const auto region = domain_->CreateMemoryRegion(false);
  if ((region_ = region.object) == nullptr) return Report("memory region", region.status);
  absl::Status status = Report("register", region_->Register(memory_.data(), memory_.size(), kMrAllowLocalWrite));
  for (size_t slot = 0; slot < slots_ && status.ok(); ++slot) status = PostReceive(slot);
  return status;
}

Server::~Server() {
  for (const Client& client : clients_) {
    if (client.connector != nullptr) client::BlockingClose(client.connector);
    if (client.queue_pair != nullptr) client::BlockingClose(client.queue_pair);
  }
  for (DataObject* const object : std::initializer_list<DataObject*>{region_, receives_, queue_, domain_}) {
    if (object != nullptr) client::BlockingClose(object);
  }
}

absl::Status Server::AwaitClients(client::BlockingListener& listener) {
  for (Client& client : clients_) {
    QueuePairAttributes attributes{.receive_cq = queue_, .initiator_cq = queue_, .srq = receives_, .context = &client};
    attributes.initiator_queue_depth = kSlotsForEach;
    const auto queue_pair = domain_->CreateQueuePair(attributes);
    if ((client.queue_pair = queue_pair.object) == nullptr) return Report("queue pair", queue_pair.status);
    auto [arrived, connector] = listener.Next();
    if (!arrived.ok()) return Report("listener", arrived);
    client.connector = std::move(connector);
    const auto on_disconnect = [this, &client](const client::DisconnectEvent&) {
      const auto gone = [this](const client::Outcome&) { Wake(1); };
      if (client.connector->Disconnect(gone) != NdkStatus::kPending) Wake(1);
    };
    const client::Outcome accepted = client::BlockingAccept(client.connector, client.queue_pair, {}, on_disconnect);
    if (!accepted.ok()) return Report("accept", accepted);
    std::cout << "server: client " << client.connector->connection_data()->peer.ToString() << std::endl;
  }
  return absl::OkStatus();
}

absl::Status Server::Serve() {
  while (true) {
    for (ResultEx result; queue_->GetResultsEx({&result, 1}) == 1;) {
      if (absl::Status status = HandleResult(result); !status.ok()) return status;
    }
    queue_->Arm(CqNotify::kAny);
    std::unique_lock lock(mutex_);
    if (gone_ == clients_.size()) break;
    if (!changed_.wait_for(lock, kPatience, [this] { return woken_; })) {
      return absl::DeadlineExceededError("no client has said anything for a minute");
    }
    woken_ = false;
  }
  std::cout << "server: " << requests_ << " requests of " << clients_.size() << " clients, by one queue of " << slots_
            << " receives" << std::endl;
  return absl::OkStatus();
}

absl::Status Server::HandleResult(const ResultEx& result) {
  Client& client = *static_cast<Client*>(result.qp_context);
  absl::Status status;
  if (result.type == OperationType::kReceive && result.status == NdkStatus::kSuccess) {
    client.requests.push_back(result);
  } else {
    // A reply is out, or a request has ended with its connection. The slot serves whoever asks next.
    if (result.type == OperationType::kSend) client.replying = false;
    status = PostReceive(reinterpret_cast<size_t>(result.request_context));
  }
  return status.ok() && !client.replying && !client.requests.empty() ? Reply(client) : status;
}

absl::Status Server::Reply(Client& client) {
  const ResultEx request = client.requests.front();
  client.requests.pop_front();
  ++requests_;
  const auto slot = reinterpret_cast<size_t>(request.request_context);
  uint8_t* const text = &memory_[slot * kMessageSize];
  std::transform(text, text + request.bytes_transferred, text, absl::ascii_toupper);
  const Sge sge = Slot(slot, request.bytes_transferred);
  client.replying = client.queue_pair->Send(request.request_context, {&sge, 1}, 0) == NdkStatus::kSuccess;
  return client.replying ? absl::OkStatus() : PostReceive(slot);  // The client may not have waited.
}

absl::Status Server::PostReceive(size_t slot) {
  const Sge sge = Slot(slot, kMessageSize);
  return Report("receive", receives_->Receive(reinterpret_cast<void*>(slot), {&sge, 1}));
}

absl::Status Serve(const Task& task) {
  Server server(task);
  if (absl::Status status = server.Open(); !status.ok()) return status;
  const auto listener = Listen(task);
  if (!listener.ok()) return listener.status();
  const absl::Status admitted = server.AwaitClients(**listener);
  return admitted.ok() ? server.Serve() : admitted;
}

absl::Status Ask(const Task& task) {
  auto connection = Connection::Make(task.adapter, {.message_size = kMessageSize});
  if (!connection.ok()) return connection.status();
  absl::Status status = (*connection)->Connect(task.address, task.servers.front());
  if (!status.ok()) return status;
  const std::string self = (*connection)->connector().connection_data()->local.ToString();
  for (uint32_t i = 1; i <= task.count; ++i) {
    const std::string request = absl::StrCat("request ", i, " of ", self);
    if (status = (*connection)->SendText(request); !status.ok()) return status;
    const auto reply = (*connection)->ReceiveText();
    if (!reply.ok()) return reply.status();
    if (*reply != absl::AsciiStrToUpper(request)) return absl::DataLossError(absl::StrCat(*reply, ": not my reply"));
  }
  std::cout << "client: " << task.count << " requests, each with its own reply" << std::endl;
  return (*connection)->Disconnect();
}

}  // namespace
}  // namespace rdmabroker::examples

int main(int argc, char** argv) {
  using namespace rdmabroker::examples;
  return Main(argc, argv, "Replies to several clients at once from one shared receive queue.",
              {Serve, "How many clients; it serves when all are there"}, {Ask, "How many requests", 100});
}
