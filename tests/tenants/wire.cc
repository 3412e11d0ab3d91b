// SPDX-License-Identifier: Apache-2.0

#include "tests/tenants/wire.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <cerrno>

namespace rdmabroker::tenants {
namespace {

ssize_t UnlessOver(ssize_t size) {
  if (size >= 0) return size;
  return errno == EAGAIN || errno == EINTR || errno == ENOTCONN ? 0 : -1;
}

}  // namespace

ssize_t PlainWire::Write(std::string_view octets) {
  return UnlessOver(::send(socket_.get(), octets.data(), octets.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
}

ssize_t PlainWire::Read(char* octets, size_t room) {
  const ssize_t size = ::recv(socket_.get(), octets, room, MSG_DONTWAIT);
  return size == 0 ? -1 : UnlessOver(size);
}

TlsWire::TlsWire(const Attacker& attacker, UniqueFd socket, const std::string& name,
                 const std::function<void(SSL_CTX*)>& change)
    : socket_(std::move(socket)), context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free), tls_(nullptr, SSL_free) {
  const std::string path = attacker.places().certificates + "/" + name;
  SSL_CTX_set_security_level(context_.get(), 0);
  SSL_CTX_use_certificate_chain_file(context_.get(), (path + ".pem").c_str());
  SSL_CTX_use_PrivateKey_file(context_.get(), (path + ".key").c_str(), SSL_FILETYPE_PEM);
  const unsigned char protocols[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context_.get(), protocols, sizeof protocols);
  SSL_CTX_set_mode(context_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (change != nullptr) change(context_.get());
  tls_.reset(SSL_new(context_.get()));
  SSL_set_fd(tls_.get(), socket_.get());
  SSL_set_connect_state(tls_.get());
}

ssize_t TlsWire::ResultOf(int result) const {
  if (result > 0) return result;
  const int error = SSL_get_error(tls_.get(), result);
  const bool not_yet = error == SSL_ERROR_SYSCALL && errno == ENOTCONN;
  ERR_clear_error();
  return not_yet || error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

ssize_t TlsWire::Write(std::string_view octets) {
  return ResultOf(SSL_write(tls_.get(), octets.data(), static_cast<int>(octets.size())));
}

ssize_t TlsWire::Read(char* octets, size_t room) {
  return ResultOf(SSL_read(tls_.get(), octets, static_cast<int>(room)));
}

ssize_t TlsWire::Shake() { return ResultOf(SSL_do_handshake(tls_.get())); }

}  // namespace rdmabroker::tenants
