// SPDX-License-Identifier: Apache-2.0

// A session makes many requests at once, which go to the broker in batches, and the broker's process dies at each
// commit that there is for them.

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/blocking.h"
#include "client/session.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/survive/new_mortal_broker.h"

namespace rdmabroker {
namespace {

// More than the broker handles in one go.
constexpr int kRequests = 100;

const ndkpi::Surroundings* g_on = nullptr;

// How connectors were made that were asked for together.
class Made {
 public:
  // All from one callback, so that they go together.
  void Ask(client::Session& session, const std::shared_ptr<client::Adapter>& adapter) {
    ASSERT_EQ(session.ListAdapters([this, adapter](const client::Outcome&, const std::vector<client::Device>&) {
      for (int i = 0; i < kRequests; ++i) {
        adapter->CreateConnector([this](const client::Outcome& outcome, std::shared_ptr<client::Connector> connector) {
          Note(outcome, std::move(connector));
        });
      }
    }),
              NdkStatus::kPending);
    all_.get_future().wait();
  }
  int successes() const { return successes_; }
  const std::vector<std::shared_ptr<client::Connector>>& connectors() const { return connectors_; }

 private:
  void Note(const client::Outcome& outcome, std::shared_ptr<client::Connector> connector) {
    successes_ += outcome.ok() ? 1 : 0;
    connectors_.push_back(std::move(connector));
    if (connectors_.size() == kRequests) all_.set_value();
  }

  // The session's thread's, until all have come.
  int successes_ = 0;
  std::vector<std::shared_ptr<client::Connector>> connectors_;
  std::promise<void> all_;
};

size_t ConnectorsOf(RunningBroker& broker) {
  const std::vector<std::string> objects = broker.Objects();
  return static_cast<size_t>(std::count_if(
      objects.begin(), objects.end(), [](const std::string& object) { return object.rfind("connector", 0) == 0; }));
}

TEST(BatchRestart, EachRequestOfABatchIsCarriedOutOnceWhereverTheBrokerDies) {
  int deaths = 0;
  for (const char* const when : {"before", "after"}) {
    for (uint32_t commit = 1; commit <= 6; ++commit) {
      SCOPED_TRACE(std::string(when) + " commit " + std::to_string(commit));
      // Each death is its keeper's first: it would wait after more of them.
      const std::shared_ptr<KeptBroker> broker = NewMortalBroker(g_on->adapter, "");
      client::SessionOptions options;
      options.control_socket = broker->control_socket();
      const auto opening = client::Session::Open(options);
      ASSERT_TRUE(opening.outcome.ok()) << opening.outcome.hint;
      const auto adapter = client::BlockingOpenAdapter(*opening.session, g_on->device);
      ASSERT_TRUE(adapter.outcome.ok()) << adapter.outcome.hint;
      Made made;
      deaths +=
          DiesWithin(*broker, {.when = when, .commit = commit}, [&] { made.Ask(*opening.session, adapter.object); });
      EXPECT_EQ(made.successes(), kRequests);
      EXPECT_EQ(ConnectorsOf(*broker), static_cast<size_t>(kRequests));
      for (const auto& connector : made.connectors()) client::BlockingClose(connector);
      EXPECT_EQ(ConnectorsOf(*broker), 0u);
    }
  }
  // A hundred requests have few commits, of which the last ones may be too late for a death.
  EXPECT_GE(deaths, 6);
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const rdmabroker::ndkpi::Surroundings on = rdmabroker::ndkpi::Prepare("fake");
  rdmabroker::g_on = &on;
  return RUN_ALL_TESTS();
}
