// SPDX-License-Identifier: Apache-2.0

#include "broker/control/server_certificates.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstddef>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "broker/control/file_text.h"
#include "broker/control/openssl_objects.h"

namespace rdmabroker {
namespace {

// The certificates of all public authorities are a fifth of it.
constexpr size_t kMaxFile = size_t{1} << 20;

// The most octets of the authorities' names, each with its length. What asks clients for a certificate has room for
// 65,535 (RFC 8446 section 4.3.2); beside the names it has some hundred octets.
constexpr size_t kMostOfNames = 65'000;

// A file, and the key of the configuration that names it, for complaints.
struct Named {
  const char* key;
  const std::string& path;

  absl::Status Complaint(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat("tcp.", key, ": ", path, ": ", what));
  }
  absl::StatusOr<std::string> Read() const {
    absl::StatusOr<std::string> text = ReadFile(path, kMaxFile);
    if (text.ok()) return text;
    return absl::Status(text.status().code(), absl::StrCat("tcp.", key, ": ", text.status().message()));
  }
};

// All of them: a part of the file that cannot be read would be missed by nobody here, and by every client.
absl::StatusOr<std::vector<Certificate>> CertificatesIn(const std::string& text, const Named& file) {
  std::vector<Certificate> certificates;
  const Bio bio = BioOf(text);
  while (Certificate next = ReadCertificate(bio.get())) {
    certificates.push_back(std::move(next));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end) return file.Complaint("has something that is no certificate in PEM");
  if (certificates.empty()) return file.Complaint("has no certificate in PEM");
  return certificates;
}

absl::Status CheckDates(const X509& certificate, absl::Time now, const Named& file) {
  std::time_t seconds = absl::ToTimeT(now);
  if (X509_cmp_time(X509_get0_notAfter(&certificate), &seconds) <= 0) {
    return file.Complaint("its certificate has expired; renew it");
  }
  if (X509_cmp_time(X509_get0_notBefore(&certificate), &seconds) > 0) {
    return file.Complaint("its certificate is not valid yet; set the clock, or wait");
  }
  return absl::OkStatus();
}

absl::Status Refusal(const Named& file, const std::string& what) {
  return file.Complaint(absl::StrCat("TLS refuses ", what, ": ", ReasonOfOpenSsl(),
                                     "; have that issued with a longer key or a stronger signature"));
}

absl::Status UseChain(SSL_CTX& tls, const std::vector<Certificate>& chain, const Named& file) {
  for (size_t i = 0; i < chain.size(); ++i) {
    X509* const each = chain[i].get();
    const bool taken = (i == 0 ? SSL_CTX_use_certificate(&tls, each) : SSL_CTX_add1_chain_cert(&tls, each)) == 1;
    if (!taken) return Refusal(file, absl::StrCat("its certificate ", i + 1));
  }
  return absl::OkStatus();
}

absl::Status UseKey(SSL_CTX& tls, const std::string& text, const Named& file) {
  const PrivateKey key = ReadPrivateKey(text);
  // The second sees a key of another kind than the certificate's.
  const bool fits =
      key != nullptr && SSL_CTX_use_PrivateKey(&tls, key.get()) == 1 && SSL_CTX_check_private_key(&tls) == 1;
  ERR_clear_error();
  if (key == nullptr) return file.Complaint("has no private key in PEM without a passphrase");
  if (!fits) return file.Complaint("is not the key of the first certificate in tcp.certificate");
  return absl::OkStatus();
}

// Behind a certificate that is `alone` in its file TLS sends those that lead to its authority, where they are among
// these. OpenSSL would look for them in each handshake, and end it at a weak one. It looks at no others before a client
// shows what they have signed.
absl::Status UseAuthorities(SSL_CTX& tls, const std::vector<Certificate>& authorities, bool alone, const Named& file) {
  size_t names = 0;
  for (const Certificate& each : authorities) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(&tls), each.get()) != 1 ||
        SSL_CTX_add_client_CA(&tls, each.get()) != 1) {
      return Refusal(file, "an authority in it");
    }
    names += 2 + static_cast<size_t>(i2d_X509_NAME(X509_get_subject_name(each.get()), nullptr));
  }
  if (names > kMostOfNames) {
    return file.Complaint("its authorities' names are longer than TLS can send; leave some out");
  }
  // A chain without an authority, or with an expired one, is no error, same as in a handshake.
  constexpr int kAsInHandshakes = SSL_BUILD_CHAIN_FLAG_IGNORE_ERROR | SSL_BUILD_CHAIN_FLAG_CLEAR_ERROR;
  if (alone && SSL_CTX_build_cert_chain(&tls, kAsInHandshakes) <= 0) {
    return Refusal(file, "tcp.certificate's authority in it");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Revocations>> RevocationsIn(const std::string& text,
                                                                 const std::vector<Certificate>& authorities,
                                                                 const Named& file) {
  absl::StatusOr<Revocations> read = Revocations::Parse(text, authorities);
  if (!read.ok()) return file.Complaint(std::string(read.status().message()));
  return std::make_shared<const Revocations>(*std::move(read));
}

}  // namespace

absl::StatusOr<ServerCertificates> ReadServerCertificates(const CertificateFiles& files, absl::Time now) {
  const Named chain_file = {"certificate", files.certificate};
  const Named key_file = {"private_key", files.private_key};
  const Named authorities_file = {"client_authorities", files.client_authorities};
  auto chain = chain_file.Read();
  if (!chain.ok()) return chain.status();
  auto key = key_file.Read();
  if (!key.ok()) return key.status();
  auto authorities = authorities_file.Read();
  if (!authorities.ok()) return authorities.status();
  const auto certificates = CertificatesIn(*chain, chain_file);
  if (!certificates.ok()) return certificates.status();
  if (absl::Status valid = CheckDates(*certificates->front(), now, chain_file); !valid.ok()) return valid;
  // OpenSSL checks each part when it is added. The TCP port then uses the same context.
  TlsContext tls = MakeTlsContext();
  if (tls == nullptr) {
    return chain_file.Complaint(absl::StrCat("OpenSSL has no TLS: ", ReasonOfOpenSsl(), "; see to openssl.cnf"));
  }
  if (absl::Status taken = UseChain(*tls, *certificates, chain_file); !taken.ok()) return taken;
  if (absl::Status fits = UseKey(*tls, *key, key_file); !fits.ok()) return fits;
  const auto believed = CertificatesIn(*authorities, authorities_file);
  if (!believed.ok()) return believed.status();
  const bool alone = certificates->size() == 1;
  if (absl::Status taken = UseAuthorities(*tls, *believed, alone, authorities_file); !taken.ok()) return taken;
  ServerCertificates good = {*std::move(chain), *std::move(key), *std::move(authorities)};
  good.tls = std::make_shared<const TlsServer>(std::move(tls));
  if (files.revoked.empty()) return good;
  const Named lists_file = {"revoked", files.revoked};
  auto lists = lists_file.Read();
  if (!lists.ok()) return lists.status();
  auto revocations = RevocationsIn(*lists, *believed, lists_file);
  if (!revocations.ok()) return revocations.status();
  good.revoked = *std::move(lists);
  good.revocations = *std::move(revocations);
  return good;
}

}  // namespace rdmabroker
