// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_CM_CONNECTION_H_
#define BROKER_FABRIC_RDMACM_CM_CONNECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/core/fabric_messages.h"
#include "broker/fabric/rdmacm/cm_records.h"
#include "broker/fabric/rdmacm/cm_status.h"
#include "broker/fabric/rdmacm/surroundings.h"

namespace rdmabroker {

// What a connection has to know of its device.
struct CmDevice {
  DeviceId id;
  uint32_t index = 0;  // As ibv_get_device_index(3).
  // False on iWARP devices: their kernel drivers move the queue pair, and have no third message.
  bool three_way = true;
};

// One end of a connection, from the kernel's id to its release. Loop thread only. Once it has reported FabricReleased
// it is to be destroyed, outside of its functions.
//
// One that another process began is adopted with what that has left. The kernel's events and the state of its id tell
// how far it has come.
class CmConnection {
 public:
  CmConnection(const RdmaCmSurroundings& surroundings, const CmDevice& device, ConnectionId id)
      : surroundings_(surroundings), device_(device), id_(id) {}
  // Before its release, it goes with its process: the kernel's id is left as it is.
  ~CmConnection();
  CmConnection(const CmConnection&) = delete;
  CmConnection& operator=(const CmConnection&) = delete;

  // The first call of each connection: our own, one that came to a listener with `event`, or one that is adopted. Our
  // own begins when its turn has come; until then it is on record, and the next process can begin it. The second is
  // false where the peer or the device is gone again: nothing was reported, and the kernel's id is to be destroyed.
  // `local` are the device's addresses.
  void Start(const FabricConnect& request);
  [[nodiscard]] bool Start(EndpointId listener, const CmEvent& event, const std::vector<IpAddress>& local);
  // `record`: none where the process before has left none. `migrated`: its id is here.
  void Adopt(const FabricAdoptConnection& request, const std::optional<CmConnectionRecord>& record, bool migrated);
  // All events that had come have been handed on, and all requests that were made again: goes on where the process
  // before has stopped.
  void GoOn();

  // Requests that crossed the report of a failure do nothing.
  void Perform(const FabricComplete& request);
  void Perform(const FabricAccept& request);
  void Perform(const FabricReject& request);
  void Perform(const FabricDisconnect& request);
  // Whatever state it is in; the peer learns of it.
  void Release();

  void OnEvent(const CmEvent& event);
  // The id has gone with its file. Nothing is reported but, in the end, the release.
  void LoseId();
  // The kernel removes the device: it waits for the end of every id on it, and tells nothing more of them.
  void LoseDevice();

  DeviceId device() const { return device_.id; }
  bool in_handshake() const;
  // None before its turn, and while a stale connection's is being replaced.
  std::optional<KernelId> kernel_id() const { return kernel_id_; }

 private:
  // kWaiting: for its turn. kOver: nothing but its release is to come.
  enum class State : uint8_t {
    kWaiting,
    kResolvingAddress,
    kResolvingRoute,
    kConnecting,
    kReplied,
    kRequested,
    kAccepting,
    kEstablished,
    kOver,
    kReleasing
  };
  // Whether the peer owes an answer to CONNECT or ACCEPT, as only iWARP's CM minds: until it comes the id's end waits
  // in the kernel (destroy_cm_id in drivers/infiniband/core/iwcm.c), where no signal ends the thread, nor with it the
  // process, whose place another may be about to take. kDue: for certain, and an event will tell of it.
  enum class Answer : uint8_t { kNone, kPerhaps, kDue };

  // Does what uses the queue pair, if it is the process's: at once, or, where the device's driver moves it and may
  // block, in the pool. What the kernel tells meanwhile waits for the outcome, which goes to OnDone. `use`: empty where
  // the process before has had it done.
  void UseQueuePair(CmStep step, QpNumber qp, int32_t process, std::function<int()> use);
  void OnDone(CmStep step, int error, std::string objection);
  void Handle(const CmEvent& event);
  bool IsDealtWith(const CmEvent& event) const;
  bool IsOfNeighbour(const CmEvent& event) const;
  void OnNeighbourChanged();
  void AwaitTurn();
  void OnTurn();
  // The peer has replied, or it is not waited for any more.
  void EndTurn();
  void Resolve();
  void ResolveAddress();
  void Connect();
  void OnResolved(const CmEvent& event);
  void OnReply(const CmEvent& event);
  void OnFailure(const CmEvent& event);
  void OnDisconnected(const CmEvent& event);
  // Of an established one.
  void End(NdkStatus status, int error);
  void ConnectFailed(CmStep step, int error);
  // As the state has it: FabricConnectFailed or FabricFailed.
  void Fail(NdkStatus status, uint32_t provider_error, Bytes private_data = {}, std::string explanation = {});
  std::optional<std::vector<QpAttributes>> ReadQpAttributes() const;
  void DestroyAndReport();
  // Nothing of it is left but the id.
  bool WaitsForAnswer() const;
  // For the next process.
  void Save();
  void CarryOut(const FabricAccept& request);
  // Of an adopted one: whether the process before has accepted, be that stored or not.
  bool WasAccepted(const FabricAccept& request) const;

  // Of an adopted one: nothing of it is left.
  void Lose();
  void GoOnConnecting();
  // None where the kernel has none, as InfiniBand's CM for each of its states (cm_init_qp_*_attr in
  // drivers/infiniband/core/cm.c).
  std::optional<QpAttributes> Tells(uint32_t state) const;

  const RdmaCmSurroundings& surroundings_;
  const CmDevice device_;
  const ConnectionId id_;
  State state_ = State::kRequested;
  std::optional<KernelId> kernel_id_;
  std::optional<FabricConnect> request_;  // Of our own.
  TimerId reply_wait_ = TimerId::kNone;   // While it has its turn.
  WorkId working_ = WorkId::kNone;        // The kernel's CONNECT or ACCEPT, while the pool has it.
  std::vector<CmEvent> held_;             // Events that came meanwhile: no more than a connection has.
  std::shared_ptr<void> unstored_;        // One that changed its record only, which is stored with the next report.
  // For whom the kernel has CONNECT or ACCEPT, and for which peer. Meaningless before.
  Towards towards_;
  Answer answer_ = Answer::kNone;
  bool destroying_ = false;             // The pool destroys the id.
  WorkId destruction_ = WorkId::kNone;  // Of one that perhaps waits.
  bool device_lost_ = false;
  bool unwanted_ = false;  // A connect request that was given up undecided.
  bool qp_reusable_ = true;
  bool tried_again_ = false;
  bool moved_ = false;     // Its peer has got another MAC address since.
  bool accepted_ = false;  // The kernel has ACCEPT, or is about to get it.
  // It is adopted, and neither an event nor a request has said how far the kernel is with it.
  bool unsure_ = false;
  // It is adopted, and perhaps nobody has looked whose the queue pair is that the driver has taken.
  bool unchecked_ = false;
  std::shared_ptr<CmConnection*> self_;  // What is posted to the loop reaches this by it. Null while nothing is.
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_CM_CONNECTION_H_
