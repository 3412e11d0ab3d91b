// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_SERVICES_H_
#define BROKER_CONTROL_SERVICES_H_

#include <google/protobuf/descriptor.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "broker/control/user_turns.h"
#include "proto/rpc/server_connection.h"

namespace rdmabroker {

class ServedConnection;

// A call that a client has begun, for the service that answers it.
struct BegunCall {
  ServedConnection& connection;
  rpc::CallId id = 0;
  std::string request;  // Empty if the method has many requests.
};

// The path of the contract's method that takes this request ("/rdmabroker.v1.Broker/Listen"). Each method of the
// contract has a request type of its own.
std::string PathOf(const google::protobuf::Descriptor* request);

// The methods that the broker serves, by their paths.
class Services {
 public:
  // Is called on the loop thread for each call of the method. It ends the call now or later (ServedConnection::Finish).
  using Begin = std::function<void(BegunCall call)>;

  struct Method {
    Begin begin;
    int64_t cost = 1;  // Requests to charge the caller's user (UserTurns).
  };
  // A page of a list takes as long as this many requests.
  static constexpr int64_t kPageCost = UserTurns::kShare;

  // Before the first connection. A path is added once.
  void Add(const std::string& path, rpc::Requests requests, Method method);

  const rpc::Methods& methods() const { return methods_; }
  // `path` must have been added.
  const Method& at(const std::string& path) const { return served_.at(path); }
  // The methods of the contract and of grpc.health.v1.Health that were not added.
  std::vector<std::string> Missing() const;

 private:
  rpc::Methods methods_;
  std::unordered_map<std::string, Method> served_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_SERVICES_H_
