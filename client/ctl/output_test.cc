// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/output.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/time_util.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "client/ctl/explanation.h"
#include "client/ctl/watch.h"
#include "proto/rdmabroker/v1/inspection.pb.h"

namespace rdmabroker::ctl {
namespace {

using google::protobuf::TextFormat;

TEST(Yaml, SaysWhatJsonSaysInTheSameOrder) {
  EXPECT_EQ(YamlOf(R"({"zone": 7, "name": "nic0", "on": true, "rows": [{"id": "1"}, {"id": "2"}], "none": []})"),
            "zone: 7\nname: nic0\n\"on\": true\nrows:\n  - id: \"1\"\n  - id: \"2\"\nnone:\n  []\n");
  EXPECT_EQ(YamlOf("{}\n"), "{}\n");
}

TEST(Yaml, LeavesTextToBeTextWhateverItLooksLike) {
  for (const char* text : {"7", "true", "No", "null", "~", "1e3", "2026-11-23T15:00:00Z", "", " x", "a: b", "# c", "-",
                           "::1", "y", ".inf", "@", "{}"}) {
    const auto yaml = YamlOf("{\"value\": " + JsonText(text) + "}");
    ASSERT_TRUE(yaml.has_value());
    EXPECT_EQ(*yaml, "value: " + JsonText(text) + "\n");
    EXPECT_EQ(YAML::Load(*yaml)["value"].as<std::string>(), text);
  }
  const auto hostile = YamlOf(R"({"value": "a\u001b[2J\n\"b\": \\"})");
  ASSERT_TRUE(hostile.has_value());
  EXPECT_EQ(hostile->find('\x1b'), std::string::npos) << *hostile;
  EXPECT_EQ(YAML::Load(*hostile)["value"].as<std::string>(), "a\x1b[2J\n\"b\": \\");
}

TEST(Yaml, IsNotMadeOfWhatIsNoJson) { EXPECT_EQ(YamlOf("{\"a\": "), std::nullopt); }

TEST(Times, AreAsRfc3339HasThem) {
  v1::WatchReply reply;
  *reply.mutable_time() = google::protobuf::util::TimeUtil::SecondsToTimestamp(0);
  EXPECT_NE(JsonOf(reply)->find("\"1970-01-01T00:00:00Z\""), std::string::npos);
}

v1::WatchReply SomeChanges() {
  v1::WatchReply reply;
  EXPECT_TRUE(TextFormat::ParseFromString(
      R"(time { seconds: 1 nanos: 5999999 } begins: true complete: true
         changes { fate: ROW_FATE_PRESENT session { session_id: 3 uid: 1000 state: SESSION_STATE_OPEN } }
         changes { fate: ROW_FATE_REMOVED connector { connector_id: 4 } }
         changes { fate: ROW_FATE_ADDED adapter { device { name: "nic\x1b0" } } })",
      &reply));
  return reply;
}

TEST(AWatch, IsShownAsLines) {
  const std::string text = ShowChanges(SomeChanges(), OutputForm::kTable);
  EXPECT_EQ(text.find("TIME "), 0u) << text;
  EXPECT_NE(text.find("\n1970-01-01T00:00:01.005Z  session          3         present  state=open uid=1000 gid=0 "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n1970-01-01T00:00:01.005Z  connector        4         removed\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" adapter          nic?0     added "), std::string::npos) << text;
}

TEST(AWatch, IsALineOfJsonForEachRow) {
  const std::string text = ShowChanges(SomeChanges(), OutputForm::kJson);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
  EXPECT_EQ(text.find("\"begins\":true"), text.rfind("\"begins\":true")) << text;
  EXPECT_EQ(text.find("\"complete\":true"), text.rfind("\"complete\":true")) << text;
  EXPECT_GT(text.find("\"complete\":true"), text.find("ROW_FATE_ADDED")) << text;
}

TEST(AWatch, IsAYamlDocumentForEachRow) {
  const std::vector<YAML::Node> documents = YAML::LoadAll(ShowChanges(SomeChanges(), OutputForm::kYaml));
  ASSERT_EQ(documents.size(), 3u);
  EXPECT_EQ(documents[1]["changes"][0]["fate"].as<std::string>(), "ROW_FATE_REMOVED");
}

TEST(AWatch, WithoutARowStillTellsThatThereAreNoMore) {
  v1::WatchReply reply;
  reply.set_complete(true);
  EXPECT_NE(ShowChanges(reply, OutputForm::kJson).find("\"complete\":true"), std::string::npos);
}

TEST(AnExplanation, IsInPlainWords) {
  v1::ExplainConnectorReply reply;
  ASSERT_TRUE(TextFormat::ParseFromString(
      R"(connector { connector_id: 7 state: CONNECTOR_STATE_CONNECTING adapter_id: 2
                     peer { ip: "\300\000\002\002" port: 7471 } qp_number: 17 path_mtu: 4096 }
         session { session_id: 3 uid: 1000 pid: 123 state: SESSION_STATE_OPEN }
         adapter { device { name: "nic0" mtu: 1024 } activity { state: DEVICE_STATE_ENABLED active_connections: 1 } }
         endpoint { endpoint_id: 9 state: ENDPOINT_STATE_BOUND references: 2 connections: 1 }
         holders { shared_endpoint_id: 5 } holders { connector_id: 8 }
         since { seconds: 100 } deadline { seconds: 160 } waits_for: CONNECTOR_WAIT_PEER_REPLY
         failure { time { seconds: 90 } status: STATUS_CONNECTION_REFUSED provider_error: 28 hint: "nobody\x1b" }
         recovered: true event_unacknowledged: true advice: "Wait.")",
      &reply));
  EXPECT_EQ(
      ExplainInWords(reply, std::chrono::system_clock::from_time_t(112)),
      "connector:     7\n"
      "state:         connecting, since 1970-01-01T00:01:40Z (12 s ago)\n"
      "waits for:     the peer's answer\n"
      "gives up:      1970-01-01T00:02:40Z (in 48 s)\n"
      "session:       3, of uid 1000 and pid 123, open; it has not acknowledged an event about this connector\n"
      "adapter:       2 of nic0, enabled, MTU 1024, 1 active connection\n"
      "local:         -\n"
      "peer:          192.0.2.2:7471\n"
      "queue pair:    17\n"
      "path MTU:      4096\n"
      "endpoint:      9 at -, bound, 2 references, 1 connection on the wire; held by shared endpoint 5, connector "
      "8, too\n"
      "last failure:  STATUS_CONNECTION_REFUSED, the transport's reason 28, 1970-01-01T00:01:30Z (22 s ago): "
      "nobody?\n"
      "recovered:     its connection was begun by an earlier process of the broker\n"
      "what to do:    Wait.\n");
}

TEST(AnExplanation, DoesNotCountWhatIsWithheld) {
  v1::ExplainConnectorReply reply;
  reply.mutable_adapter()->mutable_activity()->set_withheld(true);
  EXPECT_EQ(ExplainInWords(reply, {}).find("active connection"), std::string::npos);
}

TEST(AnExplanation, HasWordsForEveryWait) {
  for (int wait = 1; wait < v1::ConnectorWait_ARRAYSIZE; ++wait) {
    v1::ExplainConnectorReply reply;
    reply.set_waits_for(static_cast<v1::ConnectorWait>(wait));
    EXPECT_EQ(ExplainInWords(reply, {}).find("does not know"), std::string::npos) << wait;
  }
}

}  // namespace
}  // namespace rdmabroker::ctl
