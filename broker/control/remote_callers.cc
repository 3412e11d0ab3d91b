// SPDX-License-Identifier: Apache-2.0

#include "broker/control/remote_callers.h"

#include <grpc/grpc_security_constants.h>

#include "absl/strings/str_cat.h"
#include "broker/control/server_certificates.h"
#include "broker/control/spiffe_id.h"
#include "broker/control/status_mapping.h"

namespace rdmabroker {
namespace {

// Of a certificate's alternative names those that are URIs, whatever they are.
constexpr char kUris[] = GRPC_PEER_URI_PROPERTY_NAME;

grpc::Status Denied(const std::string& hint) {
  return GrpcStatusOf({.status = NdkStatus::kAccessDenied, .hint = "caller: " + hint});
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
                                  absl::Time* end) const {
  const auto uris = client.FindPropertyValues(kUris);
  if (uris.size() != 1) {
    return Denied(absl::StrCat("the certificate has ", uris.size(), " URI names; one is needed, a SPIFFE id"));
  }
  const std::string id(uris.front().data(), uris.front().size());
  if (!SpiffeIdProblem(id).empty()) return Denied("the certificate's URI name is no SPIFFE id");
  caller->identity.uid = kNoUser;
  caller->identity.gid = kNoUser;
  caller->spiffe_id = id;
  const bool administers = administrators_.contains(id);
  if (!administers && !inspectors_.contains(id)) {
    return Denied(absl::StrCat(id, " may do nothing here; name it in tcp.inspectors or tcp.administrators"));
  }
  const auto certificates = client.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (certificates.size() != 1) return Denied("there is no certificate to look at");
  *end = EndOfCertificate(std::string(certificates.front().data(), certificates.front().size()));
  if (*end <= now) return Denied("the certificate has expired; renew it");
  caller->administrator = administers;
  caller->inspector = true;
  return grpc::Status::OK;
}

}  // namespace rdmabroker
