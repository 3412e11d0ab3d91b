// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_TLS_H_
#define BROKER_CONTROL_TLS_H_

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "broker/control/openssl_objects.h"
#include "broker/control/presented_chain.h"
#include "broker/control/server_certificates.h"

namespace rdmabroker {

// What all connections of a server have that speaks HTTP/2 over TLS 1.2 and 1.3 with clients that show a certificate
// which the authorities have signed. Sessions are not resumed, so that each connection shows its certificate. Any
// thread.
class TlsServer {
 public:
  // From certificates that ReadServerCertificates has checked; INVALID_ARGUMENT where OpenSSL does not take them.
  static absl::StatusOr<std::shared_ptr<const TlsServer>> Make(const ServerCertificates& certificates);

 private:
  friend class TlsConnection;
  using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;

  explicit TlsServer(Context context) : context_(std::move(context)) {}

  const Context context_;
};

// The server's end of one connection, without input or output: octets of TLS go in and come out, and plain ones. One
// thread at a time. The handshake costs a millisecond of processor time.
class TlsConnection {
 public:
  enum class State { kHandshake, kOpen, kEnded };

  // Octets that a client may send without any data in them, such as new keys, each of which costs as much as some
  // kilobytes of data: two of the longest records. Handshakes OpenSSL bounds.
  static constexpr size_t kMostWithoutData = size_t{33} << 10;

  explicit TlsConnection(std::shared_ptr<const TlsServer> server);

  // Takes what has arrived. It is ignored once the connection has ended.
  void Receive(std::string_view octets);
  // What the client has said since the last call, of an open connection or one that has ended.
  std::string TakePlain();
  // Says this to the client of an open connection.
  void Send(std::string_view plain);
  // Ends an open connection as TLS wants it; nothing can be said after it.
  void End();
  // The next octets for the client, the last ones of an ended connection included.
  std::string TakeOutput();

  [[nodiscard]] State state() const { return state_; }
  // Why it has ended, for a log; "" where one of the two ends has ended it in order.
  [[nodiscard]] const std::string& why() const { return why_; }
  // Of an open connection: what the client has shown, and TLS has verified.
  [[nodiscard]] PresentedChain chain() const;

 private:
  using Connection = std::unique_ptr<SSL, Freed<SSL_free>>;

  void Shake();
  void ReadAll();
  void Break(std::string why);
  std::string Reason() const;

  const std::shared_ptr<const TlsServer> server_;
  Connection tls_;
  BIO* in_ = nullptr;   // tls_'s.
  BIO* out_ = nullptr;  // tls_'s.
  State state_ = State::kHandshake;
  std::string plain_;
  std::string why_;
  size_t without_data_ = 0;  // Octets since the handshake, or since the last data.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_TLS_H_
