// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_MISUSE_FUNCTIONS_H_
#define TESTS_CONFORMANCE_MISUSE_FUNCTIONS_H_

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/ndk/status.h"

namespace rdmabroker::misuse {

// A function of the public API, or one of its overloads: functions_test.cc holds the list against the headers.
struct Function {
  const char* name;  // "Connector.Connect"; of an overload "Listener.Listen(Reservation)".
  bool has_status = true;
  // The adapters that never accept it: "rxe siw".
  const char* never_accepted_on = "";
  // Those that have nothing to call it on.
  const char* never_called_on = "";
};

inline constexpr const char* kNowhere = "";
inline constexpr const char* kVerbs = "rxe siw";
inline constexpr const char* kWithoutWindows = "siw";
inline constexpr bool kNoStatus = false;

inline constexpr Function kFunctions[] = {
    {"Session.Open"},
    {"Session.ListAdapters"},
    {"Session.OpenAdapter"},
    {"Session.Close"},
    {"BrokerObject.Close"},
    {"BrokerObject.OnSessionEnd"},
    {"Extensible.QueryExtension", true, "fake iwarp rxe siw"},
    {"Adapter.info", kNoStatus},
    {"Adapter.QueryInfo"},
    {"Adapter.client_ends_connections", kNoStatus},
    {"Adapter.data", kNoStatus},
    {"Adapter.CreateListener"},
    {"Adapter.CreateSharedEndpoint"},
    {"Adapter.CreateSharedEndpoint(Reservation)"},
    {"Adapter.ReservePort"},
    {"Adapter.CreateConnector"},
    {"Listener.Listen"},
    {"Listener.Listen(Reservation)"},
    {"Listener.ControlConnectEvents"},
    {"Listener.GetLocalAddress"},
    {"Listener.address", kNoStatus},
    {"AddressHolder.address", kNoStatus},
    {"AddressHolder.OnAddressEvent"},
    {"SharedEndpoint.GetLocalAddress"},
    {"Connector.Connect"},
    {"Connector.ConnectWithSharedEndpoint"},
    {"Connector.CompleteConnect"},
    {"Connector.Accept"},
    {"Connector.Reject"},
    {"Connector.Disconnect"},
    {"Connector.GetConnectionData"},
    {"Connector.GetLocalAddress"},
    {"Connector.GetPeerAddress"},
    {"Connector.adapter", kNoStatus},
    {"Connector.connection_data", kNoStatus},
    {"OnCallbackThread", kNoStatus},
    {"BlockingListAdapters"},
    {"BlockingOpenAdapter"},
    {"BlockingCreateSharedEndpoint"},
    {"BlockingReservePort"},
    {"BlockingConnect"},
    {"BlockingConnect(SharedEndpoint)"},
    {"BlockingAccept"},
    {"BlockingReject"},
    {"BlockingDisconnect"},
    {"BlockingClose"},
    {"BlockingClose(DataObject)"},
    {"BlockingListener.Listen"},
    {"BlockingListener.address", kNoStatus},
    {"BlockingListener.listener", kNoStatus},
    {"BlockingListener.Next"},
    {"DataObject.Close"},
    {"DataObject.AddReference", kNoStatus},
    {"DataObject.ReleaseReference", kNoStatus},
    {"DataAdapter.info", kNoStatus},
    {"DataAdapter.CreateProtectionDomain"},
    {"DataAdapter.CreateCompletionQueue"},
    {"ProtectionDomain.CreateMemoryRegion"},
    {"ProtectionDomain.CreateMemoryWindow", true, kWithoutWindows},
    {"ProtectionDomain.CreateSharedReceiveQueue"},
    {"ProtectionDomain.CreateQueuePair"},
    {"CompletionQueue.GetResults", kNoStatus},
    {"CompletionQueue.GetResultsEx", kNoStatus},
    {"CompletionQueue.Arm", kNoStatus},
    {"CompletionQueue.Resize", true, "siw"},
    {"CompletionQueue.ControlInterruptModeration", true, kVerbs},
    {"SharedReceiveQueue.Receive"},
    {"SharedReceiveQueue.Modify"},
    {"MemoryRegion.Register"},
    {"MemoryRegion.Deregister"},
    {"MemoryRegion.InitializeFastRegister", true, kVerbs},
    {"MemoryRegion.local_token", kNoStatus},
    {"MemoryRegion.remote_token", kNoStatus},
    {"MemoryWindow.remote_token", kNoStatus, kNowhere, kWithoutWindows},
    {"QueuePair.Send"},
    {"QueuePair.SendAndInvalidate"},
    {"QueuePair.Receive"},
    {"QueuePair.Read"},
    {"QueuePair.Write"},
    {"QueuePair.Bind", true, kNowhere, kWithoutWindows},
    {"QueuePair.FastRegister", true, kVerbs},
    {"QueuePair.Invalidate(MemoryRegion)", true, kVerbs},
    {"QueuePair.Invalidate(MemoryWindow)", true, kNowhere, kWithoutWindows},
    {"QueuePair.Flush", kNoStatus},
    {"QueuePair.WatchAlone", kNoStatus},
    {"QueuePair.Attach", true, "rxe"},
    {"QueuePair.Disconnect", true, kVerbs},
    {"QueuePair.number", kNoStatus},
    {"QueuePair.adapter", kNoStatus},
};
inline constexpr size_t kFunctionCount = std::size(kFunctions);

// The place of a name in the list; the test's process ends where it is not there.
size_t IndexOf(std::string_view name);

// How often each function was called, and how often it was accepted: with STATUS_SUCCESS or PENDING. Any thread.
class Tally {
 public:
  void Reached(size_t function);
  void Returned(size_t function, NdkStatus status);

  // Of the calls that have a status.
  double AcceptedShare() const;
  // A line for the log, and what is missing on the adapter.
  std::string ToString() const;
  std::vector<std::string> Missing(const std::string& adapter) const;

 private:
  struct Counts {
    uint64_t calls = 0;
    uint64_t accepted = 0;
  };

  mutable std::mutex mutex_;
  std::array<Counts, kFunctionCount> counts_ = {};
};

}  // namespace rdmabroker::misuse

#endif  // TESTS_CONFORMANCE_MISUSE_FUNCTIONS_H_
