// SPDX-License-Identifier: Apache-2.0

#include "broker/control/remote_callers.h"

#include <grpc/grpc_security_constants.h>

#include "absl/strings/str_cat.h"
#include "broker/control/presented_chain.h"
#include "broker/control/revocations.h"
#include "broker/control/spiffe_id.h"
#include "broker/control/status_mapping.h"

namespace rdmabroker {
namespace {

// Of a certificate's alternative names those that are URIs, whatever they are.
constexpr char kUris[] = GRPC_PEER_URI_PROPERTY_NAME;

grpc::Status Denied(const std::string& hint) {
  return GrpcStatusOf({.status = NdkStatus::kAccessDenied, .hint = "caller: " + hint});
}

grpc::Status Unauthenticated(const std::string& hint) {
  return GrpcStatusOf({.status = NdkStatus::kAccessDenied, .hint = "caller: " + hint},
                      grpc::StatusCode::UNAUTHENTICATED);
}

grpc::Status StandingOf(Revocations::Verdict verdict) {
  switch (verdict) {
    case Revocations::Verdict::kNotRevoked:
      return grpc::Status::OK;
    case Revocations::Verdict::kRevoked:
      return Unauthenticated(
          "the certificate, or that of its issuer, is revoked by a list in tcp.revoked; get a new one");
    case Revocations::Verdict::kIssuerUnknown:
      break;
  }
  return Unauthenticated(
      "the issuer's certificate was not presented, so that it may be revoked; connect without resuming a TLS session, "
      "or have it added to tcp.client_authorities");
}

std::string OnlyValue(const grpc::AuthContext& client, const char* property) {
  const auto values = client.FindPropertyValues(property);
  return values.size() == 1 ? std::string(values.front().data(), values.front().size()) : "";
}

}  // namespace

void RemoteCallers::Set(const std::vector<std::string>& administrators, const std::vector<std::string>& inspectors) {
  administrators_ = {administrators.begin(), administrators.end()};
  inspectors_ = {inspectors.begin(), inspectors.end()};
}

bool RemoteCallers::IsRemote(const grpc::ServerContext& call) {
  const auto types = call.auth_context()->FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  return types.size() == 1 && types.front() == GRPC_SSL_TRANSPORT_SECURITY_TYPE;
}

grpc::Status RemoteCallers::Admit(const grpc::AuthContext& client, absl::Time now, Caller* caller,
                                  PresentedChain* chain) const {
  const auto uris = client.FindPropertyValues(kUris);
  const std::string id = uris.size() == 1 ? std::string(uris.front().data(), uris.front().size()) : "";
  const bool has_id = uris.size() == 1 && SpiffeIdProblem(id).empty();
  if (has_id) {
    caller->identity.uid = kNoUser;
    caller->identity.gid = kNoUser;
    caller->spiffe_id = id;
  }
  *chain = PresentedChain(OnlyValue(client, GRPC_X509_PEM_CERT_PROPERTY_NAME),
                          OnlyValue(client, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME));
  // First: what else a revoked certificate says counts for nothing.
  if (grpc::Status standing = StandingOf(revocations_->Check(*chain)); !standing.ok()) return standing;
  if (uris.size() != 1) {
    return Denied(absl::StrCat("the certificate has ", uris.size(), " URI names; one is needed, a SPIFFE id"));
  }
  if (!has_id) return Denied("the certificate's URI name is no SPIFFE id");
  const bool administers = administrators_.contains(id);
  if (!administers && !inspectors_.contains(id)) {
    return Denied(absl::StrCat(id, " may do nothing here; name it in tcp.inspectors or tcp.administrators"));
  }
  if (chain->certificate() == nullptr) return Denied("there is no certificate to look at");
  if (chain->End() <= now) return Denied("the certificate has expired; renew it");
  caller->administrator = administers;
  caller->inspector = true;
  return grpc::Status::OK;
}

}  // namespace rdmabroker
