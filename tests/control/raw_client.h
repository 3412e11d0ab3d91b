// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_RAW_CLIENT_H_
#define TESTS_CONTROL_RAW_CLIENT_H_

#include <google/protobuf/message.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"
#include "broker/core/ids.h"
#include "dataplane/ndk/status.h"
#include "dataplane/unique_fd.h"
#include "proto/rdmabroker/v1/session.pb.h"
#include "proto/rpc/client_connection.h"
#include "proto/rpc/status.h"
#include "tests/control/tls_client.h"

namespace rdmabroker {

// A client on one connection that does with it what a test likes: it sends and reads when it is told to, and has no
// thread.
class RawClient {
 public:
  // With `tls` it begins a handshake, which Receive goes on with.
  explicit RawClient(UniqueFd socket, std::unique_ptr<TlsClient> tls = nullptr,
                     const rpc::ClientConnection::Limits& limits = {});

  // These are said with the next Flush.
  rpc::CallId Begin(const std::string& path);
  void Send(rpc::CallId call, const google::protobuf::Message& message);
  void HalfClose(rpc::CallId call) { connection_.EndRequests(call); }
  void Cancel(rpc::CallId call) { connection_.Cancel(call); }
  // A whole call of the contract's method that takes this request.
  rpc::CallId Ask(const google::protobuf::Message& request);

  // Sends what was said. Over TLS it waits for the handshake.
  void Flush();
  void SendRaw(const std::string& octets);
  // Reads once, after `patience` at most, and sends what HTTP/2 answers to it. Returns what was read: nothing where
  // nothing has come or the connection is over.
  std::string Receive(absl::Duration patience = absl::ZeroDuration());

  // What it has read of a call.
  const std::vector<std::string>& replies(rpc::CallId call) { return calls_[call].replies; }
  // Nothing while the call goes on.
  const std::optional<rpc::Status>& status(rpc::CallId call) { return calls_[call].status; }

  UniqueFd& socket() { return socket_; }

 private:
  struct Call {
    std::vector<std::string> replies;
    std::optional<rpc::Status> status;
  };

  void TakeEvents();

  UniqueFd socket_;
  const std::unique_ptr<TlsClient> tls_;
  rpc::ClientConnection connection_;
  std::unordered_map<rpc::CallId, Call> calls_;
};

// As of a finished call of gRPC's library (tests/control/test_client.h).
NdkStatus NdkStatusOf(const rpc::Status& status);

// A session on a RawClient.
class RawSession {
 public:
  // Begins it; its client sends that with the next Flush. The client outlives it.
  explicit RawSession(RawClient& client, const std::vector<std::string>& features = {});

  void Send(const v1::SessionRequest& message) { client_.Send(call_, message); }
  void HalfClose() { client_.HalfClose(call_); }
  void Cancel() { client_.Cancel(call_); }

  // 0 before the client has read that it is open.
  SessionId id();
  // The replies that the client has read, and how many events and how many answers to requests they have.
  std::vector<v1::SessionReply> replies();
  int events();
  int answers();
  const std::optional<rpc::Status>& status() { return client_.status(call_); }

 private:
  RawClient& client_;
  const rpc::CallId call_;
};

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_RAW_CLIENT_H_
