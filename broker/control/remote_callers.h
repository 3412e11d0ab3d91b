// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_REMOTE_CALLERS_H_
#define BROKER_CONTROL_REMOTE_CALLERS_H_

#include <grpcpp/grpcpp.h>

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

namespace rdmabroker {

// Who of those that have come over the TCP port may do what. Loop thread only.
class RemoteCallers {
 public:
  // Of SPIFFE ids. Administrators inspect as well.
  void Set(const std::vector<std::string>& administrators, const std::vector<std::string>& inspectors);

  // Whether the call came over the TCP port, where every client has shown a certificate that an authority has signed.
  static bool IsRemote(const grpc::ServerContext& call);

  // Certificates that are not accepted any more. Not null.
  void Set(std::shared_ptr<const Revocations> revocations) { revocations_ = std::move(revocations); }

  // Whose call it is: of the one SPIFFE id that the certificate in `chain` has (X.509-SVID section 2). Else why
  // nobody's: ACCESS_DENIED, in the same words whatever is asked for and whatever there is; as gRPC's UNAUTHENTICATED
  // where the certificate is revoked, or may be. The caller has the id nevertheless, if there is one. The certificate's
  // end is looked at here, too, as a TLS session may be resumed after it. `now` is the system's time.
  grpc::Status Admit(const grpc::AuthContext& client, absl::Time now, Caller* caller, PresentedChain* chain) const;

 private:
  std::set<std::string, std::less<>> administrators_;
  std::set<std::string, std::less<>> inspectors_;
  std::shared_ptr<const Revocations> revocations_ = std::make_shared<const Revocations>();
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_REMOTE_CALLERS_H_
