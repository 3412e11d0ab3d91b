// SPDX-License-Identifier: Apache-2.0

#include "broker/control/tls.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

// The most octets of a client's certificates. A real chain has a few kilobytes.
constexpr long kMostOfChain = long{64} << 10;

// ALPN's name of the only protocol that is served.
constexpr std::string_view kHttp2 = "h2";

int SelectHttp2(SSL*, const unsigned char** chosen, unsigned char* chosen_size, const unsigned char* offered,
                unsigned int offered_size, void*) {
  for (unsigned int at = 0; at < offered_size; at += 1U + offered[at]) {
    const std::string_view each(reinterpret_cast<const char*>(offered + at + 1), offered[at]);
    if (each != kHttp2) continue;
    *chosen = offered + at + 1;
    *chosen_size = offered[at];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

void Configure(SSL_CTX& context) {
  SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
  // OpenSSL 3 neither renegotiates nor compresses by default. It caches no session that verifies the client unless the
  // context has a session id context.
  SSL_CTX_set_options(&context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(&context, 0);
  // An idle connection keeps 34 KB otherwise.
  SSL_CTX_set_mode(&context, SSL_MODE_RELEASE_BUFFERS);
  // SSL_read returns after each message of TLS itself.
  SSL_CTX_clear_mode(&context, SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_verify_depth(&context, static_cast<int>(PresentedChain::kMostIssuers));
  SSL_CTX_set_max_cert_list(&context, kMostOfChain);
  SSL_CTX_set_alpn_select_cb(&context, SelectHttp2, nullptr);
}

}  // namespace

TlsContext MakeTlsContext() {
  TlsContext context(SSL_CTX_new(TLS_server_method()));
  if (context != nullptr) Configure(*context);
  return context;
}

TlsConnection::TlsConnection(std::shared_ptr<const TlsServer> server)
    : server_(std::move(server)), tls_(SSL_new(server_->context_.get())) {
  Bio in(BIO_new(BIO_s_mem()));
  Bio out(BIO_new(BIO_s_mem()));
  if (tls_ == nullptr || in == nullptr || out == nullptr) {
    Break("out of memory");
    return;
  }
  in_ = in.get();
  out_ = out.get();
  SSL_set_bio(tls_.get(), in.release(), out.release());
  SSL_set_accept_state(tls_.get());
}

void TlsConnection::Receive(std::string_view octets) {
  if (state_ == State::kEnded) return;
  if (BIO_write(in_, octets.data(), static_cast<int>(octets.size())) != static_cast<int>(octets.size())) {
    return Break("out of memory");
  }
  if (state_ == State::kHandshake) return Shake();
  ReadSome();
}

size_t TlsConnection::unread() const { return state_ == State::kEnded ? 0 : BIO_ctrl_pending(in_); }

void TlsConnection::Shake() {
  ERR_clear_error();
  const int done = SSL_do_handshake(tls_.get());
  if (done != 1) {
    if (SSL_get_error(tls_.get(), done) != SSL_ERROR_WANT_READ) Break(Reason());
    return;
  }
  // OpenSSL does not ask for the protocol of a client that names none.
  const unsigned char* protocol = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(tls_.get(), &protocol, &size);
  if (size == 0) return Break("the client does not ask for HTTP/2 (ALPN \"h2\")");
  state_ = State::kOpen;
  SSL_set_msg_callback(tls_.get(), &Count);
  SSL_set_msg_callback_arg(tls_.get(), this);
}

void TlsConnection::Count(int is_sent, int, int type, const void*, size_t, SSL*, void* connection) {
  TlsConnection& self = *static_cast<TlsConnection*>(connection);
  const bool is_message = type == SSL3_RT_HANDSHAKE || type == SSL3_RT_ALERT;
  // The server sends a message because of one that it has received.
  if (is_message) self.cost_ += kMessageAsRecords;
  if (is_sent != 0) return;
  if (is_message) ++self.messages_;
  if (type == SSL3_RT_HEADER) ++self.cost_;
}

void TlsConnection::ReadSome() {
  std::array<char, kLongestRecord> record;
  const int end = cost_ + kRecordsAtATime;
  while (cost_ < end && unread() > 0) {
    ERR_clear_error();
    const int size = SSL_read(tls_.get(), record.data(), static_cast<int>(record.size()));
    if (size > 0) {
      plain_.append(record.data(), static_cast<size_t>(size));
      messages_ = 0;
      continue;
    }
    const int error = SSL_get_error(tls_.get(), size);
    if (error == SSL_ERROR_ZERO_RETURN) return End();
    if (error != SSL_ERROR_WANT_READ) return Break(Reason());
  }
}

std::string TlsConnection::Reason() const {
  const long verified = SSL_get_verify_result(tls_.get());
  if (verified != X509_V_OK) {
    return absl::StrCat("the client's certificate: ", X509_verify_cert_error_string(verified));
  }
  return ERR_peek_last_error() == 0 ? "the connection broke" : ReasonOfOpenSsl();
}

void TlsConnection::Break(std::string why) {
  state_ = State::kEnded;
  why_ = std::move(why);
  ERR_clear_error();
}

std::string TlsConnection::TakePlain() { return std::exchange(plain_, std::string()); }

void TlsConnection::Send(std::string_view plain) {
  if (state_ != State::kOpen || plain.empty()) return;
  ERR_clear_error();
  // Into memory OpenSSL writes all at once.
  if (SSL_write(tls_.get(), plain.data(), static_cast<int>(plain.size())) <= 0) Break(Reason());
}

void TlsConnection::End() {
  if (state_ != State::kOpen) return;
  state_ = State::kEnded;
  ERR_clear_error();
  SSL_shutdown(tls_.get());
  ERR_clear_error();
}

std::string TlsConnection::TakeOutput() {
  if (out_ == nullptr) return "";
  char* octets = nullptr;
  const long size = BIO_get_mem_data(out_, &octets);
  std::string output(octets, static_cast<size_t>(size));
  BIO_reset(out_);
  return output;
}

PresentedChain TlsConnection::chain() const {
  return {SSL_get0_peer_certificate(tls_.get()), SSL_get_peer_cert_chain(tls_.get())};
}

}  // namespace rdmabroker
