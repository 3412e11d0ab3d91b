// SPDX-License-Identifier: Apache-2.0

#include "dataplane/data_object.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace rdmabroker {
namespace {

// Writes its life into a log.
class Node : public DataObject {
 public:
  Node(std::string name, Node* antecedent, std::vector<std::string>* log)
      : name_(std::move(name)), log_(log), antecedent_(antecedent) {}

 private:
  ~Node() override { log_->push_back(name_ + " gone"); }
  void Dismantle() override { log_->push_back(name_ + " dismantled"); }
  void OnClose() override { log_->push_back(name_ + " closing"); }

  const std::string name_;
  std::vector<std::string>* const log_;
  const ObjectReference<Node> antecedent_;
};

TEST(DataObject, WithoutSuccessorsItClosesInlineAndTheCompletionIsNotCalled) {
  std::vector<std::string> log;
  auto* const node = new Node("a", nullptr, &log);
  EXPECT_EQ(node->Close([&] { log.push_back("a completed"); }), NdkStatus::kSuccess);
  EXPECT_EQ(log, (std::vector<std::string>{"a closing", "a dismantled", "a gone"}));
}

TEST(DataObject, AnAntecedentClosesAfterItsLastSuccessor) {
  std::vector<std::string> log;
  auto* const parent = new Node("parent", nullptr, &log);
  auto* const child = new Node("child", parent, &log);
  auto* const grandchild = new Node("grandchild", child, &log);
  EXPECT_EQ(parent->Close([&] { log.push_back("parent completed"); }), NdkStatus::kPending);
  EXPECT_EQ(child->Close([&] { log.push_back("child completed"); }), NdkStatus::kPending);
  EXPECT_EQ(grandchild->Close([&] { log.push_back("grandchild completed"); }), NdkStatus::kSuccess);
  EXPECT_EQ(log,
            (std::vector<std::string>{"parent closing", "child closing", "grandchild closing", "grandchild dismantled",
                                      "grandchild gone", "child dismantled", "child completed", "child gone",
                                      "parent dismantled", "parent completed", "parent gone"}));
}

TEST(DataObject, EveryCloseCompletesOnceWhateverThreadIsLast) {
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> log;
    std::atomic<int> completed = 0;
    auto* const node = new Node("a", nullptr, &log);
    node->AddReference();
    std::thread other([&] { node->ReleaseReference(); });
    const NdkStatus status = node->Close([&] { ++completed; });
    other.join();
    EXPECT_EQ(completed, status == NdkStatus::kPending ? 1 : 0);
    EXPECT_EQ(log.back(), "a gone");
  }
}

}  // namespace
}  // namespace rdmabroker
