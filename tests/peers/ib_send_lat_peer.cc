// SPDX-License-Identifier: Apache-2.0

// The other end of perftest's ib_send_lat -R, over connections that a broker sets up.
//
// The two ends make a first connection, on which they compare what they are and keep in step: the client says
// something, the server answers in kind. On a second one, to the same address, messages go to and fro, the client's
// first. perftest looks at the answers' content only where it tells of a difference between the two, so here the server
// says what it has heard, and the client says what perftest 4.5+0.17 says on such a machine.

#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/examples/connection.h"
#include "tests/peers/peer.h"

namespace rdmabroker::peers {
namespace {

using Message = std::vector<uint8_t>;

// What perftest says of a queue pair: LID, reads, number, PSN, key, address, GID, SRQ number, GID index. Nobody looks
// at it where rdma_cm connects the queue pairs.
constexpr size_t kDestinationLength = 56;
constexpr int kIntroductions = 4;          // Version, page size, cache line, MTU.
constexpr int kStepsBeforeConnecting = 1;  // Each of the steps is a destination.
constexpr int kStepsBeforeMessages = 5;
constexpr int kStepsAfterMessages = 1;

constexpr examples::ConnectionShape kTalk = {.receives = 2, .message_size = kDestinationLength, .patience = kPatience};

examples::ConnectionShape MessagesShape(const Task& task) {
  return {.receives = 2, .message_size = task.size, .patience = kPatience};
}

// Answers that many times.
absl::Status Agree(examples::Connection& talk, int times) {
  for (int i = 0; i < times; ++i) {
    const auto heard = talk.Receive();
    if (!heard.ok()) return heard.status();
    if (absl::Status said = talk.Send(*heard); !said.ok()) return said;
  }
  return absl::OkStatus();
}

// Says that and takes the answer, which is as long.
absl::Status Say(examples::Connection& talk, const Message& message) {
  if (absl::Status said = talk.Send(message); !said.ok()) return said;
  const auto answer = talk.Receive();
  if (!answer.ok()) return answer.status();
  if (answer->size() == message.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("perftest answers ", message.size(), " bytes with ", answer->size()));
}

absl::Status KeepStep(examples::Connection& talk, int steps) {
  absl::Status status;
  for (int i = 0; i < steps && status.ok(); ++i) status = Say(talk, Message(kDestinationLength));
  return status;
}

absl::Status Introduce(examples::Connection& talk) {
  Message version(16);
  constexpr std::string_view kVersion = "6.06";
  std::copy(kVersion.begin(), kVersion.end(), version.begin());
  const std::array<Message, kIntroductions> introductions = {version, Message{0, 0, 0x10, 0}, Message{0, 0, 0, 64},
                                                             Message{'3', 0}};
  absl::Status status;
  for (const Message& introduction : introductions) {
    if (status.ok()) status = Say(talk, introduction);
  }
  return status;
}

absl::Status TakeMessage(examples::Connection& messages, const Task& task) {
  const auto message = messages.Receive();
  if (!message.ok()) return message.status();
  if (message->size() == task.size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a message of ", message->size(), " bytes; ", task.size, " were agreed on"));
}

absl::Status Serve(const Task& task) {
  const auto talk = examples::Connection::Make(task.adapter, kTalk);
  if (!talk.ok()) return talk.status();
  const auto messages = examples::Connection::Make(task.adapter, MessagesShape(task));
  if (!messages.ok()) return messages.status();
  const auto listener = Listen(task);
  if (!listener.ok()) return listener.status();
  absl::Status status = AcceptNext(**listener, **talk);
  if (status.ok()) status = Agree(**talk, kIntroductions + kStepsBeforeConnecting);
  if (status.ok()) status = AcceptNext(**listener, **messages);
  if (!status.ok()) return status;
  status = Agree(**talk, kStepsBeforeMessages);
  for (uint32_t i = 0; i < task.count && status.ok(); ++i) {
    status = TakeMessage(**messages, task);
    if (status.ok()) status = (*messages)->Send(Message(task.size));
  }
  if (status.ok()) status = Agree(**talk, kStepsAfterMessages);
  if (status.ok()) status = (*messages)->Disconnect();
  return status;
}

// perftest's server listens anew for the second connection, and does not say when it does.
absl::StatusOr<std::unique_ptr<examples::Connection>> ConnectWhenHeard(const Task& task) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    auto connection = examples::Connection::Make(task.adapter, MessagesShape(task));
    if (!connection.ok()) return connection;
    const absl::Status connected = (*connection)->Connect(task.source, task.address);
    if (connected.ok()) return connection;
    if (std::chrono::steady_clock::now() > end) return connected;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

absl::Status Send(const Task& task) {
  const auto talk = examples::Connection::Make(task.adapter, kTalk);
  if (!talk.ok()) return talk.status();
  absl::Status status = (*talk)->Connect(task.source, task.address);
  if (status.ok()) status = Introduce(**talk);
  if (status.ok()) status = KeepStep(**talk, kStepsBeforeConnecting);
  if (!status.ok()) return status;
  const auto messages = ConnectWhenHeard(task);
  if (!messages.ok()) return messages.status();
  status = KeepStep(**talk, kStepsBeforeMessages);
  for (uint32_t i = 0; i < task.count && status.ok(); ++i) {
    status = (*messages)->Send(Message(task.size));
    if (status.ok()) status = TakeMessage(**messages, task);
  }
  if (status.ok()) status = KeepStep(**talk, kStepsAfterMessages);
  if (status.ok()) status = (*messages)->Disconnect();
  return status;
}

}  // namespace
}  // namespace rdmabroker::peers

int main(int argc, char** argv) {
  using namespace rdmabroker::peers;
  return Main(argc, argv, "ib_send_lat", Serve, Send);
}
