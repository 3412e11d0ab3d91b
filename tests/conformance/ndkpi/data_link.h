// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_NDKPI_DATA_LINK_H_
#define TESTS_CONFORMANCE_NDKPI_DATA_LINK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::ndkpi {

// A connection of a and b as those have it who move data.
class DataLink {
 public:
  // Between new queue pairs, or between those that the case has made.
  explicit DataLink(World& w, void* context_at_a = nullptr, void* context_at_b = nullptr);
  DataLink(World& w, QueuePair* of_a, QueuePair* of_b, const client::ConnectionOptions& options = {});

  // Receives without memory at b, whose contexts are the numbers from 0 on.
  void PostReceivesAtB(uintptr_t count) const;
  // Without memory, and without a result.
  void SendToB(OpFlags flags = 0) const;
  // Returns when all that a has sent before has been dealt with at b, whose queue is not looked into: a read is
  // answered in order. Takes a's next result, which must be the read's.
  void Settle() const;
  // The same, and b's adapter has called everything that was due by then.
  void SettleCallbacks() const;

  World& world;
  DataSide& a;
  DataSide& b;
  QueuePair* const at_a;
  QueuePair* const at_b;
  const Connection connection;
};

// Takes so many results out.
std::vector<ResultEx> ResultsOf(CompletionQueue* queue, size_t count);
// There are none to take out.
void ExpectNoResult(DataSide& side);
// The connection ends, not by this side's wish. How it reads depends on who is the first to tell of it: InfiniBand's
// connection manager knows one kind of goodbye only.
void ExpectEnded(const DisconnectEvents& events);

// A window that closes with its scope. A queue pair must not be destroyed while it has a window bound.
class Window {
 public:
  explicit Window(DataSide& side) : object_(side.domain->CreateMemoryWindow().object) {}
  ~Window() { Close(); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  void Close();
  MemoryWindow* get() const { return object_; }
  // What the peer names to get at the buffer through the window.
  RemoteMemory remote(Buffer& buffer, size_t offset = 0) const;

 private:
  MemoryWindow* object_;
};

// A page that is registered by posts, and closes with its scope.
class FastRegion {
 public:
  FastRegion(DataSide& side, bool remote_access);
  ~FastRegion();
  FastRegion(const FastRegion&) = delete;
  FastRegion& operator=(const FastRegion&) = delete;

  NdkStatus PostTo(QueuePair* queue_pair, void* context, OpFlags flags);
  MemoryRegion* region() const { return region_; }
  RemoteMemory remote() const { return {0, region_->remote_token()}; }

 private:
  struct alignas(kFastRegisterPageSize) Page {
    uint8_t bytes[kFastRegisterPageSize] = {};
  };

  std::vector<Page> page_;
  MemoryRegion* region_;
};

// Which adapters lack what, for Case::lacks, and what each of them says in its stead.
extern const std::vector<Lack> kNoWindows;
extern const std::vector<Lack> kNoFastRegister;
void ExpectNoWindows(World& w);
void ExpectNoFastRegister(World& w);

}  // namespace rdmabroker::ndkpi

#endif  // TESTS_CONFORMANCE_NDKPI_DATA_LINK_H_
