// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_SERVER_CERTIFICATES_H_
#define BROKER_CONTROL_SERVER_CERTIFICATES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/control/revocations.h"
#include "broker/control/tls.h"

namespace rdmabroker {

// The files that the TCP port has its certificates from; keys of [tcp].
struct CertificateFiles {
  std::string certificate;
  std::string private_key;
  std::string client_authorities;
  std::string revoked;  // "" for none.

  bool operator==(const CertificateFiles&) const = default;
};

// What the broker shows to clients, and whom it believes. In PEM, checked: the key is the certificate's, and TLS takes
// them all.
struct ServerCertificates {
  std::string chain;
  std::string private_key;  // Never logged.
  std::string client_authorities;
  std::string revoked;
  // What `revoked` says; never null.
  std::shared_ptr<const Revocations> revocations = std::make_shared<const Revocations>();
  // The TLS settings with these certificates. Null unless ReadServerCertificates has made them.
  std::shared_ptr<const TlsServer> tls;

  // Whether the files had the same text.
  bool operator==(const ServerCertificates& other) const {
    return chain == other.chain && private_key == other.private_key && client_authorities == other.client_authorities &&
           revoked == other.revoked;
  }
};

// Reads and checks the files, which may block. NOT_FOUND where one cannot be read, INVALID_ARGUMENT where one is not
// what it should be, the key is another certificate's, the certificate is not valid at `now`, or a certificate that
// would be shown is weaker than OpenSSL's security level lets TLS send, the names of the authorities are too long for
// TLS to send, or Revocations::Parse refuses a list; each names the key of the configuration and the file. An authority
// that has expired or is weak is no error: others in the file may be good, and nobody is believed because of it.
absl::StatusOr<ServerCertificates> ReadServerCertificates(const CertificateFiles& files, absl::Time now);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_SERVER_CERTIFICATES_H_
