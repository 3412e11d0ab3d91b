// SPDX-License-Identifier: Apache-2.0

#include "broker/control/presented_chain.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <utility>

namespace rdmabroker {
namespace {

Certificate Shared(X509* certificate) {
  if (certificate != nullptr) X509_up_ref(certificate);
  return Certificate(certificate);
}

}  // namespace

PresentedChain::PresentedChain(X509* certificate, const STACK_OF(X509) * issuers) : certificate_(Shared(certificate)) {
  const int count = issuers == nullptr ? 0 : sk_X509_num(issuers);
  complete_ = static_cast<size_t>(count) <= kMostIssuers;
  for (int i = 0; i < count && issuers_.size() < kMostIssuers; ++i) {
    issuers_.push_back(Shared(sk_X509_value(issuers, i)));
  }
}

std::vector<std::string> PresentedChain::Uris() const {
  using Names = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;
  if (certificate_ == nullptr) return {};
  const Names names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate_.get(), NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> uris;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    // By its length, as it may have zeros in it.
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  ERR_clear_error();
  return uris;
}

absl::Time PresentedChain::End() const {
  std::tm end = {};
  const bool read = certificate_ != nullptr && ASN1_TIME_to_tm(X509_get0_notAfter(certificate_.get()), &end) == 1;
  return read ? absl::FromTM(end, absl::UTCTimeZone()) : absl::InfinitePast();
}

}  // namespace rdmabroker
