// SPDX-License-Identifier: Apache-2.0

#include "broker/control/remote_callers.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "broker/control/presented_chain.h"
#include "broker/control/revocations.h"
#include "broker/control/spiffe_id.h"
#include "broker/control/status_mapping.h"

namespace rdmabroker {
namespace {

rpc::Status Denied(const std::string& hint) {
  return RpcStatusOf({.status = NdkStatus::kAccessDenied, .hint = "caller: " + hint});
}

rpc::Status Unauthenticated(const std::string& hint) {
  return RpcStatusOf({.status = NdkStatus::kAccessDenied, .hint = "caller: " + hint},
                     absl::StatusCode::kUnauthenticated);
}

rpc::Status StandingOf(Revocations::Verdict verdict) {
  switch (verdict) {
    case Revocations::Verdict::kNotRevoked:
      return {};
    case Revocations::Verdict::kRevoked:
      return Unauthenticated(
          "the certificate, or that of its issuer, is revoked by a list in tcp.revoked; get a new one");
    case Revocations::Verdict::kIssuerUnknown:
      break;
  }
  return Unauthenticated(
      "the issuer's certificate was not presented, so that it may be revoked; have the client present it, or have "
      "it added to tcp.client_authorities");
}

}  // namespace

void RemoteCallers::Set(const std::vector<std::string>& administrators, const std::vector<std::string>& inspectors) {
  administrators_ = {administrators.begin(), administrators.end()};
  inspectors_ = {inspectors.begin(), inspectors.end()};
}

rpc::Status RemoteCallers::Admit(const PresentedChain& chain, absl::Time now, Caller* caller) const {
  const std::vector<std::string> uris = chain.Uris();
  const std::string id = uris.size() == 1 ? uris.front() : "";
  const bool has_id = uris.size() == 1 && SpiffeIdProblem(id).empty();
  if (has_id) {
    caller->identity.uid = kNoUser;
    caller->identity.gid = kNoUser;
    caller->spiffe_id = id;
  }
  // First: what else a revoked certificate says counts for nothing.
  if (rpc::Status standing = StandingOf(revocations_->Check(chain)); !standing.ok()) return standing;
  if (chain.certificate() == nullptr) return Denied("there is no certificate to look at");
  if (uris.size() != 1) {
    return Denied(absl::StrCat("the certificate has ", uris.size(), " URI names; one is needed, a SPIFFE id"));
  }
  if (!has_id) return Denied("the certificate's URI name is no SPIFFE id");
  const bool administers = administrators_.contains(id);
  if (!administers && !inspectors_.contains(id)) {
    return Denied(absl::StrCat(id, " may do nothing here; name it in tcp.inspectors or tcp.administrators"));
  }
  if (chain.End() <= now) return Denied("the certificate has expired; renew it");
  caller->administrator = administers;
  caller->inspector = true;
  return {};
}

}  // namespace rdmabroker
