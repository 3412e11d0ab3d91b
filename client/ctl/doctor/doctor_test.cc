// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/doctor/doctor.h"

#include <gtest/gtest.h>

namespace rdmabroker::ctl {
namespace {

const Findings kFindings = {{"rdma_ucm", Severity::kProblem, "not \"loaded\"", "modprobe rdma_ucm"},
                            {"memlock", Severity::kNote, "tab\there\xff", "a\\b"},
                            {"broker", Severity::kOk, "it answers", ""}};

TEST(ShowingFindings, EachIsARowOfATable) {
  EXPECT_EQ(ShowFindings(kFindings, OutputForm::kTable),
            "WHAT      STATE    MEANING       COMMAND THAT MENDS IT\n"
            "rdma_ucm  problem  not \"loaded\"  modprobe rdma_ucm\n"
            "memlock   note     tab?here\xff     a\\b\n"
            "broker    ok       it answers\n");
}

TEST(ShowingFindings, EachIsAnObjectOfJson) {
  EXPECT_EQ(ShowFindings(kFindings, OutputForm::kJson), R"({
 "findings": [
  {
   "what": "rdma_ucm",
   "state": "problem",
   "meaning": "not \"loaded\"",
   "command": "modprobe rdma_ucm"
  },
  {
   "what": "memlock",
   "state": "note",
   "meaning": "tab\u0009here?",
   "command": "a\\b"
  },
  {
   "what": "broker",
   "state": "ok",
   "meaning": "it answers",
   "command": ""
  }
 ]
}
)");
  EXPECT_EQ(ShowFindings({}, OutputForm::kJson), "{\n \"findings\": []\n}\n");
}

TEST(ShowingFindings, ANoteIsNoProblem) {
  EXPECT_TRUE(HasProblem(kFindings));
  EXPECT_FALSE(HasProblem({kFindings[1], kFindings[2]}));
}

TEST(Examining, ASocketThatIsNotThereIsABrokersProblem) {
  const Findings found = Examine("/nonexistent/control.sock");
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back().what, "broker");
  EXPECT_EQ(found.back().severity, Severity::kProblem);
  EXPECT_EQ(found.back().meaning, "no broker listens on /nonexistent/control.sock");
  EXPECT_EQ(found.back().command, "rdma-brokerd --config FILE &");
}

}  // namespace
}  // namespace rdmabroker::ctl
