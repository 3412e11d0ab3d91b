// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_EMPTY_HANDSHAKES_H_
#define TESTS_BENCH_EMPTY_HANDSHAKES_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "dataplane/ndk/socket_address.h"
#include "proto/rdmabroker/v1/broker.grpc.pb.h"
#include "tests/bench/control_client.h"
#include "tests/bench/handshake_board.h"
#include "tests/bench/queue_server.h"
#include "tests/bench/worker.h"

namespace rdmabroker::bench {

// The messages of a handshake through a broker and nothing else: they have the content of one that a broker really
// made, they wait for each other as its do, and go between as many processes, over as many connections and streams,
// with as many threads. On arrival the next one is sent.

// One handshake as a broker made it.
struct RecordedHandshake {
  v1::ConnectRequest connect;
  v1::AcceptRequest accept;
  v1::ConnectEvent arrived;
  v1::Outcome connected;
  v1::Outcome completed;
  v1::Outcome accepted;
};

// To a file, and from it.
void Save(const RecordedHandshake& recorded, const std::string& path);
RecordedHandshake Load(const std::string& path);

// Makes a handshake through the broker on `socket`, over the device and its address, and takes it down.
RecordedHandshake Record(const std::string& socket, const std::string& device, const IpAddress& ip);

// In the broker's place. The first session that is opened is the accepting side's, the second the active side's.
class EmptyBroker {
 public:
  EmptyBroker(const std::string& path, const RecordedHandshake& recorded);
  ~EmptyBroker();

 private:
  struct Session;
  template <typename Request>
  struct Call;

  // Answers requests of one kind, one call after the other; `expect` asks gRPC for the next one.
  template <typename Request>
  using Expect = std::function<void(Call<Request>*)>;
  template <typename Request>
  using Answer = std::function<void(Call<Request>&)>;
  template <typename Request>
  void Serve(const Expect<Request>& expect, const Answer<Request>& answer);

  void ExpectSession();
  void ExpectCalls();
  void Connect(Call<v1::ConnectRequest>& call);
  void Accept(Call<v1::AcceptRequest>& call);
  void Complete(Call<v1::CompleteConnectRequest>& call);

  const RecordedHandshake recorded_;
  const bool three_way_;
  v1::Broker::AsyncService service_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::unordered_map<uint64_t, uint64_t> connects_;  // Pending requests, by connector.
  std::unordered_map<uint64_t, uint64_t> accepts_;
  uint64_t last_connector_ = 0;
  QueueServer server_;
};

class EmptySide {
 public:
  EmptySide(const std::string& path, const RecordedHandshake& recorded, HandshakeBoard& board);

 protected:
  HandshakeBoard& board_;
  const RecordedHandshake recorded_;
  ClientLoop loop_;
  ControlClient client_;
  uint64_t first_connector_ = 1;  // Of this run.
  uint32_t connections_ = 0;
  uint32_t established_ = 0;
};

class EmptyActiveSide final : EmptySide {
 public:
  using EmptySide::EmptySide;
  void Handle(const Command& command);

 private:
  void Prepare();
  void Run(bool at_once);
  void Connect(size_t index);
  void Complete(size_t index);

  std::vector<uint64_t> connectors_;
  bool at_once_ = false;
};

class EmptyPassiveSide final : EmptySide {
 public:
  EmptyPassiveSide(const std::string& path, const RecordedHandshake& recorded, HandshakeBoard& board);
  void Handle(const Command& command);

 private:
  void Accept(const v1::ConnectEvent& event);
};

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_EMPTY_HANDSHAKES_H_
