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

// A call, by its stream of HTTP/2. A connection never has the same again.
using CallId = int32_t;

// What is wrong with a message's first five octets. kMalformed: the flag is not 0. A compressed message has 1, which is
// wrong where no compression was agreed on.
enum class MessageFault { kNone, kMalformed, kTooLong };

// `message` as gRPC has it on a stream: behind a flag and its length.
std::string Framed(std::string_view message);

// The messages that arrive on one call. A fault is told when all before it has been taken.
class MessageReader {
 public:
  explicit MessageReader(size_t longest) : longest_(longest) {}

  // Returns how many messages are whole now that were not before.
  size_t Append(std::string_view octets);
  // Whether a whole message waits.
  [[nodiscard]] bool HasMessage() const { return begin_ < whole_; }
  // Whether anything stands behind it, in which case it does.
  [[nodiscard]] bool HasMoreThanOne() const;
  [[nodiscard]] MessageFault fault() const { return HasMessage() ? MessageFault::kNone : FaultAt(begin_); }
  // The next one, which must be whole.
  std::string Take();
  // Octets of messages that are not taken, and of the last one's beginning.
  [[nodiscard]] size_t size() const { return octets_.size() - begin_; }

 private:
  // The length and the fault of the message that begins there.
  size_t LengthAt(size_t begin) const;
  MessageFault FaultAt(size_t begin) const;

  const size_t longest_;
  std::string octets_;
  size_t begin_ = 0;  // What is before it has been taken.
  size_t whole_ = 0;  // What is before it are whole messages.
};

// The messages that arrive on a connection's calls, and how much more may come. All calls may be in the middle of a
// message at once, as clients send theirs a frame of each in turn. So each call may send `window` octets of what has
// not been taken, and only some calls at a time the rest of a longer message: memory has a bound, and each message its
// end.
class Inbound {
 public:
  struct Bounds {
    size_t longest = 0;        // Of a message, in octets.
    size_t window = 0;         // HTTP/2's window for each stream.
    size_t long_messages = 0;  // Calls at a time that may send more than that.
  };
  // `more` lets a call send so many octets more.
  Inbound(const Bounds& bounds, std::function<void(CallId call, size_t octets)> more)
      : bounds_(bounds), more_(std::move(more)) {}

  void Add(CallId call);
  void Remove(CallId call);

  // For calls that were added; as MessageReader's.
  size_t Append(CallId call, std::string_view octets);
  [[nodiscard]] const MessageReader& of(CallId call) const { return calls_.at(call).reader; }
  std::string Take(CallId call);

  // Octets that wait, of all calls.
  [[nodiscard]] size_t size() const { return size_; }

 private:
  struct Call {
    MessageReader reader;
    size_t held = 0;       // Octets that the peer has not got back as window.
    bool granted = false;  // Is one of those that may send a long message.
    bool waits = false;    // To be one.
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
