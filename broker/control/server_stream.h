// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_SERVER_STREAM_H_
#define BROKER_CONTROL_SERVER_STREAM_H_

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "broker/runtime/loop.h"
#include "proto/rpc/server_connection.h"

namespace rdmabroker {

class ServedConnection;

// A call that stays open: of a session, a watch, or a watch of health. Its connection owns it until the call has ended.
// One reply is on its way at a time, and the client has `patience` to read it. Loop thread only.
class ServerStream : public std::enable_shared_from_this<ServerStream> {
 public:
  virtual ~ServerStream();
  ServerStream(const ServerStream&) = delete;
  ServerStream& operator=(const ServerStream&) = delete;

  // The next three are for the connection. A message has arrived; nothing if the client has half-closed the call.
  void Arrived(const std::optional<std::string>& message);
  // The reply that was written has left.
  void Sent();
  // The call has ended. `why` is nothing if the broker has ended it.
  virtual void Ended(std::optional<rpc::CallLost::Why> why) = 0;
  // Whether the stream is handling what the client has sent.
  [[nodiscard]] virtual bool IsBusy() const { return false; }
  // Octets of memory that the stream uses for what waits for the broker or for the client.
  [[nodiscard]] virtual size_t held() const { return 0; }

 protected:
  // `patience` may change while the stream is open.
  ServerStream(ServedConnection& connection, rpc::CallId call, Loop& loop, const absl::Duration& patience);

  // Receives the message that Read has asked for.
  virtual void TakeMessage(const std::string& message) = 0;
  virtual void TakeHalfClose() = 0;
  // The reply has left, and the next one may be written.
  virtual void Written() = 0;
  // The client has left the reply unread for too long. The call is abandoned after this.
  virtual void Unread() = 0;

  void Read();
  // No other reply must be under way.
  void Write(const google::protobuf::MessageLite& reply);
  [[nodiscard]] bool writing() const { return writing_; }
  // Ends the call with `status` once the reply that is under way has left. Further calls change nothing.
  void Finish(rpc::Status status);
  [[nodiscard]] bool finishing() const { return finishing_.has_value(); }

  // Same as the functions of ServedConnection. The task does not run if the call has ended or is ending.
  void InTurn(std::function<void()> task);
  void Charge(int64_t requests);
  void Owe(int64_t requests);

  Loop& loop() { return loop_; }

 private:
  void Abandon();

  ServedConnection& connection_;
  const rpc::CallId call_;
  Loop& loop_;
  const absl::Duration& patience_;
  TimerId unread_ = TimerId::kNone;  // While a reply is under way.
  bool writing_ = false;
  std::optional<rpc::Status> finishing_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_SERVER_STREAM_H_
