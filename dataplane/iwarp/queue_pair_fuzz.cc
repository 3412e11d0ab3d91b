// SPDX-License-Identifier: Apache-2.0

// What a peer sends to a queue pair once a connection stands, while the consumer posts requests and takes memory away.
// Nothing but what the peer may change changes, nothing goes out but what it may see, each request ends once, and the
// connection goes on or ends with a Terminate message.
//
// The input is the state of the connection, then acts of either side.

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/iwarp/adapter.h"
#include "dataplane/iwarp/driven_queue_pair.h"
#include "dataplane/iwarp/hostile_peer_for_test.h"
#include "dataplane/iwarp/watched_memory_for_test.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/iwarp/wire/decoded_stream_for_test.h"
#include "dataplane/iwarp/wire/fpdu.h"
#include "dataplane/iwarp/wire/terminate.h"
#include "dataplane/provider_error.h"
#include "dataplane/unique_fd.h"
#include "tests/fuzz.h"

namespace rdmabroker::iwarp {
namespace {

using Bytes = std::vector<uint8_t>;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kDepth = 4;  // Of both queues.
constexpr int kMaxActs = 64;
// A bound for what is sure to happen, so that an input after which it does not is found.
constexpr std::chrono::seconds kPatience{60};

void CloseAndWait(DataObject* object) {
  std::atomic<bool> closed = false;
  if (object->Close([&] { closed = true; }) == NdkStatus::kSuccess) return;
  const auto deadline = Clock::now() + kPatience;
  while (!closed) {
    Require(Clock::now() < deadline, "a close completes");
    std::this_thread::yield();
  }
}

// What outlives an input.
struct Process {
  static Process& Get() {
    static Process* const process = new Process;
    return *process;
  }

  Adapter* const adapter = OpenAdapter().object;
  ProtectionDomain* const domain = adapter->CreateProtectionDomain().object;
  ProtectionDomain* const other_domain = adapter->CreateProtectionDomain().object;
  CompletionQueue* const queue = adapter->CreateCompletionQueue(64, nullptr).object;
  WatchedMemory readable{domain, kMrAllowRemoteRead, kShown};
  WatchedMemory inbox{domain, kMrAllowLocalWrite, kSecret};
  WatchedMemory sink{domain, kMrAllowLocalWrite | kMrRdmaReadSink, kSecret};
  // Windows let the peer read the one and write the other.
  WatchedMemory shown_by_window{domain, kMrAllowLocalWrite, kSecret};
  WatchedMemory written_by_window{domain, kMrAllowLocalWrite, kSecret};
  WatchedMemory strange{other_domain, kMrAllowRemoteRead | kMrAllowRemoteWrite, kSecret};
};

struct Posted {
  void* context = nullptr;
  OperationType type = OperationType::kSend;
  uint32_t length = 0;
  std::vector<std::pair<size_t, size_t>> places;  // Offset and length, in `inbox` or, of a read, in `sink`.
};

// What a stream has that is not payload.
Bytes WithoutMarkers(const Bytes& stream) {
  Bytes bytes;
  for (size_t i = 0; i < stream.size(); ++i) {
    if (i % kMarkerSpacing >= kMarkerLength) bytes.push_back(stream[i]);
  }
  return bytes;
}

class Run {
 public:
  explicit Run(FuzzInput input) : input_(input) {
    for (WatchedMemory* const memory : seen_.regions) memory->Refill();
    writable_.LetChange(0, kRegionSize);
    queue_pair_ = process_.domain
                      ->CreateQueuePair({.receive_cq = process_.queue,
                                         .initiator_cq = process_.queue,
                                         .receive_queue_depth = kDepth,
                                         .initiator_queue_depth = kDepth,
                                         .max_receive_request_sge = 2,
                                         .keepalive = std::chrono::seconds(0)})
                      .object;
    Require(queue_pair_ != nullptr && seen_.window != nullptr, "a queue pair and a window are made");
  }
  ~Run() {
    CloseAndWait(queue_pair_);
    Require(ends_ <= 1, "a connection ends once");
    Require(disconnects_ == (disconnecting_ ? 1 : 0), "a disconnect completes once");
    CloseAndWait(seen_.window);
    CloseAndWait(writable_.region());
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void Do() {
    Attach();
    for (int i = 0; i < kMaxActs && !input_.empty(); ++i) Act();
    Finish();
  }

 private:
  void Attach();
  void Act();
  void Finish();
  void CheckOutput();

  bool IsOfRegion(uint32_t stag) const;

  void Feed(std::span<const uint8_t> bytes);
  void Drive();
  void ReadOutput();
  void TakeResults();
  void Take(const ResultEx& result);
  void Note(NdkStatus status, std::deque<Posted>* queue, Posted posted);
  void* NextContext() { return reinterpret_cast<void*>(++contexts_); }
  void PostReceive();
  void PostRead();
  void PostSend();
  void Bind();

  Process& process_ = Process::Get();
  FuzzInput input_;
  WatchedMemory writable_{process_.domain, kMrAllowRemoteWrite, kSecret};
  PeersView seen_ = {.writable = &writable_,
                     .readable = &process_.readable,
                     .sink = &process_.sink,
                     .regions = {&writable_, &process_.readable, &process_.inbox, &process_.sink,
                                 &process_.shown_by_window, &process_.written_by_window, &process_.strange},
                     .window = process_.domain->CreateMemoryWindow().object};
  HostilePeer peer_{&input_, &seen_};
  QueuePair* queue_pair_ = nullptr;
  ConnectionState state_;
  UniqueFd socket_;  // The peer's.
  size_t cut_ = 0;   // 0: what the peer sends comes in one piece.
  Bytes output_;

  uintptr_t contexts_ = 0;
  size_t inbox_used_ = 0, sink_used_ = 0;
  std::deque<Posted> receives_, requests_;
  bool failed_ = false;

  bool deregistered_ = false;
  bool ended_here_ = false;  // By Flush or Disconnect.
  bool peer_closed_ = false;
  std::atomic<int> ends_ = 0, disconnects_ = 0;
  bool disconnecting_ = false;
  ConnectionEnd end_;  // Once `ends_` is not 0.
};

void Run::Attach() {
  const uint8_t choices = input_.Byte();
  state_.crc = (choices & 1) != 0;
  state_.role = (choices & 2) != 0 ? Role::kResponder : Role::kInitiator;
  state_.ready_to_receive = static_cast<ReadyToReceive>(choices >> 2 & 3);
  state_.fpdu_limit = (choices & 0x10) != 0 ? kMinFpduLength : kMaxFpduLength;
  state_.markers_to_peer = (choices & 0x20) != 0;
  const bool by_read = state_.ready_to_receive == ReadyToReceive::kRead;
  state_.read_response_due = by_read && state_.role == Role::kInitiator && (choices & 0x40) != 0;
  const uint8_t reads = input_.Byte();
  state_.inbound_read_limit = reads & 3;
  state_.outbound_read_limit = reads >> 2 & 3;
  cut_ = input_.Byte();
  peer_.Start(state_);
  Bytes begun;
  if ((choices & 0x80) != 0) {
    const size_t unread = input_.Whole<uint16_t>();
    begun = peer_.NextFpdu();
    const auto cut = begun.begin() + static_cast<ptrdiff_t>(std::min(unread, begun.size()));
    state_.unread.assign(begun.begin(), cut);
    begun.erase(begun.begin(), cut);
  }
  int ends[2] = {-1, -1};
  Require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "there are sockets");
  socket_.Reset(ends[1]);
  const NdkStatus status =
      queue_pair_->Attach({UniqueFd(ends[0]), EncodeConnectionState(state_)}, [this](const ConnectionEnd& end) {
        end_ = end;
        ++ends_;
      });
  Require(status == NdkStatus::kSuccess, "the connection is attached");
  Drive();
  Feed(begun);
}

void Run::Act() {
  switch (input_.Byte() % 16) {
    case 0:
      peer_.StopSendingFpdus();
      return Feed(input_.Piece(input_.Byte()));
    case 1:
    case 2:
      return PostReceive();
    case 3:
      return PostRead();
    case 4:
      return PostSend();
    case 5:
      return Bind();
    case 6:
      Note(queue_pair_->Invalidate(NextContext(), seen_.window, 0), &requests_, {.type = OperationType::kInvalidate});
      return;
    case 7:
      if (std::exchange(deregistered_, true)) return;
      Require(writable_.region()->Deregister() == NdkStatus::kSuccess, "memory is taken away");
      return writable_.LetNothingChange();
    case 8:
      ended_here_ = true;
      return queue_pair_->Flush();
    case 9:
      if (std::exchange(disconnecting_, true)) return;
      ended_here_ = true;
      queue_pair_->Disconnect(kPatience, [this](NdkStatus) { ++disconnects_; });
      return;
    case 10:
      peer_.StopSendingFpdus();
      ::shutdown(socket_.get(), SHUT_WR);
      return Drive();
    case 11:
      peer_closed_ = true;
      socket_.Reset();
      return Drive();
    default:
      return Feed(peer_.NextFpdu());
  }
}

bool Run::IsOfRegion(uint32_t stag) const {
  return std::any_of(seen_.regions.begin(), seen_.regions.end(),
                     [stag](const WatchedMemory* region) { return region->stag() == stag; });
}

// In pieces at first, where the input says so.
void Run::Feed(std::span<const uint8_t> bytes) {
  for (int pieces = 0; !bytes.empty() && socket_; ++pieces) {
    const size_t piece = cut_ > 0 && pieces < 8 ? std::min(cut_, bytes.size()) : bytes.size();
    const ssize_t sent = ::send(socket_.get(), bytes.data(), piece, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) return;  // The other side has had enough.
    if (sent > 0) bytes = bytes.subspan(static_cast<size_t>(sent));
    Drive();
  }
}

// The queue pair has dealt with all that has come when this returns.
void Run::Drive() {
  static_cast<DrivenQueuePair*>(queue_pair_)->OnReady();
  ReadOutput();
  TakeResults();
}

void Run::ReadOutput() {
  std::array<uint8_t, 16 * 1024> chunk;
  for (ssize_t got = 1; got > 0 && socket_;) {
    got = ::recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (got > 0) output_.insert(output_.end(), chunk.data(), chunk.data() + got);
  }
}

void Run::TakeResults() {
  std::array<ResultEx, 2 * kDepth> results;
  while (const size_t count = process_.queue->GetResultsEx(results)) {
    for (size_t i = 0; i < count; ++i) Take(results[i]);
  }
}

void Run::Take(const ResultEx& result) {
  const bool receive = result.type == OperationType::kReceive || result.type == OperationType::kReceiveAndInvalidate;
  std::deque<Posted>& queue = receive ? receives_ : requests_;
  Require(!queue.empty() && queue.front().context == result.request_context, "each request has one result, in order");
  const Posted posted = std::move(queue.front());
  queue.pop_front();
  Require(receive || result.type == posted.type, "a result has its request's type");
  if (result.type == OperationType::kReceiveAndInvalidate) {
    Require(!IsOfRegion(static_cast<uint32_t>(result.invalidated_token)), "a peer invalidates windows only");
  }
  const bool success = result.status == NdkStatus::kSuccess;
  Require(result.bytes_transferred <= (receive && success ? posted.length : 0), "a message is as long as its receive");
  Require(!failed_ || result.status == NdkStatus::kCancelled, "after a failure all others are cancelled");
  failed_ |= !success && result.status != NdkStatus::kCancelled;
  size_t left = receive && success ? result.bytes_transferred : posted.length;
  for (const auto& [offset, length] : posted.places) {
    (receive ? process_.inbox : process_.sink).LetChange(offset, std::min(left, length));
    left -= std::min(left, length);
  }
}

void Run::Note(NdkStatus status, std::deque<Posted>* queue, Posted posted) {
  posted.context = reinterpret_cast<void*>(contexts_);
  if (status == NdkStatus::kSuccess) queue->push_back(std::move(posted));
  // A receive leaves its place to another when its message begins to come.
  const size_t most = queue == &receives_ ? kDepth + 1 : kDepth;
  Require(queue->size() <= most, "a queue takes as many requests as it is deep");
  Drive();
}

void Run::PostReceive() {
  const uint8_t kind = input_.Byte();
  Posted posted = {.type = OperationType::kReceive};
  std::vector<Sge> sges;
  for (int i = 0; i < 1 + (kind & 1); ++i) {
    const size_t length = TakeLength(&input_, inbox_used_, 4096);
    sges.push_back(process_.inbox.sge(inbox_used_, length));
    posted.places.emplace_back(inbox_used_, length);
    posted.length += static_cast<uint32_t>(length);
    inbox_used_ += length;
  }
  // Memory that may not be written.
  if ((kind & 2) != 0) sges.back() = process_.readable.sge(0, sges.back().length);
  if ((kind & 4) != 0) sges.back() = process_.strange.sge(0, sges.back().length);
  const NdkStatus status = queue_pair_->Receive(NextContext(), sges);
  Note(status, &receives_, std::move(posted));
}

void Run::PostRead() {
  const OpFlags flags = (input_.Byte() & 1) != 0 ? kOpReadFence : 0;
  const size_t length = TakeLength(&input_, sink_used_, 12'000);
  const Sge sge = process_.sink.sge(sink_used_, length);
  const NdkStatus status = queue_pair_->Read(NextContext(), {&sge, 1}, {0x1000, RemoteToken{2}}, flags);
  if (status == NdkStatus::kSuccess) peer_.OweResponse(sink_used_, length);
  Note(status, &requests_,
       {.type = OperationType::kRead, .length = static_cast<uint32_t>(length), .places = {{sink_used_, length}}});
  sink_used_ += length;
}

void Run::PostSend() {
  const uint8_t kind = input_.Byte();
  const OpFlags flags = (kind & 4) != 0 ? kOpReadFence : 0;
  const Sge sge = process_.readable.sge(0, TakeLength(&input_, 0, kRegionSize));
  switch (kind & 3) {
    case 0:
      return Note(queue_pair_->Write(NextContext(), {&sge, 1}, {0x1000, RemoteToken{2}}, flags), &requests_,
                  {.type = OperationType::kWrite});
    case 1:
      return Note(queue_pair_->SendAndInvalidate(NextContext(), {&sge, 1}, flags, RemoteToken{3}), &requests_, {});
    default:
      return Note(queue_pair_->Send(NextContext(), {&sge, 1}, flags), &requests_, {});
  }
}

void Run::Bind() {
  const uint8_t kind = input_.Byte();
  const size_t offset = TakeOffset(&input_), length = TakeLength(&input_, offset, kRegionSize);
  WatchedMemory& memory = (kind & 1) != 0 ? process_.written_by_window : process_.shown_by_window;
  seen_.bound = &memory;
  (kind & 1) != 0 ? memory.LetChange(offset, length) : memory.Fill(offset, length, kShown);
  const OpFlags flags = (kind & 1) != 0 ? kOpAllowRemoteWrite : kOpAllowRemoteRead;
  Note(queue_pair_->Bind(NextContext(), memory.region(), seen_.window, memory.at(offset), length, flags), &requests_,
       {.type = OperationType::kBind});
}

void Run::Finish() {
  if (socket_) ::shutdown(socket_.get(), SHUT_WR);
  Drive();
  const auto deadline = Clock::now() + kPatience;
  while (ends_ == 0 && !ended_here_) {
    Require(Clock::now() < deadline, "the connection ends when the peer's stream does");
    Drive();
    std::this_thread::yield();
  }
  for (size_t seen = output_.size() + 1; seen != output_.size();) {
    seen = output_.size();
    Drive();
  }
  // Else what was on its way is lost.
  if (!ended_here_ && !peer_closed_) CheckOutput();
  queue_pair_->Flush();
  TakeResults();
  Require(receives_.empty() && requests_.empty(), "all requests end");
  for (const WatchedMemory* const memory : seen_.regions) memory->Check();
}

void Run::CheckOutput() {
  // The sum is one over the markers, too.
  const bool crc = state_.crc && !state_.markers_to_peer;
  const Bytes stream = state_.markers_to_peer ? WithoutMarkers(output_) : output_;
  const DecodedStream sent = Decode(stream, crc, [&] { return stream.size(); });
  Require(!sent.error, "this side sends FPDUs");
  Require(!peer_.doomed() || !end_.graceful, "a wrong number or sum ends the connection");
  const DecodedSegment* terminate = nullptr;
  for (const DecodedSegment& segment : sent.segments) {
    Require(terminate == nullptr, "a Terminate message is the last one");
    Require(segment.header.opcode != Opcode::kReadResponse || state_.inbound_read_limit > 0, "reads have a limit");
    if (segment.header.opcode == Opcode::kTerminate) {
      terminate = &segment;
    } else if (segment.header.opcode != Opcode::kReadRequest) {
      Require(std::all_of(segment.payload.begin(), segment.payload.end(), [](uint8_t byte) { return byte == kShown; }),
              "nothing goes out that the peer may not see");
    }
  }
  const uint32_t error = end_.provider_error;
  const bool broken = (error & (kSocketError | kTerminateReceived)) != 0;
  Require(end_.graceful || error != 0, "an end that is not graceful has a cause");
  Require(broken || !sent.within_fpdu, "the stream ends between FPDUs");
  Require(end_.graceful || broken || terminate != nullptr, "who ends a connection sends a Terminate message");
  if (terminate == nullptr) return;
  const auto message = DecodeTerminate(terminate->payload);
  Require(message.ok(), "a Terminate message can be read");
  // A request of this side may fail after the peer has said goodbye, too.
  const bool own = message->cause == kRdmapLocalCatastrophic && (end_.graceful || error == kLocalError);
  Require(own || error == TerminateSent(message->cause), "the peer learns the cause");
}

}  // namespace
}  // namespace rdmabroker::iwarp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rdmabroker::iwarp::Run(rdmabroker::FuzzInput(data, size)).Do();
  return 0;
}
