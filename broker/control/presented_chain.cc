// SPDX-License-Identifier: Apache-2.0

#include "broker/control/presented_chain.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <ctime>
#include <utility>

namespace rdmabroker {
namespace {

Certificate ReadNext(const Bio& bio) {
  return Certificate(PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr));
}

}  // namespace

PresentedChain::PresentedChain(const std::string& certificate, const std::string& issuers)
    : certificate_(ReadNext(BioOf(certificate))) {
  const Bio bio = BioOf(issuers);
  while (Certificate next = ReadNext(bio)) {
    if (issuers_.size() == kMostIssuers) {
      complete_ = false;
      break;
    }
    issuers_.push_back(std::move(next));
  }
  ERR_clear_error();
}

absl::Time PresentedChain::End() const {
  std::tm end = {};
  const bool read = certificate_ != nullptr && ASN1_TIME_to_tm(X509_get0_notAfter(certificate_.get()), &end) == 1;
  return read ? absl::FromTM(end, absl::UTCTimeZone()) : absl::InfinitePast();
}

}  // namespace rdmabroker
