// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_NAMES_NAMES_H_
#define CLIENT_NAMES_NAMES_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "client/values.h"
#include "dataplane/ndk/socket_address.h"

// Names of services in place of their addresses: clients connect to "rdma-broker://storage". Nothing here needs a
// broker.
namespace rdmabroker::client {

// Where names are kept, as the environment's RDMA_BROKER_NAMES says; "", which is nowhere, where it is not set.
std::string NameSource();

// Where names are kept, and how to ask.
struct NameOptions {
  // "dns": the system's name servers are asked; "dns://192.0.2.53:53": this one, an IPv4 address. A name without a port
  // has SRV records, _rdma-broker._tcp.NAME; one with a port has A and AAAA records.
  // "etcd://HOST:PORT[,HOST:PORT ...][/PREFIX]": the values of the keys PREFIX/NAME/..., each an IP:PORT; the prefix is
  // "rdma-broker" where none is given. "etcds://" is the same over TLS.
  std::string source = NameSource();
  // For TLS, paths of PEM files: of the authority that issued the servers' certificates, and of this client's
  // certificate and key, where the servers want one. One that is empty is taken from the environment:
  // RDMA_BROKER_NAMES_CA, RDMA_BROKER_NAMES_CERT, RDMA_BROKER_NAMES_KEY. Without an authority the system's ones hold.
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  // The time for a whole answer, or for a whole registration.
  std::chrono::milliseconds timeout{5'000};
};

// What a name stands for.
struct Resolution {
  Outcome outcome;
  std::vector<SocketAddress> addresses;  // In the order in which to try them: one to sixteen on success.
  // How long they may be kept. This library keeps nothing, and so asks anew each time. 0: do not keep them.
  std::chrono::seconds time_to_live{0};
};

// Whether a text is meant as a name: begins with "rdma-broker://".
bool IsName(const std::string& text);

// Resolves "rdma-broker://NAME" or "rdma-broker://NAME:PORT"; an IP:PORT in the name's place stands for itself. Waits,
// so do not call it from a callback. kInvalidParameter: name or options are malformed, or the name has a port although
// etcd has it; kNotSupported: no source; kObjectNameNotFound: nobody has the name; kIoTimeout, kHostUnreachable: the
// name server does not answer; kUnsuccessful: its answer is of no use; kInsufficientResources: 128 names are being
// resolved by DNS, which goes on without the caller for up to two minutes where name servers are silent; this or
// kNoMemory: this process gets no thread or memory for the question. Addresses that nobody could connect to are left
// out.
Resolution ResolveName(const std::string& name, const NameOptions& options = {});

// A listener's name in etcd, kept for as long as this object exists and its process lives: a thread renews the name's
// lease, and takes a new one where etcd has forgotten it. Other listeners may have the same name.
class NameRegistration {
 public:
  struct Registering;
  // Registers "rdma-broker://NAME" for a listener's address, with its port. Waits. Fails as ResolveName does, and with
  // kNotSupported where the source is DNS. `time_to_live` is how long the name outlives a process that dies; etcd takes
  // more where that is very short.
  static Registering Register(const std::string& name, const SocketAddress& address, const NameOptions& options = {},
                              std::chrono::seconds time_to_live = std::chrono::seconds(10));

  // Takes the name back, and waits for etcd a second at most; where etcd does not hear of it, the name ends with its
  // lease.
  ~NameRegistration();
  NameRegistration(const NameRegistration&) = delete;
  NameRegistration& operator=(const NameRegistration&) = delete;

 private:
  class Keeper;

  explicit NameRegistration(std::unique_ptr<Keeper> keeper);

  std::unique_ptr<Keeper> keeper_;
};

// The result of NameRegistration::Register.
struct NameRegistration::Registering {
  Outcome outcome;
  std::unique_ptr<NameRegistration> registration;  // Null unless the outcome is success.
};

}  // namespace rdmabroker::client

#endif  // CLIENT_NAMES_NAMES_H_
