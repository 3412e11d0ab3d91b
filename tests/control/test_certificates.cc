// SPDX-License-Identifier: Apache-2.0

#include "tests/control/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>

#include "broker/control/openssl_objects.h"

namespace rdmabroker {
namespace {

void Require(bool fine, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "test certificates: %s\n", what);
  std::abort();
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(length));
  BIO_free(bio);
  return text;
}

std::string PemOf(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  Require(PEM_write_bio_X509(bio, certificate) == 1, "no PEM of a certificate");
  return TextOf(bio);
}

std::string PemOf(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  Require(PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr) == 1, "no PEM of a key");
  return TextOf(bio);
}

EVP_PKEY* NewKey(TestStrength strength) {
  return strength == TestStrength::kShortKey ? EVP_RSA_gen(1024) : EVP_EC_gen("P-256");
}

void SignBy(EVP_PKEY* key, X509* certificate, TestStrength strength) {
  const EVP_MD* const digest = strength == TestStrength::kWeakSignature ? EVP_sha1() : EVP_sha256();
  Require(X509_sign(certificate, key, digest) > 0, "not signed");
}

void Extend(X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str());
  Require(extension != nullptr, "no extension");
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* Unsigned(EVP_PKEY* key, const std::string& name, long not_before, long not_after) {
  static long serial = 0;
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), not_before);
  X509_gmtime_adj(X509_getm_notAfter(certificate), not_after);
  X509_set_pubkey(certificate, key);
  const auto* const text = reinterpret_cast<const unsigned char*>(name.c_str());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8, text, -1, -1, 0);
  return certificate;
}

void AddNames(std::string& all, const char* kind, const std::vector<std::string>& names) {
  for (const std::string& name : names) all += (all.empty() ? "" : ",") + std::string(kind) + ":" + name;
}

}  // namespace

void TestAuthority::Begin(const std::string& name, long not_after) {
  own_ = Unsigned(key_, name, -7200, not_after);
  Extend(own_, own_, NID_basic_constraints, "critical,CA:TRUE");
  Extend(own_, own_, NID_key_usage, "critical,keyCertSign,cRLSign");
  Extend(own_, own_, NID_subject_key_identifier, "hash");
}

TestAuthority::TestAuthority(const std::string& name, long not_after, TestStrength strength) : key_(NewKey(strength)) {
  Begin(name, not_after);
  X509_set_issuer_name(own_, X509_get_subject_name(own_));
  SignBy(key_, own_, strength);
  pair_ = {PemOf(own_), PemOf(key_)};
}

TestAuthority::TestAuthority(const std::string& name, const TestAuthority& above) : key_(NewKey(TestStrength::kGood)) {
  Begin(name, 3600);
  X509_set_issuer_name(own_, X509_get_subject_name(above.own_));
  SignBy(above.key_, own_, TestStrength::kGood);
  pair_ = {PemOf(own_), PemOf(key_)};
}

std::string TestAuthority::Revoke(const TestRevocations& wanted) const {
  X509_CRL* list = X509_CRL_new();
  X509_CRL_set_version(list, X509_CRL_VERSION_2);
  X509_CRL_set_issuer_name(list, X509_get_subject_name(own_));
  ASN1_TIME* time = X509_gmtime_adj(nullptr, -7200);
  X509_CRL_set1_lastUpdate(list, time);
  for (const std::string& pem : wanted.certificates) {
    BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
    X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    Require(certificate != nullptr, "no certificate to revoke");
    X509_REVOKED* entry = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(certificate));
    X509_REVOKED_set_revocationDate(entry, time);
    X509_CRL_add0_revoked(list, entry);
    X509_free(certificate);
    BIO_free(bio);
  }
  X509_gmtime_adj(time, wanted.next_update);
  X509_CRL_set1_nextUpdate(list, time);
  ASN1_TIME_free(time);
  if (wanted.of_changes_only) {
    ASN1_INTEGER* base = ASN1_INTEGER_new();
    ASN1_INTEGER_set(base, 1);
    Require(X509_CRL_add1_ext_i2d(list, NID_delta_crl, base, 1, 0) == 1, "no extension of a list");
    ASN1_INTEGER_free(base);
  }
  X509_CRL_sort(list);
  Require(X509_CRL_sign(list, key_, EVP_sha256()) > 0, "list not signed");
  BIO* bio = BIO_new(BIO_s_mem());
  Require(PEM_write_bio_X509_CRL(bio, list) == 1, "no PEM of a list");
  X509_CRL_free(list);
  return TextOf(bio);
}

TestAuthority::~TestAuthority() {
  X509_free(own_);
  EVP_PKEY_free(key_);
}

TestPair TestAuthority::Sign(const TestCertificate& wanted) const {
  EVP_PKEY* key = NewKey(wanted.strength);
  X509* leaf = Unsigned(key, "leaf", wanted.not_before, wanted.not_after);
  X509_set_issuer_name(leaf, X509_get_subject_name(own_));
  Extend(leaf, own_, NID_key_usage, "critical,digitalSignature");
  Extend(leaf, own_, NID_ext_key_usage, "serverAuth,clientAuth");
  std::string names;
  AddNames(names, "URI", wanted.uris);
  AddNames(names, "DNS", wanted.dns_names);
  AddNames(names, "IP", wanted.addresses);
  if (!names.empty()) Extend(leaf, own_, NID_subject_alt_name, names);
  SignBy(key_, leaf, wanted.strength);
  TestPair pair = {PemOf(leaf), PemOf(key)};
  X509_free(leaf);
  EVP_PKEY_free(key);
  return pair;
}

PresentedChain ChainOf(const std::string& certificate, const std::string& issuers) {
  const Certificate own = ReadCertificate(BioOf(certificate).get());
  STACK_OF(X509)* presented = sk_X509_new_null();
  const Bio bio = BioOf(issuers);
  while (Certificate next = ReadCertificate(bio.get())) sk_X509_push(presented, next.release());
  ERR_clear_error();
  PresentedChain chain(own.get(), presented);
  sk_X509_pop_free(presented, X509_free);
  return chain;
}

}  // namespace rdmabroker
