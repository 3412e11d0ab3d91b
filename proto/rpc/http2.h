// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_HTTP2_H_
#define PROTO_RPC_HTTP2_H_

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "proto/rpc/frame_budget.h"
#include "proto/rpc/frame_scan.h"
#include "proto/rpc/headers.h"
#include "proto/rpc/inbound.h"

namespace rdmabroker::rpc {

// What arrives on a connection's streams and what has left. It is called from within Http2::Receive and TakeOutput, and
// may call Http2's other functions.
class StreamListener {
 public:
  virtual ~StreamListener() = default;

  // The stream's first headers. Without fields, but with their size, where they are longer than
  // Http2::Settings::header_block.
  virtual void HeadersArrived(CallId stream, Headers headers, size_t octets) = 0;
  // A later block, likewise. `last`: the peer sends no more on the stream.
  virtual void TrailersArrived(CallId stream, Headers trailers, size_t octets, bool last) = 0;
  virtual void DataArrived(CallId stream, std::string_view data) = 0;
  // The peer sends no more on the stream.
  virtual void PeerIsDone(CallId stream) = 0;
  // All that was given to Send has left.
  virtual void AllSent(CallId stream) = 0;
  // The stream is no more. `error`: of RFC 9113 section 7.
  virtual void Closed(CallId stream, uint32_t error) = 0;
  // The peer takes no new streams (GOAWAY).
  virtual void PeerDrains() = 0;
};

// One connection of HTTP/2, either end of it, without input or output: octets go in, octets come out. A peer that
// breaks the protocol or a bound ends the connection, and is told so.
class Http2 {
 public:
  enum class End { kServer, kClient };
  struct Settings {
    uint32_t streams = 0;            // That the peer may have open.
    uint32_t stream_window = 0;      // Octets of data that the peer may send before they are given back (GiveBack).
    uint32_t connection_window = 0;  // The same of all streams together; they are given back as they arrive.
    uint32_t header_block = 0;       // Octets of a header block, counted as in RFC 9113 section 6.5.2.
  };

  // Frames that are read at a time. Some of them cost a hundred times as much as their octets suggest.
  static constexpr size_t kFramesAtATime = 64;
  // Octets that TakeOutput gives at a time, and half as much again.
  static constexpr size_t kOutputAtATime = 65536;

  // `listener` and `budget` must outlive it; without a budget all frames are free.
  Http2(End end, const Settings& settings, StreamListener& listener, FrameBudget* budget);
  Http2(const Http2&) = delete;
  Http2& operator=(const Http2&) = delete;

  // Reads what has arrived, and returns how many octets of it. The rest is to be offered again when others have had
  // their turn. It reads none while many frames wait for TakeOutput, so that a peer who does not read cannot fill it.
  size_t Receive(std::string_view octets, absl::Time now);
  // The next octets for the peer, in their order; none: there are no more.
  std::string TakeOutput();
  [[nodiscard]] bool HasOutput() const;
  // Nothing will come of it any more: the connection can be closed once its output has left.
  [[nodiscard]] bool IsDone() const;

  // Begins a stream; beyond what the peer takes at a time it waits for another to end. 0: there can be no more on this
  // connection.
  CallId Request(const Headers& headers);
  // Whether the stream does not wait for that any more.
  [[nodiscard]] bool HasBegun(CallId stream) const;
  // The answer's headers. `last`: they are all of it.
  void Respond(CallId stream, const Headers& headers, bool last);
  // Data, after the headers. More of it may be sent while it waits.
  void Send(CallId stream, std::string_view data);
  // No data follows. A server's last word are trailers.
  void EndData(CallId stream, Headers trailers);
  // Ends the stream at once, with an error of RFC 9113 section 7; what of it waits is dropped.
  void Reset(CallId stream, uint32_t error);
  // The peer may send so many octets more on this stream.
  void GiveBack(CallId stream, size_t octets);

  // Asks the peer to begin no more streams. From its acknowledgement on, or from EndDrain, none are taken. What is open
  // goes on.
  void Drain();
  void EndDrain();
  // Ends the connection with an error of RFC 9113 section 7 and words for a log.
  void Terminate(uint32_t error, std::string_view why);
  // Whether this end has ended the connection; of an error that nghttp2 finds it is known after TakeOutput.
  [[nodiscard]] bool IsTerminated() const { return terminated_; }

  // Whether the peer has agreed to the settings.
  [[nodiscard]] bool SettingsAgreed() const { return settings_agreed_; }
  // Whether the peer drains (GOAWAY).
  [[nodiscard]] bool PeerDrains() const { return peer_drains_; }
  // Octets of data that wait to be taken, of all streams.
  [[nodiscard]] size_t unsent() const { return unsent_; }
  [[nodiscard]] size_t unsent(CallId stream) const;

 private:
  struct Stream {
    Headers headers;           // Of the block that is arriving.
    size_t header_octets = 0;  // Of the same.
    std::string data;          // To be sent.
    size_t sent = 0;           // So many of its octets have been.
    std::optional<Headers> trailers;
    bool begun = false;       // A response has been submitted, or a request has left.
    bool data_ended = false;  // Nothing follows `data`.
    bool peer_done = false;
  };
  struct Callbacks;
  struct Deleter {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };

  static std::unique_ptr<nghttp2_session, Deleter> Make(End end, Http2* self);
  Stream* FindStream(CallId stream);
  // How much of what has arrived may be read.
  size_t Scan(std::string_view octets, absl::Time now);
  int HeaderArrived(CallId id, std::string_view name, std::string_view value);
  void FrameArrived(const nghttp2_frame& frame);
  void HeadersArrived(const nghttp2_frame& frame, Stream& stream);
  void FrameSent(const nghttp2_frame& frame);
  void FrameNotSent(const nghttp2_frame& frame);
  void DropData(Stream& stream);
  void StreamClosed(CallId id, uint32_t error);
  ssize_t ReadData(CallId id, uint8_t* to, size_t room, uint32_t* flags);
  void SubmitTrailers(CallId id, const Headers& trailers);

  const End end_;
  const Settings settings_;
  StreamListener& listener_;
  FrameBudget* const budget_;
  FrameScan scan_;
  std::unique_ptr<nghttp2_session, Deleter> session_;
  std::map<CallId, Stream> streams_;
  size_t unsent_ = 0;
  bool settings_agreed_ = false;
  bool draining_ = false;
  bool peer_drains_ = false;
  bool terminated_ = false;
  bool broken_ = false;  // Memory was short: what follows cannot be told.
};

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_HTTP2_H_
