// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_ENDPOINTS_H_
#define BROKER_FABRIC_IWARP_ENDPOINTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "broker/fabric/iwarp/connection.h"
#include "broker/fabric/iwarp/sockets.h"
#include "broker/fabric/unheld_addresses.h"
#include "broker/runtime/kept_descriptor.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// The addresses that the fabric holds, each by one anchor (sockets.h) per IP address. Loop thread only.
class Endpoints {
 public:
  // Takes a socket that a listener has accepted. `Crowded` closes a socket that can be spared where the process has no
  // descriptor left; false if there is none.
  using Sink = std::function<void(EndpointId, AcceptedSocket)>;
  using Crowded = std::function<bool()>;

  Endpoints(const IwarpSurroundings& surroundings, Sink sink, Crowded crowded);
  ~Endpoints();
  Endpoints(const Endpoints&) = delete;
  Endpoints& operator=(const Endpoints&) = delete;

  // Each reports its answer.
  void Bind(const FabricBind& request);
  void Repurpose(const FabricRepurpose& request);
  void Rebind(const FabricRebind& request);
  void Unbind(const FabricUnbind& request);
  // Takes over what is left of it.
  void Adopt(const FabricAdoptEndpoint& request);
  // Lets go of what is left and nobody wants. So many there were.
  size_t ForgetTheRest();
  // Who comes to a listener from now on waits for the next process.
  void MakeWay();

 private:
  struct Anchor {
    UniqueFd socket;
    std::string name;   // By which it is kept,
    bool kept = false;  // if there was room.
    WatchId watch = WatchId::kNone;
    TimerId pause = TimerId::kNone;  // Until it accepts again.
    size_t at_a_time = 1;            // How many it last accepted at most,
    uint64_t turn = 0;               // and in which turn.
  };

  struct Endpoint {
    EndpointUse use = EndpointUse::kReserved;
    uint16_t port = 0;
    std::map<IpAddress, Anchor> anchors;
    uint64_t last_name = 0;          // The number in it.
    std::vector<IpAddress> wanted;   // By the last Rebind.
    TimerId retry = TimerId::kNone;  // Until AddMissing tries again.
  };

  // Makes the anchor what `use` needs; 0 or an errno.
  static int Prepare(int anchor, EndpointUse use);
  // Binds `ip`, starts it and has it kept; 0 or an errno.
  int AddAnchor(EndpointId id, Endpoint& endpoint, const IpAddress& ip);
  // Of what has been kept of `id`, those at its port and one of `ips` are its anchors again.
  void TakeKept(EndpointId id, Endpoint& endpoint, const std::vector<IpAddress>& ips);
  void Start(EndpointId id, Endpoint& endpoint, const IpAddress& ip, Anchor anchor);
  void PutAside(const KeptDescriptor& kept);
  void RemoveAnchor(Anchor& anchor);
  void StopWatching(Anchor& anchor);
  void Release(Endpoint& endpoint);
  // Binds what is wanted and missing, now and again until it is there: somebody outside may have the port of a new
  // address, or of one that nobody kept.
  void AddMissing(EndpointId id);
  void Watch(EndpointId id, const IpAddress& ip, Anchor& anchor);
  void Accept(EndpointId id, const IpAddress& ip);
  // Those that have come, and so many at most. False where there is no descriptor for the next.
  bool AcceptUpTo(size_t most, EndpointId id, const IpAddress& ip);
  // Nothing if it is gone.
  Anchor* Find(EndpointId id, const IpAddress& ip);
  void ReportFailure(EndpointId id, int error);

  const IwarpSurroundings& surroundings_;
  const Sink sink_;
  const Crowded crowded_;
  std::map<EndpointId, Endpoint> endpoints_;
  UnheldAddresses unheld_;
  bool makes_way_ = false;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_ENDPOINTS_H_
