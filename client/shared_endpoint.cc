// SPDX-License-Identifier: Apache-2.0

#include "client/shared_endpoint.h"

#include <utility>

#include "client/object_requests.h"

namespace rdmabroker::client {

void SharedEndpoint::SubmitClose(Done done) {
  v1::CloseSharedEndpointRequest request;
  request.set_shared_endpoint_id(id());
  SubmitUncounted(std::move(request), std::move(done));
}

}  // namespace rdmabroker::client
