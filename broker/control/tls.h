// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_TLS_H_
#define BROKER_CONTROL_TLS_H_

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "broker/control/openssl_objects.h"
#include "broker/control/presented_chain.h"

namespace rdmabroker {

using TlsContext = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;

// Returns the settings of a server that has no certificates yet: TLS 1.2 and 1.3, ALPN "h2", and a certificate of each
// client that one of the authorities has signed. No session is resumed, so each connection shows its certificate. Null
// if OpenSSL has no TLS; its error says why.
TlsContext MakeTlsContext();

// The TLS settings of a server, which its connections share. Any thread may use it.
class TlsServer {
 public:
  // `context` is of MakeTlsContext, and has the server's certificates, their key, and the authorities of clients. Not
  // null.
  explicit TlsServer(TlsContext context) : context_(std::move(context)) {}

 private:
  friend class TlsConnection;

  const TlsContext context_;
};

// The server's end of one TLS connection, without input or output: the caller carries the encrypted octets. One thread
// at a time may use it. The handshake costs a millisecond of processor time.
class TlsConnection {
 public:
  enum class State { kHandshake, kOpen, kEnded };

  // The octets of the longest record's data (RFC 8446 section 5.1).
  static constexpr size_t kLongestRecord = 16384;
  // A message of TLS itself costs as much as this many records of little data: a KeyUpdate takes 20 microseconds, and
  // its answer takes as long.
  static constexpr int kMessageAsRecords = 32;
  // The most records of little data, or as much other work, that Receive processes at a time.
  static constexpr int kRecordsAtATime = 256;
  // The most messages of TLS itself that a client may send after the handshake without data between them. OpenSSL has
  // no bound for KeyUpdates; an honest client sends one after gigabytes of data.
  static constexpr int kMostMessages = 64;

  explicit TlsConnection(std::shared_ptr<const TlsServer> server);
  TlsConnection(const TlsConnection&) = delete;
  TlsConnection& operator=(const TlsConnection&) = delete;

  // Processes encrypted octets from the client: the handshake, or some of what follows it. The rest waits for the next
  // call, which may have no octets. Does nothing once the connection has ended.
  void Receive(std::string_view octets);
  // The number of octets that wait for the next call of Receive.
  [[nodiscard]] size_t unread() const;
  // Returns the work of the connection since the handshake or the last call, in records of little data.
  [[nodiscard]] int TakeCost() { return std::exchange(cost_, 0); }
  // Returns true if the client has sent more than kMostMessages without data between them.
  [[nodiscard]] bool IsFlooded() const { return messages_ > kMostMessages; }
  // Returns the plain octets that were decrypted since the last call, also after the connection has ended.
  std::string TakePlain();
  // Encrypts octets for the client. Does nothing unless the connection is open.
  void Send(std::string_view plain);
  // Ends an open connection with close_notify. Nothing can be sent afterwards.
  void End();
  // Returns the encrypted octets to send to the client, also after the connection has ended: an alert may be among
  // them.
  std::string TakeOutput();

  [[nodiscard]] State state() const { return state_; }
  // Why the connection has ended, for a log. "" after a close_notify of either end.
  [[nodiscard]] const std::string& why() const { return why_; }
  // The client's certificates, which TLS has verified. The connection must be open.
  [[nodiscard]] PresentedChain chain() const;

 private:
  using Connection = std::unique_ptr<SSL, Freed<SSL_free>>;

  static void Count(int is_sent, int version, int type, const void* octets, size_t size, SSL* tls, void* connection);
  void Shake();
  void ReadSome();
  void Break(std::string why);
  std::string Reason() const;

  const std::shared_ptr<const TlsServer> server_;
  Connection tls_;
  BIO* in_ = nullptr;   // tls_ owns it.
  BIO* out_ = nullptr;  // tls_ owns it.
  State state_ = State::kHandshake;
  std::string plain_;
  std::string why_;
  int cost_ = 0;
  int messages_ = 0;  // Of TLS itself, from the client, since the handshake or the last data.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_TLS_H_
