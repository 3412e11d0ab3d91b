// SPDX-License-Identifier: Apache-2.0

// The other end of librdmacm's ucmatose, over connections that a broker sets up.
//
// When all connections stand, the server sends its messages on each, the client answers with as many, the server
// disconnects. ucmatose as the client receives all of them into one place and answers with what is there then.

#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/examples/connection.h"
#include "tests/peers/peer.h"

namespace rdmabroker::peers {
namespace {

using Message = std::vector<uint8_t>;

// Both ends post all their receives before they connect.
examples::ConnectionShape Shape(const Task& task) {
  return {.receives = task.count,
          .message_size = task.size,
          .limits = {.inbound = 1, .outbound = 1},
          .patience = kPatience};
}

absl::Status SendAll(examples::Connection& connection, const Task& task, const Message& message) {
  absl::Status status;
  for (uint32_t i = 0; i < task.count && status.ok(); ++i) status = connection.Send(message);
  return status;
}

// The last of them.
absl::StatusOr<Message> ReceiveAll(examples::Connection& connection, const Task& task) {
  Message last;
  for (uint32_t i = 0; i < task.count; ++i) {
    auto message = connection.Receive();
    if (!message.ok()) return message;
    if (message->size() != task.size) {
      return absl::InvalidArgumentError(
          absl::StrCat("message ", i, " has ", message->size(), " bytes; ", task.size, " were agreed on"));
    }
    last = *std::move(message);
  }
  return last;
}

// Each connection's own.
Message MessageOf(size_t connection, uint32_t size) {
  Message message(size);
  std::iota(message.begin(), message.end(), static_cast<uint8_t>(1 + connection * 16));
  return message;
}

absl::Status Serve(const Task& task) {
  const auto connections = AcceptAll(task, Shape(task));
  if (!connections.ok()) return connections.status();
  for (size_t i = 0; i < connections->size(); ++i) {
    if (absl::Status sent = SendAll(*(*connections)[i], task, MessageOf(i, task.size)); !sent.ok()) return sent;
  }
  for (size_t i = 0; i < connections->size(); ++i) {
    const auto answer = ReceiveAll(*(*connections)[i], task);
    if (!answer.ok()) return answer.status();
    if (*answer != MessageOf(i, task.size)) {
      return absl::DataLossError(absl::StrCat("connection ", i, ": other bytes came back"));
    }
  }
  for (const auto& connection : *connections) {
    if (absl::Status ended = connection->Disconnect(); !ended.ok()) return ended;
  }
  return absl::OkStatus();
}

absl::Status Answer(const Task& task) {
  const auto connections = ConnectAll(task, Shape(task));
  if (!connections.ok()) return connections.status();
  for (const auto& connection : *connections) {
    const auto message = ReceiveAll(*connection, task);
    if (!message.ok()) return message.status();
    if (absl::Status sent = SendAll(*connection, task, *message); !sent.ok()) return sent;
  }
  for (const auto& connection : *connections) {
    absl::Status ended = connection->AwaitDisconnect();
    if (ended.ok()) ended = connection->Disconnect();
    if (!ended.ok()) return ended;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace rdmabroker::peers

int main(int argc, char** argv) {
  using namespace rdmabroker::peers;
  return Main(argc, argv, "ucmatose", Serve, Answer);
}
