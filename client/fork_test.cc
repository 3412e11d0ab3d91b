// SPDX-License-Identifier: Apache-2.0

// A child by fork(2) of a process that has a session.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/blocking.h"
#include "client/session.h"
#include "client/testing/fixture.h"

namespace rdmabroker::client {
namespace {

// What the child tries; false where it came out otherwise than it should.
struct Try {
  const char* what;
  std::function<bool()> is_refused;
};

// The exit status of a child that tries all of them, and then has `last` done: 0, or the number of the first that did
// something.
int TryInChild(const std::vector<Try>& tries, const std::function<void()>& last) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);  // For one that waits.
    for (size_t i = 0; i < tries.size(); ++i) {
      if (!tries[i].is_refused()) ::_exit(static_cast<int>(i) + 1);
    }
    last();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  return WEXITSTATUS(status);
}

class ForkTest : public ClientTest {
 protected:
  void ExpectAllRefused(const std::vector<Try>& tries, const std::function<void()>& last) {
    const size_t asked = broker.requests().size();
    const int failed = TryInChild(tries, last);
    EXPECT_EQ(broker.requests().size(), asked) << "the child asks the broker nothing";
    EXPECT_EQ(failed, 0) << (failed > 0 && failed <= static_cast<int>(tries.size())
                                 ? tries[static_cast<size_t>(failed) - 1].what
                                 : "what comes last");
    Settle();
  }
};

bool IsInvalid(NdkStatus status) { return status == NdkStatus::kInvalidDeviceState; }
bool IsInvalid(const Outcome& outcome) { return IsInvalid(outcome.status) && !outcome.hint.empty(); }

TEST_F(ForkTest, AChildOpensNoSession) {
  OpenSession();
  SessionOptions options;
  options.control_socket = broker.control_socket();
  ExpectAllRefused({{"Open",
                     [&] {
                       const auto opening = Session::Open(options);
                       return opening.session == nullptr && opening.outcome.status == NdkStatus::kNotSupported &&
                              !opening.outcome.hint.empty();
                     }}},
                   [] {});
}

TEST_F(ForkTest, AChildUsesNothingOfItsParents) {
  OpenSession();
  const auto connector = Established(qp);
  const auto idle = NewConnector();
  const auto listener = NewListener([](const std::shared_ptr<Connector>&) {}, false);
  const auto none = [](const Outcome&) { ::_exit(200); };
  sockaddr address = {};
  uint32_t length = sizeof address;
  const std::vector<Try> tries = {
      {"ListAdapters", [&] { return IsInvalid(session->ListAdapters([](auto&&...) { ::_exit(200); })); }},
      {"OpenAdapter",
       [&] { return IsInvalid(session->OpenAdapter("iwarp0", kNdkVersion, {}, [](auto&&...) { ::_exit(200); })); }},
      {"CreateConnector", [&] { return IsInvalid(adapter->CreateConnector([](auto&&...) { ::_exit(200); })); }},
      {"CreateListener",
       [&] { return IsInvalid(adapter->CreateListener([](auto&&...) {}, [](auto&&...) { ::_exit(200); })); }},
      {"ReservePort", [&] { return IsInvalid(adapter->ReservePort(kSomeAddress, [](auto&&...) { ::_exit(200); })); }},
      {"Listen", [&] { return IsInvalid(listener->Listen(kSomeAddress, none)); }},
      {"Connect", [&] { return IsInvalid(idle->Connect(qp, {.destination = kSomeAddress}, none)); }},
      {"CompleteConnect", [&] { return IsInvalid(idle->CompleteConnect({}, none)); }},
      {"Accept", [&] { return IsInvalid(idle->Accept(qp, {}, {}, none)); }},
      {"Reject", [&] { return IsInvalid(idle->Reject("", none)); }},
      {"Disconnect", [&] { return IsInvalid(connector->Disconnect(none)); }},
      {"GetPeerAddress", [&] { return IsInvalid(connector->GetPeerAddress(&address, &length)); }},
      {"BlockingListAdapters", [&] { return IsInvalid(BlockingListAdapters(*session).outcome); }},
      {"BlockingConnect", [&] { return IsInvalid(BlockingConnect(adapter, qp, ConnectParameters(), {}).outcome); }},
      {"Close", [&] { return connector->Close([] { ::_exit(200); }) == NdkStatus::kSuccess; }},
      {"BlockingClose", [&] { return BlockingClose(idle) == NdkStatus::kSuccess; }},
      {"Session::Close", [&] { return session->Close([] { ::_exit(200); }) == NdkStatus::kSuccess; }}};
  ExpectAllRefused(tries, [&] {
    session = nullptr;
    adapter = nullptr;
  });
  EXPECT_NE(NewConnector(), nullptr) << "the parent's session is as it was";
  EXPECT_EQ(BlockingClose(connector), NdkStatus::kSuccess);
}

TEST_F(ForkTest, AChildWaitsForNoPeer) {
  OpenSession();
  auto made = BlockingListener::Listen(adapter, kSomeAddress);
  ASSERT_TRUE(made.outcome.ok()) << made.outcome.hint;
  ExpectAllRefused({{"Next", [&] { return IsInvalid(made.object->Next(std::chrono::hours(1)).outcome); }}},
                   [&] { made.object = nullptr; });
}

// It has not used the library before.
TEST(AChildOfAProcessWithoutASession, OpensOneAsAnybody) {
  // A process of its own, as other tests of this one open sessions.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const pid_t child = ::fork();
        if (child == 0) {
          SessionOptions options;
          options.control_socket = "/nobody/listens.sock";
          ::_exit(Session::Open(options).outcome.status == NdkStatus::kConnectionRefused ? 0 : 1);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rdmabroker::client
