// SPDX-License-Identifier: Apache-2.0

#include "broker/control/row_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const Caller kRoot = {.administrator = true};
const Caller kOne = {.identity = {.uid = 1000}};
const Caller kInspector = {.identity = {.uid = kNoUser}, .inspector = true, .spiffe_id = "spiffe://a/b"};

std::string FateOf(v1::RowFate fate) {
  switch (fate) {
    case v1::ROW_FATE_PRESENT:
      return "present";
    case v1::ROW_FATE_ADDED:
      return "added";
    case v1::ROW_FATE_CHANGED:
      return "changed";
    case v1::ROW_FATE_REMOVED:
      return "removed";
    default:
      return "?";
  }
}

std::string TextOf(const v1::RowChange& change) {
  const std::string fate = FateOf(change.fate());
  switch (change.row_case()) {
    case v1::RowChange::kAdapter:
      return fate + " adapter " + change.adapter().device().name();
    case v1::RowChange::kSession:
      return absl::StrCat(fate, " session ", change.session().session_id());
    case v1::RowChange::kListener:
      return absl::StrCat(fate, " listener ", change.listener().listener_id());
    case v1::RowChange::kSharedEndpoint:
      return absl::StrCat(fate, " shared endpoint ", change.shared_endpoint().shared_endpoint_id());
    case v1::RowChange::kReservation:
      return absl::StrCat(fate, " reservation ", change.reservation().reservation_id());
    case v1::RowChange::kEndpoint:
      return absl::StrCat(fate, " endpoint ", change.endpoint().endpoint_id());
    case v1::RowChange::kConnector:
      return absl::StrCat(fate, " connector ", change.connector().connector_id());
    case v1::RowChange::ROW_NOT_SET:
      break;
  }
  return "nothing";
}

std::vector<std::string> Next(RowFeed& feed) {
  v1::WatchReply reply;
  if (!feed.Next(&reply)) return {};
  std::vector<std::string> rows;
  for (const v1::RowChange& change : reply.changes()) rows.push_back(TextOf(change));
  return rows;
}

// Two users' sessions, each with an adapter of the same device.
class RowFeedTest : public testing::Test {
 protected:
  RowFeedTest() {
    records_.devices[DeviceId(1)].device = {.id = DeviceId(1), .name = "nic0"};
    for (const uint32_t id : {1, 2}) {
      SessionRecord& session = records_.sessions[SessionId(id)];
      session.id = SessionId(id);
      session.identity.uid = id * 1000;
      AdapterRecord& adapter = records_.adapters[AdapterId(id)];
      adapter.id = AdapterId(id);
      adapter.session = SessionId(id);
      adapter.device = DeviceId(1);
    }
    index_ = Index::Of(records_);
  }

  Changes AddConnector(uint64_t id, uint64_t session) {
    ConnectorRecord& connector = records_.connectors[ConnectorId(id)];
    connector.id = ConnectorId(id);
    connector.session = SessionId(session);
    connector.adapter = AdapterId(session);
    index_ = Index::Of(records_);
    return Of(id);
  }
  Changes Erase(uint64_t id) {
    records_.connectors.erase(ConnectorId(id));
    index_ = Index::Of(records_);
    return Of(id);
  }
  static Changes Of(uint64_t connector) {
    Changes changes;
    changes.connectors = {ConnectorId(connector)};
    return changes;
  }
  Changes Connect(uint64_t id) {
    ConnectorRecord& connector = records_.connectors.at(ConnectorId(id));
    connector.state = ConnectorState::kEstablished;
    index_ = Index::Of(records_);
    return Of(id);
  }

  Records records_;
  Index index_;
  const Gate gate_{Policy(), AuditLevel::kNone};
};

TEST_F(RowFeedTest, TellsWhatThereIsAndThenWhatBecomesOfIt) {
  (void)AddConnector(1, 1);
  RowFeed feed(records_, index_, View(kRoot, records_, gate_), {});
  EXPECT_FALSE(feed.complete());
  EXPECT_THAT(Next(feed),
              ElementsAre("present adapter nic0", "present session 1", "present session 2", "present connector 1"));
  EXPECT_TRUE(feed.complete());
  EXPECT_THAT(Next(feed), IsEmpty());
  EXPECT_TRUE(feed.Note(AddConnector(2, 2)));
  EXPECT_THAT(Next(feed), ElementsAre("added connector 2"));
  EXPECT_TRUE(feed.Note(Connect(1)));
  EXPECT_THAT(Next(feed), ElementsAre("changed adapter nic0", "changed connector 1"))
      << "an adapter's row counts its connections";
  EXPECT_TRUE(feed.Note(Erase(2)));
  EXPECT_THAT(Next(feed), ElementsAre("removed connector 2"));
  EXPECT_THAT(Next(feed), IsEmpty());
}

TEST_F(RowFeedTest, TellsOfTheKindsThatAreWatchedAlone) {
  RowFeed feed(records_, index_, View(kRoot, records_, gate_), {v1::ROW_KIND_CONNECTOR, v1::ROW_KIND_SESSION});
  EXPECT_THAT(Next(feed), ElementsAre("present session 1", "present session 2"));
  Changes changes = AddConnector(1, 1);
  changes.devices = {DeviceId(1)};
  EXPECT_TRUE(feed.Note(changes));
  EXPECT_THAT(Next(feed), ElementsAre("added connector 1"));
}

TEST_F(RowFeedTest, TellsNobodyWhatOthersHave) {
  (void)AddConnector(1, 2);
  RowFeed feed(records_, index_, View(kOne, records_, gate_), {});
  EXPECT_THAT(Next(feed), ElementsAre("present adapter nic0", "present session 1"));
  EXPECT_TRUE(feed.Note(Connect(1)));
  EXPECT_TRUE(feed.Note(AddConnector(2, 2)));
  EXPECT_THAT(Next(feed), IsEmpty()) << "nor that the adapter has another connection";
  EXPECT_TRUE(feed.Note(Erase(2)));
  EXPECT_THAT(Next(feed), IsEmpty()) << "not even that it is gone";
  EXPECT_TRUE(feed.Note(AddConnector(3, 1)));
  EXPECT_THAT(Next(feed), ElementsAre("added connector 3"));
}

TEST_F(RowFeedTest, TellsAnInspectorNothingOfWhatIsOnADeviceThatRulesHide) {
  records_.devices[DeviceId(2)].device = {.id = DeviceId(2), .name = "nic1"};
  records_.adapters.at(AdapterId(2)).device = DeviceId(2);
  for (const uint64_t id : {1, 2}) {
    (void)AddConnector(id, id);
    EndpointRecord& endpoint = records_.endpoints[EndpointId(id)];
    endpoint.id = EndpointId(id);
    endpoint.device = DeviceId(id);
    endpoint.owner = ConnectorId(id);
  }
  index_ = Index::Of(records_);
  const Gate half({.allow_by_default = false, .rules = {{.name = "half", .adapters = {"nic1"}}}}, AuditLevel::kNone);
  RowFeed feed(records_, index_, View(kInspector, records_, half), {});
  EXPECT_THAT(Next(feed), ElementsAre("present adapter nic1", "present session 1", "present session 2",
                                      "present endpoint 2", "present connector 2"));
  EXPECT_TRUE(feed.Note(Connect(1)));
  EXPECT_THAT(Next(feed), IsEmpty());
  EXPECT_TRUE(feed.Note(Connect(2)));
  EXPECT_THAT(Next(feed), ElementsAre("changed adapter nic1", "changed connector 2"));
}

TEST_F(RowFeedTest, TellsARowThatHasChangedOftenOnceAsItIsThen) {
  RowFeed feed(records_, index_, View(kRoot, records_, gate_), {v1::ROW_KIND_CONNECTOR});
  (void)Next(feed);
  EXPECT_TRUE(feed.Note(AddConnector(1, 1)));
  EXPECT_TRUE(feed.Note(Connect(1)));
  v1::WatchReply reply;
  ASSERT_TRUE(feed.Next(&reply));
  ASSERT_EQ(reply.changes_size(), 1);
  EXPECT_EQ(reply.changes(0).fate(), v1::ROW_FATE_ADDED);
  EXPECT_EQ(reply.changes(0).connector().state(), v1::CONNECTOR_STATE_ESTABLISHED);
  EXPECT_TRUE(feed.Note(AddConnector(2, 1)));
  EXPECT_TRUE(feed.Note(Erase(2)));
  EXPECT_THAT(Next(feed), IsEmpty()) << "it has come and gone";
}

TEST_F(RowFeedTest, DoesNotTellARowThatIsAsItWas) {
  (void)AddConnector(1, 1);
  RowFeed feed(records_, index_, View(kRoot, records_, gate_), {});
  (void)Next(feed);
  Changes touched = Of(1);
  touched.devices = {DeviceId(1)};
  touched.sessions = {SessionId(1)};
  EXPECT_TRUE(feed.Note(touched));
  EXPECT_THAT(Next(feed), IsEmpty());
}

TEST_F(RowFeedTest, TellsOfADeviceThatGoesAndOfOneThatComes) {
  RowFeed feed(records_, index_, View(kOne, records_, gate_), {v1::ROW_KIND_ADAPTER});
  EXPECT_THAT(Next(feed), ElementsAre("present adapter nic0"));
  records_.devices.at(DeviceId(1)).removed = true;
  records_.devices[DeviceId(2)].device = {.id = DeviceId(2), .name = "nic1"};
  Changes changes;
  changes.devices = {DeviceId(1), DeviceId(2)};
  EXPECT_TRUE(feed.Note(changes));
  EXPECT_THAT(Next(feed), ElementsAre("removed adapter nic0", "added adapter nic1"));
}

TEST_F(RowFeedTest, HasEachRowOnceInPagesWhateverChangesMeanwhile) {
  constexpr uint64_t kMany = RowFeed::kRowsAtATime * 2 + 10;
  for (uint64_t id = 1; id <= kMany; ++id) (void)AddConnector(id, 1);
  RowFeed feed(records_, index_, View(kRoot, records_, gate_), {v1::ROW_KIND_CONNECTOR});
  v1::WatchReply first;
  ASSERT_TRUE(feed.Next(&first));
  EXPECT_TRUE(first.begins());
  EXPECT_FALSE(first.complete());
  EXPECT_EQ(first.changes_size(), static_cast<int>(RowFeed::kRowsAtATime));
  EXPECT_TRUE(feed.Note(Connect(1)));      // It was told.
  EXPECT_TRUE(feed.Note(Connect(kMany)));  // It was not.
  EXPECT_TRUE(feed.Note(AddConnector(kMany + 1, 1)));
  EXPECT_TRUE(feed.Note(Erase(kMany - 1)));
  EXPECT_THAT(Next(feed), SizeIs(RowFeed::kRowsAtATime));
  v1::WatchReply last;
  ASSERT_TRUE(feed.Next(&last));
  EXPECT_FALSE(last.begins());
  EXPECT_TRUE(last.complete());
  ASSERT_EQ(last.changes_size(), 10) << "one has gone, and one has come";
  EXPECT_EQ(TextOf(last.changes(8)), absl::StrCat("present connector ", kMany));
  EXPECT_EQ(last.changes(8).connector().state(), v1::CONNECTOR_STATE_ESTABLISHED);
  EXPECT_EQ(TextOf(last.changes(9)), absl::StrCat("present connector ", kMany + 1));
  EXPECT_THAT(Next(feed), ElementsAre("changed connector 1"));
}

TEST_F(RowFeedTest, RowsThatChangeAllTheTimeKeepNoOtherOfTheirKindWaiting) {
  constexpr uint64_t kMany = RowFeed::kRowsAtATime + 2;
  RowFeed feed(records_, index_, View(kRoot, records_, gate_), {v1::ROW_KIND_CONNECTOR});
  (void)Next(feed);
  for (uint64_t id = 1; id <= kMany; ++id) EXPECT_TRUE(feed.Note(AddConnector(id, 1)));
  EXPECT_THAT(Next(feed), SizeIs(RowFeed::kRowsAtATime));
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_TRUE(feed.Note(Connect(id)));
  EXPECT_THAT(Next(feed),
              ElementsAre(absl::StrCat("added connector ", kMany - 1), absl::StrCat("added connector ", kMany),
                          "changed connector 1", "changed connector 2", "changed connector 3"));
}

TEST_F(RowFeedTest, AKindThatChangesAllTheTimeKeepsNoOtherWaiting) {
  RowFeed feed(records_, index_, View(kRoot, records_, gate_), {v1::ROW_KIND_SESSION, v1::ROW_KIND_CONNECTOR});
  (void)Next(feed);
  Changes changes;
  for (uint64_t id = 3; id <= RowFeed::kRowsAtATime * 2; ++id) {
    records_.sessions[SessionId(id)].id = SessionId(id);
    changes.sessions.push_back(SessionId(id));
  }
  EXPECT_TRUE(feed.Note(changes));
  EXPECT_TRUE(feed.Note(AddConnector(1, 1)));
  const auto rows = Next(feed);
  EXPECT_THAT(rows, SizeIs(RowFeed::kRowsAtATime));
  EXPECT_EQ(rows.back(), "added connector 1");
}

TEST_F(RowFeedTest, KeepsNoMoreThanItsBoundOfWhatIsNotRead) {
  RowFeed feed(records_, index_, View(kOne, records_, gate_), {v1::ROW_KIND_CONNECTOR}, 2);
  (void)Next(feed);
  for (uint64_t id = 1; id <= 5; ++id) EXPECT_TRUE(feed.Note(AddConnector(id, 2))) << "others' do not count";
  EXPECT_TRUE(feed.Note(AddConnector(6, 1)));
  for (int again = 0; again < 5; ++again) EXPECT_TRUE(feed.Note(Connect(6))) << "one row";
  EXPECT_TRUE(feed.Note(AddConnector(7, 1)));
  EXPECT_FALSE(feed.Note(AddConnector(8, 1)));
}

TEST_F(RowFeedTest, KeepsItsBoundOfEachKind) {
  RowFeed feed(records_, index_, View(kRoot, records_, gate_), {v1::ROW_KIND_ENDPOINT, v1::ROW_KIND_CONNECTOR}, 2);
  (void)Next(feed);
  for (uint64_t id = 1; id <= 2; ++id) {
    records_.endpoints[EndpointId(id)].id = EndpointId(id);
    Changes changes = AddConnector(id, 1);
    changes.endpoints = {EndpointId(id)};
    EXPECT_TRUE(feed.Note(changes)) << "a connector and the address that it holds";
  }
}

}  // namespace
}  // namespace rdmabroker
