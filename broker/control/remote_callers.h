// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_REMOTE_CALLERS_H_
#define BROKER_CONTROL_REMOTE_CALLERS_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "broker/control/caller.h"

namespace rdmabroker {

// Who of those that have come over the TCP port may do what. Loop thread only.
class RemoteCallers {
 public:
  // Of SPIFFE ids. Administrators inspect as well.
  void Set(const std::vector<std::string>& administrators, const std::vector<std::string>& inspectors);

  // Whether the call came over the TCP port, where every client has shown a certificate that an authority has signed.
  static bool IsRemote(const grpc::ServerContext& call);

  // Whose call it is: of the one SPIFFE id that its certificate has (X.509-SVID section 2), which holds until `end`.
  // Else why nobody's: ACCESS_DENIED, in the same words whatever is asked for and whatever there is; the caller has the
  // id nevertheless, if there is one. The certificate's end is looked at here, too, as a TLS session may be resumed
  // after it. `now` is the system's time.
  grpc::Status Admit(const grpc::AuthContext& client, absl::Time now, Caller* caller, absl::Time* end) const;

 private:
  std::set<std::string, std::less<>> administrators_;
  std::set<std::string, std::less<>> inspectors_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_REMOTE_CALLERS_H_
