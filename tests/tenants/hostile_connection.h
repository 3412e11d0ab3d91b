// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_TENANTS_HOSTILE_CONNECTION_H_
#define TESTS_TENANTS_HOSTILE_CONNECTION_H_

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tests/tenants/attacker.h"
#include "tests/tenants/wire.h"

namespace rdmabroker::tenants {

// The first octets of a client that takes whatever the broker sends: windows as wide as HTTP/2 has them.
std::string WideOpening();
// Those of one with this window for each stream.
std::string OpeningWith(uint32_t stream_window);

// A connection by HTTP/2 that sends whatever an attack wants, and looks at what comes back. Counts, with its end:
// "connections", "octets" sent, "replies" (frames of DATA), "status N" of calls, "reset N", "goaway N", and "ended"
// where the broker ended it.
class HostileConnection {
 public:
  enum class Reading { kAll, kNothing };

  HostileConnection(Attacker& attacker, std::unique_ptr<Wire> wire, std::string opening = WideOpening(),
                    Reading reading = Reading::kAll);
  ~HostileConnection();
  HostileConnection(const HostileConnection&) = delete;
  HostileConnection& operator=(const HostileConnection&) = delete;

  // To the control socket; null where it is refused.
  static std::unique_ptr<HostileConnection> Connect(Attacker& attacker, std::string opening = WideOpening(),
                                                    Reading reading = Reading::kAll);

  void Send(std::string_view octets) { out_ += octets; }
  // For what the attack counts besides.
  void Count(const std::string& what) { attacker_.Count(what); }
  // Whether so little waits that more may be sent.
  bool HasRoom() const { return !over_ && out_.size() < kMostWaiting; }
  // Writes and reads what can be, without waiting.
  void Exchange();
  // The same until it is so; false where the connection or the attack is over before.
  bool Until(const std::function<bool()>& condition);
  // Waits until Exchange has something to do, or a little while.
  void Wait() const;

  int fd() const { return wire_->fd(); }
  bool writes() const { return !out_.empty(); }
  uint64_t sent() const { return sent_; }
  bool over() const { return over_; }
  // Gives the connection up.
  void Leave() { left_ = over_ = true; }
  // Whether the broker has said that it ends it.
  bool told_to_go() const { return goaway_.has_value(); }

  // The next call's stream.
  int32_t NewStream() { return std::exchange(next_stream_, next_stream_ + 2); }
  // A call of one request, or one that goes on; its answers are kept where that is wanted.
  int32_t Call(const std::string& path, std::string_view request);
  int32_t Begin(const std::string& path);
  void Message(int32_t stream, std::string_view message);
  void Cancel(int32_t stream);
  // Calls that have begun by Call or Begin and not ended.
  size_t open() const { return open_.size(); }
  int32_t first_open() const { return *open_.begin(); }
  size_t begun() const { return static_cast<size_t>(next_stream_ / 2); }
  bool IsOpen(int32_t stream) const { return open_.contains(stream); }
  // A call of a request of any length, which is sent as the broker's windows let it; all but its last octet where it is
  // not to end. After the broker's settings have come.
  int32_t CallAtLength(const std::string& path, std::string_view request, bool whole = true);
  // Whether all of that has been sent.
  bool AllSent() const { return bodies_.empty(); }
  bool HasSettings() const { return stream_window_ > 0; }
  // From now on the messages on this stream are kept for TakeMessage.
  void Keep(int32_t stream) { kept_[stream]; }
  std::optional<std::string> TakeMessage(int32_t stream);
  void Drop(int32_t stream) { kept_.erase(stream); }

 private:
  static constexpr size_t kMostWaiting = 65536;

  struct Body {
    std::string octets;
    int64_t window = 0;
    bool whole = true;
  };

  void SendBodies();
  void Write();
  void Read();
  void Take(uint8_t type, uint8_t flags, int32_t stream, std::string_view payload);
  void TakeSettings(std::string_view settings);
  void TakeHeaders(std::string_view block);
  void End();

  Attacker& attacker_;
  const std::unique_ptr<Wire> wire_;
  const Reading reading_;
  const bool answers_;  // Whether its opening is a whole one, and settings are acknowledged.
  std::string out_;
  std::string in_;
  bool over_ = false;
  bool left_ = false;  // By this end.
  int32_t next_stream_ = 1;
  int64_t window_ = 65535;     // Octets of DATA that the connection may send.
  int64_t stream_window_ = 0;  // A new stream's; 0 until the broker has told it.
  std::map<int32_t, Body> bodies_;
  std::set<int32_t> open_;
  std::map<int32_t, std::string> kept_;
  std::optional<uint32_t> goaway_;
  uint64_t sent_ = 0;
  uint64_t replies_ = 0;
  std::map<std::string, uint64_t> statuses_;
  std::map<uint32_t, uint64_t> resets_;
  std::unique_ptr<nghttp2_hd_inflater, decltype(&nghttp2_hd_inflate_del)> inflater_{nullptr, nghttp2_hd_inflate_del};
};

}  // namespace rdmabroker::tenants

#endif  // TESTS_TENANTS_HOSTILE_CONNECTION_H_
