// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/empty_handshakes.h"

#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <deque>
#include <fstream>
#include <utility>

#include "client/control_socket.h"
#include "tests/bench/bare_verbs.h"
#include "tests/bench/require.h"
#include "tests/control/test_client.h"

namespace rdmabroker::bench {
namespace {

using google::protobuf::util::ParseDelimitedFromZeroCopyStream;
using google::protobuf::util::SerializeDelimitedToOstream;
using Stub = v1::Broker::Stub;

uint64_t OpenAdapter(ClientLoop& loop, ControlClient& client, const std::string& device) {
  v1::OpenAdapterRequest request;
  request.set_device(device);
  request.mutable_version()->set_major(2);
  uint64_t adapter = 0;
  client.Ask(&Stub::PrepareAsyncOpenAdapter, request,
             [&](const v1::Outcome& outcome) { adapter = outcome.adapter_opened().adapter_id(); });
  loop.RunUntil([&] { return adapter != 0; });
  return adapter;
}

v1::SocketAddress Listen(ClientLoop& loop, ControlClient& client, const std::string& device, const IpAddress& ip) {
  v1::CreateListenerRequest create;
  create.set_adapter_id(OpenAdapter(loop, client, device));
  v1::ListenRequest listen;
  *listen.mutable_address() = ToMessage(SocketAddress{ip, 0});
  v1::SocketAddress address;
  client.Ask(&Stub::PrepareAsyncCreateListener, create, [&](const v1::Outcome& created) {
    listen.set_listener_id(created.listener_created().listener_id());
    client.Ask(&Stub::PrepareAsyncListen, listen,
               [&](const v1::Outcome& outcome) { address = outcome.listening().address(); });
  });
  loop.RunUntil([&] { return address.port() != 0; });
  return address;
}

template <typename Function>
void ForEachMessage(RecordedHandshake& recorded, const Function& function) {
  function(recorded.connect);
  function(recorded.accept);
  function(recorded.arrived);
  function(recorded.connected);
  function(recorded.completed);
  function(recorded.accepted);
}

}  // namespace

void Save(const RecordedHandshake& recorded, const std::string& path) {
  std::ofstream file(path);
  RecordedHandshake copy = recorded;
  ForEachMessage(copy, [&](const auto& message) { SerializeDelimitedToOstream(message, &file); });
  Require(file.flush().good(), path);
}

RecordedHandshake Load(const std::string& path) {
  std::ifstream file(path);
  google::protobuf::io::IstreamInputStream input(&file);
  RecordedHandshake recorded;
  ForEachMessage(recorded,
                 [&](auto& message) { Require(ParseDelimitedFromZeroCopyStream(&message, &input, nullptr), path); });
  return recorded;
}

RecordedHandshake Record(const std::string& socket, const std::string& device, const IpAddress& ip) {
  const BareDevice opened(device);
  ibv_cq* const queue = ibv_create_cq(opened.context(), 4, nullptr, nullptr, 0);
  Require(queue != nullptr, "ibv_create_cq");
  RecordedHandshake recorded;
  {
    const BareQueuePair active_qp(opened, queue, 1), passive_qp(opened, queue, 1);
    ClientLoop loop;
    ControlClient active(loop, client::OpenControlChannel(socket)), passive(loop, client::OpenControlChannel(socket));
    *recorded.connect.mutable_destination() = Listen(loop, passive, device, ip);
    *recorded.connect.mutable_source() = ToMessage(SocketAddress{ip, 0});
    recorded.connect.mutable_limits();
    recorded.connect.set_private_data(std::string(sizeof(uint32_t), '\1'));
    recorded.connect.set_qp_number(active_qp.number());
    recorded.accept.set_qp_number(passive_qp.number());
    recorded.accept.mutable_limits();
    passive.OnDisconnect([](uint64_t) {});
    active.OnDisconnect([](uint64_t) {});
    passive.OnConnect([&](const v1::ConnectEvent& event) {
      recorded.arrived = event;
      recorded.accept.set_connector_id(event.connector_id());
      passive.Ask(&Stub::PrepareAsyncAccept, recorded.accept,
                  [&](const v1::Outcome& outcome) { recorded.accepted = outcome; });
    });
    v1::CreateConnectorRequest create;
    create.set_adapter_id(OpenAdapter(loop, active, device));
    active.Ask(&Stub::PrepareAsyncCreateConnector, create, [&](const v1::Outcome& created) {
      recorded.connect.set_connector_id(created.connector_created().connector_id());
      active.Ask(&Stub::PrepareAsyncConnect, recorded.connect, [&](const v1::Outcome& outcome) {
        recorded.connected = outcome;
        v1::CompleteConnectRequest complete;
        complete.set_connector_id(recorded.connect.connector_id());
        active.Ask(&Stub::PrepareAsyncCompleteConnect, complete,
                   [&](const v1::Outcome& completed) { recorded.completed = completed; });
      });
    });
    loop.RunUntil([&] {
      return recorded.accepted.has_connection_established() && recorded.completed.has_connection_established();
    });
  }
  ibv_destroy_cq(queue);
  return recorded;
}

// One of the two streams. gRPC writes one message at a time.
struct EmptyBroker::Session {
  struct Tag final : QueueServer::Tag {
    explicit Tag(std::function<void(bool)> run) : done(std::move(run)) {}
    void Complete(bool ok) override { done(ok); }
    const std::function<void(bool)> done;
  };

  void Open(bool ok, uint64_t id) {
    if (!ok) return;
    stream.Read(&request, &read);
    v1::SessionReply reply;
    reply.mutable_opened()->set_session_id(id);
    Send(std::move(reply));
  }
  void Send(v1::SessionReply reply) {
    waiting.push_back(std::move(reply));
    if (waiting.size() == 1) stream.Write(waiting.front(), &written);
  }
  void SendOutcome(uint64_t request_id, const v1::Outcome& outcome) {
    v1::SessionReply reply;
    reply.mutable_event()->set_number(++last_event);
    reply.mutable_event()->mutable_outcome()->set_request_id(request_id);
    *reply.mutable_event()->mutable_outcome()->mutable_outcome() = outcome;
    Send(std::move(reply));
  }

  Tag read{[this](bool ok) {
    if (ok) stream.Read(&request, &read);
  }};
  Tag written{[this](bool ok) {
    waiting.pop_front();
    if (ok && !waiting.empty()) stream.Write(waiting.front(), &written);
  }};
  grpc::ServerContext context;
  grpc::ServerAsyncReaderWriter<v1::SessionReply, v1::SessionRequest> stream{&context};
  v1::SessionRequest request;
  std::deque<v1::SessionReply> waiting;
  uint64_t last_event = 0;
};

template <typename Request>
struct EmptyBroker::Call final : QueueServer::Tag {
  Call(EmptyBroker* broker, const Expect<Request>& expecting, const Answer<Request>& answering)
      : owner(broker), expect(expecting), answer(answering) {}
  void Complete(bool ok) override {
    if (!ok || answered) {
      delete this;
      return;
    }
    owner->Serve<Request>(expect, answer);
    answered = true;
    answer(*this);
  }
  void Reply(const v1::Outcome& outcome) { writer.Finish(outcome, grpc::Status::OK, this); }
  void ReplyPending() {
    v1::Outcome pending;
    pending.set_status(v1::STATUS_PENDING);
    Reply(pending);
  }

  EmptyBroker* const owner;
  const Expect<Request> expect;
  const Answer<Request> answer;
  grpc::ServerContext context;
  Request request;
  grpc::ServerAsyncResponseWriter<v1::Outcome> writer{&context};
  bool answered = false;
};

template <typename Request>
void EmptyBroker::Serve(const Expect<Request>& expect, const Answer<Request>& answer) {
  expect(new Call<Request>(this, expect, answer));
}

EmptyBroker::EmptyBroker(const std::string& path, const RecordedHandshake& recorded)
    : recorded_(recorded), three_way_(recorded.arrived.data().three_way()), server_(path, &service_) {
  ExpectSession();
  ExpectCalls();
  server_.Start();
}

EmptyBroker::~EmptyBroker() = default;

void EmptyBroker::ExpectSession() {
  sessions_.push_back(std::make_unique<Session>());
  Session* const session = sessions_.back().get();
  auto* const opened = new Session::Tag([this, session](bool ok) {
    session->Open(ok, sessions_.size());
    if (ok) ExpectSession();
  });
  service_.RequestSession(&session->context, &session->stream, server_.queue(), server_.queue(), opened);
}

void EmptyBroker::ExpectCalls() {
  grpc::ServerCompletionQueue* const queue = server_.queue();
  Serve<v1::CreateConnectorRequest>(
      [this, queue](auto* call) {
        service_.RequestCreateConnector(&call->context, &call->request, &call->writer, queue, queue, call);
      },
      [this](auto& call) {
        v1::Outcome outcome;
        outcome.mutable_connector_created()->set_connector_id(++last_connector_);
        call.Reply(outcome);
      });
  Serve<v1::ConnectRequest>(
      [this, queue](auto* call) {
        service_.RequestConnect(&call->context, &call->request, &call->writer, queue, queue, call);
      },
      [this](auto& call) { Connect(call); });
  Serve<v1::AcceptRequest>(
      [this, queue](auto* call) {
        service_.RequestAccept(&call->context, &call->request, &call->writer, queue, queue, call);
      },
      [this](auto& call) { Accept(call); });
  Serve<v1::CompleteConnectRequest>(
      [this, queue](auto* call) {
        service_.RequestCompleteConnect(&call->context, &call->request, &call->writer, queue, queue, call);
      },
      [this](auto& call) { Complete(call); });
}

void EmptyBroker::Connect(Call<v1::ConnectRequest>& call) {
  const uint64_t connector = call.request.connector_id();
  connects_[connector] = call.request.header().request_id();
  call.ReplyPending();
  Session& passive = *sessions_[0];
  v1::SessionReply reply;
  reply.mutable_event()->set_number(++passive.last_event);
  *reply.mutable_event()->mutable_connect() = recorded_.arrived;
  reply.mutable_event()->mutable_connect()->set_connector_id(connector);
  passive.Send(std::move(reply));
}

void EmptyBroker::Accept(Call<v1::AcceptRequest>& call) {
  const uint64_t connector = call.request.connector_id(), request = call.request.header().request_id();
  accepts_[connector] = request;
  call.ReplyPending();
  sessions_[1]->SendOutcome(connects_[connector], recorded_.connected);
  if (!three_way_) sessions_[0]->SendOutcome(request, recorded_.accepted);
}

void EmptyBroker::Complete(Call<v1::CompleteConnectRequest>& call) {
  const uint64_t connector = call.request.connector_id(), request = call.request.header().request_id();
  call.ReplyPending();
  sessions_[1]->SendOutcome(request, recorded_.completed);
  if (three_way_) sessions_[0]->SendOutcome(accepts_[connector], recorded_.accepted);
}

EmptySide::EmptySide(const std::string& path, const RecordedHandshake& recorded, HandshakeBoard& board)
    : board_(board), recorded_(recorded), client_(loop_, client::OpenControlChannel(path)) {}

void EmptyActiveSide::Handle(const Command& command) {
  switch (command.order) {
    case Order::kPrepare:
      connections_ = command.connections;
      return Prepare();
    case Order::kRun:
      return Run(command.at_once);
    case Order::kEnd:
      return;
  }
}

void EmptyActiveSide::Prepare() {
  connectors_.clear();
  for (uint32_t index = 0; index < connections_; ++index) {
    v1::CreateConnectorRequest request;
    request.set_adapter_id(1);
    const int64_t start = NanosecondsNow();
    client_.Ask(&Stub::PrepareAsyncCreateConnector, request, [&](const v1::Outcome& outcome) {
      board_.creation[index] = NanosecondsNow() - start;
      connectors_.push_back(outcome.connector_created().connector_id());
    });
    loop_.RunUntil([&] { return connectors_.size() > index; });
  }
}

void EmptyActiveSide::Run(bool at_once) {
  at_once_ = at_once;
  established_ = 0;
  for (size_t index = 0; index < (at_once ? connections_ : 1); ++index) Connect(index);
  loop_.RunUntil([this] { return established_ == connections_; });
  for (size_t index = 0; at_once && index < connections_; ++index) board_.AwaitPassive();
}

void EmptyActiveSide::Connect(size_t index) {
  board_.times[index].begun = NanosecondsNow();
  v1::ConnectRequest request = recorded_.connect;
  request.set_connector_id(connectors_[index]);
  client_.Ask(&Stub::PrepareAsyncConnect, std::move(request), [this, index](const v1::Outcome&) {
    board_.times[index].replied = NanosecondsNow();
    Complete(index);
  });
}

void EmptyActiveSide::Complete(size_t index) {
  v1::CompleteConnectRequest request;
  request.set_connector_id(connectors_[index]);
  client_.Ask(&Stub::PrepareAsyncCompleteConnect, std::move(request), [this, index](const v1::Outcome&) {
    board_.times[index].active_established = NanosecondsNow();
    ++established_;
    if (at_once_) return;
    board_.AwaitPassive();
    if (index + 1 < connections_) Connect(index + 1);
  });
}

EmptyPassiveSide::EmptyPassiveSide(const std::string& path, const RecordedHandshake& recorded, HandshakeBoard& board)
    : EmptySide(path, recorded, board) {
  client_.OnConnect([this](const v1::ConnectEvent& event) { Accept(event); });
}

void EmptyPassiveSide::Handle(const Command& command) {
  switch (command.order) {
    case Order::kPrepare:
      first_connector_ += connections_;
      connections_ = command.connections;
      established_ = 0;
      return;
    case Order::kRun:
      return loop_.RunUntil([this] { return established_ == connections_; });
    case Order::kEnd:
      return;
  }
}

void EmptyPassiveSide::Accept(const v1::ConnectEvent& event) {
  const uint64_t index = event.connector_id() - first_connector_;
  Require(index < connections_, "a stranger connects");
  v1::AcceptRequest request = recorded_.accept;
  request.set_connector_id(event.connector_id());
  client_.Ask(&Stub::PrepareAsyncAccept, std::move(request), [this, index](const v1::Outcome&) {
    board_.NotePassive(index);
    ++established_;
  });
}

}  // namespace rdmabroker::bench
