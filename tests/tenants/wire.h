// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_TENANTS_WIRE_H_
#define TESTS_TENANTS_WIRE_H_

#include <openssl/ssl.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "dataplane/unique_fd.h"
#include "tests/tenants/attacker.h"

namespace rdmabroker::tenants {

// What carries a connection's octets. Nothing waits: 0 octets are not an end, -1 is.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual ssize_t Write(std::string_view octets) = 0;
  virtual ssize_t Read(char* octets, size_t room) = 0;
  virtual int fd() const = 0;
};

// A socket's.
class PlainWire final : public Wire {
 public:
  explicit PlainWire(UniqueFd socket) : socket_(std::move(socket)) {}
  ssize_t Write(std::string_view octets) override;
  ssize_t Read(char* octets, size_t room) override;
  int fd() const override { return socket_.get(); }

 private:
  const UniqueFd socket_;
};

// TLS over a socket. The first Write or Read begins the handshake.
class TlsWire final : public Wire {
 public:
  // Presents the certificates of this name in Places::certificates, with `change` made to how OpenSSL does it.
  TlsWire(const Attacker& attacker, UniqueFd socket, const std::string& name,
          const std::function<void(SSL_CTX*)>& change = nullptr);
  ssize_t Write(std::string_view octets) override;
  ssize_t Read(char* octets, size_t room) override;
  int fd() const override { return socket_.get(); }

  SSL* tls() const { return tls_.get(); }
  // Goes on with the handshake, or what is left to be said: 1 where that is done, else as Write.
  ssize_t Shake();

 private:
  // What OpenSSL's `result` comes to.
  ssize_t ResultOf(int result) const;

  const UniqueFd socket_;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> tls_;
};

}  // namespace rdmabroker::tenants

#endif  // TESTS_TENANTS_WIRE_H_
