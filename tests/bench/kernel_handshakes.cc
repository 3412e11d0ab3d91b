// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/kernel_handshakes.h"

#include <infiniband/verbs.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/status/statusor.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

constexpr int kPatienceMs = 60'000;  // Far more than any handshake takes.

// Cookies: numbers from 1 on, and for the accepting side this bit besides; the listener's is neither's.
constexpr uint64_t kPassive = uint64_t{1} << 32;
constexpr uint64_t kListener = uint64_t{1} << 33;

std::shared_ptr<const CmFile> Open() {
  auto file = CmFile::Open();
  Require(file.ok(), std::string(file.status().message()));
  return *std::move(file);
}

// The index travels in the private data, by which the accepting side knows which connection it is.
Bytes IndexBytes(uint32_t index) {
  Bytes bytes(sizeof index);
  std::memcpy(bytes.data(), &index, sizeof index);
  return bytes;
}

}  // namespace

KernelHandshakes::KernelHandshakes(const IpAddress& ip, bool three_way) : file_(Open()), three_way_(three_way) {
  KernelId listener{};
  RequireNoError(file_->Create(kListener, &listener), "CREATE_ID");
  RequireNoError(file_->Bind(listener, {ip, 0}), "BIND");
  RequireNoError(file_->Listen(listener), "LISTEN");
  CmAddresses addresses;
  RequireNoError(file_->QueryAddresses(listener, &addresses), "QUERY");
  address_ = addresses.local;
}

std::vector<HandshakeTimes> KernelHandshakes::Run(std::span<const HandshakePair> pairs) {
  base_ += pairs_.size();
  pairs_ = pairs;
  former_.insert(former_.end(), connections_.begin(), connections_.end());
  connections_.assign(pairs.size(), {});
  times_.assign(pairs.size(), {});
  established_ = 0;
  for (size_t index = 0; index < pairs.size(); ++index) Begin(index);
  while (established_ < 2 * pairs.size()) {
    CmEvent event;
    const int error = file_->NextEvent(&event);
    if (error == EAGAIN) {
      pollfd ready = {file_->descriptor(), POLLIN, 0};
      Require(::poll(&ready, 1, kPatienceMs) == 1, "the connection manager says nothing any more");
      continue;
    }
    RequireNoError(error, "GET_EVENT");
    Handle(event);
  }
  return times_;
}

void KernelHandshakes::End() {
  for (std::vector<Connection>* const ending : {&former_, &connections_}) {
    for (const Connection& connection : *ending) {
      RequireNoError(file_->Destroy(connection.active), "DESTROY_ID");
      RequireNoError(file_->Destroy(connection.passive), "DESTROY_ID");
    }
    ending->clear();
  }
}

void KernelHandshakes::Begin(size_t index) {
  times_[index].begun = NanosecondsNow();
  KernelId& id = connections_[index].active;
  RequireNoError(file_->Create(base_ + index, &id), "CREATE_ID");
  RequireNoError(file_->ResolveAddress(id, {address_.ip, 0}, address_), "RESOLVE_ADDR");
}

void KernelHandshakes::Handle(const CmEvent& event) {
  if (event.cookie == kListener && event.type == CmEventType::kConnectRequest) return Accept(event);
  if ((event.cookie & ~kPassive) < base_) return;  // Of a Run before: the end of a connection.
  const size_t index = (event.cookie & ~kPassive) - base_;
  Require(index < pairs_.size() && event.status == 0, "a handshake failed");
  if ((event.cookie & kPassive) != 0) return HandlePassive(event, index);
  HandshakeTimes& times = times_[index];
  const KernelId id = connections_[index].active;
  switch (event.type) {
    case CmEventType::kAddressResolved:
      times.address_resolved = NanosecondsNow();
      return RequireNoError(file_->ResolveRoute(id), "RESOLVE_ROUTE");
    case CmEventType::kRouteResolved: {
      times.route_resolved = NanosecondsNow();
      const CmParameters parameters = {QpNumber{pairs_[index].active.qp_number}, {}, IndexBytes(index)};
      return RequireNoError(file_->Connect(id, parameters), "CONNECT");
    }
    case CmEventType::kConnectResponse:
    case CmEventType::kEstablished:
      times.replied = NanosecondsNow();
      if (three_way_) {
        Move(id, pairs_[index].active);
        RequireNoError(file_->Establish(id), "ACCEPT");
      }
      times.active_established = NanosecondsNow();
      ++established_;
      return;
    default:
      Fail("a handshake ended");
  }
}

void KernelHandshakes::HandlePassive(const CmEvent& event, size_t index) {
  Require(event.type == CmEventType::kEstablished, "a handshake ended on the accepting side");
  times_[index].passive_established = NanosecondsNow();
  ++established_;
}

void KernelHandshakes::Accept(const CmEvent& event) {
  uint32_t index = 0;
  Require(event.private_data.size() >= sizeof index, "a stranger connects");
  std::memcpy(&index, event.private_data.data(), sizeof index);
  Require(index < pairs_.size(), "a stranger connects");
  connections_[index].passive = event.id;
  const HandshakeSide& side = pairs_[index].passive;
  Move(event.id, side);
  RequireNoError(file_->Accept(event.id, (base_ + index) | kPassive, {QpNumber{side.qp_number}, {}, {}}), "ACCEPT");
}

void KernelHandshakes::Move(KernelId id, const HandshakeSide& side) const {
  if (!three_way_) return;
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    QpAttributes step;
    RequireNoError(file_->QueryQpAttributes(id, state, &step), "INIT_QP_ATTR");
    side.move(step);
  }
}

}  // namespace rdmabroker::bench
