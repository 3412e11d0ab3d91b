// SPDX-License-Identifier: Apache-2.0

// Memory that is deregistered, and unmapped at once, while requests of this side name it: none of them touches it any
// more, each ends with a status, and the connection with them.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/fpdu.h"
#include "dataplane/provider_error.h"

namespace rdmabroker::iwarp {
namespace {

// More than the sockets between two sides hold, so that a part of it stays in this process.
constexpr size_t kSize = 32 << 20;

// Registered memory that goes without notice: who touches it then ends the process.
class PassingBuffer {
 public:
  PassingBuffer(ProtectionDomain* domain, MrFlags flags) : region_(domain->CreateMemoryRegion(false).object) {
    void* const memory = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    bytes_ = {static_cast<uint8_t*>(memory), kSize};
    EXPECT_EQ(region_->Register(bytes_.data(), bytes_.size(), flags), NdkStatus::kSuccess);
  }
  ~PassingBuffer() { CloseAndWait(region_); }

  Sge sge(size_t length = kSize) { return {bytes_.data(), static_cast<uint32_t>(length), region_->local_token()}; }
  std::span<uint8_t> bytes() { return bytes_; }
  void Vanish() {
    EXPECT_EQ(region_->Deregister(), NdkStatus::kSuccess);
    ::munmap(bytes_.data(), bytes_.size());
  }

 private:
  MemoryRegion* const region_;
  std::span<uint8_t> bytes_;
};

// Looks at memory that the data path may be writing: RDMA gives a consumer nothing to wait for but the bytes
// themselves.
[[gnu::no_sanitize_thread]] uint8_t Peek(const volatile uint8_t* byte) { return *byte; }

void SendAll(int socket, std::span<const uint8_t> bytes) {
  ASSERT_EQ(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

// Waits until a socket takes nothing more, so that whoever goes on with it has to stop.
void AwaitFull(int socket) {
  pollfd writable = {socket, POLLOUT, 0};
  ASSERT_TRUE(Eventually([&] { return ::poll(&writable, 1, 0) == 0; }));
}

// Reads until the other side has ended the stream.
void Drain(int socket) {
  std::vector<uint8_t> unwanted(1 << 20);
  while (::recv(socket, unwanted.data(), unwanted.size(), 0) > 0) {
  }
}

class Deregistration : public testing::Test {
 protected:
  ~Deregistration() override { side.Close(); }

  // Whatever ends the connection, it is this side's own fault.
  void ExpectLocalEnd(const std::vector<ResultEx>& results) {
    EXPECT_EQ(results[0].status, NdkStatus::kAccessViolation);
    for (size_t i = 1; i < results.size(); ++i) EXPECT_EQ(results[i].status, NdkStatus::kCancelled);
    EXPECT_FALSE(side.End().graceful);
  }

  TcpPair pair = ConnectTcpPair();
  Side side;
  Side peer;
};

TEST_F(Deregistration, OfAReadsSinkFailsTheRead) {
  PassingBuffer sink(side.domain, kMrAllowLocalWrite | kMrRdmaReadSink);
  Buffer source(peer.domain, 1'000'000, kMrAllowRemoteRead);
  ASSERT_EQ(side.Attach(std::move(pair.active), StatesFor().active), NdkStatus::kSuccess);
  const Sge sge = sink.sge(1'000'000);
  ASSERT_EQ(side.qp->Read(Context(1), {&sge, 1}, source.remote(), 0), NdkStatus::kSuccess);
  ASSERT_EQ(side.qp->Read(Context(2), {&sge, 1}, source.remote(), 0), NdkStatus::kSuccess);
  sink.Vanish();
  // The peer answers from now on.
  ASSERT_EQ(peer.Attach(std::move(pair.passive), StatesFor().passive), NdkStatus::kSuccess);
  ExpectLocalEnd(side.Results(2));
  EXPECT_FALSE(peer.End().graceful);
}

TEST_F(Deregistration, InTheMiddleOfAMessageFailsItsReceive) {
  PassingBuffer buffer(side.domain, kMrAllowLocalWrite);
  const Sge sge = buffer.sge();
  ASSERT_EQ(side.qp->Receive(Context(1), {&sge, 1}), NdkStatus::kSuccess);
  ASSERT_EQ(side.Attach(std::move(pair.active), StatesFor().active), NdkStatus::kSuccess);
  const std::string half(20'000, 'x');
  SendAll(pair.passive.get(), ComposeFpdu({.opcode = Opcode::kSend, .msn = 1}, AsBytes(half), true));
  // Its last byte has come.
  ASSERT_TRUE(Eventually([&] { return Peek(&buffer.bytes()[half.size() - 1]) == 'x'; }));
  buffer.Vanish();
  SendAll(pair.passive.get(),
          ComposeFpdu(
              {.last = true, .opcode = Opcode::kSend, .msn = 1, .message_offset = static_cast<uint32_t>(half.size())},
              AsBytes(half), true));
  ExpectLocalEnd(side.Results(1));
}

// A write that waits for a peer which does not read.
class DeregistrationOfAWritesSource : public Deregistration, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    source.emplace(side.domain, kMrAllowLocalRead);
    // Less than one call of the sender offers, so that it has to stop within one.
    const int buffer = 16 * 1024;
    ASSERT_EQ(::setsockopt(pair.active.get(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer), 0);
    UniqueFd watched(::fcntl(pair.active.get(), F_DUPFD_CLOEXEC, 0));
    ASSERT_EQ(side.Attach(std::move(pair.active), StatesFor(GetParam()).active), NdkStatus::kSuccess);
    const Sge sge = source->sge();
    ASSERT_EQ(side.qp->Write(Context(1), {&sge, 1}, {}, 0), NdkStatus::kSuccess);
    ASSERT_EQ(side.qp->Write(Context(2), {&sge, 1}, {}, 0), NdkStatus::kSuccess);
    AwaitFull(watched.get());
    watched.Reset();
    source->Vanish();
  }
  std::optional<PassingBuffer> source;
};

TEST_P(DeregistrationOfAWritesSource, FailsItAsSoonAsItWouldGoOn) {
  Drain(pair.passive.get());
  ExpectLocalEnd(side.Results(2));
}

TEST_P(DeregistrationOfAWritesSource, StandsInTheWayOfNoFlush) {
  side.qp->Flush();
  for (const ResultEx& result : side.Results(2)) EXPECT_NE(result.status, NdkStatus::kSuccess);
  Drain(pair.passive.get());
}

INSTANTIATE_TEST_SUITE_P(Crc, DeregistrationOfAWritesSource, testing::Bool());

}  // namespace
}  // namespace rdmabroker::iwarp
