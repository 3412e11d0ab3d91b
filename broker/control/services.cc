// SPDX-License-Identifier: Apache-2.0

#include "broker/control/services.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::MethodDescriptor;

constexpr const char* kServices[] = {"rdmabroker.v1.Broker", "rdmabroker.v1.Inspection", "rdmabroker.v1.Administration",
                                     "grpc.health.v1.Health"};

std::string PathOf(const MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

std::vector<const MethodDescriptor*> AllMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const char* name : kServices) {
    const auto* const service = DescriptorPool::generated_pool()->FindServiceByName(name);
    for (int i = 0; i < service->method_count(); ++i) methods.push_back(service->method(i));
  }
  return methods;
}

}  // namespace

std::string PathOf(const google::protobuf::Descriptor* request) {
  for (const MethodDescriptor* method : AllMethods()) {
    if (method->input_type() == request) return PathOf(*method);
  }
  return "";
}

void Services::Add(const std::string& path, rpc::Requests requests, Method method) {
  methods_.emplace(path, requests);
  served_.emplace(path, std::move(method));
}

std::vector<std::string> Services::Missing() const {
  std::vector<std::string> missing;
  for (const MethodDescriptor* method : AllMethods()) {
    if (!methods_.contains(PathOf(*method))) missing.push_back(PathOf(*method));
  }
  return missing;
}

}  // namespace rdmabroker
