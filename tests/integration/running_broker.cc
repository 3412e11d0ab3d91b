// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/running_broker.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "dataplane/unique_fd.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/control/patience.h"

namespace rdmabroker {
namespace {

bool SomebodyServes(const std::string& path) {
  sockaddr_un address = {.sun_family = AF_UNIX};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// A connection of its own, which ends with its users.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& control_socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + control_socket, grpc::InsecureChannelCredentials(), arguments);
}

// Appends the rows of one list, each with the name of the list.
template <typename Request, typename Reply, typename Rows>
bool Append(v1::Inspection::Stub& stub,
            grpc::Status (v1::Inspection::Stub::*list)(grpc::ClientContext*, const Request&, Reply*), const char* name,
            const Rows& rows_of, std::vector<std::string>* objects) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kTestPatience));
  Reply reply;
  if (!(stub.*list)(&context, Request(), &reply).ok()) return false;
  for (const auto& row : rows_of(reply)) objects->push_back(name + (" " + row.ShortDebugString()));
  return true;
}

}  // namespace

RunningBroker::RunningBroker(const std::string& settings, std::vector<std::string> command)
    : command_(std::move(command)) {
  // Debian's Abseil ends the process where it thinks that gRPC's locks might lead to a deadlock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  std::ofstream(folder() + "/broker.toml") << "log.level = \"warning\"\n"
                                           << "control.socket_directory = \"" << folder() << "\"\n"
                                           << "control.socket_group = \"\"\n"
                                           << settings << "\n";
  Start();
}

void RunningBroker::Start() {
  std::vector<std::string> command = command_;
  command.insert(command.end(), {"--config", folder() + "/broker.toml"});
  process_ = std::make_unique<ChildProcess>(std::move(command));
  // Connects when it is used: who goes on nevertheless gets no answer.
  channel_ = NewChannel(control_socket());
  ASSERT_TRUE(Becomes([this] { return SomebodyServes(control_socket()); })) << "the broker does not serve";
}

void RunningBroker::Kill() {
  channel_ = nullptr;
  process_->Kill();
}

std::optional<int> RunningBroker::Stop() {
  channel_ = nullptr;
  process_->Signal(SIGTERM);
  return process_->End();
}

int RunningBroker::Finish() {
  channel_ = nullptr;
  return process_->Finish();
}

std::string RunningBroker::Ask(const std::string& line) {
  process_->WriteLine(line);
  // Before it may stand what a library prints where something is wrong.
  for (std::string said = process_->ReadLine(); !said.empty(); said = process_->ReadLine()) {
    if (said.rfind(kAnswer, 0) == 0) return said.substr(sizeof kAnswer - 1);
    ADD_FAILURE() << "the broker says: " << said;
  }
  ADD_FAILURE() << "the broker does not answer " << line;
  return "";
}

std::vector<std::string> RunningBroker::Objects() {
  using Stub = v1::Inspection::Stub;
  const std::unique_ptr<Stub> inspection = v1::Inspection::NewStub(channel_);
  std::vector<std::string> objects;
  const bool answered =
      Append<v1::ListSessionsRequest, v1::ListSessionsReply>(
          *inspection, &Stub::ListSessions, "session", [](const auto& reply) { return reply.sessions(); }, &objects) &&
      Append<v1::ListEndpointsRequest, v1::ListEndpointsReply>(
          *inspection, &Stub::ListEndpoints, "endpoint", [](const auto& reply) { return reply.endpoints(); },
          &objects) &&
      Append<v1::ListListenersRequest, v1::ListListenersReply>(
          *inspection, &Stub::ListListeners, "listener", [](const auto& reply) { return reply.listeners(); },
          &objects) &&
      Append<v1::ListSharedEndpointsRequest, v1::ListSharedEndpointsReply>(
          *inspection, &Stub::ListSharedEndpoints, "shared endpoint",
          [](const auto& reply) { return reply.shared_endpoints(); }, &objects) &&
      Append<v1::ListReservationsRequest, v1::ListReservationsReply>(
          *inspection, &Stub::ListReservations, "reservation", [](const auto& reply) { return reply.reservations(); },
          &objects) &&
      Append<v1::ListConnectorsRequest, v1::ListConnectorsReply>(
          *inspection, &Stub::ListConnectors, "connector", [](const auto& reply) { return reply.connectors(); },
          &objects);
  return answered ? objects : std::vector<std::string>{kNoAnswer};
}

}  // namespace rdmabroker
