// SPDX-License-Identifier: Apache-2.0

#include "broker/control/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "broker/core/index.h"

namespace rdmabroker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t kMany = 1000;
constexpr uint32_t kFew = 1001;

// A user with many connectors, all on nic0, and one with two of higher ids, on nic1.
class ViewTest : public testing::Test {
 protected:
  ViewTest() {
    for (const uint64_t id : {1, 2}) {
      records_.devices[DeviceId(id)].device = {.id = DeviceId(id), .name = id == 1 ? "nic0" : "nic1"};
      SessionRecord& session = records_.sessions[SessionId(id)];
      session.id = SessionId(id);
      session.identity.uid = id == 1 ? kMany : kFew;
      AdapterRecord& adapter = records_.adapters[AdapterId(id)];
      adapter.id = AdapterId(id);
      adapter.session = SessionId(id);
      adapter.device = DeviceId(id);
    }
    for (uint64_t id = 1; id <= kConnectors; ++id) Add(id, 1);
    for (uint64_t id = kConnectors + 1; id <= kConnectors + 2; ++id) Add(id, 2);
    index_ = Index::Of(records_);
  }

  void Add(uint64_t id, uint64_t session) {
    ConnectorRecord& connector = records_.connectors[ConnectorId(id)];
    connector.id = ConnectorId(id);
    connector.session = SessionId(session);
    connector.adapter = AdapterId(session);
  }

  // Returns the ids that are visited, at most `most`, and leaves in `next_` where the next walk starts.
  std::vector<uint64_t> Walk(const Caller& caller, uint64_t after, size_t most = kConnectors) {
    std::vector<uint64_t> ids;
    const View view(caller, records_, gate_);
    next_ = view.Walk(index_.lists.connectors, records_.connectors, ConnectorId(after),
                      [&](const ConnectorRecord& connector) {
                        if (ids.size() == most) return false;
                        ids.push_back(connector.id.value());
                        return true;
                      });
    return ids;
  }

  bool ShowsSession(const Caller& caller, uint64_t id) const {
    return View(caller, records_, gate_).Shows(records_.sessions.at(SessionId(id)));
  }

  static constexpr uint64_t kConnectors = View::kMostLooks + 10;

  Records records_;
  Index index_;
  const Gate gate_{{.allow_by_default = false, .rules = {{.name = "nic1", .adapters = {"nic1"}}}}, AuditLevel::kNone};
  std::optional<ConnectorId> next_;
};

TEST_F(ViewTest, GivesAnAdministratorEveryRowInOrderPageByPage) {
  const Caller root{.administrator = true};
  EXPECT_THAT(Walk(root, 0, 2), ElementsAre(1, 2));
  EXPECT_EQ(next_, ConnectorId(2));
  EXPECT_THAT(Walk(root, 2, 1), ElementsAre(3));
  EXPECT_THAT(Walk(root, kConnectors, 2), ElementsAre(kConnectors + 1, kConnectors + 2));
  EXPECT_EQ(next_, std::nullopt) << "the last one is on that page";
  EXPECT_THAT(Walk(root, UINT64_MAX), IsEmpty());
  EXPECT_EQ(next_, std::nullopt);
}

TEST_F(ViewTest, ReachesAUsersRowsWithoutALookAtOthers) {
  // A look at one of them would throw.
  for (uint64_t id = 1; id <= kConnectors; ++id) records_.connectors.erase(ConnectorId(id));
  EXPECT_THAT(Walk({.identity = {.uid = kFew}}, 0), ElementsAre(kConnectors + 1, kConnectors + 2));
  EXPECT_EQ(next_, std::nullopt);
  EXPECT_THAT(Walk({.identity = {.uid = 1002}}, 0), IsEmpty());
  EXPECT_EQ(next_, std::nullopt);
}

TEST_F(ViewTest, ComesBackAfterSoManyLooksWhereNothingIsShown) {
  const Caller inspector{.inspector = true, .spiffe_id = "spiffe://a/b"};
  EXPECT_THAT(Walk(inspector, 0), IsEmpty()) << "rules hide nic0";
  EXPECT_EQ(next_, ConnectorId(View::kMostLooks));
  EXPECT_THAT(Walk(inspector, View::kMostLooks), ElementsAre(kConnectors + 1, kConnectors + 2));
  EXPECT_EQ(next_, std::nullopt);
}

// Several users may share that uid, so that processes are told apart.
TEST_F(ViewTest, ShowsAProcessOfTheOverflowUidItsOwnSessionAlone) {
  for (const int pid : {1, 2}) {
    Identity& owner = records_.sessions.at(SessionId(static_cast<uint64_t>(pid))).identity;
    owner = {.uid = OverflowUid(), .gid = OverflowUid(), .pid = pid};
  }
  index_ = Index::Of(records_);
  const auto caller = [](int pid) {
    return Caller{.identity = {.uid = OverflowUid(), .gid = OverflowUid(), .pid = pid}};
  };
  EXPECT_TRUE(ShowsSession(caller(1), 1));
  EXPECT_FALSE(ShowsSession(caller(1), 2));
  EXPECT_FALSE(ShowsSession(caller(2), 1));
  EXPECT_TRUE(ShowsSession(caller(2), 2));
  EXPECT_FALSE(ShowsSession(caller(3), 1));
  EXPECT_THAT(Walk(caller(1), 0, 2), ElementsAre(1, 2));
  EXPECT_THAT(Walk(caller(2), View::kMostLooks), ElementsAre(kConnectors + 1, kConnectors + 2));
  EXPECT_THAT(Walk(caller(3), View::kMostLooks), IsEmpty());
}

}  // namespace
}  // namespace rdmabroker
