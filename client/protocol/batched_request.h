// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_PROTOCOL_BATCHED_REQUEST_H_
#define CLIENT_PROTOCOL_BATCHED_REQUEST_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

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

// The request as one of a batch.
template <typename Message>
v1::BatchedRequest InBatch(Message request) {
  static const google::protobuf::FieldDescriptor* const kField = FieldOfRequest(Message::descriptor());
  v1::BatchedRequest item;
  auto* const place = item.GetReflection()->MutableMessage(&item, kField);
  *static_cast<Message*>(place) = std::move(request);
  return item;
}

}  // namespace rdmabroker::client

#endif  // CLIENT_PROTOCOL_BATCHED_REQUEST_H_
