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
constexpr const char* kKinds[] = {"connector", "reservation", "shared endpoint"};

const ndkpi::Surroundings* g_on = nullptr;

// The outcomes of requests that were made together: one that is answered at once, two that end by events, and one that
// is refused; and this again.
class Outcomes {
 public:
  // All from one callback, so that they go together.
  void Ask(client::Session& session, const std::shared_ptr<client::Adapter>& adapter) {
    ASSERT_EQ(session.ListAdapters([this, adapter](const client::Outcome&, const std::vector<client::Device>&) {
      for (int i = 0; i < kRequests; i += 4) {
        adapter->CreateConnector(Notes<client::Connector>());
        adapter->ReservePort({g_on->ips[0][0], 0}, Notes<client::Reservation>());
        adapter->CreateSharedEndpoint({g_on->ips[0][0], 0}, Notes<client::SharedEndpoint>());
        adapter->ReservePort({g_on->foreign, 0}, Notes<client::Reservation>());
      }
    }),
              NdkStatus::kPending);
    all_.get_future().wait();
  }
  int refused() const { return refused_; }
  const std::vector<std::shared_ptr<client::BrokerObject>>& made() const { return made_; }

 private:
  template <typename Object>
  client::CreateCompletion<Object> Notes() {
    return [this](const client::Outcome& outcome, std::shared_ptr<Object> object) {
      EXPECT_EQ(outcome.ok(), object != nullptr);
      if (object == nullptr) ++refused_;
      if (object != nullptr) made_.push_back(std::move(object));
      if (made_.size() + static_cast<size_t>(refused_) == kRequests) all_.set_value();
    };
  }

  // The session's thread's, until all have come.
  int refused_ = 0;
  std::vector<std::shared_ptr<client::BrokerObject>> made_;
  std::promise<void> all_;
};

// How many objects of the kind clients have.
int Count(RunningBroker& broker, const std::string& kind) {
  const std::vector<std::string> objects = broker.Objects();
  return static_cast<int>(std::count_if(objects.begin(), objects.end(),
                                        [&](const std::string& object) { return object.rfind(kind, 0) == 0; }));
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
      Outcomes outcomes;
      deaths += DiesWithin(*broker, {.when = when, .commit = commit},
                           [&] { outcomes.Ask(*opening.session, adapter.object); });
      EXPECT_EQ(outcomes.refused(), kRequests / 4);
      for (const char* const kind : kKinds) EXPECT_EQ(Count(*broker, kind), kRequests / 4) << kind;
      for (const auto& object : outcomes.made()) EXPECT_EQ(client::BlockingClose(object), NdkStatus::kSuccess);
      for (const char* const kind : kKinds) EXPECT_EQ(Count(*broker, kind), 0) << kind;
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
