// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_REMOTE_CALLERS_H_
#define BROKER_CONTROL_REMOTE_CALLERS_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "broker/control/caller.h"
#include "broker/control/presented_chain.h"
#include "broker/control/revocations.h"
#include "proto/rpc/status.h"

namespace rdmabroker {

// Who of those that have come over the TCP port may do what. Loop thread only.
class RemoteCallers {
 public:
  // Of SPIFFE ids. Administrators inspect as well.
  void Set(const std::vector<std::string>& administrators, const std::vector<std::string>& inspectors);

  // Certificates that are not accepted any more. Not null.
  void Set(std::shared_ptr<const Revocations> revocations) { revocations_ = std::move(revocations); }

  // Whose call it is: of the one SPIFFE id that the certificate in `chain` has (X.509-SVID section 2). Else why
  // nobody's: ACCESS_DENIED, in the same words whatever is asked for and whatever there is; as gRPC's UNAUTHENTICATED
  // where the certificate is revoked, or may be. The caller has the id nevertheless, if there is one. The certificate's
  // end is looked at here, too, as the connection may last longer. `now` is the system's time.
  rpc::Status Admit(const PresentedChain& chain, absl::Time now, Caller* caller) const;

 private:
  std::set<std::string, std::less<>> administrators_;
  std::set<std::string, std::less<>> inspectors_;
  std::shared_ptr<const Revocations> revocations_ = std::make_shared<const Revocations>();
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_REMOTE_CALLERS_H_
