// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_NAMES_NAMES_H_
#define CLIENT_NAMES_NAMES_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "client/values.h"
#include "dataplane/ndk/socket_address.h"

// Names of services in place of their addresses: "rdma-broker://storage" for who connects. Nothing here needs a broker.
namespace rdmabroker::client {

// The environment's RDMA_BROKER_NAMES, which is where names are kept; "" where it is not set: nowhere.
std::string NameSource();

// Where names are kept, and how to ask.
struct NameOptions {
  // "dns": by the system's name servers; "dns://192.0.2.53:53": by this one, an IPv4 address. A name without a port is
  // that of SRV records, _rdma-broker._tcp.NAME; one with a port has A and AAAA records.
  // "etcd://HOST:PORT[,HOST:PORT ...][/PREFIX]": the values of the keys PREFIX/NAME/..., each an IP:PORT; the prefix is
  // "rdma-broker" where none is given. "etcds://" is the same over TLS.
  std::string source = NameSource();
  // For TLS, paths of PEM files: of the authority that the servers have their certificates of, the system's ones where
  // it is empty; of this client's certificate and key, where the servers want one. The environment's
  // RDMA_BROKER_NAMES_CA, RDMA_BROKER_NAMES_CERT and RDMA_BROKER_NAMES_KEY.
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  // For a whole answer, and for a whole registration.
  std::chrono::milliseconds timeout{5'000};
};

// What a name stands for.
struct Resolution {
  Outcome outcome;
  std::vector<SocketAddress> addresses;  // In the order in which to try them: one to sixteen where it is success.
  // How long they may be kept. This library keeps nothing, and so asks anew each time. 0: do not keep them.
  std::chrono::seconds time_to_live{0};
};

// Whether a text is meant as a name: begins with "rdma-broker://".
bool IsName(const std::string& text);

// Resolves "rdma-broker://NAME" or "rdma-broker://NAME:PORT"; an IP:PORT in the name's place stands for itself. Waits:
// not for callbacks. kInvalidParameter: name or options are malformed, or there is a port where etcd has it;
// kNotSupported: no source; kObjectNameNotFound: nobody has the name; kIoTimeout, kHostUnreachable: the name server
// does not answer; kUnsuccessful: its answer is of no use; kInsufficientResources: 128 names are being resolved by DNS,
// which goes on without the caller for up to two minutes where name servers are silent; this or kNoMemory: this process
// gets no thread or memory for the question. Addresses that nobody could connect to are left out.
Resolution ResolveName(const std::string& name, const NameOptions& options = {});

// A name that a listener has in etcd, for as long as this is there and its process lives: it has a lease, which is
// renewed by a thread, and taken anew where etcd has forgotten it. Other listeners may have the same name.
class NameRegistration {
 public:
  struct Registering;
  // Registers "rdma-broker://NAME" for an address, which is that of a listener, with a port. Waits. Statuses as
  // ResolveName's. `time_to_live` is how long the name outlives a process that dies: etcd takes more than it is asked
  // for where that is very short.
  static Registering Register(const std::string& name, const SocketAddress& address, const NameOptions& options = {},
                              std::chrono::seconds time_to_live = std::chrono::seconds(10));

  // Takes the name back, and waits for etcd a second at most; what it does not hear ends with the lease.
  ~NameRegistration();
  NameRegistration(const NameRegistration&) = delete;
  NameRegistration& operator=(const NameRegistration&) = delete;

 private:
  class Keeper;

  explicit NameRegistration(std::unique_ptr<Keeper> keeper);

  const std::unique_ptr<Keeper> keeper_;
};

// What NameRegistration::Register has come to.
struct NameRegistration::Registering {
  Outcome outcome;
  std::unique_ptr<NameRegistration> registration;  // Null unless the outcome is success.
};

}  // namespace rdmabroker::client

#endif  // CLIENT_NAMES_NAMES_H_
