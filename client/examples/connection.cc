// SPDX-License-Identifier: Apache-2.0

#include "client/examples/connection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/examples/opened_device.h"

namespace rdmabroker::examples {
namespace {

constexpr size_t kSlowPeer = 10'000'000;  // Bytes a second that it moves and sums at least.
// How long after a failed request the library may take to tell why the connection is over, if it is.
constexpr auto kReasonPatience = std::chrono::seconds(1);
// How long after the peer's disconnect the results of requests may take that it has served.
constexpr auto kLastResultsPatience = std::chrono::seconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Make(const std::shared_ptr<client::Adapter>& adapter,
                                                             const ConnectionShape& shape) {
  std::unique_ptr<Connection> connection(new Connection(adapter, shape));
  if (absl::Status status = connection->Open(); !status.ok()) return status;
  return connection;
}

Connection::Connection(const std::shared_ptr<client::Adapter>& adapter, const ConnectionShape& shape)
    : adapter_(adapter), shape_(shape), patience_(shape.patience) {}

absl::Status Connection::Open() {
  const auto domain = adapter_->data()->CreateProtectionDomain();
  domain_ = domain.object;
  if (domain_ == nullptr) return Report("protection domain", domain.status);
  const uint32_t initiator_depth = shape_.transfers + 1;  // And one message.
  const auto queue = adapter_->data()->CreateCompletionQueue(shape_.receives + initiator_depth, [this](NdkStatus) {
    const std::lock_guard lock(mutex_);
    notified_ = true;
    changed_.notify_all();
  });
  queue_ = queue.object;
  if (queue_ == nullptr) return Report("completion queue", queue.status);
  QueuePairAttributes attributes{.receive_cq = queue_, .initiator_cq = queue_};
  attributes.receive_queue_depth = shape_.receives;
  attributes.initiator_queue_depth = initiator_depth;
  const auto queue_pair = domain_->CreateQueuePair(attributes);
  queue_pair_ = queue_pair.object;
  if (queue_pair_ == nullptr) return Report("queue pair", queue_pair.status);
  messages_.resize((1 + size_t{shape_.receives}) * shape_.message_size);
  const auto region = Register(messages_, kMrAllowLocalWrite);
  if (!region.ok()) return region.status();
  message_region_ = *region;
  for (size_t slot = 1; slot <= shape_.receives; ++slot) {
    if (absl::Status status = PostReceive(slot); !status.ok()) return status;
  }
  return absl::OkStatus();
}

Connection::~Connection() {
  if (established_) client::BlockingDisconnect(connector_);
  if (connector_ != nullptr) client::BlockingClose(connector_);
  if (queue_pair_ != nullptr) client::BlockingClose(queue_pair_);
  for (MemoryWindow* window : windows_) client::BlockingClose(window);
  for (MemoryRegion* region : regions_) client::BlockingClose(region);
  if (queue_ != nullptr) client::BlockingClose(queue_);
  if (domain_ != nullptr) client::BlockingClose(domain_);
}

absl::Status Connection::Connect(const SocketAddress& source, const SocketAddress& destination) {
  return HandleConnected(client::BlockingConnect(
      adapter_, queue_pair_,
      {.source = source, .destination = destination, .limits = shape_.limits, .private_data = {}},
      DisconnectCallback()));
}

absl::Status Connection::Connect(const std::shared_ptr<client::SharedEndpoint>& endpoint,
                                 const SocketAddress& destination) {
  return HandleConnected(client::BlockingConnect(
      adapter_, queue_pair_, endpoint,
      {.source = {}, .destination = destination, .limits = shape_.limits, .private_data = {}}, DisconnectCallback()));
}

absl::Status Connection::HandleConnected(client::Made<std::shared_ptr<client::Connector>> made) {
  connector_ = std::move(made.object);
  handshake_ = std::move(made.outcome);
  established_ = handshake_.ok();
  return Report("connect", handshake_);
}

absl::Status Connection::Accept(std::shared_ptr<client::Connector> connector) {
  const absl::Status started = StartAccept(std::move(connector));
  return started.ok() ? AwaitAccept() : started;
}

absl::Status Connection::StartAccept(std::shared_ptr<client::Connector> connector) {
  connector_ = std::move(connector);
  const auto done = [this](const client::Outcome& outcome) {
    const std::lock_guard lock(mutex_);
    accepted_ = outcome;
    changed_.notify_all();
  };
  const NdkStatus started =
      connector_->Accept(queue_pair_, {.limits = shape_.limits, .private_data = {}}, DisconnectCallback(), done);
  return started == NdkStatus::kPending ? absl::OkStatus() : Report("accept", started);
}

// The broker has a deadline for it.
absl::Status Connection::AwaitAccept() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return accepted_.has_value(); });
  handshake_ = *accepted_;
  established_ = handshake_.ok();
  return Report("accept", handshake_);
}

// Not called any more once the connector is closed.
client::DisconnectEventCallback Connection::DisconnectCallback() {
  return [this](const client::DisconnectEvent& event) {
    const std::lock_guard lock(mutex_);
    disconnected_ = event;
    changed_.notify_all();
  };
}

absl::Status Connection::Disconnect() {
  established_ = false;
  return Report("disconnect", client::BlockingDisconnect(connector_));
}

absl::Status Connection::AwaitDisconnect() {
  if (absl::Status status = WaitUntil([this] { return Disconnected(); }); !status.ok()) return status;
  return disconnected_->status == NdkStatus::kSuccess ? absl::OkStatus() : DisconnectStatus();
}

absl::StatusOr<MemoryRegion*> Connection::Register(std::span<uint8_t> memory, MrFlags flags) {
  const auto region = domain_->CreateMemoryRegion(false);
  if (region.object == nullptr) return Report("memory region", region.status);
  regions_.push_back(region.object);
  patience_ += std::chrono::seconds(memory.size() / kSlowPeer);
  const NdkStatus registered = region.object->Register(memory.data(), memory.size(), flags);
  if (registered != NdkStatus::kSuccess) return Report("register", registered);
  return region.object;
}

absl::StatusOr<MemoryWindow*> Connection::CreateWindow() {
  const auto window = domain_->CreateMemoryWindow();
  if (window.object == nullptr) return Report("memory window", window.status);
  windows_.push_back(window.object);
  return window.object;
}

absl::Status Connection::PostReceive(size_t slot) {
  const Sge sge{&messages_[slot * shape_.message_size], shape_.message_size, message_region_->local_token()};
  return Check("receive", queue_pair_->Receive(reinterpret_cast<void*>(slot), {&sge, 1}));
}

absl::Status Connection::Send(std::span<const uint8_t> message) {
  if (message.size() > shape_.message_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message of ", message.size(), " bytes; a connection is made for ", shape_.message_size));
  }
  std::copy(message.begin(), message.end(), messages_.begin());
  const Sge sge{messages_.data(), static_cast<uint32_t>(message.size()), message_region_->local_token()};
  if (absl::Status status = Check("send", queue_pair_->Send(nullptr, {&sge, 1}, 0)); !status.ok()) return status;
  ++sends_under_way_;
  return WaitUntil([this] { return sends_under_way_ == 0; });
}

absl::StatusOr<std::vector<uint8_t>> Connection::Receive() {
  if (absl::Status status = WaitUntil([this] { return !inbox_.empty() || receives_over_; }); !status.ok())
    return status;
  if (inbox_.empty()) return Check("receive", NdkStatus::kCancelled);
  std::vector<uint8_t> message = std::move(inbox_.front());
  inbox_.pop_front();
  return message;
}

absl::Status Connection::SendText(std::string_view text) {
  return Send({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

absl::StatusOr<std::string> Connection::ReceiveText() {
  const auto message = Receive();
  if (!message.ok()) return message.status();
  return std::string(message->begin(), message->end());
}

absl::Status Connection::ExpectEcho(const std::string& text) {
  if (absl::Status sent = SendText(text); !sent.ok()) return sent;
  const auto answer = ReceiveText();
  if (!answer.ok()) return answer.status();
  return *answer == text ? absl::OkStatus() : absl::DataLossError(absl::StrCat(text, " was answered ", *answer));
}

absl::StatusOr<std::string> Connection::Echo() {
  auto text = ReceiveText();
  if (!text.ok()) return text;
  absl::Status status = SendText(*text);
  if (status.ok()) status = AwaitDisconnect();
  if (!status.ok()) return status;
  return text;
}

absl::Status Connection::Start(const char* what, const std::function<NdkStatus(QueuePair&)>& post) {
  if (absl::Status status = Check(what, post(*queue_pair_)); !status.ok()) return status;
  ++transfers_under_way_;
  return absl::OkStatus();
}

absl::Status Connection::Read(std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote) {
  const Sge sge{local.data(), static_cast<uint32_t>(local.size()), region.local_token()};
  return Start("read", [&](QueuePair& queue_pair) { return queue_pair.Read(nullptr, {&sge, 1}, remote, 0); });
}

absl::Status Connection::Write(std::span<uint8_t> local, const MemoryRegion& region, RemoteMemory remote) {
  const Sge sge{local.data(), static_cast<uint32_t>(local.size()), region.local_token()};
  return Start("write", [&](QueuePair& queue_pair) { return queue_pair.Write(nullptr, {&sge, 1}, remote, 0); });
}

absl::Status Connection::AwaitTransfers(uint32_t under_way) {
  return WaitUntil([this, under_way] { return transfers_under_way_ <= under_way; });
}

absl::Status Connection::WaitUntil(const std::function<bool()>& done) {
  while (true) {
    // Asked first: messages come before the disconnect.
    const bool over = Disconnected();
    if (absl::Status status = TakeResults(); !status.ok()) return status;
    if (done()) return absl::OkStatus();
    const bool requests = sends_under_way_ > 0 || transfers_under_way_ > 0;
    queue_->Arm(CqNotify::kAny);
    std::unique_lock lock(mutex_);
    if (over && !requests) return DisconnectStatus();
    const std::chrono::seconds patience = over ? kLastResultsPatience : patience_;
    if (!changed_.wait_for(lock, patience, [&] { return notified_ || disconnected_.has_value() != over; })) {
      if (over) return DisconnectStatus();
      return absl::DeadlineExceededError(absl::StrCat("the peer has said nothing for ", patience.count(), " s"));
    }
    notified_ = false;
  }
}

bool Connection::Disconnected() {
  const std::lock_guard lock(mutex_);
  return disconnected_.has_value();
}

absl::Status Connection::TakeResults() {
  std::array<ResultEx, 16> results;
  for (size_t count = queue_->GetResultsEx(results); count > 0; count = queue_->GetResultsEx(results)) {
    for (const ResultEx& result : std::span(results).first(count)) {
      if (absl::Status status = TakeResult(result); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Connection::TakeResult(const ResultEx& result) {
  // The peer's disconnect may have done so before this side's last request completes.
  if (result.type == OperationType::kReceive && result.status == NdkStatus::kCancelled) {
    receives_over_ = true;
    return absl::OkStatus();
  }
  if (absl::Status status = Check("request", result.status); !status.ok()) return status;
  if (result.type == OperationType::kSend) {
    --sends_under_way_;
  } else if (result.type != OperationType::kReceive) {
    --transfers_under_way_;
  } else {
    const auto slot = reinterpret_cast<size_t>(result.request_context);
    const auto message = messages_.begin() + static_cast<ptrdiff_t>(slot * shape_.message_size);
    inbox_.emplace_back(message, message + result.bytes_transferred);
    return PostReceive(slot);
  }
  return absl::OkStatus();
}

absl::Status Connection::Check(const char* what, NdkStatus status) {
  if (status == NdkStatus::kSuccess) return absl::OkStatus();
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kReasonPatience, [this] { return disconnected_.has_value(); });
  return disconnected_ ? DisconnectStatus() : Report(what, status);
}

absl::Status Connection::DisconnectStatus() const {
  switch (disconnected_->status) {
    case NdkStatus::kSuccess:
      return absl::AbortedError("the peer has disconnected");
    case NdkStatus::kConnectionDisconnected:
    case NdkStatus::kRequestAborted:
      return Report("the session with the broker is over", disconnected_->status);
    default:
      return Report("the connection is lost",
                    client::Outcome{.status = disconnected_->status, .hint = disconnected_->hint});
  }
}

}  // namespace rdmabroker::examples
