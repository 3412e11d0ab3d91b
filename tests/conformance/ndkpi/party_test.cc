// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/ndkpi/party.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "tests/conformance/ndkpi/call.h"
#include "tests/control/temporary_folder.h"
#include "tests/integration/running_broker.h"

namespace rdmabroker::ndkpi {
namespace {

// What ends a case, which GoogleTest reports, and not the process with the cases after it.
using EndOfACase = std::runtime_error;

TEST(AParty, WithoutABrokerEndsItsCase) {
  const TemporaryFolder nobody;
  Calls calls;
  EXPECT_THROW(Party({nobody.path() + "/control.sock", "iwarp0", {}}, calls), EndOfACase);
}

TEST(AParty, WithoutItsDeviceEndsItsCase) {
  const RunningBroker broker;
  Calls calls;
  EXPECT_THROW(Party({broker.control_socket(), "absent0", {}}, calls), EndOfACase);
}

TEST(AParty, WhoseBrokerHasGoneEndsItsCaseInsteadOfMakingNothing) {
  RunningBroker broker("timeouts.session_grace_ms = 1");
  Calls calls;
  Party party({broker.control_socket(), "iwarp0", {}}, calls);
  const TestListener idle = party.NewListener();
  broker.Kill();
  EXPECT_THROW(party.NewConnector(), EndOfACase);
  EXPECT_THROW(party.NewListener(), EndOfACase);
  EXPECT_THROW(party.NewSharedEndpoint({}), EndOfACase);
  EXPECT_THROW(party.NewReservation({}), EndOfACase);
  EXPECT_THROW(party.Reopen(), EndOfACase);
  EXPECT_THROW(AddressOf(idle), EndOfACase);
  EXPECT_THROW(DataOf(nullptr), EndOfACase);
  EXPECT_EQ(party.Connect(nullptr, nullptr, {}).Status(), NdkStatus::kUnsuccessful);
}

}  // namespace
}  // namespace rdmabroker::ndkpi
