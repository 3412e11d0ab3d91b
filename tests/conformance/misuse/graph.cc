// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/misuse/graph.h"

#include <gtest/gtest.h>

#include <future>
#include <utility>

#include "client/session.h"
#include "client/session_options.h"

namespace rdmabroker::misuse {
namespace {

constexpr Kind kDataParts[] = {Kind::kAdapter,   Kind::kDomain, Kind::kCompletionQueue, Kind::kSharedReceiveQueue,
                               Kind::kQueuePair, Kind::kRegion, Kind::kWindow};

// Waits for what a create delivers.
template <typename Object, typename Create>
std::shared_ptr<Object> Made(const Create& create) {
  const auto made = std::make_shared<std::promise<std::shared_ptr<Object>>>();
  const NdkStatus status =
      create([made](const client::Outcome&, std::shared_ptr<Object> object) { made->set_value(std::move(object)); });
  EXPECT_EQ(status, NdkStatus::kPending);
  auto future = made->get_future();
  EXPECT_EQ(future.wait_for(kPatience), std::future_status::ready);
  return future.get();
}

}  // namespace

void Hook::Set(std::function<void()> work) const {
  const std::lock_guard lock(state_->mutex);
  state_->work = std::move(work);
}

void Hook::Run() const {
  std::unique_lock lock(state_->mutex);
  const auto work = std::exchange(state_->work, nullptr);
  lock.unlock();
  if (work) work();
}

Graph::Graph(ndkpi::World& w, Session whose) : world(w), memory(4096) {
  for (const char* const name : kKindNames) closes_.emplace_back(name);
  if (whose == Session::kOwn) OpenSession();
  adapter = Made<client::Adapter>(
      [&](auto done) { return session().OpenAdapter(w.on().device, kNdkVersion, on_adapter_event, std::move(done)); });
  data = adapter->data();
  domain = data->CreateProtectionDomain().object;
  cq = data->CreateCompletionQueue(64, on_notification).object;
  srq = domain
            ->CreateSharedReceiveQueue(
                {.depth = 16, .max_receive_request_sge = 1, .notify_threshold = 0, .notification = on_notification})
            .object;
  const auto new_queue_pair = [this](SharedReceiveQueue* from) {
    return domain
        ->CreateQueuePair({.receive_cq = cq,
                           .initiator_cq = cq,
                           .srq = from,
                           .receive_queue_depth = 16,
                           .initiator_queue_depth = 16,
                           .max_receive_request_sge = 1,
                           .max_initiator_request_sge = 1})
        .object;
  };
  qp = new_queue_pair(srq);
  spare = new_queue_pair(nullptr);
  region = domain->CreateMemoryRegion(false).object;
  EXPECT_EQ(region->Register(memory.data(), memory.size(), kAllAccess), NdkStatus::kSuccess);
  window = domain->CreateMemoryWindow().object;
  Connect();
  if (window != nullptr) {
    EXPECT_EQ(qp->Bind(nullptr, region, window, memory.data(), memory.size(), kOpAllowRemoteRead), NdkStatus::kSuccess);
  }
}

void Graph::OpenSession() {
  client::SessionOptions options;
  options.control_socket = world.broker().control_socket();
  options.on_end = on_session_end;
  for (client::DataPath& path : options.data_paths) {
    path.open = [hook = on_data_path_open, open = path.open](const std::string& device) {
      hook();
      return open(device);
    };
    if (!path.transition) continue;
    path.transition = [hook = on_transition, transition = path.transition](const v1::QpAttributes& attributes) {
      hook();
      return transition(attributes);
    };
  }
  auto opening = client::Session::Open(std::move(options));
  EXPECT_TRUE(opening.outcome.ok()) << opening.outcome.hint;
  own_session_ = std::move(opening.session);
}

void Graph::Connect() {
  ndkpi::Party &a = world.a(), &b = world.b();
  listener = Made<client::Listener>([this](auto done) {
    return adapter->CreateListener([](const std::shared_ptr<client::Connector>& unwanted) { unwanted->Close({}); },
                                   std::move(done));
  });
  endpoint =
      Made<client::SharedEndpoint>([&](auto done) { return adapter->CreateSharedEndpoint(a.At(), std::move(done)); });
  reservation = Made<client::Reservation>([&](auto done) { return adapter->ReservePort(a.At(), std::move(done)); });
  connector = NewConnector();
  std::promise<client::Outcome> listening;
  listener->Listen(a.At(), [&](const client::Outcome& outcome) { listening.set_value(outcome); });
  EXPECT_TRUE(listening.get_future().get().ok());
  const ndkpi::TestListener at_b = b.Listening();
  constexpr client::ReadLimits kReads = {.inbound = 4, .outbound = 4};
  const ndkpi::Call connect = a.ConnectWithSharedEndpoint(connector, qp, endpoint, at_b.address, {.limits = kReads});
  connection_.passive = at_b.Next();
  connection_.passive_qp = b.NewQueuePair();
  const ndkpi::Call accept = b.Accept(connection_.passive, connection_.passive_qp, {.limits = kReads});
  EXPECT_EQ(connect.Status(), NdkStatus::kSuccess) << connect.Wait().hint;
  EXPECT_EQ(a.CompleteConnect(connector, on_disconnect).Status(), NdkStatus::kSuccess);
  EXPECT_EQ(accept.Status(), NdkStatus::kSuccess);
  b.Close(at_b.object);
}

std::shared_ptr<client::Connector> Graph::NewConnector() {
  return Made<client::Connector>([this](auto done) { return adapter->CreateConnector(std::move(done)); });
}

Graph::~Graph() {
  LetGo();
  ndkpi::Party& b = world.b();
  b.Close(connection_.passive).Wait();
  for (size_t part = 0; part < kKindNames.size(); ++part) Close(static_cast<Kind>(part));
  EXPECT_EQ(world.a().Close(spare).Status(), NdkStatus::kSuccess);
  for (size_t part = 0; part < kKindNames.size(); ++part) {
    if (!has(static_cast<Kind>(part))) continue;
    EXPECT_EQ(closes_[part].Status(), NdkStatus::kSuccess) << kKindNames[part];
  }
  EXPECT_EQ(b.Close(connection_.passive_qp).Status(), NdkStatus::kSuccess);
}

std::shared_ptr<client::BrokerObject> Graph::broker_object(Kind part) const {
  switch (part) {
    case Kind::kAdapter:
      return adapter;
    case Kind::kListener:
      return listener;
    case Kind::kSharedEndpoint:
      return endpoint;
    case Kind::kReservation:
      return reservation;
    case Kind::kConnector:
      return connector;
    default:
      return nullptr;
  }
}

DataObject* Graph::data_object(Kind part) const {
  switch (part) {
    case Kind::kAdapter:
      return data;
    case Kind::kDomain:
      return domain;
    case Kind::kCompletionQueue:
      return cq;
    case Kind::kSharedReceiveQueue:
      return srq;
    case Kind::kQueuePair:
      return qp;
    case Kind::kRegion:
      return region;
    case Kind::kWindow:
      return window;
    default:
      return nullptr;
  }
}

bool Graph::has(Kind part) const { return broker_object(part) != nullptr || data_object(part) != nullptr; }

void Graph::Close(Kind part) {
  const auto index = static_cast<size_t>(part);
  if (!has(part) || std::exchange(close_called_[index], true)) return;
  closes_[index] = world.calls().Make(kKindNames[index], [&](const ndkpi::Call& call) {
    const auto object = broker_object(part);
    return object != nullptr ? object->Close(call.close_completion())
                             : data_object(part)->Close(call.close_completion());
  });
}

void Graph::Keep() {
  kept_ = true;
  for (const Kind part : kDataParts) {
    if (data_object(part) != nullptr) data_object(part)->AddReference();
  }
}

void Graph::LetGo() {
  if (!std::exchange(kept_, false)) return;
  for (const Kind part : kDataParts) {
    if (data_object(part) != nullptr) data_object(part)->ReleaseReference();
  }
}

}  // namespace rdmabroker::misuse
