// SPDX-License-Identifier: Apache-2.0

#include "broker/crash_points/armed_points.h"

#include <cstddef>
#include <cstdlib>

#include "broker/crash_points/crash_points.h"

namespace rdmabroker {
namespace {

struct Row {
  Step step;
  const char* name;
  const char* meaning;
};

constexpr Row kRows[] = {
    {Step::kCommit, "commit", "what a turn of the loop has changed is stored"},
    {Step::kCommitTheRest, "commit_the_rest", "what fabrics have noted meanwhile is stored"},
    {Step::kSessionOpened, "session_opened", "a stream is told of its session, a new one or one returned to"},
    {Step::kSessionRefused, "session_refused", "a stream is told that it gets none"},
    {Step::kAnswer, "answer", "a request's answer is given to its call, which writes it at the end of the turn"},
    {Step::kEvent, "event", "a stream is told of an event, which it writes as the client reads"},
    {Step::kSessionEnded, "session_ended",
     "a session's stream is told of its end, which it writes at the end of the turn"},
    {Step::kStreamReplaced, "stream_replaced", "a session's former stream is told that another has replaced it"},
    {Step::kFabricBind, "bind", "an endpoint gets its address"},
    {Step::kFabricRepurpose, "repurpose", "a reserved address becomes a listener's or a shared endpoint's"},
    {Step::kFabricRebind, "rebind", "a listener follows the device's addresses"},
    {Step::kFabricUnbind, "unbind", "an endpoint's address is given back"},
    {Step::kFabricConnect, "connect", "a fabric is asked to connect, and begins to"},
    {Step::kFabricComplete, "complete", "a fabric is asked to confirm, as the connecting side"},
    {Step::kFabricAccept, "accept", "a fabric is asked for the reply that accepts"},
    {Step::kFabricReject, "reject", "a fabric is asked for the reply that rejects"},
    {Step::kFabricRefuse, "refuse", "a fabric is asked to refuse a request that nobody takes"},
    {Step::kFabricDisconnect, "disconnect", "a fabric is asked to end a connection for its client"},
    {Step::kFabricRelease, "release", "a fabric is asked to give a connection up"},
    {Step::kFabricAdoptEndpoint, "adopt_endpoint", "a fabric is told of an endpoint that there was"},
    {Step::kFabricAdoptConnection, "adopt_connection", "a fabric is told of a connection that there was"},
    {Step::kFabricAdopted, "adopted", "a fabric ends what nobody has adopted"},
    {Step::kCreateFile, "create_file", "a new file of records is made"},
    {Step::kPutRecord, "put_record", "a record is written"},
    {Step::kEraseRecord, "erase_record", "a record is removed"},
    {Step::kFinishTransaction, "finish_transaction", "LMDB makes a transaction's records the file's"},
    {Step::kGrowFile, "grow_file", "the file grows"},
    {Step::kMoveFile, "move_file", "the new file takes the former one's place"},
    {Step::kMark, "mark", "the number of the last commit is written"},
    {Step::kSetAside, "set_aside", "a damaged file is put out of the way"},
    {Step::kKeepDescriptor, "keep_descriptor", "the supervisor is given a descriptor"},
    {Step::kForgetDescriptor, "forget_descriptor", "the supervisor is told to close one"},
    {Step::kAwaitSupervisor, "await_supervisor", "the supervisor has done all it was told"},
    {Step::kTakeDescriptors, "take_descriptors", "descriptors of the process before are taken over"},
};

std::vector<StepPoints> MakeSteps() {
  std::vector<StepPoints> steps;
  for (const Row& row : kRows) {
    if (static_cast<size_t>(row.step) != steps.size()) std::abort();
    steps.push_back({"before_" + std::string(row.name), "after_" + std::string(row.name), row.meaning});
  }
  return steps;
}

}  // namespace

const std::vector<StepPoints>& AllSteps() {
  static const auto* const kSteps = new std::vector<StepPoints>(MakeSteps());
  return *kSteps;
}

}  // namespace rdmabroker
