// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/cm_connection.h"

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include "broker/fabric/rdmacm/cookie.h"
#include "broker/fabric/rdmacm/qp_owner.h"
#include "broker/log/log.h"

namespace rdmabroker {
namespace {

// Done by UseQueuePair instead of the kernel: the queue pair is not the client's.
constexpr int kNotTheirs = -1;

constexpr char kMoved[] = "the peer's MAC address changed before it answered; connect again";

// A client's word for a queue pair.
struct Claim {
  CmDevice device;
  QpNumber qp;
  int32_t process = 0;
  bool trusted = false;  // RdmaCmOptions::trust_qp_numbers.
};

// Why the claim does not hold; nothing where it does. On any thread.
std::string ObjectionTo(const Claim& claim) {
  const std::string name = "queue pair " + std::to_string(claim.qp.value);
  switch (FindQpOwner(claim.device.index, claim.qp, claim.process)) {
    case QpOwner::kThisProcess:
      return {};
    case QpOwner::kAnother:
      return name + " of this device is not the session's process's; name one that it has made";
    case QpOwner::kNobody:
      if (claim.trusted) return {};
      // Our data path makes none that is not shown: MakeQueuePair in dataplane/verbs/device/device.h.
      return "the kernel shows no " + name +
             " of this device; name one that there is, or make a new one, as a few are never shown where processes"
             " make and destroy them at the same moment";
    case QpOwner::kNotShown:
      break;
  }
  if (claim.device.three_way || claim.trusted) return {};
  return "whose " + name +
         " is, the kernel does not show: the thread that made it has ended, or is in another pid namespace; keep the "
         "thread, or let the daemon trust its clients by rdmacm.trust_qp_numbers";
}

// The kernel does not say on which interface a link-local address is; both ends are on the same.
void SetScopes(const std::vector<IpAddress>& local, CmAddresses* addresses) {
  if (!addresses->local.ip.IsLinkLocal()) return;
  for (const IpAddress& ip : local) {
    if (ip.bytes == addresses->local.ip.bytes) addresses->local.ip.scope_id = ip.scope_id;
  }
  if (addresses->peer.ip.IsLinkLocal()) addresses->peer.ip.scope_id = addresses->local.ip.scope_id;
}

}  // namespace

bool CmConnection::Start(EndpointId listener, const CmEvent& event, const std::vector<IpAddress>& local) {
  kernel_id_ = event.id;
  state_ = State::kRequested;
  CmAddresses addresses;
  if (surroundings_.file->QueryAddresses(event.id, &addresses) != 0) return false;
  // It reached the listener before that went to this device.
  if (addresses.device_index != device_.index) return false;
  SetScopes(local, &addresses);
  towards_.peer = addresses.peer.ip.ToString();
  std::optional<std::vector<QpAttributes>> steps = ReadQpAttributes();
  if (!steps) return false;
  Save();
  surroundings_.reports.Push(FabricConnectRequested{.endpoint = listener,
                                                    .connection = id_,
                                                    .local = addresses.local,
                                                    .peer = addresses.peer,
                                                    .peer_limits = event.peer_limits,
                                                    .private_data = event.private_data,
                                                    .three_way = device_.three_way,
                                                    .qp_attributes = *std::move(steps),
                                                    .device = device_.id});
  return true;
}

void CmConnection::Resolve() {
  state_ = State::kResolvingAddress;
  KernelId id{};
  const int error = surroundings_.file == nullptr ? ENODEV : surroundings_.file->Create(CookieOf(id_), &id);
  if (error != 0) return ConnectFailed(CmStep::kResolveAddress, error);
  kernel_id_ = id;
  Save();
  ResolveAddress();
}

void CmConnection::ResolveAddress() {
  unsure_ = false;
  state_ = State::kResolvingAddress;
  const CmFile& file = *surroundings_.file;
  int error = file.ShareAddress(*kernel_id_);
  if (error == 0) error = file.ResolveAddress(*kernel_id_, request_->local, request_->peer);
  if (error != 0) ConnectFailed(CmStep::kResolveAddress, error);
}

void CmConnection::UseQueuePair(CmStep step, QpNumber qp, int32_t process, std::function<int()> use) {
  const Claim claim = {device_, qp, process, surroundings_.options.trust_qp_numbers};
  if (device_.three_way || use == nullptr) {
    // Its owner moves the queue pair, or nobody: a number that is given to another afterwards is of no use. Or a driver
    // has taken it already.
    std::string objection = ObjectionTo(claim);
    const int error = !objection.empty() ? kNotTheirs : use == nullptr ? 0 : use();
    return OnDone(step, error, std::move(objection));
  }
  // The driver takes the queue pair and keeps its number from being given to another, so what is found afterwards is
  // the truth; what is found before spares another's queue pair.
  struct Attempt {
    std::string objection;
    bool taken = false;  // By the kernel.
  };
  auto attempt = std::make_shared<Attempt>();
  auto work = [claim, attempt, use = std::move(use)] {
    attempt->objection = ObjectionTo(claim);
    if (!attempt->objection.empty()) return kNotTheirs;
    const int error = use();
    attempt->taken = error == 0;
    if (attempt->taken) attempt->objection = ObjectionTo(claim);
    return attempt->objection.empty() ? error : kNotTheirs;
  };
  auto done = [this, step, attempt](int error) {
    ReportQueue::Entry entry(surroundings_.reports);
    working_ = WorkId::kNone;
    if (!attempt->taken) {
      answer_ = Answer::kNone;
    } else if (answer_ == Answer::kPerhaps) {
      answer_ = Answer::kDue;
      Save();
    }
    OnDone(step, error, std::move(attempt->objection));
  };
  answer_ = Answer::kPerhaps;
  // ACCEPT itself waits for nobody.
  std::optional<Towards> towards;
  if (step == CmStep::kConnect) towards = towards_;
  working_ = surroundings_.pool.Run(std::move(work), std::move(done), std::move(towards));
}

void CmConnection::OnDone(CmStep step, int error, std::string objection) {
  if (state_ == State::kReleasing) return DestroyAndReport();
  if (state_ == State::kOver) return;
  if (unsure_ && error == EINVAL) {
    // It was too early for CONNECT: the event that it waits for is still to come.
    error = 0;
  } else {
    unsure_ = false;
  }
  if (error == kNotTheirs) {
    Fail(NdkStatus::kAccessDenied, EACCES, {}, std::move(objection));
  } else if (error != 0) {
    // An iWARP device connects by TCP before CONNECT returns.
    std::string refusal = step == CmStep::kConnect ? CmRefusalText(false, error) : std::string();
    Fail(CmStatus(step, error), static_cast<uint32_t>(error), {}, std::move(refusal));
  }
  for (const CmEvent& event : std::exchange(held_, {})) OnEvent(event);
}

void CmConnection::OnEvent(const CmEvent& event) {
  if (event.id != kernel_id_) return;
  // Whatever the kernel tells after CONNECT or ACCEPT ends its wait.
  if (std::exchange(answer_, Answer::kNone) != Answer::kNone) Save();
  if (destruction_ != WorkId::kNone && surroundings_.pool.Cancel(destruction_)) destroying_ = false;
  if (state_ == State::kOver || state_ == State::kReleasing) {
    unstored_ = event.held;
    if (state_ == State::kReleasing && working_ == WorkId::kNone) DestroyAndReport();
    return;
  }
  // Whoever is asked to accept again must know first that the kernel has done it: before, there are no events.
  const bool accepted_before = unsure_ && state_ == State::kRequested;
  if (working_ != WorkId::kNone || accepted_before) return held_.push_back(event);
  Handle(event);
}

bool CmConnection::in_handshake() const {
  return state_ != State::kWaiting && state_ != State::kEstablished && state_ != State::kOver &&
         state_ != State::kReleasing;
}

// Told once more, as the process before had read it; how far the kernel is it does not say.
bool CmConnection::IsDealtWith(const CmEvent& event) const {
  switch (event.type) {
    case CmEventType::kConnectResponse:
    case CmEventType::kEstablished:
      return state_ == State::kReplied;
    case CmEventType::kRejected:
      return unsure_ && tried_again_ && event.status == kRejectStaleConnection;
    default:
      return false;
  }
}

// Where a RoCE peer in the same network gets another MAC address, the kernel says so of each id that has a route there,
// with every later change of the neighbour entry again (cma_netevent_callback in drivers/infiniband/core/cma.c, since
// Linux 6.0), and does nothing to the id. The event is the one of a peer that does not answer, but that is told only of
// an attempt before the reply and of an accept (cm_process_send_error in drivers/infiniband/core/cm.c).
bool CmConnection::IsOfNeighbour(const CmEvent& event) const {
  return event.type == CmEventType::kUnreachable && (state_ == State::kReplied || state_ == State::kEstablished);
}

void CmConnection::OnNeighbourChanged() {
  if (std::exchange(moved_, true)) return;
  if (const auto left_out = surroundings_.moves.Pass(Loop::Now())) {
    LogInfo("mac address of a peer changed",
            {{"connection", id_.value()}, {"peer", towards_.peer}, {"left_out", *left_out}});
  }
}

void CmConnection::Handle(const CmEvent& event) {
  if (IsDealtWith(event)) return;
  if (IsOfNeighbour(event)) return OnNeighbourChanged();
  unstored_.reset();
  if (event.type == CmEventType::kAddressResolved || event.type == CmEventType::kRouteResolved) {
    return OnResolved(event);
  }
  unsure_ = false;
  switch (event.type) {
    case CmEventType::kAddressError:
      return ConnectFailed(CmStep::kResolveAddress, std::abs(event.status));
    case CmEventType::kRouteError:
      return ConnectFailed(CmStep::kResolveRoute, std::abs(event.status));
    case CmEventType::kConnectResponse:
      return OnReply(event);
    case CmEventType::kEstablished:
      if (state_ == State::kConnecting) return OnReply(event);
      if (state_ != State::kAccepting) return;
      state_ = State::kEstablished;
      return surroundings_.reports.Push(FabricEstablished{id_, std::nullopt});
    case CmEventType::kConnectError:
    case CmEventType::kUnreachable:
    case CmEventType::kRejected:
      return OnFailure(event);
    case CmEventType::kDisconnected:
      return OnDisconnected(event);
    default:
      // As of a change of addresses, which changes nothing.
      return;
  }
}

void CmConnection::OnResolved(const CmEvent& event) {
  const bool route = event.type == CmEventType::kRouteResolved;
  // It comes once more where GoOnConnecting was faster.
  if (!unsure_ && state_ != (route ? State::kResolvingRoute : State::kResolvingAddress)) return;
  unsure_ = false;
  if (route) return Connect();
  CmAddresses addresses;
  int error = surroundings_.file->QueryAddresses(*kernel_id_, &addresses);
  if (error == 0 && addresses.device_index != device_.index) error = ENODEV;
  if (error != 0) return ConnectFailed(CmStep::kResolveAddress, error);
  state_ = State::kResolvingRoute;
  error = surroundings_.file->ResolveRoute(*kernel_id_);
  if (error != 0) ConnectFailed(CmStep::kResolveRoute, error);
}

void CmConnection::Connect() {
  state_ = State::kConnecting;
  unchecked_ = false;
  CmParameters parameters = {request_->qp, request_->limits, request_->private_data, request_->options};
  UseQueuePair(CmStep::kConnect, request_->qp, request_->process,
               [file = surroundings_.file, id = *kernel_id_, parameters = std::move(parameters)] {
                 return file->Connect(id, parameters);
               });
}

void CmConnection::OnReply(const CmEvent& event) {
  if (state_ != State::kConnecting) return;
  if (std::exchange(unchecked_, false)) {
    held_.push_back(event);
    return UseQueuePair(CmStep::kConnect, request_->qp, request_->process, nullptr);
  }
  std::optional<std::vector<QpAttributes>> steps = ReadQpAttributes();
  if (!steps) return Fail(NdkStatus::kConnectionAborted, EINVAL);
  state_ = State::kReplied;
  EndTurn();
  request_->private_data.clear();
  Save();
  // iWARP drivers tell the active side what it may do itself, as siw_cm_upcall.
  const ReadLimits peer_limits =
      device_.three_way ? event.peer_limits : ReadLimits{event.peer_limits.outbound, event.peer_limits.inbound};
  surroundings_.reports.Push(FabricReplied{.connection = id_,
                                           .peer_limits = peer_limits,
                                           .private_data = event.private_data,
                                           .three_way = device_.three_way,
                                           .qp_attributes = *std::move(steps)});
}

void CmConnection::OnFailure(const CmEvent& event) {
  const bool before_reply = state_ == State::kConnecting;
  const bool by_reason = event.type == CmEventType::kRejected && event.status > 0;
  if (before_reply && by_reason && event.status == kRejectStaleConnection && !std::exchange(tried_again_, true)) {
    // The peer has forgotten the old connection now. An id cannot connect twice.
    unstored_ = event.held;
    destroying_ = true;
    const KernelId spent = *std::exchange(kernel_id_, std::nullopt);
    Save();
    EndTurn();
    surroundings_.Destroy(spent, [this] {
      destroying_ = false;
      if (state_ == State::kReleasing) return DestroyAndReport();
      if (state_ == State::kOver) return;
      AwaitTurn();
      surroundings_.store_records();
    });
    return;
  }
  const int error = std::abs(event.status);
  // The peer gave up as the third message went out.
  if (state_ == State::kEstablished) return End(NdkStatus::kConnectionAborted, error);
  const CmStep step = before_reply ? CmStep::kConnect : CmStep::kFinish;
  const NdkStatus status = by_reason ? CmRejectStatus(step) : CmStatus(step, error);
  // A driver that moves the queue pair has moved it; otherwise only its owner does, after the reply.
  if (!device_.three_way) qp_reusable_ = false;
  // Only a consumer's data are for ours.
  const bool consumers = event.type == CmEventType::kRejected && (!by_reason || event.status == kRejectConsumerDefined);
  // The CM has not given the peer up, but sends to the old MAC address.
  const bool moved = event.type == CmEventType::kUnreachable && device_.three_way && Tells(IBV_QPS_INIT).has_value();
  std::string explanation = moved ? kMoved : before_reply ? CmRefusalText(by_reason, error) : std::string();
  Fail(status, static_cast<uint32_t>(error), consumers ? event.private_data : Bytes(), std::move(explanation));
}

void CmConnection::OnDisconnected(const CmEvent& event) {
  const int error = std::abs(event.status);
  if (state_ == State::kReplied || state_ == State::kConnecting) {
    return Fail(NdkStatus::kConnectionAborted, static_cast<uint32_t>(error));
  }
  // The peer's third message was lost, and its goodbye was not.
  if (state_ == State::kAccepting) surroundings_.reports.Push(FabricEstablished{id_, std::nullopt});
  End(CmStatus(CmStep::kDisconnect, error), error);
}

void CmConnection::End(NdkStatus status, int error) {
  state_ = State::kOver;
  surroundings_.reports.Push(FabricDisconnected{id_, status, static_cast<uint32_t>(error)});
}

void CmConnection::ConnectFailed(CmStep step, int error) { Fail(CmStatus(step, error), static_cast<uint32_t>(error)); }

void CmConnection::Fail(NdkStatus status, uint32_t provider_error, Bytes private_data, std::string explanation) {
  const bool connecting =
      state_ == State::kResolvingAddress || state_ == State::kResolvingRoute || state_ == State::kConnecting;
  if (state_ == State::kConnecting && status == NdkStatus::kConnectionInvalid && explanation.empty()) {
    explanation =
        "the device does not take the queue pair, which a former attempt has ended, or which is gone; make a"
        " new one";
  }
  state_ = State::kOver;
  EndTurn();
  if (connecting) {
    surroundings_.reports.Push(FabricConnectFailed{.connection = id_,
                                                   .status = status,
                                                   .provider_error = provider_error,
                                                   .private_data = std::move(private_data),
                                                   .qp_reusable = qp_reusable_,
                                                   .explanation = std::move(explanation)});
  } else {
    surroundings_.reports.Push(FabricFailed{.connection = id_,
                                            .status = status,
                                            .provider_error = provider_error,
                                            .private_data = std::move(private_data),
                                            .explanation = std::move(explanation)});
  }
}

std::optional<QpAttributes> CmConnection::Tells(uint32_t state) const {
  QpAttributes attributes;
  if (surroundings_.file->QueryQpAttributes(*kernel_id_, state, &attributes) != 0) return std::nullopt;
  return attributes;
}

// Nothing where the kernel does not tell. None where its driver moves the queue pair.
std::optional<std::vector<QpAttributes>> CmConnection::ReadQpAttributes() const {
  std::vector<QpAttributes> steps;
  if (!device_.three_way) return steps;
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    const std::optional<QpAttributes> step = Tells(state);
    if (!step) return std::nullopt;
    steps.push_back(*step);
  }
  return steps;
}

void CmConnection::Perform(const FabricComplete&) {
  if (state_ != State::kReplied) return;
  if (device_.three_way) {
    int error = surroundings_.file->Establish(*kernel_id_);
    // The process before has sent it.
    if (error == EINVAL && unsure_ && Tells(IBV_QPS_RTS).has_value()) error = 0;
    if (error != 0) return Fail(CmStatus(CmStep::kFinish, error), static_cast<uint32_t>(error));
  }
  unsure_ = false;
  state_ = State::kEstablished;
  surroundings_.reports.Push(FabricEstablished{id_, std::nullopt});
}

void CmConnection::Perform(const FabricAccept& request) {
  if (state_ != State::kRequested) return;
  state_ = State::kAccepting;
  // A peer that has asked for a ready-to-receive message need not send it, and siw has no timer for that.
  towards_.wait = PeerWait::kUntimed;
  towards_.uid = request.uid;
  towards_.session = request.session;
  const bool done = unsure_ && WasAccepted(request);
  unsure_ = false;
  accepted_ = true;
  if (done) return UseQueuePair(CmStep::kFinish, request.qp, request.process, nullptr);
  Save();
  if (device_.three_way) return CarryOut(request);
  // Not before that is stored, at this turn's end: iWARP drivers do not bear a second ACCEPT (siw_accept lets go of the
  // same reference twice).
  self_ = std::make_shared<CmConnection*>(this);
  surroundings_.loop.Post([weak = std::weak_ptr<CmConnection*>(self_), request] {
    if (const auto self = weak.lock()) (*self)->CarryOut(request);
  });
}

void CmConnection::CarryOut(const FabricAccept& request) {
  if (state_ != State::kAccepting) return;
  UseQueuePair(CmStep::kFinish, request.qp, request.process,
               [file = surroundings_.file, id = *kernel_id_, cookie = CookieOf(id_),
                parameters = CmParameters{request.qp, request.limits, request.private_data, request.options}] {
                 return file->Accept(id, cookie, parameters);
               });
}

void CmConnection::Perform(const FabricReject& request) {
  // Where there is no third message (EINVAL) the peer finds the connection ended; where it has given up, nothing.
  // As for a second ACCEPT, so for a reject after it.
  const bool too_late = accepted_ && !device_.three_way;
  // Of one that was given up the kernel may have had no word.
  const bool perhaps = state_ == State::kOver && unsure_ && kernel_id_;
  if (((state_ == State::kRequested || perhaps) && !too_late) || state_ == State::kReplied) {
    surroundings_.file->Reject(*kernel_id_, request.private_data);
  }
  Release();
}

void CmConnection::Perform(const FabricDisconnect&) {
  if (state_ != State::kEstablished) return;
  unsure_ = false;
  const int error = surroundings_.file->Disconnect(*kernel_id_);
  // EINVAL: it has ended, and the event is on its way.
  if (error == 0 || error == EINVAL) return;
  End(CmStatus(CmStep::kDisconnect, error), error);
}

}  // namespace rdmabroker
