// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_BROKER_QUERIES_H_
#define CLIENT_CTL_BROKER_QUERIES_H_

#include <google/protobuf/message.h>
#include <grpcpp/channel.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "client/ctl/output.h"
#include "client/ctl/remote_channel.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/rdmabroker/v1/administration.grpc.pb.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"

namespace rdmabroker::ctl {

// Asks a broker, and has the answer or the error as text. Each function waits for the broker, for a while.
class BrokerQueries {
 public:
  // The socket's path must be one that client::SocketPathProblem finds nothing wrong with.
  BrokerQueries(const std::string& control_socket, OutputForm form);
  // A broker over TCP; the channel is of OpenRemoteChannel.
  BrokerQueries(const RemoteBroker& broker, std::shared_ptr<grpc::Channel> channel, OutputForm form);

  // `what` is one of adapters, sessions, endpoints, listeners, shared-endpoints, reservations, connectors. Reads all
  // pages. kUsage: it is another word.
  ExitCode List(const std::string& what);
  // Why a connector is as it is.
  ExitCode Explain(uint64_t connector_id);
  // kRefused: it is starting or stopping.
  ExitCode Health();
  ExitCode EndSession(uint64_t session_id);
  // Waits until the last adapter is closed, but at most `patience`; kRefused: some are open still.
  ExitCode DisableAdapter(const std::string& device, std::chrono::seconds patience);
  ExitCode EnableAdapter(const std::string& device);
  // Returns when it has begun.
  ExitCode Restart();
  // Returns when it is done, with the keys that have changed.
  ExitCode Reload();
  // Sets it, but for "", and shows it.
  ExitCode LogLevel(const std::string& level);

  // --- For who shows or follows things otherwise ---
  // All pages of a list; of sessions those with an adapter of the device.
  ExitCode Adapters(v1::ListAdaptersReply* reply);
  ExitCode Sessions(const std::string& device, v1::ListSessionsReply* reply);
  ExitCode Endpoints(v1::ListEndpointsReply* reply);
  ExitCode Connectors(v1::ListConnectorsReply* reply);
  // As DisableAdapter, without waiting.
  ExitCode StartDisabling(const std::string& device, v1::DisableAdapterReply* reply);
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // What the program exits with after such a failure, which is the error then.
  ExitCode Fail(const grpc::Status& status);

  const std::string& output() const { return output_; }
  const std::string& error() const { return error_; }

 private:
  template <typename Request, typename Reply>
  using Rpc = grpc::Status (v1::Inspection::Stub::*)(grpc::ClientContext*, const Request&, Reply*);

  // One call, whose failure is the error.
  template <typename Stub, typename Call, typename Request, typename Reply>
  ExitCode Ask(Stub& stub, Call call, const Request& request, Reply* reply);
  template <typename Request, typename Reply>
  ExitCode ReadPages(Rpc<Request, Reply> rpc, Request request, Reply* all);
  template <typename Request, typename Reply>
  ExitCode ListPages(Rpc<Request, Reply> rpc);
  ExitCode ListAdapters();
  template <typename Reply>
  ExitCode Show(const Reply& reply);
  // In the form that was asked for, which is not the table.
  ExitCode ShowMessage(const google::protobuf::Message& reply);
  ExitCode SayDone();

  const std::string place_;  // The control socket, or the address.
  const RemoteBroker remote_;
  const OutputForm form_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Inspection::Stub> inspection_;
  const std::unique_ptr<v1::Administration::Stub> administration_;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health_;
  std::string output_;
  std::string error_;
};

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_BROKER_QUERIES_H_
