// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_NDKPI_CASE_H_
#define TESTS_CONFORMANCE_NDKPI_CASE_H_

#include <functional>
#include <string>
#include <vector>

namespace rdmabroker::ndkpi {

class World;

// What an adapter has in a case's stead, which it cannot show as it stands. World::lacks() is true then, and the case
// makes the refused call and asserts what is there.
struct Lack {
  std::string adapter;
  std::string instead;  // For docs/conformance.md.
};

// One case of an assertion of assertions.txt.
struct Case {
  int assertion = 0;
  std::string name;
  std::function<void(World&)> run;
  // The broker's, as TOML; cases without share a broker.
  std::string settings = {};
  // No operation of it reaches the adapter, so that it runs once and not on each of them. That it is so is checked.
  bool core_only = false;
  std::vector<Lack> lacks = {};
};

using Cases = std::vector<Case>;

// A family each, in the order of assertions.txt.
Cases GenericCases();
Cases CloseCases();
Cases EndpointCases();
Cases ListenerCases();
Cases ConnectCases();
Cases AcceptCases();
Cases NegotiationCases();
Cases DisconnectCases();
Cases CompletionQueueCases();
Cases PostingCases();
Cases MemoryCases();
Cases SharedReceiveQueueCases();
Cases ManagementCases();

Cases AllCases();
// "044_ListenWhereAListenerIs".
std::string NameOf(const Case& which);

}  // namespace rdmabroker::ndkpi

#endif  // TESTS_CONFORMANCE_NDKPI_CASE_H_
