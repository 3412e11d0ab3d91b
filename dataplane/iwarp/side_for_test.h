// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_SIDE_FOR_TEST_H_
#define DATAPLANE_IWARP_SIDE_FOR_TEST_H_

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "dataplane/adapter.h"
#include "dataplane/data_object.h"
#include "dataplane/iwarp/adapter.h"
#include "dataplane/iwarp/progress_thread.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/pending_call.h"
#include "dataplane/testing/side.h"
#include "dataplane/testing/tcp_pair.h"

namespace rdmabroker::iwarp {

// One process's worth of objects.
class Side : public DataSide {
 public:
  // On an adapter of its own, or on one that somebody else has opened and closes.
  explicit Side(const SideOptions& options = {}, Adapter* opened = nullptr)
      : DataSide(opened == nullptr ? OpenAdapter().object : opened, opened == nullptr, options) {}

  NdkStatus Attach(UniqueFd socket, const ConnectionState& state) {
    return qp->Attach({std::move(socket), EncodeConnectionState(state)}, NotesEnd());
  }
};

// Has the progress thread call this once, after all that waits there.
inline void RunOnProgressThread(std::function<void()> run) {
  class Errand final : public DataObject {
   public:
    explicit Errand(std::function<void()> run) : call(this, std::move(run)) {}
    PendingCall call;
  };
  auto* const errand = new Errand(std::move(run));
  ProgressThread::Get().Call(&errand->call);
  errand->Close({});
}

struct States {
  ConnectionState active, passive;
};

// Of a three-way handshake by the write form, which leaves no trace in the numbers.
inline States StatesFor(bool crc = true, uint32_t fpdu_limit = kMaxFpduLength, uint32_t reads = 16) {
  States states;
  for (ConnectionState* state : {&states.active, &states.passive}) {
    state->ready_to_receive = ReadyToReceive::kWrite;
    state->crc = crc;
    state->fpdu_limit = fpdu_limit;
    state->inbound_read_limit = reads;
    state->outbound_read_limit = reads;
  }
  states.passive.role = Role::kResponder;
  return states;
}

inline void Connect(Side& active, Side& passive, const States& states = StatesFor(), int family = AF_INET) {
  TcpPair pair = ConnectTcpPair(family);
  ASSERT_EQ(active.Attach(std::move(pair.active), states.active), NdkStatus::kSuccess);
  ASSERT_EQ(passive.Attach(std::move(pair.passive), states.passive), NdkStatus::kSuccess);
}

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_SIDE_FOR_TEST_H_
