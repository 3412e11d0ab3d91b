// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "tests/conformance/ndkpi/case.h"

namespace rdmabroker::ndkpi {

Cases AllCases() {
  Cases all;
  for (Cases (*const family)() :
       {GenericCases, CloseCases, EndpointCases, ListenerCases, ConnectCases, AcceptCases, NegotiationCases,
        DisconnectCases, CompletionQueueCases, PostingCases, MemoryCases, SharedReceiveQueueCases, ManagementCases}) {
    Cases cases = family();
    std::move(cases.begin(), cases.end(), std::back_inserter(all));
  }
  return all;
}

std::string NameOf(const Case& which) { return absl::StrFormat("%03d_%s", which.assertion, which.name); }

}  // namespace rdmabroker::ndkpi
