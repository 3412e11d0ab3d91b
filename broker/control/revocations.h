// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_REVOCATIONS_H_
#define BROKER_CONTROL_REVOCATIONS_H_

#include <openssl/x509.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/control/openssl_objects.h"
#include "broker/control/presented_chain.h"

namespace rdmabroker {

// Certificate revocation lists (RFC 5280, section 5) of clients' authorities. Any thread.
class Revocations {
 public:
  enum class Verdict {
    kNotRevoked,
    kRevoked,
    // The certificate of the issuer is neither among the authorities nor presented, so it may be revoked.
    kIssuerUnknown,
  };

  // Revokes nothing.
  Revocations() = default;

  // `lists` is PEM with one or more lists and nothing else. INVALID_ARGUMENT with the cause where it has anything else,
  // or a list that none of the `authorities` has signed. A list whose next update is due is in force all the same: to
  // drop it would admit whom it revokes, and to refuse everybody would lock out the administrators.
  static absl::StatusOr<Revocations> Parse(const std::string& lists, const std::vector<Certificate>& authorities);

  // Whether a list has the client's certificate, one that it presented, or the authority that issued one of them. Costs
  // a binary search per certificate and list.
  Verdict Check(const PresentedChain& chain) const;

  // Names a list whose next update is due at `now`. "" where there is none.
  std::string Overdue(absl::Time now) const;

  size_t lists() const { return lists_.size(); }

 private:
  using List = std::unique_ptr<X509_CRL, Freed<X509_CRL_free>>;

  bool Lists(X509* certificate) const;

  std::vector<List> lists_;
  std::vector<Certificate> revoked_authorities_;
  std::vector<Certificate> other_authorities_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_REVOCATIONS_H_
