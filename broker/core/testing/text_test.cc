// SPDX-License-Identifier: Apache-2.0

#include "broker/core/testing/text.h"

#include <gtest/gtest.h>

namespace rdmabroker {
namespace {

// One sentence for each kind of event, with everything that it can carry.
const char* const kSentences[] = {
    "stream 1 opens a session, uid 1000, pid 7, secret 3",
    "stream 1 opens a session, uid 1000, pid 7, secret 3, hears of addresses",
    "stream 1 opens a session, uid 1000, pid 7, secret 3, hears of listeners' addresses",
    "stream 2 resumes session 1, seen 4, uid 1000, pid 7, secret 3",
    "stream 2 resumes session 1, seen 4, uid 1000, pid 7, secret 3, hears of addresses",
    "stream 2 resumes session 1, seen 4, uid 1000, pid 7, secret 3, hears of listeners' addresses",
    "session 1 loses its stream 2",
    "session 1 is cut from its stream 2",
    "session 1 is ended",
    "session 1 has seen 9",
    "the clock strikes",
    "session 1, request 1, seen 0: open adapter nic0, version 2.1",
    "session 1, request 1, seen 0, refused STATUS_ACCESS_DENIED, since \"a rule: it is so\": close adapter 1",
    "session 1, request 1, seen 0, refused STATUS_INSUFFICIENT_RESOURCES, for now: close adapter 1",
    "session 1, request 1, seen 0: close adapter 1",
    "session 1, request 1, seen 0: create listener on adapter 1",
    "session 1, request 1, seen 0: listen with listener 1 at 192.0.2.1:7000",
    "session 1, request 1, seen 0: listen with listener 1 at [2001:db8::1]:7000 from reservation 4",
    "session 1, request 1, seen 0: listen with listener 1 from reservation 4",
    "session 1, request 1, seen 0: listen with listener 1 at 192.0.2.1:7000, once it is there",
    "session 1, request 1, seen 0: pause listener 1",
    "session 1, request 1, seen 0: unpause listener 1",
    "session 1, request 1, seen 0: close listener 1",
    "session 1, request 1, seen 0: create shared endpoint on adapter 1 at [::1]:0",
    "session 1, request 1, seen 0: create shared endpoint on adapter 1 from reservation 4",
    "session 1, request 1, seen 0: close shared endpoint 1",
    "session 1, request 1, seen 0: reserve port on adapter 1 at 0.0.0.0:7000",
    "session 1, request 1, seen 0: release reservation 1",
    "session 1, request 1, seen 0: create connector on adapter 1",
    R"(session 1, request 1, seen 0: connect connector 1 with QP 17 from [::1]:0 to [::2]:8, reads 8/2, data "a,\x00")",
    "session 1, request 1, seen 0: connect connector 1 with QP 17 through shared endpoint 2 to [::2]:80, reads 8/2",
    "session 1, request 1, seen 0: complete connector 1",
    "session 1, request 1, seen 0: accept connector 1 with QP 17, reads 8/2, data 57*\"a\"",
    "session 1, request 1, seen 0: reject connector 1, data \"no\"",
    "session 1, request 1, seen 0: disconnect connector 1",
    "session 1, request 1, seen 0: get data of connector 1",
    "session 1, request 1, seen 0: report connector 1 ended",
    "session 1, request 1, seen 0: report connector 1 broke, error 104",
    "session 1, request 1, seen 0: close connector 1",
    "device 1 is nic0 in namespace 7 with TCP ports, reads 16/16, data 5/6, clients end connections, at 192.0.2.1 ::1",
    "device 1 is nic0 in namespace 7 with TCP ports, reads 16/16, data 5/6, keeps QPs until released, at 192.0.2.1",
    "device 1 is nic0 in namespace 7, reads 16/16, data 56/148, at",
    "device 1 is removed",
    "endpoint 1 is bound",
    "endpoint 1 is not bound, STATUS_SHARING_VIOLATION, error 98",
    "endpoint 1 is unbound",
    R"(incoming 2 of device 3 reaches endpoint 1 at [::1]:80 from [::2]:5, reads 8/2, data "hi", two-way, QP steps 3)",
    "connection 1 is replied to, reads 8/2, data \"hi\", two-way, QP steps 3",
    "connection 1 cannot connect, STATUS_CONNECTION_REFUSED, error 28, data \"no\", the QP is spoiled",
    "connection 1 is established, hand-off 5",
    "incoming 1 fails, STATUS_CONNECTION_ABORTED, error 4, data \"no\"",
    "incoming 1 is disconnected, STATUS_IO_TIMEOUT, error 110",
    "incoming 1 is handed off",
    "incoming 1 is released",
};

TEST(Sentences, AreUnderstoodAsTheyAreSaid) {
  for (const char* sentence : kSentences) {
    const absl::StatusOr<Event> event = ParseEvent(sentence, {});
    ASSERT_TRUE(event.ok()) << sentence << ": " << event.status();
    EXPECT_EQ(ToText(*event), sentence);
  }
}

TEST(Sentences, ThatAreNotUnderstoodNameTheWord) {
  const std::pair<const char*, const char*> wrong[] = {
      {"session 1: open the door", "open"},
      {"session one is ended", "one"},
      {"endpoint 1 is bound twice", "twice"},
      {"connection 1 fails, STATUS_TIRED", "STATUS_TIRED"},
      {"session 1: listen with listener 1 at 192.0.2.1", "192.0.2.1"},
      {"session 1: reject connector 1, data \"\\x0\"", "\\x0"},
  };
  for (const auto& [sentence, word] : wrong) {
    const absl::StatusOr<Event> event = ParseEvent(sentence, {});
    ASSERT_FALSE(event.ok()) << sentence;
    EXPECT_NE(event.status().message().find(word), absl::string_view::npos) << event.status();
  }
}

TEST(Sentences, LeaveToTheClientWhatTheyDoNotSay) {
  ClientDefaults defaults;
  defaults.next_request[SessionId(2)] = RequestId(5);
  defaults.seen[SessionId(2)] = EventNumber(3);
  const absl::StatusOr<Event> event = ParseEvent("session 2: close connector 1", defaults);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(ToText(*event), "session 2, request 5, seen 3: close connector 1");
}

}  // namespace
}  // namespace rdmabroker
