// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/library_handshakes.h"

#include <cstring>
#include <future>
#include <utility>

#include "client/blocking.h"
#include "client/listener.h"
#include "client/values.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

void Check(const client::Outcome& outcome, const char* what) {
  if (!outcome.ok()) {
    Fail(std::string(what) + ": " + std::string(StatusName(outcome.status)) + ": " + outcome.hint);
  }
}

void CheckPending(NdkStatus status, const char* what) {
  if (status != NdkStatus::kPending) Fail(std::string(what) + ": " + std::string(StatusName(status)));
}

}  // namespace

LibrarySide::LibrarySide(const std::string& socket, const std::string& device, HandshakeBoard& board) : board_(board) {
  auto [opened, session] = client::Session::Open({.control_socket = socket});
  Check(opened, "a session");
  session_ = std::move(session);
  auto [found, adapter] = client::BlockingOpenAdapter(*session_, device);
  Check(found, "an adapter");
  adapter_ = std::move(adapter);
  Require(adapter_->data() != nullptr, "the device has no data path");
  queue_pairs_.emplace(adapter_->data());
}

void LibrarySide::End() {
  CloseAll(connectors_);
  queue_pairs_->Close();
  established_ = 0;
}

void LibraryActiveSide::Handle(const Command& command) {
  switch (command.order) {
    case Order::kPrepare:
      return Prepare(command.connections);
    case Order::kRun:
      return Run(command.at_once);
    case Order::kEnd:
      return End();
  }
}

void LibraryActiveSide::Prepare(uint32_t connections) {
  queue_pairs_->Make(connections);
  for (uint32_t index = 0; index < connections; ++index) {
    std::promise<std::shared_ptr<client::Connector>> made;
    const int64_t start = NanosecondsNow();
    const NdkStatus status =
        adapter_->CreateConnector([&](const client::Outcome& outcome, std::shared_ptr<client::Connector> connector) {
          Check(outcome, "CreateConnector");
          board_.creation[index] = NanosecondsNow() - start;
          made.set_value(std::move(connector));
        });
    CheckPending(status, "CreateConnector");
    connectors_.push_back(made.get_future().get());
  }
}

void LibraryActiveSide::Run(bool at_once) {
  at_once_ = at_once;
  for (size_t index = 0; index < (at_once ? connectors_.size() : 1); ++index) Connect(index);
  finished_.acquire();
  for (size_t index = 0; at_once && index < connectors_.size(); ++index) board_.AwaitPassive();
}

void LibraryActiveSide::Connect(size_t index) {
  const auto number = static_cast<uint32_t>(index);
  const client::ConnectParameters parameters = {
      .source = {ip_, 0},
      .destination = {ip_, board_.port},
      .limits = {},
      .private_data = std::string(reinterpret_cast<const char*>(&number), sizeof number)};
  board_.times[index].begun = NanosecondsNow();
  const auto replied = [this, index](const client::Outcome& outcome) {
    Check(outcome, "Connect");
    board_.times[index].replied = NanosecondsNow();
    Complete(index);
  };
  CheckPending(connectors_[index]->Connect((*queue_pairs_)[index], parameters, replied), "Connect");
}

void LibraryActiveSide::Complete(size_t index) {
  const auto established = [this, index](const client::Outcome& outcome) {
    Check(outcome, "CompleteConnect");
    board_.times[index].active_established = NanosecondsNow();
    HandleEstablished(index);
  };
  CheckPending(connectors_[index]->CompleteConnect({}, established), "CompleteConnect");
}

void LibraryActiveSide::HandleEstablished(size_t index) {
  if (!at_once_) {
    board_.AwaitPassive();
    if (index + 1 < connectors_.size()) return Connect(index + 1);
    return finished_.release();
  }
  if (++established_ == connectors_.size()) finished_.release();
}

LibraryPassiveSide::LibraryPassiveSide(const std::string& socket, const std::string& device, const IpAddress& ip,
                                       HandshakeBoard& board)
    : LibrarySide(socket, device, board) {
  std::promise<void> listening;
  const auto created = [&](const client::Outcome& outcome, std::shared_ptr<client::Listener> listener) {
    Check(outcome, "CreateListener");
    listener_ = std::move(listener);
    const auto done = [&](const client::Outcome& listened) {
      Check(listened, "Listen");
      board_.port = listener_->address().value_or(SocketAddress()).port;
      listening.set_value();
    };
    CheckPending(listener_->Listen(SocketAddress{ip, 0}, done), "Listen");
  };
  const auto arrived = [this](const std::shared_ptr<client::Connector>& connector) { Accept(connector); };
  CheckPending(adapter_->CreateListener(arrived, created), "CreateListener");
  listening.get_future().wait();
}

void LibraryPassiveSide::Handle(const Command& command) {
  switch (command.order) {
    case Order::kPrepare:
      connectors_.resize(command.connections);
      return queue_pairs_->Make(command.connections);
    case Order::kRun:
      return finished_.acquire();
    case Order::kEnd:
      return End();
  }
}

void LibraryPassiveSide::Accept(const std::shared_ptr<client::Connector>& connector) {
  const auto data = connector->connection_data();
  uint32_t index = 0;
  if (data == nullptr || data->private_data.size() < sizeof index) Fail("a stranger connects");
  std::memcpy(&index, data->private_data.data(), sizeof index);
  Require(index < connectors_.size(), "a stranger connects");
  connectors_[index] = connector;
  const auto accepted = [this, index](const client::Outcome& outcome) {
    Check(outcome, "Accept");
    board_.NotePassive(index);
    if (++established_ == connectors_.size()) finished_.release();
  };
  CheckPending(connector->Accept((*queue_pairs_)[index], {}, {}, accepted), "Accept");
}

}  // namespace rdmabroker::bench
