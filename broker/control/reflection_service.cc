// SPDX-License-Identifier: Apache-2.0

#include "broker/control/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <memory>
#include <set>
#include <utility>

#include "broker/control/status_mapping.h"

namespace rdmabroker {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflection;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// Adds `file` and all that it imports, each once.
void AddFile(const FileDescriptor* file, std::set<const FileDescriptor*>& added, ServerReflectionResponse* response) {
  if (!added.insert(file).second) return;
  google::protobuf::FileDescriptorProto description;
  file->CopyTo(&description);
  response->mutable_file_descriptor_response()->add_file_descriptor_proto(description.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) AddFile(file->dependency(i), added, response);
}

void AnswerWithFile(const FileDescriptor* file, ServerReflectionResponse* response) {
  if (file == nullptr) {
    response->mutable_error_response()->set_error_code(grpc::StatusCode::NOT_FOUND);
    response->mutable_error_response()->set_error_message("no such file or symbol");
    return;
  }
  std::set<const FileDescriptor*> added;
  AddFile(file, added, response);
}

Outcome Silent() {
  return {.status = NdkStatus::kIoTimeout,
          .retryable = true,
          .hint = "reflection: no question came in time; ask by another call"};
}

}  // namespace

ServerReflectionResponse Reflect(const ServerReflectionRequest& request, const std::vector<std::string>& services) {
  const DescriptorPool* pool = DescriptorPool::generated_pool();
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      AnswerWithFile(pool->FindFileByName(request.file_by_filename()), &response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      AnswerWithFile(pool->FindFileContainingSymbol(request.file_containing_symbol()), &response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services) response.mutable_list_services_response()->add_service()->set_name(name);
      break;
    default:
      // proto3 has no extensions but those of protobuf's own options, which nobody calls this server with.
      response.mutable_error_response()->set_error_code(grpc::StatusCode::UNIMPLEMENTED);
      response.mutable_error_response()->set_error_message("ask for services, or for a file by its name or a symbol");
  }
  return response;
}

// One ServerReflectionInfo call; what is under way on it owns it. Questions are read one at a time.
class ReflectionService::Call : public std::enable_shared_from_this<Call> {
 public:
  explicit Call(ReflectionService& service) : service_(service) {}

  void Wait() {
    const auto self = shared_from_this();
    GrpcLoop& loop = service_.context_.loop;
    void* done = loop.Tag([self](bool) { self->Leave(); });
    call_.AsyncNotifyWhenDone(done);
    auto* queue = loop.queue();
    service_.service_.RequestServerReflectionInfo(&call_, &stream_, queue, queue, loop.Tag([self, done](bool ok) {
      if (!ok) return self->service_.context_.loop.Drop(done);
      self->service_.Serve();
      self->Begin();
    }));
  }

 private:
  void Begin() {
    std::shared_ptr<const Caller> caller;
    const grpc::Status admitted = service_.context_.Admit(call_, "ServerReflectionInfo", &caller);
    if (!admitted.ok()) return Finish(admitted);
    if (const auto refusal = service_.open_.RefuseTo(caller.get())) return Finish(GrpcStatusOf(*refusal));
    who_ = WhoIs(*caller);
    service_.open_.Enter(who_);
    Read();
  }

  void Read() {
    StartPatience([](Call& self) { self.Finish(GrpcStatusOf(Silent())); });
    stream_.Read(&request_, service_.context_.loop.Tag([self = shared_from_this()](bool ok) { self->Answer(ok); }));
  }

  void Answer(bool ok) {
    if (finishing_) return;
    CancelPatience();
    if (!ok) return Finish(grpc::Status::OK);
    // What is unread is lost, and the status with it: it would come after it.
    StartPatience([](Call& self) { self.call_.TryCancel(); });
    stream_.Write(Reflect(request_, service_.services_), service_.context_.loop.Tag([self = shared_from_this()](bool) {
      self->CancelPatience();
      self->Read();
    }));
  }

  void Finish(const grpc::Status& status) {
    finishing_ = true;
    stream_.Finish(status, service_.context_.loop.Tag([self = shared_from_this()](bool) {}));
  }

  // The call is over.
  void Leave() {
    if (!who_.empty()) service_.open_.Leave(who_);
  }

  void StartPatience(void (*lose)(Call& self)) {
    patience_ = service_.watcher_.StartTimer(Watcher::Now() + service_.patience_, [weak = weak_from_this(), lose] {
      if (const auto self = weak.lock()) lose(*self);
    });
  }
  void CancelPatience() { service_.watcher_.CancelTimer(std::exchange(patience_, TimerId::kNone)); }

  ReflectionService& service_;
  grpc::ServerContext call_;
  grpc::ServerAsyncReaderWriter<ServerReflectionResponse, ServerReflectionRequest> stream_{&call_};
  ServerReflectionRequest request_;
  std::string who_;  // Once it counts.
  bool finishing_ = false;
  TimerId patience_ = TimerId::kNone;
};

ReflectionService::ReflectionService(UnaryContext& context, Watcher& watcher, ServerReflection::AsyncService& service,
                                     std::vector<std::string> services, absl::Duration patience)
    : context_(context), watcher_(watcher), service_(service), services_(std::move(services)), patience_(patience) {
  Serve();
}

void ReflectionService::Serve() { std::make_shared<Call>(*this)->Wait(); }

}  // namespace rdmabroker
