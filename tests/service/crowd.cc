// SPDX-License-Identifier: Apache-2.0

#include "tests/service/crowd.h"

#include <cstdlib>
#include <cstring>
#include <future>
#include <iostream>
#include <utility>

#include "client/blocking.h"
#include "client/values.h"

namespace rdmabroker::service {
namespace {

constexpr uint32_t kQueueDepth = 4;

void Check(const client::Outcome& outcome, const char* what) {
  if (!outcome.ok()) Fail(std::string(what) + ": " + std::string(StatusName(outcome.status)) + ": " + outcome.hint);
}

void CheckPending(NdkStatus status, const char* what) {
  if (status != NdkStatus::kPending) Fail(std::string(what) + ": " + std::string(StatusName(status)));
}

// All at once, as one after the other takes its time.
template <typename Pointer>
void CloseAll(std::vector<Pointer>& objects) {
  std::counting_semaphore<> closed{0};
  size_t pending = 0;
  for (const Pointer& object : objects) {
    if (object != nullptr && object->Close([&closed] { closed.release(); }) == NdkStatus::kPending) ++pending;
  }
  for (; pending > 0; --pending) closed.acquire();
  objects.clear();
}

}  // namespace

void Fail(const std::string& what) {
  std::cout << "failed: " << what << std::endl;
  std::_Exit(1);
}

Side::Side(const std::string& socket, const std::string& device, size_t connections, CqNotification notification,
           const std::function<void*(size_t)>& context_of)
    : connectors_(connections) {
  const auto on_end = [](const client::Outcome& outcome) { Check(outcome, "the session"); };
  auto [opened, session] = client::Session::Open({.control_socket = socket, .on_end = on_end});
  Check(opened, "a session");
  session_ = std::move(session);
  auto [found, adapter] = client::BlockingOpenAdapter(*session_, device);
  Check(found, "an adapter");
  adapter_ = std::move(adapter);
  Require(adapter_->data() != nullptr, "the device has no data path");
  domain_ = adapter_->data()->CreateProtectionDomain().object;
  Require(domain_ != nullptr, "no protection domain");
  // A request and a receive of each may end at once.
  const auto depth = static_cast<uint32_t>(2 * connections);
  queue_ = adapter_->data()->CreateCompletionQueue(depth, std::move(notification)).object;
  Require(queue_ != nullptr, "no completion queue");
  for (size_t i = 0; i < connections; ++i) {
    const auto made = domain_->CreateQueuePair({.receive_cq = queue_,
                                                .initiator_cq = queue_,
                                                .context = context_of(i),
                                                .receive_queue_depth = kQueueDepth,
                                                .initiator_queue_depth = kQueueDepth,
                                                .max_receive_request_sge = 1,
                                                .max_initiator_request_sge = 1});
    if (made.object == nullptr) Fail("queue pair " + std::to_string(i) + ": " + std::string(StatusName(made.status)));
    queue_pairs_.push_back(made.object);
  }
}

client::DisconnectEventCallback Side::NotesDisconnect() {
  return [this](const client::DisconnectEvent& event) {
    if (!closing_ && disconnects_++ == 0)
      std::cout << "a connection has ended: " << StatusName(event.status) << std::endl;
  };
}

void Side::Close() {
  CloseAll(queue_pairs_);
  std::vector<DataObject*> objects = {queue_, domain_};
  CloseAll(objects);
  client::BlockingClose(adapter_);
  session_ = nullptr;
}

Crowd::Crowd(Side& active, Side& passive, const IpAddress& ip) : active_(active), passive_(passive), ip_(ip) {
  Listen();
}

void Crowd::Listen() {
  std::promise<void> listening;
  const auto created = [&](const client::Outcome& outcome, std::shared_ptr<client::Listener> listener) {
    Check(outcome, "CreateListener");
    listener_ = std::move(listener);
    const auto listened = [&](const client::Outcome& done) {
      Check(done, "Listen");
      listening.set_value();
    };
    CheckPending(listener_->Listen(SocketAddress{ip_, 0}, listened), "Listen");
  };
  const auto arrived = [this](const std::shared_ptr<client::Connector>& connector) { Accept(connector); };
  CheckPending(passive_.adapter().CreateListener(arrived, created), "CreateListener");
  listening.get_future().wait();
}

void Crowd::Establish(size_t at_once) {
  for (size_t i = 0; i < at_once; ++i) ConnectNext();
  established_.acquire();
}

void Crowd::ConnectNext() {
  const size_t number = begun_++;
  if (number >= active_.connectors().size()) return;
  const auto created = [this, number](const client::Outcome& outcome, std::shared_ptr<client::Connector> connector) {
    Check(outcome, "CreateConnector");
    active_.connectors()[number] = connector;
    Connect(number, connector);
  };
  CheckPending(active_.adapter().CreateConnector(created), "CreateConnector");
}

void Crowd::Connect(size_t number, const std::shared_ptr<client::Connector>& connector) {
  const client::ConnectParameters parameters = {
      .source = {ip_, 0},
      .destination = listener_->address().value_or(SocketAddress()),
      .limits = {},
      .private_data = std::string(reinterpret_cast<const char*>(&number), sizeof number)};
  const auto established = [this](const client::Outcome& outcome) {
    Check(outcome, "CompleteConnect");
    NoteEstablished();
    ConnectNext();
  };
  const auto replied = [this, connector, established](const client::Outcome& outcome) {
    Check(outcome, "Connect");
    CheckPending(connector->CompleteConnect(active_.NotesDisconnect(), established), "CompleteConnect");
  };
  CheckPending(connector->Connect(active_.queue_pairs()[number], parameters, replied), "Connect");
}

void Crowd::Accept(const std::shared_ptr<client::Connector>& connector) {
  const auto data = connector->connection_data();
  size_t number = 0;
  Require(data != nullptr && data->private_data.size() >= sizeof number, "a stranger connects");
  std::memcpy(&number, data->private_data.data(), sizeof number);
  Require(number < passive_.connectors().size(), "a stranger connects");
  passive_.connectors()[number] = connector;
  const auto accepted = [this](const client::Outcome& outcome) {
    Check(outcome, "Accept");
    NoteEstablished();
  };
  CheckPending(connector->Accept(passive_.queue_pairs()[number], {}, passive_.NotesDisconnect(), accepted), "Accept");
}

void Crowd::NoteEstablished() {
  if (++ends_established_ == 2 * active_.connectors().size()) established_.release();
}

void Crowd::Close() {
  active_.ExpectDisconnects();
  passive_.ExpectDisconnects();
  CloseAll(active_.connectors());
  CloseAll(passive_.connectors());
  client::BlockingClose(listener_);
}

}  // namespace rdmabroker::service
