// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_INBOUND_H_
#define PROTO_RPC_INBOUND_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace rdmabroker::rpc {

// The HTTP/2 stream of a call. A connection never reuses one.
using CallId = int32_t;

// A fault in a message's five-octet prefix. kMalformed: the flag is not 0. The flag 1 means a compressed message, which
// is invalid because no compression was negotiated.
enum class MessageFault { kNone, kMalformed, kTooLong };

// Returns `message` with gRPC's prefix: a flag and its length.
std::string Framed(std::string_view message);

// Splits the data of one call into messages. fault() reports the next message's fault, once all messages before it are
// taken.
class MessageReader {
 public:
  explicit MessageReader(size_t longest) : longest_(longest) {}

  // Returns how many messages these octets complete.
  size_t Append(std::string_view octets);
  // Whether Take can return a message.
  [[nodiscard]] bool HasMessage() const { return begin_ < whole_; }
  // Whether there are octets after the next complete message.
  [[nodiscard]] bool HasMoreThanOne() const;
  [[nodiscard]] MessageFault fault() const { return HasMessage() ? MessageFault::kNone : FaultAt(begin_); }
  // Removes and returns the next message. HasMessage must be true.
  std::string Take();
  // Octets that are not taken, including those of an incomplete message.
  [[nodiscard]] size_t size() const { return octets_.size() - begin_; }

 private:
  // The length and the fault of the message whose prefix begins at `begin`.
  size_t LengthAt(size_t begin) const;
  MessageFault FaultAt(size_t begin) const;

  const size_t longest_;
  std::string octets_;
  size_t begin_ = 0;  // Octets before it are taken.
  size_t whole_ = 0;  // Octets before it are complete messages.
};

// The untaken messages of a connection's calls, and their flow control. Clients interleave the frames of their calls,
// so all calls may be in the middle of a message. Each call may have `window` untaken octets; only `long_messages`
// calls at a time may send the rest of a longer message. This bounds the memory, and every message can still be
// completed.
class Inbound {
 public:
  struct Bounds {
    size_t longest = 0;        // The most octets of a message.
    size_t window = 0;         // HTTP/2's window for each stream.
    size_t long_messages = 0;  // Calls at a time that may send more than that.
  };
  // `more` is called to let the peer send this many octets more on a call.
  Inbound(const Bounds& bounds, std::function<void(CallId call, size_t octets)> more)
      : bounds_(bounds), more_(std::move(more)) {}

  void Add(CallId call);
  void Remove(CallId call);

  // Same as the functions of MessageReader. The call must have been added.
  size_t Append(CallId call, std::string_view octets);
  [[nodiscard]] const MessageReader& of(CallId call) const { return calls_.at(call).reader; }
  std::string Take(CallId call);

  // The untaken octets of all calls.
  [[nodiscard]] size_t size() const { return size_; }

 private:
  struct Call {
    MessageReader reader;
    size_t held = 0;       // Octets that were not given back with `more`.
    bool granted = false;  // May send a long message.
    bool waits = false;    // Is in waiting_.
  };

  void GiveWindow(CallId id, Call& call);
  void GrantNext();

  const Bounds bounds_;
  const std::function<void(CallId call, size_t octets)> more_;
  std::map<CallId, Call> calls_;
  std::deque<CallId> waiting_;
  size_t granted_ = 0;
  size_t size_ = 0;
};

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_INBOUND_H_
