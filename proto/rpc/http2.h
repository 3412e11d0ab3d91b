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
#include <utility>

#include "absl/time/time.h"
#include "proto/rpc/frame_budget.h"
#include "proto/rpc/frame_scan.h"
#include "proto/rpc/headers.h"
#include "proto/rpc/inbound.h"

namespace rdmabroker::rpc {

// Receives the events of a connection's streams. Http2 calls it from within Receive and TakeOutput; it may call Http2's
// other functions.
class StreamListener {
 public:
  virtual ~StreamListener() = default;

  // The stream's first header block, of `octets`. `headers` is empty if it exceeds Http2::Settings::header_block.
  virtual void HeadersArrived(CallId stream, Headers headers, size_t octets) = 0;
  // A later header block, same as HeadersArrived. `last`: the peer has ended its side of the stream.
  virtual void TrailersArrived(CallId stream, Headers trailers, size_t octets, bool last) = 0;
  virtual void DataArrived(CallId stream, std::string_view data) = 0;
  // The peer has ended its side of the stream.
  virtual void PeerIsDone(CallId stream) = 0;
  // All data given to Send has left in TakeOutput.
  virtual void AllSent(CallId stream) = 0;
  // The stream is closed. `error` is an error code of RFC 9113 section 7.
  virtual void Closed(CallId stream, uint32_t error) = 0;
  // The peer accepts no new streams (GOAWAY).
  virtual void PeerDrains() = 0;
};

// Either end of one HTTP/2 connection, without input or output: the caller carries the octets. A peer that violates the
// protocol or a limit gets a GOAWAY, which ends the connection.
class Http2 {
 public:
  enum class End { kServer, kClient };
  struct Settings {
    uint32_t streams = 0;        // The most streams that the peer may have open.
    uint32_t stream_window = 0;  // Octets of data that the peer may send on a stream before GiveBack.
    uint32_t header_block = 0;   // The most octets of a header block, as RFC 9113 section 6.5.2 counts.
  };

  // The most frames that one Receive reads. Octets alone are no measure: some small frames are expensive. A frame of
  // headers counts as one more for each kHeaderOctets, because few octets of HPACK can be many header fields.
  static constexpr size_t kFramesAtATime = 64;
  static constexpr size_t kHeaderOctets = 32;
  // TakeOutput returns less than this plus one frame.
  static constexpr size_t kOutputAtATime = 65536;

  // `listener` and `budget` must outlive it. A null budget limits nothing.
  Http2(End end, const Settings& settings, StreamListener& listener, FrameBudget* budget);
  Http2(const Http2&) = delete;
  Http2& operator=(const Http2&) = delete;

  // Reads octets from the peer and returns how many. The caller passes the rest again after it has served other
  // connections. Reads nothing while many frames wait for TakeOutput, so that a peer that does not read cannot fill
  // the queue.
  size_t Receive(std::string_view octets, absl::Time now);
  // How many frames Receive has read since TakeWeight was called last, counted as kFramesAtATime says.
  size_t TakeWeight() { return std::exchange(weight_, 0); }
  // Returns the next octets to send to the peer, in order. Empty if there are none.
  std::string TakeOutput();
  [[nodiscard]] bool HasOutput() const;
  // Whether the connection is over: the socket can be closed when all output has been sent.
  [[nodiscard]] bool IsDone() const;

  // Starts a stream. It waits while the peer's limit of open streams is reached. Returns 0 if the connection accepts no
  // more streams.
  CallId Request(const Headers& headers);
  // Whether the headers of Request have left.
  [[nodiscard]] bool HasBegun(CallId stream) const;
  // Sends the response's headers. `last`: no data or trailers follow.
  void Respond(CallId stream, const Headers& headers, bool last);
  // Queues data behind the headers and behind other data.
  void Send(CallId stream, std::string_view data);
  // Ends this side of the stream behind the queued data. A server sends trailers, a client none.
  void EndData(CallId stream, Headers trailers);
  // Resets the stream with an error code of RFC 9113 section 7, and drops its queued data.
  void Reset(CallId stream, uint32_t error);
  // Lets the peer send this many octets more on the stream.
  void GiveBack(CallId stream, size_t octets);

  // Asks the peer to start no more streams. Streams are refused after the peer's acknowledgement or EndDrain. Open
  // streams continue.
  void Drain();
  void EndDrain();
  // Charges frames to this budget from now on; null limits nothing. It must outlive the connection or the next call.
  void ChargeTo(FrameBudget* budget) { budget_ = budget; }
  // Ends the connection with an error code of RFC 9113 section 7. The peer may log `why`.
  void Terminate(uint32_t error, std::string_view why);
  // Whether this end has ended the connection. After an error that nghttp2 detects, true from the next TakeOutput on.
  [[nodiscard]] bool IsTerminated() const { return terminated_; }

  // Why this end has terminated the connection with ENHANCE_YOUR_CALM; empty if it has not.
  [[nodiscard]] const std::string& flood() const { return flood_; }

  // Whether the peer has acknowledged the settings.
  [[nodiscard]] bool SettingsAgreed() const { return settings_agreed_; }
  // Whether the peer has sent GOAWAY.
  [[nodiscard]] bool PeerDrains() const { return peer_drains_; }
  // Open streams, and the octets of a header block whose end has not arrived.
  [[nodiscard]] size_t streams() const { return streams_.size(); }
  [[nodiscard]] size_t header_block() const { return header_block_; }
  // Octets of queued data, of all streams or of one.
  [[nodiscard]] size_t unsent() const { return unsent_; }
  [[nodiscard]] size_t unsent(CallId stream) const;

 private:
  struct Stream {
    Headers headers;           // The fields of an incomplete header block.
    size_t header_octets = 0;  // The octets of an incomplete header block.
    std::string data;          // To be sent, after the first `sent` octets.
    size_t sent = 0;           // Octets of `data` that have left.
    std::optional<Headers> trailers;
    bool begun = false;       // The response is submitted, or the request has left.
    bool data_ended = false;  // EndData was called.
    bool peer_done = false;

    [[nodiscard]] size_t unsent() const { return data.size() - sent; }
  };
  struct Callbacks;
  struct Deleter {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };

  static std::unique_ptr<nghttp2_session, Deleter> Make(End end, Http2* self);
  Stream* FindStream(CallId stream);
  // Charges the frames and returns how many octets may be read.
  size_t Scan(std::string_view octets, absl::Time now);
  // Notes the octets of a header block. Returns as how many frames the frame counts.
  size_t WeightOf(const FrameHeader& frame);
  int HeaderArrived(CallId id, std::string_view name, std::string_view value);
  void FrameArrived(const nghttp2_frame& frame);
  void HeadersArrived(const nghttp2_frame& frame, Stream& stream);
  void FrameSent(const nghttp2_frame& frame);
  void FrameNotSent(const nghttp2_frame& frame);
  void DropData(Stream& stream);
  void StreamClosed(CallId id, uint32_t error);
  ssize_t ReadData(CallId id, uint8_t* to, size_t room, uint32_t* flags);
  void SubmitTrailers(CallId id, const Headers& trailers);
  void SubmitGoAway(uint32_t error, std::string_view why);

  const End end_;
  const Settings settings_;
  StreamListener& listener_;
  FrameBudget* budget_;
  FrameScan scan_;
  std::unique_ptr<nghttp2_session, Deleter> session_;
  std::map<CallId, Stream> streams_;
  size_t unsent_ = 0;
  size_t header_block_ = 0;
  size_t weight_ = 0;  // Of TakeWeight.
  bool settings_agreed_ = false;
  bool draining_ = false;
  bool peer_drains_ = false;
  bool terminated_ = false;
  std::string flood_;
  bool broken_ = false;  // nghttp2 is out of memory and can produce no more output.
};

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_HTTP2_H_
