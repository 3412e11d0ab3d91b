// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/http2.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

namespace rdmabroker::rpc {
namespace {

// A header block of this many times the limit ends the connection: a few octets of HPACK can encode thousands.
constexpr size_t kBlockIsAttack = 4;
// CONTINUATION frames of a block; each carries 16 KiB.
constexpr size_t kMostContinuations = 4;
// Acknowledgements of PINGs and SETTINGS that wait for a peer who does not read.
constexpr size_t kMostAcknowledgements = 200;
// Entries of a SETTINGS frame; HTTP/2 and its extensions have ten.
constexpr size_t kMostSettings = 16;
// Frames that wait for a peer who does not read, beyond those of data; a status has 8 KiB at most.
constexpr size_t kMostQueued = 200;
// Octets of data that the peer may send on all streams together. They are given back as they arrive, because each
// stream has a window of its own.
constexpr int32_t kConnectionWindow = 1 << 20;
// The frame budget bounds them; nghttp2's own limit of 33 a second is for browsers.
constexpr uint64_t kUnlimited = uint64_t{1} << 30;

// Callbacks may run out of memory, but an exception must not pass through nghttp2, which is C. They throw nothing else.
template <typename Body>
auto WithoutExceptions(Body body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
}

// The result points into `headers`.
std::vector<nghttp2_nv> NameValues(const Headers& headers) {
  const auto octets = [](const std::string& text) {
    return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));  // nghttp2 copies it.
  };
  std::vector<nghttp2_nv> pairs;
  pairs.reserve(headers.size());
  for (const auto& [name, value] : headers) {
    pairs.push_back({octets(name), octets(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  return pairs;
}

bool CarriesStream(const nghttp2_frame& frame) {
  return frame.hd.type == NGHTTP2_HEADERS || frame.hd.type == NGHTTP2_DATA;
}
bool EndsStream(const nghttp2_frame& frame) {
  return CarriesStream(frame) && (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
}

const char* WordsFor(FrameBudget::Excess excess) {
  switch (excess) {
    case FrameBudget::Excess::kCalls:
      return "too many calls a second";
    case FrameBudget::Excess::kResets:
      return "too many calls cancelled a second";
    case FrameBudget::Excess::kSmallFrames:
      return "too many frames that are neither a call nor an answer to one";
    case FrameBudget::Excess::kNone:
      break;
  }
  return "";
}

}  // namespace

struct Http2::Callbacks {
  static Http2& Of(void* user) { return *static_cast<Http2*>(user); }

  static int OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    return WithoutExceptions([&] {
      Http2& self = Of(user);
      if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) self.streams_.try_emplace(frame->hd.stream_id);
      return 0;
    });
  }
  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                      const uint8_t* value, size_t value_size, uint8_t, void* user) {
    return WithoutExceptions([&] {
      return Of(user).HeaderArrived(frame->hd.stream_id, {reinterpret_cast<const char*>(name), name_size},
                                    {reinterpret_cast<const char*>(value), value_size});
    });
  }
  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    return WithoutExceptions([&] {
      Of(user).FrameArrived(*frame);
      return 0;
    });
  }
  static int OnData(nghttp2_session* session, uint8_t, int32_t stream, const uint8_t* data, size_t size, void* user) {
    return WithoutExceptions([&] {
      nghttp2_session_consume_connection(session, size);
      Of(user).listener_.DataArrived(stream, std::string_view(reinterpret_cast<const char*>(data), size));
      return 0;
    });
  }
  static int OnSent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    return WithoutExceptions([&] {
      Of(user).FrameSent(*frame);
      return 0;
    });
  }
  static int OnNotSent(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
    return WithoutExceptions([&] {
      Of(user).FrameNotSent(*frame);
      return 0;
    });
  }
  static int OnClosed(nghttp2_session*, int32_t stream, uint32_t error, void* user) {
    return WithoutExceptions([&] {
      Of(user).StreamClosed(stream, error);
      return 0;
    });
  }
  static ssize_t OnRead(nghttp2_session*, int32_t stream, uint8_t* to, size_t room, uint32_t* flags,
                        nghttp2_data_source*, void* user) {
    return WithoutExceptions([&]() -> ssize_t { return Of(user).ReadData(stream, to, room, flags); });
  }

  // All connections share these.
  static const nghttp2_session_callbacks* All() {
    static const nghttp2_session_callbacks* const kCallbacks = [] {
      nghttp2_session_callbacks* made = nullptr;
      if (nghttp2_session_callbacks_new(&made) != 0) throw std::bad_alloc();
      nghttp2_session_callbacks_set_on_begin_headers_callback(made, OnBeginHeaders);
      nghttp2_session_callbacks_set_on_header_callback(made, OnHeader);
      nghttp2_session_callbacks_set_on_frame_recv_callback(made, OnFrame);
      nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, OnData);
      nghttp2_session_callbacks_set_on_frame_send_callback(made, OnSent);
      nghttp2_session_callbacks_set_on_frame_not_send_callback(made, OnNotSent);
      nghttp2_session_callbacks_set_on_stream_close_callback(made, OnClosed);
      return made;
    }();
    return kCallbacks;
  }

  static const nghttp2_option* Options() {
    static const nghttp2_option* const kOptions = [] {
      nghttp2_option* made = nullptr;
      if (nghttp2_option_new(&made) != 0) throw std::bad_alloc();
      nghttp2_option_set_no_auto_window_update(made, 1);
      nghttp2_option_set_no_closed_streams(made, 1);
      nghttp2_option_set_max_outbound_ack(made, kMostAcknowledgements);
      nghttp2_option_set_max_settings(made, kMostSettings);
      nghttp2_option_set_max_continuations(made, kMostContinuations);
      nghttp2_option_set_stream_reset_rate_limit(made, kUnlimited, kUnlimited);
      // It would reset streams of Go's clients, which send a socket's path as :authority. AreWellFormed checks instead.
      nghttp2_option_set_no_http_messaging(made, 1);
      return made;
    }();
    return kOptions;
  }
};

std::unique_ptr<nghttp2_session, Http2::Deleter> Http2::Make(End end, Http2* self) {
  const auto make = end == End::kServer ? nghttp2_session_server_new2 : nghttp2_session_client_new2;
  nghttp2_session* session = nullptr;
  if (make(&session, Callbacks::All(), self, Callbacks::Options()) != 0) throw std::bad_alloc();
  return std::unique_ptr<nghttp2_session, Deleter>(session);
}

Http2::Http2(End end, const Settings& settings, StreamListener& listener, FrameBudget* budget)
    : end_(end),
      settings_(settings),
      listener_(listener),
      budget_(budget),
      scan_(end == End::kServer ? NGHTTP2_CLIENT_MAGIC_LEN : 0),
      session_(Make(end, this)) {
  const nghttp2_settings_entry entries[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, settings.streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings.stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings.header_block},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},  // Only a client sends it.
  };
  const size_t count = end == End::kServer ? std::size(entries) - 1 : std::size(entries);
  if (nghttp2_submit_settings(session_.get(), NGHTTP2_FLAG_NONE, entries, count) != 0 ||
      nghttp2_session_set_local_window_size(session_.get(), NGHTTP2_FLAG_NONE, 0, kConnectionWindow) != 0) {
    throw std::bad_alloc();
  }
}

size_t Http2::Scan(std::string_view octets, absl::Time now) {
  size_t read = 0;
  size_t frames = 0;
  while (read < octets.size() && frames < kFramesAtATime) {
    const FrameScan::Step step = scan_.Next(octets.substr(read));
    read += step.octets;
    if (!step.frame) continue;
    frames += WeightOf(*step.frame);
    if (budget_ == nullptr) continue;
    const FrameBudget::Excess excess = budget_->Spend(*step.frame, now);
    if (excess == FrameBudget::Excess::kNone) continue;
    Terminate(NGHTTP2_ENHANCE_YOUR_CALM, WordsFor(excess));
    break;
  }
  weight_ += frames;
  return read;
}

size_t Http2::WeightOf(const FrameHeader& frame) {
  if (frame.type != NGHTTP2_HEADERS && frame.type != NGHTTP2_CONTINUATION) return 1;
  // nghttp2 ends the connection at a longer one and reads none of it.
  const uint32_t length = std::min(frame.length, kLongestFrame);
  header_block_ = (frame.flags & NGHTTP2_FLAG_END_HEADERS) != 0 ? 0 : header_block_ + length;
  return 1 + length / kHeaderOctets;
}

size_t Http2::Receive(std::string_view octets, absl::Time now) {
  if (terminated_) return octets.size();
  // The queue also has requests that wait for the peer's limit of streams; those are no output.
  if (nghttp2_session_get_outbound_queue_size(session_.get()) > kMostQueued && HasOutput()) return 0;
  const size_t some = Scan(octets, now);
  if (terminated_) return octets.size();
  const ssize_t read = nghttp2_session_mem_recv(session_.get(), reinterpret_cast<const uint8_t*>(octets.data()), some);
  if (read >= 0) return some;
  Terminate(read == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR,
            nghttp2_strerror(static_cast<int>(read)));
  return octets.size();
}

std::string Http2::TakeOutput() {
  std::string output;
  while (output.size() < kOutputAtATime) {
    const uint8_t* octets = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_.get(), &octets);
    if (size < 0) broken_ = true;
    if (size <= 0) break;
    output.append(reinterpret_cast<const char*>(octets), static_cast<size_t>(size));
  }
  return output;
}

bool Http2::HasOutput() const { return !broken_ && nghttp2_session_want_write(session_.get()) != 0; }

bool Http2::IsDone() const { return !HasOutput() && (broken_ || nghttp2_session_want_read(session_.get()) == 0); }

Http2::Stream* Http2::FindStream(CallId stream) {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : &found->second;
}

int Http2::HeaderArrived(CallId id, std::string_view name, std::string_view value) {
  Stream* stream = FindStream(id);
  if (stream == nullptr) return 0;
  stream->header_octets += name.size() + value.size() + 32;
  if (stream->header_octets > kBlockIsAttack * settings_.header_block) {
    Terminate(NGHTTP2_ENHANCE_YOUR_CALM, "a header block is too long");
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  if (stream->header_octets > settings_.header_block) {
    stream->headers = {};
  } else {
    stream->headers.push_back({std::string(name), std::string(value)});
  }
  return 0;
}

void Http2::FrameArrived(const nghttp2_frame& frame) {
  if (frame.hd.type == NGHTTP2_SETTINGS && (frame.hd.flags & NGHTTP2_FLAG_ACK) != 0) settings_agreed_ = true;
  if (frame.hd.type == NGHTTP2_GOAWAY && !std::exchange(peer_drains_, true)) listener_.PeerDrains();
  // The peer has received the shutdown notice, so it starts no more streams.
  if (frame.hd.type == NGHTTP2_PING && (frame.hd.flags & NGHTTP2_FLAG_ACK) != 0 && draining_) EndDrain();
  Stream* stream = FindStream(frame.hd.stream_id);
  if (stream == nullptr || !CarriesStream(frame)) return;
  if (EndsStream(frame)) stream->peer_done = true;
  if (frame.hd.type == NGHTTP2_HEADERS) HeadersArrived(frame, *stream);
  if (!EndsStream(frame)) return;
  listener_.PeerIsDone(frame.hd.stream_id);
  stream = FindStream(frame.hd.stream_id);
  // The server has ended the call and ignores further requests. Without a reset the stream would stay open and count.
  if (stream != nullptr && end_ == End::kClient && !stream->data_ended) Reset(frame.hd.stream_id, NGHTTP2_NO_ERROR);
}

void Http2::HeadersArrived(const nghttp2_frame& frame, Stream& stream) {
  const CallId id = frame.hd.stream_id;
  Headers headers = std::exchange(stream.headers, {});
  const size_t octets = std::exchange(stream.header_octets, 0);
  if (frame.headers.cat != NGHTTP2_HCAT_HEADERS) return listener_.HeadersArrived(id, std::move(headers), octets);
  // From a server, a second block without END_STREAM may be the response after an interim one.
  if (end_ == End::kServer && !EndsStream(frame)) return Reset(id, NGHTTP2_PROTOCOL_ERROR);
  listener_.TrailersArrived(id, std::move(headers), octets, EndsStream(frame));
}

void Http2::FrameSent(const nghttp2_frame& frame) {
  // nghttp2 itself detects most errors and sends a GOAWAY.
  if (frame.hd.type == NGHTTP2_GOAWAY && frame.goaway.error_code != NGHTTP2_NO_ERROR) terminated_ = true;
  const CallId id = frame.hd.stream_id;
  Stream* stream = CarriesStream(frame) ? FindStream(id) : nullptr;
  if (stream == nullptr) return;
  stream->begun = true;
  if (EndsStream(frame) && end_ == End::kServer && !stream->peer_done) {
    // Without a reset the stream would stay open and count until the client ends its side.
    Reset(id, NGHTTP2_NO_ERROR);
  }
  if (frame.hd.type == NGHTTP2_DATA && stream->data.empty() && !stream->data_ended) listener_.AllSent(id);
}

void Http2::FrameNotSent(const nghttp2_frame& frame) {
  // The headers are longer than nghttp2 can send. It closes a client's stream itself, but not a server's.
  if (frame.hd.type == NGHTTP2_HEADERS && end_ == End::kServer) Reset(frame.hd.stream_id, NGHTTP2_INTERNAL_ERROR);
}

void Http2::DropData(Stream& stream) {
  unsent_ -= stream.unsent();
  std::string().swap(stream.data);  // clear() and assignment would keep the memory.
  stream.sent = 0;
}

void Http2::StreamClosed(CallId id, uint32_t error) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  unsent_ -= found->second.unsent();
  streams_.erase(found);
  listener_.Closed(id, error);
}

ssize_t Http2::ReadData(CallId id, uint8_t* to, size_t room, uint32_t* flags) {
  Stream* stream = FindStream(id);
  if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  const size_t size = std::min(room, stream->unsent());
  std::copy_n(stream->data.data() + stream->sent, size, to);
  stream->sent += size;
  unsent_ -= size;
  if (stream->unsent() > 0) {
    // What has left must not stay in memory with a rest that the peer may never take.
    if (stream->sent >= stream->unsent()) std::string(stream->data, std::exchange(stream->sent, 0)).swap(stream->data);
    return static_cast<ssize_t>(size);
  }
  DropData(*stream);
  if (!stream->data_ended && size == 0) return NGHTTP2_ERR_DEFERRED;
  if (!stream->data_ended) return static_cast<ssize_t>(size);
  *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (stream->trailers) {
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    SubmitTrailers(id, *stream->trailers);
  }
  return static_cast<ssize_t>(size);
}

void Http2::SubmitTrailers(CallId id, const Headers& trailers) {
  const std::vector<nghttp2_nv> pairs = NameValues(trailers);
  nghttp2_submit_trailer(session_.get(), id, pairs.data(), pairs.size());
}

CallId Http2::Request(const Headers& headers) {
  if (terminated_ || peer_drains_) return 0;
  const std::vector<nghttp2_nv> pairs = NameValues(headers);
  const nghttp2_data_provider body{.source = {}, .read_callback = Callbacks::OnRead};
  const int32_t id = nghttp2_submit_request(session_.get(), nullptr, pairs.data(), pairs.size(), &body, nullptr);
  if (id <= 0) return 0;
  streams_.try_emplace(id);
  return id;
}

void Http2::Respond(CallId id, const Headers& headers, bool last) {
  Stream* stream = FindStream(id);
  if (stream == nullptr || std::exchange(stream->begun, true)) return;
  stream->data_ended = last;
  const std::vector<nghttp2_nv> pairs = NameValues(headers);
  const nghttp2_data_provider body{.source = {}, .read_callback = Callbacks::OnRead};
  nghttp2_submit_response(session_.get(), id, pairs.data(), pairs.size(), last ? nullptr : &body);
}

void Http2::Send(CallId id, std::string_view data) {
  Stream* stream = FindStream(id);
  if (stream == nullptr || stream->data_ended) return;
  if (stream->sent > stream->data.size() / 2) stream->data.erase(0, std::exchange(stream->sent, 0));
  stream->data.append(data);
  unsent_ += data.size();
  nghttp2_session_resume_data(session_.get(), id);
}

void Http2::EndData(CallId id, Headers trailers) {
  Stream* stream = FindStream(id);
  if (stream == nullptr || std::exchange(stream->data_ended, true)) return;
  if (!trailers.empty()) stream->trailers = std::move(trailers);
  nghttp2_session_resume_data(session_.get(), id);
}

void Http2::Reset(CallId id, uint32_t error) {
  Stream* stream = FindStream(id);
  if (stream == nullptr) return;
  DropData(*stream);
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, id, error);
}

void Http2::GiveBack(CallId stream, size_t octets) { nghttp2_session_consume_stream(session_.get(), stream, octets); }

void Http2::Drain() {
  if (terminated_ || std::exchange(draining_, true)) return;
  nghttp2_submit_shutdown_notice(session_.get());
  nghttp2_submit_ping(session_.get(), NGHTTP2_FLAG_NONE, nullptr);
}

void Http2::EndDrain() {
  if (std::exchange(draining_, false)) SubmitGoAway(NGHTTP2_NO_ERROR, "");
}

void Http2::SubmitGoAway(uint32_t error, std::string_view why) {
  nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_.get()),
                        error, reinterpret_cast<const uint8_t*>(why.data()), why.size());
}

void Http2::Terminate(uint32_t error, std::string_view why) {
  if (std::exchange(terminated_, true)) return;
  if (error == NGHTTP2_ENHANCE_YOUR_CALM) flood_ = why;
  // terminate_session sends no debug data, which gRPC's clients show, so a GOAWAY with it precedes.
  SubmitGoAway(error, why);
  nghttp2_session_terminate_session(session_.get(), error);
}

bool Http2::HasBegun(CallId stream) const {
  const auto found = streams_.find(stream);
  return found != streams_.end() && found->second.begun;
}

size_t Http2::unsent(CallId stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? 0 : found->second.unsent();
}

}  // namespace rdmabroker::rpc
