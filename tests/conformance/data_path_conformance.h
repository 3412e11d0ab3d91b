// SPDX-License-Identifier: Apache-2.0

// The contract of dataplane/*.h as tests, which every data plane passes. One takes part with a DataPathPair of its own
// in a test that links this and instantiates DataPathConformance and DataPathQueueConformance.

#ifndef TESTS_CONFORMANCE_DATA_PATH_CONFORMANCE_H_
#define TESTS_CONFORMANCE_DATA_PATH_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dataplane/adapter.h"
#include "dataplane/testing/side.h"

namespace rdmabroker {

// Adapters that can reach each other, in one process.
class DataPathPair {
 public:
  virtual ~DataPathPair() = default;

  // An adapter of its own for each call.
  virtual Adapter* Open() = 0;

  // Does what a broker and two connectors do.
  virtual void Connect(QueuePair* one, ConnectionEndCallback on_end_of_one, QueuePair* other,
                       ConnectionEndCallback on_end_of_other) = 0;

  // Whether receives of unsolicited sends leave a queue alone that is armed for solicited ones.
  virtual bool tells_of_solicited() const { return true; }
  // Whether a request with local memory that may not be used has a failure of its own, and what came before it
  // succeeds. Otherwise both are cancelled.
  virtual bool tells_of_bad_memory() const { return true; }
  // Whether a side learns from its data path, and not only from a connection manager, that the other has ended.
  virtual bool tells_of_ends() const = 0;
  // Whether it learns so of a connection's end, too, that shows by cancelled requests only, as a goodbye does.
  virtual bool tells_by_cancelling() const { return true; }
};

struct DataPathCase {
  std::string name;
  // Not OK where what the case needs is not on this machine: its tests are skipped, with the message.
  std::function<absl::StatusOr<std::unique_ptr<DataPathPair>>()> make;
};

inline void PrintTo(const DataPathCase& which, std::ostream* out) { *out << which.name; }

class DataPathConformance : public ::testing::TestWithParam<DataPathCase> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // One process's worth of objects on an adapter of its own.
  std::unique_ptr<DataSide> NewSide(const SideOptions& options = {});
  // Two more queue pairs, connected.
  struct QueuePairPair {
    QueuePair* at_a = nullptr;
    QueuePair* at_b = nullptr;
  };
  QueuePairPair ConnectMore(DataSide& one, DataSide& other, void* context_of_one, void* context_of_other);

  void Connect() { Connect(*a, *b); }
  void Connect(DataSide& one, DataSide& other);
  // A receive of `length` bytes at the start of the buffer.
  static void PostReceive(DataSide& side, Buffer& buffer, size_t length, uintptr_t context = 0);
  static std::vector<MemoryWindow*> Windows(DataSide& side, size_t count);

  // Whether a request whose local memory may not be used ends like this.
  bool IsOfBadMemory(NdkStatus status) const;

  void SendToB(OpFlags flags = 0);
  // Waits until all that was sent to B before has been dealt with there, without looking into B's queue: a read is
  // answered in order.
  void Settle();
  // Waits until B's adapter has called everything that was due: it calls in order.
  void SettleCallbacks();

  std::unique_ptr<DataPathPair> pair;
  std::unique_ptr<DataSide> a, b;
};

// With both sides connected and 16 receives without memory posted at B, whose contexts are their numbers.
class DataPathQueueConformance : public DataPathConformance {
 protected:
  void SetUp() override;
};

}  // namespace rdmabroker

#endif  // TESTS_CONFORMANCE_DATA_PATH_CONFORMANCE_H_
