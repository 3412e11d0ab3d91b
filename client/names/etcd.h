// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_NAMES_ETCD_H_
#define CLIENT_NAMES_ETCD_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/names/etcd.pb.h"
#include "client/names/names.h"
#include "client/names/source.h"

namespace rdmabroker::client {

// etcd's servers, one of which has to answer. Each call waits, within the time that it is given. One thread, but for
// Cancel.
class Etcd {
 public:
  // Where a file for TLS is missing or cannot be read, `problem` says so.
  Etcd(EtcdSource source, const NameOptions& options, std::string* problem);

  // The first keys of a name.
  grpc::Status Find(const std::string& name, std::chrono::milliseconds timeout, etcd::RangeResponse* response);
  // Puts an address under a name, with a lease.
  grpc::Status Put(const std::string& name, const std::string& address, int64_t lease,
                   std::chrono::milliseconds timeout);
  // Changes `*lease` only where it succeeds.
  grpc::Status Grant(std::chrono::seconds time_to_live, std::chrono::milliseconds timeout, int64_t* lease);
  // `*is_there` is whether etcd still has the lease.
  grpc::Status Renew(int64_t lease, std::chrono::milliseconds timeout, bool* is_there);
  grpc::Status Revoke(int64_t lease, std::chrono::milliseconds timeout);

  // Ends the call under way, and those to come but Revoke.
  void Cancel();

  static Outcome OutcomeOf(const grpc::Status& status);

 private:
  // Takes the call as the one under way, or tells that it was cancelled before.
  bool Begin(grpc::ClientContext* context);
  template <typename Request, typename Response>
  grpc::Status Call(const char* method, const Request& request, std::chrono::milliseconds timeout, Response* response);
  std::string KeyOf(const std::string& name) const { return source_.prefix + "/" + name + "/"; }

  const EtcdSource source_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::mutex mutex_;                          // Guards the next two.
  grpc::ClientContext* under_way_ = nullptr;  // May be cancelled.
  bool cancelled_ = false;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_NAMES_ETCD_H_
