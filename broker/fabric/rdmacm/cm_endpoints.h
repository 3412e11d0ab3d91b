// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_CM_ENDPOINTS_H_
#define BROKER_FABRIC_RDMACM_CM_ENDPOINTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "broker/core/fabric_messages.h"
#include "broker/fabric/rdmacm/cm_records.h"
#include "broker/fabric/rdmacm/surroundings.h"
#include "broker/fabric/unheld_addresses.h"

namespace rdmabroker {

// The addresses that the fabric holds, each by one kernel id per IP address, its anchor. Loop thread only.
//
// Anchors are bound without sharing their address, so that nobody outside gets in; those from which connections start
// share it afterwards, which ids that connect do as well. The kernel frees a listener's port with its id, although
// connections that it accepted live, so an anchor lives until the core unbinds it. Anchors are kept in the records, so
// that the next process has them under the same addresses, and nobody else in between.
class CmEndpoints {
 public:
  explicit CmEndpoints(const RdmaCmSurroundings& surroundings) : surroundings_(surroundings) {}
  ~CmEndpoints();
  CmEndpoints(const CmEndpoints&) = delete;
  CmEndpoints& operator=(const CmEndpoints&) = delete;

  // Each reports its answer. `device_index` and `local`: those of the device, and its addresses.
  void Bind(const FabricBind& request, uint32_t device_index, const std::vector<IpAddress>& local);
  void Repurpose(const FabricRepurpose& request);
  void Rebind(const FabricRebind& request, uint32_t device_index);
  void Unbind(const FabricUnbind& request);

  // It was bound by another process, which has left `record`; `migrate` says whether it has moved an id of that here.
  void Adopt(const FabricAdoptEndpoint& request, uint32_t device_index, const CmEndpointRecord& record,
             const std::function<bool(KernelId)>& migrate);
  // The device of an adopted one has gone with everything that was bound there.
  void AdoptLost(const FabricAdoptEndpoint& request);
  // Binds what of the adopted ones was not found. What else that process held is let go of until `until`: where an
  // address is in use that the core asks for, it is tried again till then.
  void BindMissing(absl::Time until);

  // The ids have gone with their file: nothing is bound any more but needs its Unbind.
  void LoseIds();

  // Whether requests that come to it are the core's.
  bool Listens(EndpointId id) const;
  // That it is bound at; none where it is not there.
  DeviceId DeviceOf(EndpointId id) const;
  // Whether the endpoint holds an address by that id, and has not let go of it.
  bool Holds(EndpointId id, KernelId anchor) const;

 private:
  struct Endpoint {
    DeviceId device;
    uint32_t device_index = 0;
    EndpointUse use = EndpointUse::kReserved;
    uint16_t port = 0;
    std::map<IpAddress, CmAnchor> anchors;
    std::vector<IpAddress> wanted;  // By the last Rebind, or when it was adopted.
    bool adopted = false;
    size_t leaving = 0;              // Anchors that Rebind has given up, and the kernel has not destroyed yet.
    TimerId retry = TimerId::kNone;  // Until AddMissing tries again.
  };

  // Makes the anchor what `use` needs; 0 or an errno.
  int Prepare(CmAnchor& anchor, EndpointUse use, bool adopted) const;
  bool IsAnchorOf(KernelId id, const Endpoint& endpoint, const IpAddress& ip) const;
  // Binds `ip` and prepares it; 0 or an errno, with which there may be an anchor, too.
  int AddAnchor(EndpointId id, Endpoint& endpoint, const IpAddress& ip);
  void RemoveAnchor(Endpoint& endpoint, const IpAddress& ip);
  // Gives up an anchor that holds its address; what is wanted and missing is bound when it is gone.
  void LetGo(EndpointId id, Endpoint& endpoint, const IpAddress& ip);
  // Destroys all anchors; `done` runs when the addresses are free.
  void Release(const Endpoint& endpoint, const std::function<void()>& done);
  // Binds what is wanted and missing, now and again until it is there: somebody outside may have the port of a new
  // address, or of one that the dead process did not leave. Not while an anchor is leaving, which may hold it, and so
  // that an endpoint that moves to and fro has one destruction of each address under way.
  void AddMissing(EndpointId id);
  void BindLater(const FabricBind& request, uint32_t device_index, const std::vector<IpAddress>& local);
  void Save(EndpointId id, const Endpoint& endpoint);

  const RdmaCmSurroundings& surroundings_;
  std::map<EndpointId, Endpoint> endpoints_;
  UnheldAddresses unheld_;
  absl::Time released_by_ = absl::InfinitePast();  // BindMissing's `until`.
  std::map<EndpointId, TimerId> binds_;            // That are tried again.
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_CM_ENDPOINTS_H_
