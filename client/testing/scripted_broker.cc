// SPDX-License-Identifier: Apache-2.0

#include "client/testing/scripted_broker.h"

#include <grpcpp/server_builder.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "client/protocol/batched_request.h"
#include "proto/rdmabroker/v1/inspection.pb.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "proto/rdmabroker/v1/rpc_status.pb.h"

namespace rdmabroker::client {
namespace {

constexpr std::chrono::seconds kPatience{20};

v1::NdkStatus ToNumber(NdkStatus status) { return static_cast<v1::NdkStatus>(static_cast<int32_t>(status)); }

grpc::ByteBuffer Pack(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

void Unpack(const grpc::ByteBuffer& buffer, google::protobuf::Message* message) {
  grpc::Slice slice;
  if (buffer.DumpToSingleSlice(&slice).ok()) message->ParseFromArray(slice.begin(), static_cast<int>(slice.size()));
}

void SetAddress(v1::SocketAddress* address, uint32_t port) {
  address->set_ip(std::string("\x7f\0\0\1", 4));
  address->set_port(port);
}

v1::ConnectionData SomeConnectionData(const std::string& private_data) {
  v1::ConnectionData data;
  SetAddress(data.mutable_local(), 50000);
  SetAddress(data.mutable_peer(), 4420);
  data.mutable_limits()->set_inbound(4);
  data.mutable_limits()->set_outbound(2);
  data.set_private_data(private_data);
  data.set_three_way(true);
  return data;
}

}  // namespace

struct ScriptedBroker::Step {
  Call* call;
  void (Call::*function)(bool ok);
};

// One RPC, whatever its method.
struct ScriptedBroker::Call {
  explicit Call(ScriptedBroker* broker) : owner(broker) {
    owner->calls_.insert(this);
    context.AsyncNotifyWhenDone(&done);
    pending = 1;
    owner->service_.RequestCall(&context, &stream, owner->queue_.get(), owner->queue_.get(), &arrived);
  }
  void Arrived(bool ok) {
    if (!ok) {
      owner->calls_.erase(this);
      delete this;
      return;
    }
    ++pending;  // Done.
    owner->Arrive(this);
    Ended();
  }
  void Read() {
    ++pending;
    stream.Read(&received, &read);
  }
  void ReadDone(bool ok) {
    if (ok) is_stream ? owner->HandleStreamMessage(this) : owner->HandleRequest(this);
    Ended();
  }
  void Finish(const grpc::Status& status) {
    if (std::exchange(finished, true)) return;
    ++pending;
    stream.Finish(status, &finish);
  }
  void Written(bool) {
    writing = false;
    if (finish_after.has_value()) {
      Finish(*finish_after);
    } else {
      owner->WriteNext(this);
    }
    Ended();
  }
  void Ended(bool = true) {
    if (--pending > 0) return;
    if (owner->stream_ == this) owner->stream_ = nullptr;
    owner->calls_.erase(this);
    delete this;
  }

  ScriptedBroker* const owner;
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  grpc::ByteBuffer received;
  bool is_stream = false;
  bool batches = false;
  bool writing = false;
  bool finished = false;
  std::optional<grpc::Status> finish_after;
  std::deque<grpc::ByteBuffer> outgoing;
  std::deque<std::pair<uint64_t, bool>> untaken;  // Requests of the stream, and whether they have been dealt with.
  uint64_t taken = 0;
  int pending = 0;
  Step arrived{this, &Call::Arrived};
  Step read{this, &Call::ReadDone};
  Step write{this, &Call::Written};
  Step finish{this, &Call::Ended};
  Step done{this, &Call::Ended};
};

ScriptedBroker::ScriptedBroker() {
  char name[] = "/tmp/scripted-broker-XXXXXX";
  folder_ = ::mkdtemp(name);
  control_socket_ = folder_ + "/control.sock";
  grpc::ServerBuilder builder;
  builder.RegisterAsyncGenericService(&service_);
  builder.AddListeningPort("unix:" + control_socket_, grpc::InsecureServerCredentials());
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  thread_ = std::thread([this] { Run(); });
  Perform([this] { new Call(this); });
}

ScriptedBroker::~ScriptedBroker() {
  Die();
  ::unlink(control_socket_.c_str());
  ::unlink((folder_ + "/handoff.sock").c_str());
  ::rmdir(folder_.c_str());
}

void ScriptedBroker::Die() {
  if (std::exchange(dead_, true)) return;
  server_->Shutdown(std::chrono::system_clock::now());
  Perform([this] {
    stopping_ = true;
    for (const auto& [id, call] : std::exchange(held_, {})) call->Ended();
  });
  thread_.join();
}

void ScriptedBroker::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    if (tag != this) {
      const Step* const step = static_cast<Step*>(tag);
      (step->call->*step->function)(ok);
    }
    std::vector<std::function<void()>> work;
    bool waking = false;
    {
      const std::lock_guard lock(mutex_);
      if (tag == this) waking_ = false;
      waking = waking_;
      work.swap(work_);
    }
    for (const auto& run : work) run();
    if (stopping_ && calls_.empty() && !waking && !std::exchange(down_, true)) queue_->Shutdown();
  }
}

void ScriptedBroker::Perform(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  if (std::exchange(waking_, true)) return;
  wake_.Set(queue_.get(), gpr_time_0(GPR_CLOCK_REALTIME), this);
}

void ScriptedBroker::Arrive(Call* call) {
  if (!stopping_) new Call(this);
  call->is_stream = call->context.method() == "/rdmabroker.v1.Broker/Session";
  if (call->is_stream) stream_ = call;
  call->Read();
}

void ScriptedBroker::HandleRequest(Call* call) {
  Request request;
  request.method = call->context.method().substr(call->context.method().rfind('/') + 1);
  const auto* const descriptor = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
      "rdmabroker.v1." + request.method + "Request");
  request.message.reset(google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor)->New());
  Unpack(call->received, request.message.get());
  const auto* const reflection = request.message->GetReflection();
  if (const auto* const header = descriptor->FindFieldByName("header"); header != nullptr) {
    const auto& fields = static_cast<const v1::RequestHeader&>(reflection->GetMessage(*request.message, header));
    request.request_id = fields.request_id();
    request.acknowledged_event = fields.acknowledged_event();
  }
  const Answer answer = Decide(request);
  if (request.method == "ListAdapters" && answer.kind == Answer::Kind::kReply) {
    v1::ListAdaptersReply reply;
    reply.add_devices()->set_name("iwarp0");
    call->pending += 1;
    call->finished = true;
    return call->stream.WriteAndFinish(Pack(reply), {}, grpc::Status::OK, &call->finish);
  }
  if (answer.kind == Answer::Kind::kHold) {
    held_[request.request_id] = call;
    ++call->pending;
    return;
  }
  Reply(call, answer);
}

ScriptedBroker::Answer ScriptedBroker::Decide(const Request& asked) {
  Request request = asked;
  const auto* const id = request.message->GetDescriptor()->FindFieldByNumber(2);
  if (id != nullptr && id->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT64) {
    request.object = request.message->GetReflection()->GetUInt64(*request.message, id);
  }
  Script script;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    acknowledged_ = std::max(acknowledged_, request.acknowledged_event);
    if (const auto found = scripts_.find(request.method); found != scripts_.end()) script = found->second;
    changed_.notify_all();
  }
  const Answer answer = script ? script(request) : Success();
  const bool to_fill = answer.kind == Answer::Kind::kReply && answer.outcome.status() == v1::STATUS_SUCCESS &&
                       answer.outcome.payload_case() == v1::Outcome::PAYLOAD_NOT_SET;
  return to_fill ? DefaultAnswer(request) : answer;
}

bool ScriptedBroker::HandleBatch(Call* call, const v1::RequestBatch& batch) {
  for (const v1::BatchedRequest& item : batch.requests()) call->untaken.emplace_back(item.request_id(), false);
  for (const v1::BatchedRequest& item : batch.requests()) {
    v1::BatchedRequest copy = item;
    const google::protobuf::Message& message = *RequestIn(&copy);
    Request request;
    request.method = RpcOf(message);
    request.request_id = item.request_id();
    request.acknowledged_event = batch.acknowledged_event();
    request.message.reset(message.New());
    request.message->CopyFrom(message);
    const Answer answer = Decide(request);
    if (answer.kind == Answer::Kind::kLose) return false;
    if (answer.kind == Answer::Kind::kReply) ReplyOnStream(call, request.request_id, answer);
  }
  return true;
}

void ScriptedBroker::ReplyOnStream(Call* call, uint64_t request_id, const Answer& answer) {
  for (auto& [id, taken] : call->untaken) taken = taken || id == request_id;
  for (; !call->untaken.empty() && call->untaken.front().second; call->untaken.pop_front()) {
    call->taken = call->untaken.front().first;
  }
  v1::SessionReply reply;
  reply.mutable_batch()->set_requests_taken(call->taken);
  if (answer.outcome.status() != v1::STATUS_PENDING) {
    v1::BatchedAnswer& answered = *reply.mutable_batch()->add_answers();
    answered.set_request_id(request_id);
    *answered.mutable_outcome() = answer.outcome;
  }
  call->outgoing.push_back(Pack(reply));
  WriteNext(call);
}

void ScriptedBroker::Reply(Call* call, const Answer& answer) {
  const auto number = static_cast<int32_t>(answer.outcome.status());
  if (answer.kind == Answer::Kind::kLose) {
    call->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost"));
  } else if (answer.kind == Answer::Kind::kUnknown) {
    call->Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown"));
  } else if (number < 0) {
    call->Finish(FailedRpc(answer.outcome));
  } else if (!std::exchange(call->finished, true)) {
    ++call->pending;
    call->stream.WriteAndFinish(Pack(answer.outcome), {}, grpc::Status::OK, &call->finish);
  }
}

ScriptedBroker::Answer ScriptedBroker::DefaultAnswer(const Request& request) {
  Answer answer;
  v1::Outcome& outcome = answer.outcome;
  if (request.method == "OpenAdapter") {
    v1::AdapterOpened& opened = *outcome.mutable_adapter_opened();
    opened.set_adapter_id(++last_object_);
    opened.set_client_ends_connections(true);
    opened.mutable_info()->set_max_caller_data(56);
    opened.mutable_info()->set_max_callee_data(148);
    opened.mutable_info()->set_technology(v1::RDMA_TECHNOLOGY_IWARP);
  } else if (request.method == "CreateListener") {
    outcome.mutable_listener_created()->set_listener_id(++last_object_);
  } else if (request.method == "Listen") {
    SetAddress(outcome.mutable_listening()->mutable_address(), 4420);
  } else if (request.method == "CreateSharedEndpoint") {
    outcome.mutable_shared_endpoint_created()->set_shared_endpoint_id(++last_object_);
    SetAddress(outcome.mutable_shared_endpoint_created()->mutable_address(), 50000);
  } else if (request.method == "ReservePort") {
    outcome.mutable_port_reserved()->set_reservation_id(++last_object_);
    SetAddress(outcome.mutable_port_reserved()->mutable_address(), 50000);
  } else if (request.method == "CreateConnector") {
    outcome.mutable_connector_created()->set_connector_id(++last_object_);
  } else if (request.method == "Connect" || request.method == "ConnectWithSharedEndpoint") {
    outcome = Connected();
  } else if (request.method == "Accept" || request.method == "CompleteConnect") {
    outcome = Established();
  }
  return answer;
}

void ScriptedBroker::HandleStreamMessage(Call* call) {
  v1::SessionRequest message;
  Unpack(call->received, &message);
  v1::Outcome refused;
  v1::SessionReply reply;
  grpc::Status end;
  {
    const std::lock_guard lock(mutex_);
    if (on_stream_) end = on_stream_(message);
    if (message.has_resume()) refused = refuse_returns_;
    if (message.has_acknowledge()) acknowledged_ = message.acknowledge().acknowledged_event();
    if (message.has_open() || message.has_resume()) {
      ++streams_;
      v1::SessionOpened& opened = *reply.mutable_opened();
      opened.set_session_id(7);
      opened.set_session_secret("0123456789abcdef");
      opened.set_api_minor(2);
      *opened.mutable_features() = message.has_open() ? message.open().features() : message.resume().features();
      opened.mutable_limits()->set_answers_kept(64);
      opened.mutable_limits()->set_backlog(16);
      opened.mutable_limits()->set_disconnect_timeout_ms(60'000);
      opened.mutable_limits()->set_handoff_timeout_ms(10'000);
      opened.mutable_limits()->set_session_grace_ms(30'000);
      if (adjust_opened_) adjust_opened_(&opened);
      call->batches = opened.features_size() != 0;
    }
    changed_.notify_all();
  }
  if (!end.ok()) return call->Finish(end);
  if (refused.status() != v1::STATUS_SUCCESS) return call->Finish(FailedRpc(refused));
  if (message.has_close()) return call->Finish(grpc::Status::OK);
  if (message.has_requests() && !HandleBatch(call, message.requests())) {
    return call->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost"));
  }
  if (reply.has_opened()) {
    call->outgoing.push_back(Pack(reply));
    WriteNext(call);
  }
  call->Read();
}

void ScriptedBroker::WriteNext(Call* call) {
  if (call->writing || call->finished || call->outgoing.empty()) return;
  call->writing = true;
  ++call->pending;
  const grpc::ByteBuffer next = call->outgoing.front();
  call->outgoing.pop_front();
  call->stream.Write(next, &call->write);
}

void ScriptedBroker::On(const std::string& method, Script script) {
  const std::lock_guard lock(mutex_);
  scripts_[method] = std::move(script);
}

void ScriptedBroker::OnOpen(std::function<void(v1::SessionOpened*)> adjust) {
  const std::lock_guard lock(mutex_);
  adjust_opened_ = std::move(adjust);
}

void ScriptedBroker::RefuseReturns(v1::Outcome outcome) {
  const std::lock_guard lock(mutex_);
  refuse_returns_ = std::move(outcome);
}

void ScriptedBroker::OnStream(std::function<grpc::Status(const v1::SessionRequest&)> script) {
  const std::lock_guard lock(mutex_);
  on_stream_ = std::move(script);
}

void ScriptedBroker::Emit(v1::SessionEvent event) {
  Perform([this, event = std::move(event)]() mutable {
    if (event.number() == 0) event.set_number(last_event_ + 1);
    last_event_ = std::max(last_event_, event.number());
    if (stream_ == nullptr) return;
    v1::SessionReply reply;
    if (stream_->batches) {
      reply.mutable_batch()->set_requests_taken(stream_->taken);
      *reply.mutable_batch()->add_events() = std::move(event);
    } else {
      *reply.mutable_event() = std::move(event);
    }
    stream_->outgoing.push_back(Pack(reply));
    WriteNext(stream_);
  });
}

void ScriptedBroker::EmitOutcome(uint64_t request_id, v1::Outcome outcome) {
  v1::SessionEvent event;
  event.mutable_outcome()->set_request_id(request_id);
  *event.mutable_outcome()->mutable_outcome() = std::move(outcome);
  Emit(std::move(event));
}

void ScriptedBroker::EndStream(const grpc::Status& status) {
  Perform([this, status] {
    if (stream_ == nullptr) return;
    Call* const call = std::exchange(stream_, nullptr);
    if (call->writing) {
      call->finish_after = status;
    } else {
      call->Finish(status);
    }
  });
}

void ScriptedBroker::BreakStream() {
  Perform([this] {
    if (stream_ != nullptr) std::exchange(stream_, nullptr)->context.TryCancel();
  });
}

void ScriptedBroker::Release(uint64_t request_id, const Answer& answer) {
  Perform([this, request_id, answer] {
    const auto found = held_.find(request_id);
    if (found == held_.end()) {
      // Unless it came on a stream that has ended.
      const auto came = [&](const auto& request) { return request.first == request_id; };
      if (stream_ != nullptr && answer.kind == Answer::Kind::kReply &&
          std::any_of(stream_->untaken.begin(), stream_->untaken.end(), came)) {
        ReplyOnStream(stream_, request_id, answer);
      }
      return;
    }
    Call* const call = found->second;
    held_.erase(found);
    Reply(call, answer);
    call->Ended();
  });
}

void ScriptedBroker::WaitUntil(const std::function<bool()>& condition) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, kPatience, condition)) return;
  std::fprintf(stderr, "the scripted broker waited in vain\n");
  std::abort();
}

ScriptedBroker::Request ScriptedBroker::WaitFor(const std::string& method, size_t count) {
  Request found;
  WaitUntil([&] {
    size_t seen = 0;
    for (const Request& request : requests_) {
      if (request.method != method || ++seen != count) continue;
      found = request;
      return true;
    }
    return false;
  });
  return found;
}

void ScriptedBroker::WaitForStreams(size_t count) {
  WaitUntil([&] { return streams_ >= count; });
}

size_t ScriptedBroker::streams() {
  const std::lock_guard lock(mutex_);
  return streams_;
}

uint64_t ScriptedBroker::WaitForAcknowledgement(uint64_t at_least) {
  WaitUntil([&] { return acknowledged_ >= at_least; });
  const std::lock_guard lock(mutex_);
  return acknowledged_;
}

std::vector<ScriptedBroker::Request> ScriptedBroker::requests() {
  const std::lock_guard lock(mutex_);
  return requests_;
}

ScriptedBroker::Answer ScriptedBroker::Success() { return {}; }

ScriptedBroker::Answer ScriptedBroker::Pending() {
  Answer answer;
  answer.outcome.set_status(v1::STATUS_PENDING);
  return answer;
}

ScriptedBroker::Answer ScriptedBroker::Failure(NdkStatus status, const std::string& hint) {
  Answer answer;
  answer.outcome = Error(status);
  answer.outcome.set_hint(hint);
  return answer;
}

v1::Outcome ScriptedBroker::Error(NdkStatus status) {
  v1::Outcome outcome;
  outcome.set_status(ToNumber(status));
  return outcome;
}

v1::Outcome ScriptedBroker::KeptSession() {
  v1::Outcome outcome = Error(NdkStatus::kConnectionDisconnected);
  outcome.set_retryable(true);
  return outcome;
}

grpc::Status ScriptedBroker::FailedRpc(const v1::Outcome& outcome) {
  v1::RpcStatus details;
  details.set_code(grpc::StatusCode::UNKNOWN);
  details.add_details()->PackFrom(outcome);
  return grpc::Status(grpc::StatusCode::UNKNOWN, outcome.hint(), details.SerializeAsString());
}

v1::Outcome ScriptedBroker::Connected(const std::string& private_data) {
  v1::Outcome outcome;
  *outcome.mutable_connection_data() = SomeConnectionData(private_data);
  return outcome;
}

v1::Outcome ScriptedBroker::Established(const std::string& handoff_secret) {
  v1::Outcome outcome;
  outcome.mutable_connection_established()->mutable_limits()->set_inbound(3);
  outcome.mutable_connection_established()->mutable_limits()->set_outbound(1);
  outcome.mutable_connection_established()->set_handoff_secret(handoff_secret);
  return outcome;
}

v1::SessionEvent ScriptedBroker::ConnectEvent(uint64_t listener, uint64_t connector, const std::string& private_data) {
  v1::SessionEvent event;
  event.mutable_connect()->set_listener_id(listener);
  event.mutable_connect()->set_connector_id(connector);
  *event.mutable_connect()->mutable_data() = SomeConnectionData(private_data);
  return event;
}

v1::SessionEvent ScriptedBroker::DisconnectEvent(uint64_t connector, NdkStatus status) {
  v1::SessionEvent event;
  event.mutable_disconnect()->set_connector_id(connector);
  event.mutable_disconnect()->set_status(ToNumber(status));
  return event;
}

}  // namespace rdmabroker::client
