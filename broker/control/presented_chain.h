// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_PRESENTED_CHAIN_H_
#define BROKER_CONTROL_PRESENTED_CHAIN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "broker/control/openssl_objects.h"

namespace rdmabroker {

// The certificates that a client has presented in a TLS handshake, which has verified them. One thread.
class PresentedChain {
 public:
  // More than any path has. It bounds what a call costs; the handshake alone would take a hundred.
  static constexpr size_t kMostIssuers = 16;

  PresentedChain() = default;
  // The client's own certificate, and those of its issuers. The caller keeps its own references. Either argument may be
  // null.
  PresentedChain(X509* certificate, const STACK_OF(X509) * issuers);

  // Returns the URIs among the subject alternative names of the client's own certificate, unchecked.
  std::vector<std::string> Uris() const;
  // When the client's own certificate expires. In the past where there is none, or its end cannot be read.
  absl::Time End() const;

  // The client's own. Null where there is none.
  X509* certificate() const { return certificate_.get(); }
  const std::vector<Certificate>& issuers() const { return issuers_; }
  // Whether issuers() are all that were presented.
  bool complete() const { return complete_; }

 private:
  Certificate certificate_;
  std::vector<Certificate> issuers_;
  bool complete_ = true;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_PRESENTED_CHAIN_H_
