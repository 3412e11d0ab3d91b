// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_PROTOCOL_BATCHED_REQUEST_H_
#define CLIENT_PROTOCOL_BATCHED_REQUEST_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <utility>

#include "proto/rdmabroker/v1/requests.pb.h"

namespace rdmabroker::client {

// The field of BatchedRequest that has messages of this type; null for none.
inline const google::protobuf::FieldDescriptor* FieldOfRequest(const google::protobuf::Descriptor* type) {
  const auto* const kinds = v1::BatchedRequest::descriptor()->FindOneofByName("request");
  for (int i = 0; i < kinds->field_count(); ++i) {
    if (kinds->field(i)->message_type() == type) return kinds->field(i);
  }
  return nullptr;
}

// Makes the request one of a batch.
template <typename Message>
v1::BatchedRequest InBatch(Message request) {
  static const google::protobuf::FieldDescriptor* const kField = FieldOfRequest(Message::descriptor());
  v1::BatchedRequest item;
  auto* const place = item.GetReflection()->MutableMessage(&item, kField);
  *static_cast<Message*>(place) = std::move(request);
  return item;
}

// The request in one of a batch, such as a v1::ConnectRequest.
inline google::protobuf::Message* RequestIn(v1::BatchedRequest* item) {
  const auto* const kinds = v1::BatchedRequest::descriptor()->FindOneofByName("request");
  const auto* const reflection = item->GetReflection();
  return reflection->MutableMessage(item, reflection->GetOneofFieldDescriptor(*item, kinds));
}

// The RPC that takes such a request: "Connect" for a v1::ConnectRequest.
inline std::string RpcOf(const google::protobuf::Message& request) {
  const std::string& type = request.GetDescriptor()->name();
  return type.substr(0, type.size() - std::string_view("Request").size());
}

}  // namespace rdmabroker::client

#endif  // CLIENT_PROTOCOL_BATCHED_REQUEST_H_
