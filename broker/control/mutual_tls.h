// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_MUTUAL_TLS_H_
#define BROKER_CONTROL_MUTUAL_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "broker/control/server_certificates.h"

namespace rdmabroker {

// TLS 1.2 and 1.3 with certificates that may be replaced while the server runs, and only with clients that show one of
// their own which the authorities have signed. gRPC asks for them at each handshake. Its own watcher of files would use
// a key with another's certificate, and refuse everybody.
class MutualTls {
 public:
  explicit MutualTls(ServerCertificates certificates);

  // From the next handshake on. Any thread.
  void Use(ServerCertificates certificates);

  // For a server, which may outlive this object.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;

 private:
  struct State;

  const std::shared_ptr<State> state_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_MUTUAL_TLS_H_
