// SPDX-License-Identifier: Apache-2.0

#include "broker/control/served_connection.h"

#include <linux/sockios.h>
#include <nghttp2/nghttp2.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <variant>

#include "broker/control/server_stream.h"
#include "broker/core/overloaded.h"

namespace rdmabroker {
namespace {

// Writing this many octets of replies takes about as long as serving a request.
constexpr size_t kOctetsAsARequest = 16384;
// So does reading this many records of little data from TLS.
constexpr int kRecordsAsARequest = 8;
// So does reading frames of this weight (rpc::Http2::kFramesAtATime).
constexpr size_t kFramesAsARequest = 32;
// So does parsing a message of this many octets. Some messages of 64 KiB have 32,000 fields and take 3 ms.
constexpr size_t kParsedAsARequest = 1024;
// Making a connection and saying the first on it takes as long as four requests. One of them is of ServeInput.
constexpr int64_t kOfStart = 3;
// Octets of memory that a connection and a stream use in addition to their messages: measured, and rounded up.
constexpr size_t kOfConnection = 16384;
constexpr size_t kOfStream = 1024;
// After sending this many octets, the broker asks the kernel how many the client has not read.
constexpr size_t kSentAtATime = 16384;
// How often it asks again until the client has read them all: an idle client's reading brings no event.
constexpr absl::Duration kLookAgain = absl::Seconds(1);
// The most octets that an empty buffer keeps allocated.
constexpr size_t kKeptEmpty = 4096;

int64_t CostOf(std::string_view message) { return static_cast<int64_t>(message.size() / kParsedAsARequest); }

void FreeIfEmpty(std::string& octets) {
  if (octets.empty() && octets.capacity() > kKeptEmpty) std::string().swap(octets);
}

}  // namespace

ServedConnection::ServedConnection(UniqueFd socket, std::unique_ptr<TlsConnection> tls, Port& port,
                                   const Services& services, const rpc::ServerConnection::Limits& limits,
                                   UserCosts& costs, const Payer& payer, Loop& loop)
    : socket_(std::move(socket)),
      tls_(std::move(tls)),
      port_(port),
      services_(services),
      loop_(loop),
      account_(costs.Enter(
          payer, [this] { EndForExcess("the client's unserved requests and unread replies take too much memory"); })),
      rpc_(services.methods(), limits, account_->frames(), Loop::Now()) {}

ServedConnection::~ServedConnection() {
  loop_.Unwatch(watch_);
  for (const TimerId timer : {timer_, unread_, last_words_}) loop_.CancelTimer(timer);
}

void ServedConnection::Start() {
  InTurn([this] {
    if (ended_) return;
    Charge(kOfStart);
    watch_ = loop_.Watch(socket_.get(), EPOLLIN, [this](uint32_t) { ServeSoon(); });
    // A client may send its first call with the end of the handshake.
    if (InTls() > 0) ReadTls("");
    ServeInput();
  });
}

void ServedConnection::Drain() {
  rpc_.Drain(Loop::Now());
  Touch();
}

void ServedConnection::End() {
  if (std::exchange(ended_, true)) return;
  rpc_.Disconnected();
  loop_.Unwatch(std::exchange(watch_, WatchId::kNone));
  for (TimerId* const timer : {&timer_, &unread_, &last_words_}) {
    loop_.CancelTimer(std::exchange(*timer, TimerId::kNone));
  }
  socket_.Reset();
  for (std::string* const octets : {&input_, &output_}) {
    octets->clear();
    FreeIfEmpty(*octets);
  }
  in_socket_ = 0;
  account_->Hold(Held());
  EndCalls();
}

void ServedConnection::EndCalls() {
  if (!ServeEvents()) return InTurn([this] { EndCalls(); });
  const auto self = shared_from_this();
  port_.Ended(*this);
}

void ServedConnection::EndForExcess(absl::string_view cause) {
  if (ended_) return;
  const auto self = shared_from_this();
  port_.Exceeds(*this, cause);
  rpc_.Terminate(NGHTTP2_ENHANCE_YOUR_CALM, {cause.data(), cause.size()});
  TakeOutput();
  WriteOutput();
  End();
}

void ServedConnection::ChargeTo(const Payer& payer) {
  account_->MoveTo(payer);
  rpc_.ChargeTo(account_->frames());
}

void ServedConnection::InTurn(std::function<void()> task) {
  account_->InTurn([weak = weak_from_this(), task = std::move(task)] {
    if (const auto self = weak.lock()) task();
  });
}

void ServedConnection::ServeSoon() {
  if (std::exchange(waits_, true)) return;
  InTurn([this] {
    waits_ = false;
    if (!ended_) ServeClient();
  });
}

void ServedConnection::ServeClient() {
  if (!output_.empty()) {
    WriteOutput();
    Touch();
  }
  if (!ServeEvents()) {
    ServeSoon();
  } else if (output_.empty()) {
    if (!input_.empty() || ReadClient()) {
      ServeInput();
    } else {
      Charge(1);
      HearLastWords();
    }
  }
  if (!ended_) Rearm();
}

void ServedConnection::HearLastWords() {
  if (last_words_ != TimerId::kNone) return;
  // TLS may have an alert.
  TakeOutput();
  WriteOutput();
  last_words_ = loop_.StartTimer(Loop::Now() + kLastWords, [this] { End(); });
  EndOnceHeard();
}

void ServedConnection::EndOnceHeard() {
  const auto is_busy = [](const auto& stream) { return stream.second->IsBusy(); };
  if (last_words_ == TimerId::kNone || rpc_.unread() > 0) return;
  if (std::any_of(streams_.begin(), streams_.end(), is_busy)) return;
  // Behind the messages that streams have put off.
  InTurn([this] {
    Charge(1);
    End();
  });
}

bool ServedConnection::ReadClient() {
  if (InTls() > 0) return ReadTls("");
  std::array<char, TlsConnection::kLongestRecord> octets;
  const ssize_t size = ::recv(socket_.get(), octets.data(), octets.size(), MSG_DONTWAIT);
  if (size == 0) return false;
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  const std::string_view read(octets.data(), static_cast<size_t>(size));
  if (tls_ != nullptr) return ReadTls(read);
  input_ = read;
  return true;
}

bool ServedConnection::ReadTls(std::string_view octets) {
  tls_->Receive(octets);
  Charge(tls_->TakeCost() / kRecordsAsARequest);
  input_ = tls_->TakePlain();
  return tls_->state() == TlsConnection::State::kOpen || !input_.empty();
}

void ServedConnection::ServeInput() {
  input_.erase(0, rpc_.Receive(input_, Loop::Now()));
  FreeIfEmpty(input_);
  served_ = false;
  if (!ServeEvents() || !input_.empty() || InTls() > 0) ServeSoon();
  // Frames without an event take time, too.
  Charge((served_ ? 0 : 1) + static_cast<int64_t>(rpc_.TakeWeight() / kFramesAsARequest));
  Touch();
}

bool ServedConnection::ServeEvents() {
  while (MayGoOn()) {
    auto event = rpc_.NextEvent();
    if (!event) return true;
    Serve(*std::move(event));
  }
  return false;
}

void ServedConnection::Serve(rpc::ServerEvent event) {
  served_ = true;
  const auto stream_of = [this](rpc::CallId call) -> std::shared_ptr<ServerStream> {
    const auto found = streams_.find(call);
    return found == streams_.end() ? nullptr : found->second;
  };
  std::visit(Overloaded{
                 [&](rpc::CallBegan& began) {
                   const Services::Method& method = services_.at(began.path);
                   Charge(std::min(method.cost + CostOf(began.request), UserTurns::kShare));
                   method.begin({.connection = *this, .id = began.call, .request = std::move(began.request)});
                 },
                 [&](const rpc::RequestArrived& arrived) {
                   Charge(CostOf(arrived.request.value_or("")));
                   if (const auto stream = stream_of(arrived.call)) stream->Arrived(arrived.request);
                 },
                 [&](const rpc::RepliesSent& sent) {
                   if (const auto stream = stream_of(sent.call)) stream->Sent();
                 },
                 [&](const rpc::CallLost& lost) {
                   Charge(1);
                   Forget(lost.call, lost.why);
                 },
             },
             event);
}

void ServedConnection::Open(rpc::CallId call, std::shared_ptr<ServerStream> stream) {
  streams_[call] = std::move(stream);
}

void ServedConnection::Read(rpc::CallId call) {
  rpc_.Read(call);
  Touch();
}

void ServedConnection::Send(rpc::CallId call, absl::string_view reply) {
  rpc_.Send(call, {reply.data(), reply.size()});
  Touch();
}

void ServedConnection::Finish(rpc::CallId call, const rpc::Status& status) {
  rpc_.Finish(call, status);
  Forget(call, std::nullopt);
  Touch();
}

void ServedConnection::Abandon(rpc::CallId call) {
  rpc_.Abandon(call);
  Forget(call, std::nullopt);
  Touch();
}

void ServedConnection::Forget(rpc::CallId call, std::optional<rpc::CallLost::Why> why) {
  auto found = streams_.extract(call);
  if (!found) return;
  // Whatever ends the call now, the client has lost it with the connection.
  if (ended_) why = rpc::CallLost::Why::kConnection;
  over_.push_back(found.mapped());
  found.mapped()->Ended(why);
}

void ServedConnection::Touch() {
  if (ended_ || std::exchange(touched_, true)) return;
  if (flushing_) return InTurn([this] { Flush(); });
  loop_.AtTurnEnd(Loop::Stage::kWrite, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Flush();
  });
}

void ServedConnection::Flush() {
  touched_ = false;
  if (ended_) return;
  if (tls_ != nullptr && tls_->IsFlooded()) {
    return EndForExcess("the client sends too many messages of TLS, such as KeyUpdate");
  }
  flushing_ = true;
  Charge(rpc_.PassTime(Loop::Now()));
  if (!rpc_.flood().empty() && !std::exchange(told_, true)) port_.Exceeds(*this, rpc_.flood());
  if (output_.empty()) {
    TakeOutput();
    WriteOutput();
  }
  if (!ServeEvents()) ServeSoon();
  // The rest waits for the next turn.
  if (output_.empty() && rpc_.HasOutput()) Touch();
  flushing_ = false;
  over_.clear();
  if (output_.empty() && IsDone()) return End();
  EndOnceHeard();
  Rearm();
  LookAtSocket();
  SetTimer();
  account_->Hold(Held());
}

void ServedConnection::LookAtSocket() {
  if (sent_ < kSentAtATime && in_socket_ == 0) return;
  int unread = 0;
  if (::ioctl(socket_.get(), SIOCOUTQ, &unread) != 0) return;
  in_socket_ = static_cast<size_t>(unread);
  sent_ = 0;
  look_at_ = in_socket_ == 0 ? absl::InfiniteFuture() : Loop::Now() + kLookAgain;
}

size_t ServedConnection::Held() const {
  size_t in_streams = 0;
  for (const auto& [call, stream] : streams_) in_streams += stream->held();
  return kOfConnection + kOfStream * rpc_.streams() + InTls() + input_.size() + rpc_.headers() + rpc_.unread() +
         rpc_.unsent() + output_.size() + in_streams + in_socket_;
}

bool ServedConnection::IsDone() const {
  const bool tls_ended = tls_ != nullptr && tls_->state() == TlsConnection::State::kEnded;
  return (tls_ended && input_.empty()) || (rpc_.IsDone() && !rpc_.HasOutput());
}

void ServedConnection::TakeOutput() {
  std::string plain = rpc_.TakeOutput();
  account_->Owe(static_cast<int64_t>(plain.size() / kOctetsAsARequest));
  if (tls_ == nullptr) {
    output_ += plain;
    return;
  }
  tls_->Send(plain);
  if (IsDone()) tls_->End();
  output_ += tls_->TakeOutput();
}

void ServedConnection::WriteOutput() {
  ssize_t size = 0;
  if (!unwritable_ && !output_.empty()) {
    size = ::send(socket_.get(), output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    unwritable_ = size < 0 && errno != EAGAIN && errno != EINTR;
  }
  if (size > 0) {
    output_.erase(0, static_cast<size_t>(size));
    sent_ += static_cast<size_t>(size);
  }
  if (unwritable_) output_.clear();
  FreeIfEmpty(output_);
  if (size > 0 || output_.empty()) loop_.CancelTimer(std::exchange(unread_, TimerId::kNone));
  if (output_.empty() || unread_ != TimerId::kNone) return;
  unread_ = loop_.StartTimer(Loop::Now() + kUnreadPatience, [this] { End(); });
}

void ServedConnection::Rearm() {
  // The end of the connection is heard once. Who waits for its turn is not asked for more.
  if (last_words_ != TimerId::kNone || waits_) return;
  loop_.Rearm(watch_, output_.empty() ? EPOLLIN : EPOLLOUT);
}

void ServedConnection::SetTimer() {
  const absl::Time next = std::min(rpc_.NextDeadline().value_or(absl::InfiniteFuture()), look_at_);
  if (next == timer_end_) return;
  loop_.CancelTimer(std::exchange(timer_, TimerId::kNone));
  timer_end_ = next;
  if (next == absl::InfiniteFuture()) return;
  timer_ = loop_.StartTimer(next, [this] {
    timer_end_ = absl::InfiniteFuture();
    if (Loop::Now() < look_at_) return InTurn([this] { Flush(); });
    LookAtSocket();
    account_->Hold(Held());
    SetTimer();
  });
}

}  // namespace rdmabroker
