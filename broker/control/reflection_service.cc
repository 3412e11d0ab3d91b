// SPDX-License-Identifier: Apache-2.0

#include "broker/control/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <memory>
#include <set>
#include <utility>

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

// One ServerReflectionInfo call; what is under way on it owns it. Questions are read one at a time.
class ReflectionCall : public std::enable_shared_from_this<ReflectionCall> {
 public:
  ReflectionCall(UnaryContext& context, ServerReflection::AsyncService& service, std::vector<std::string> services)
      : context_(context), service_(service), services_(std::move(services)) {}

  void Wait() {
    auto* queue = context_.loop.queue();
    service_.RequestServerReflectionInfo(&call_, &stream_, queue, queue,
                                         context_.loop.Tag([self = shared_from_this()](bool ok) { self->Start(ok); }));
  }

 private:
  void Start(bool ok) {
    if (!ok) return;
    std::make_shared<ReflectionCall>(context_, service_, services_)->Wait();
    std::shared_ptr<const Caller> caller;
    const grpc::Status admitted = context_.Admit(call_, "ServerReflectionInfo", &caller);
    if (!admitted.ok()) return Finish(admitted);
    Read();
  }

  void Read() {
    stream_.Read(&request_, context_.loop.Tag([self = shared_from_this()](bool ok) { self->Answer(ok); }));
  }

  void Answer(bool ok) {
    if (!ok) return Finish(grpc::Status::OK);
    response_ = Reflect(request_, services_);
    stream_.Write(response_, context_.loop.Tag([self = shared_from_this()](bool) { self->Read(); }));
  }

  void Finish(const grpc::Status& status) {
    stream_.Finish(status, context_.loop.Tag([self = shared_from_this()](bool) {}));
  }

  UnaryContext& context_;
  ServerReflection::AsyncService& service_;
  const std::vector<std::string> services_;
  grpc::ServerContext call_;
  grpc::ServerAsyncReaderWriter<ServerReflectionResponse, ServerReflectionRequest> stream_{&call_};
  ServerReflectionRequest request_;
  ServerReflectionResponse response_;
};

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

void ServeReflection(UnaryContext& context, ServerReflection::AsyncService& service,
                     const std::vector<std::string>& services) {
  std::make_shared<ReflectionCall>(context, service, services)->Wait();
}

}  // namespace rdmabroker
