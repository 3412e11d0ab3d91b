// SPDX-License-Identifier: Apache-2.0

// A client that goes as far as it is told with one connection over user-space iWARP, so that a test can kill it there.
//
//   doomed_client CONTROL_SOCKET STAGE [PEER]
//
// With PEER it connects to that; without, it listens on 127.0.0.1 and prints its address. At the stage it prints
// "there" and waits for the end of its standard input. Stages:
//   requested    passive: a connect request has come, nothing is decided
//   replied      active: the peer has accepted, nothing is completed
//   established  the transport is with the broker
//   fetched      the transport is here, and the broker waits for the acknowledgement
//   attached     the transport is the data path's, which is idle

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "client/blocking.h"
#include "dataplane/ndk/socket_address.h"
#include "tests/control/connections.h"
#include "tests/control/handoff_fetcher.h"
#include "tests/control/test_client.h"
#include "tests/integration/library_client.h"

namespace rdmabroker {
namespace {

constexpr uint32_t kQp = 2;
constexpr char kHandoffSocket[] = "handoff.sock";

void Print(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

[[noreturn]] void WaitThere() {
  // TestClient says by GoogleTest what went wrong; it has been printed.
  if (testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed()) ::_exit(1);
  Print("there");
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) continue;
  ::_exit(0);
}

// Ends this process: it does not get where it should.
[[noreturn]] void Stray(const char* where, const std::string& why) {
  std::fprintf(stderr, "doomed_client: %s: %s\n", where, why.c_str());
  ::_exit(1);
}

void Check(const char* where, const v1::Outcome& outcome) {
  if (NdkStatusOf(outcome) != NdkStatus::kSuccess) Stray(where, outcome.ShortDebugString());
}

void Check(const char* where, const client::Outcome& outcome) {
  if (!outcome.ok()) Stray(where, outcome.hint);
}

// On the contract's plain stubs, where nothing happens by itself.
class PlainClient {
 public:
  PlainClient(const std::string& control_socket, std::string stage)
      : control_socket_(control_socket), stage_(std::move(stage)), client_(NewChannel("unix:" + control_socket)) {
    client_.Open();
    adapter_ = client_.OpenAdapter("iwarp0");
  }

  void Listen(const SocketAddress& address) {
    Print(client_.Listen(adapter_, address).second.ToString());
    const uint64_t connector = client_.WaitForConnect().connector_id();
    if (stage_ == "requested") WaitThere();
    const uint64_t request = client_.next_request_id();
    v1::Outcome accepted = client_.Accept(connector, kQp);
    if (accepted.status() == v1::STATUS_PENDING) accepted = client_.WaitForOutcome(request);
    Check("accept", accepted);
    Fetch(connector, accepted);
  }

  void Connect(const SocketAddress& peer) {
    const uint64_t connector = client_.CreateConnector(adapter_);
    Check("connect", client_.WaitForOutcome(client_.StartConnect(connector, kQp, {.ip = peer.ip}, peer)));
    if (stage_ == "replied") WaitThere();
    const v1::Outcome completed = client_.CompleteConnect(connector);
    Check("complete", completed);
    Fetch(connector, completed);
  }

 private:
  void Fetch(uint64_t connector, const v1::Outcome& established) {
    if (stage_ == "established") WaitThere();
    const std::string folder = control_socket_.substr(0, control_socket_.rfind('/') + 1);
    HandoffFetcher fetcher(ConnectAs(::getuid(), ::getgid(), folder + kHandoffSocket, SOCK_SEQPACKET));
    fetcher.Send(HandoffRequestOf(client_, connector, established).SerializeAsString());
    const auto reply = fetcher.Receive();
    if (!reply) Stray("hand-off", "no reply");
    Check("hand-off", reply->outcome());
    if (stage_ == "fetched" && fetcher.transport) WaitThere();
  }

  const std::string control_socket_;
  const std::string stage_;
  TestClient client_;
  uint64_t adapter_ = 0;
};

void Attach(const std::string& control_socket, const SocketAddress& any, const std::optional<SocketAddress>& peer) {
  LibraryClient client(control_socket);
  if (peer) {
    Check("connect", client.Connect(peer->ip, *peer));
    WaitThere();
  }
  auto [listening, listener] = client::BlockingListener::Listen(client.adapter, any);
  Check("listen", listening);
  Print(listener->address().ToString());
  Check("accept", client.Accept(*listener));
  WaitThere();
}

[[noreturn]] void Run(const std::string& control_socket, const std::string& stage,
                      const std::optional<SocketAddress>& peer) {
  const SocketAddress any = {*IpAddress::Parse("127.0.0.1"), 0};
  if (stage == "attached") Attach(control_socket, any, peer);
  PlainClient client(control_socket, stage);
  peer ? client.Connect(*peer) : client.Listen(any);
  Stray("stage", stage + " is none that this side comes to");
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 64;
  rdmabroker::Run(argv[1], argv[2], argc == 4 ? rdmabroker::SocketAddress::Parse(argv[3]) : std::nullopt);
}
