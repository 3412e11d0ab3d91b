// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_OBJECT_REQUESTS_H_
#define CLIENT_OBJECT_REQUESTS_H_

#include <memory>
#include <utility>
#include <vector>

#include "client/broker_link.h"
#include "client/broker_object.h"
#include "client/completion_thread.h"
#include "client/protocol/batched_request.h"
#include "client/translation.h"

namespace rdmabroker::client {

// An object's close, made with the object: a close never fails, also where memory has run out. Kept out of the
// consumers' headers, as all of gRPC is.
struct ReservedClose {
  CompletionThread::Reserved close;
  CloseCompletion close_completion;
  std::shared_ptr<BrokerObject> closing;
};

template <typename Message>
void BrokerObject::Submit(Message message, Done done) {
  Hold();
  auto finish = [self = shared_from_this(), done = std::move(done)](const Outcome& outcome, const v1::Outcome& reply) {
    done(outcome, reply);
    self->Release();
  };
  SubmitUncounted(std::move(message), std::move(finish));
}

template <typename Message>
void BrokerObject::SubmitUncounted(Message message, Done done) {
  link_->Ask(InBatch(std::move(message)), std::move(done));
}

template <typename Object, typename Message, typename Accept>
void BrokerObject::Create(std::shared_ptr<Object> object, std::vector<std::shared_ptr<BrokerObject>> antecedents,
                          Message message, Accept accept, CreateCompletion<Object> completion) {
  for (const auto& antecedent : antecedents) antecedent->Hold();
  BrokerObject& created = *object;
  auto done = [object = std::move(object), antecedents = std::move(antecedents), accept = std::move(accept),
               completion = std::move(completion)](const Outcome& outcome, const v1::Outcome& reply) {
    BrokerObject& base = *object;
    if (!outcome.ok()) {
      completion(outcome, nullptr);
    } else if (base.Adopt(accept(reply), antecedents)) {
      completion(outcome, object);
    } else {
      completion(BrokenPromise("does not have what was asked for"), nullptr);
    }
    for (const auto& antecedent : antecedents) antecedent->Release();
  };
  created.Submit(std::move(message), std::move(done));
}

}  // namespace rdmabroker::client

#endif  // CLIENT_OBJECT_REQUESTS_H_
