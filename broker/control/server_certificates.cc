// SPDX-License-Identifier: Apache-2.0

#include "broker/control/server_certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstddef>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "broker/control/file_text.h"

namespace rdmabroker {
namespace {

// The certificates of all public authorities are a fifth of it.
constexpr size_t kMaxFile = size_t{1} << 20;

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

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

Bio BioOf(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// Nobody is there to be asked for it.
int NoPassphrase(char*, int, int, void*) { return 0; }

// All of them: a part of the file that cannot be read would be missed by nobody here, and by every client.
absl::StatusOr<std::vector<Certificate>> CertificatesIn(const std::string& text, const Named& file) {
  std::vector<Certificate> certificates;
  const Bio bio = BioOf(text);
  while (Certificate next{PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)}) {
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

absl::Status CheckKey(const std::string& text, const X509& certificate, const Named& file) {
  const PrivateKey key(PEM_read_bio_PrivateKey(BioOf(text).get(), nullptr, NoPassphrase, nullptr));
  const bool fits = key != nullptr && X509_check_private_key(&certificate, key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) return file.Complaint("has no private key in PEM without a passphrase");
  if (!fits) return file.Complaint("is not the key of the first certificate in tcp.certificate");
  return absl::OkStatus();
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
  const X509& leaf = *certificates->front();
  if (absl::Status valid = CheckDates(leaf, now, chain_file); !valid.ok()) return valid;
  if (absl::Status fits = CheckKey(*key, leaf, key_file); !fits.ok()) return fits;
  const auto believed = CertificatesIn(*authorities, authorities_file);
  if (!believed.ok()) return believed.status();
  return ServerCertificates{*std::move(chain), *std::move(key), *std::move(authorities)};
}

absl::Time EndOfCertificate(const std::string& pem) {
  const Certificate certificate(PEM_read_bio_X509(BioOf(pem).get(), nullptr, NoPassphrase, nullptr));
  std::tm end = {};
  const bool read = certificate != nullptr && ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) == 1;
  ERR_clear_error();
  return read ? absl::FromTM(end, absl::UTCTimeZone()) : absl::InfinitePast();
}

}  // namespace rdmabroker
