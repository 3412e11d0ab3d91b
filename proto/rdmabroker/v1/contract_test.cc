// SPDX-License-Identifier: Apache-2.0

// Holds the contract, as the descriptor set that is installed describes it, against contract.txt, and tests the check
// itself. `--rewrite` adds what is new to contract.txt in the source tree, unless something that was promised has
// changed.

#include "proto/rdmabroker/v1/contract.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace rdmabroker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kContractPath[] = "proto/rdmabroker/v1/contract.txt";

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

// The descriptors in a file with a FileDescriptorSet, which live as long as this.
class Parsed {
 public:
  explicit Parsed(const std::filesystem::path& path) {
    google::protobuf::FileDescriptorSet set;
    EXPECT_TRUE(set.ParseFromString(ReadFile(path))) << path;
    for (const auto& file : set.file()) {
      const auto* built = pool_.BuildFile(file);
      EXPECT_NE(built, nullptr) << file.name();
      // What protobuf itself has is no part of a contract that imports it.
      if (built != nullptr && !built->name().starts_with("google/")) files_.push_back(built);
    }
  }

  const ProtoFiles& files() const { return files_; }

 private:
  google::protobuf::DescriptorPool pool_;
  ProtoFiles files_;
};

std::unique_ptr<Parsed> ParseInstalled() {
  return std::make_unique<Parsed>("proto/rdmabroker/v1/rdmabroker.v1.protoset");
}

// By the protoc that makes what is installed.
std::unique_ptr<Parsed> ParseText(const std::string& text, const std::string& name = "shop.proto") {
  std::string folder = testing::TempDir() + "/contract-XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr) << folder;
  std::ofstream(folder + "/" + name) << text;
  const std::string set = folder + "/protoset";
  const std::string command = absl::StrCat("/usr/bin/protoc --include_source_info --proto_path='", folder,
                                           "' --descriptor_set_out='", set, "' '", name, "'");
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  auto parsed = std::make_unique<Parsed>(set);
  std::filesystem::remove_all(folder);
  return parsed;
}

TEST(Contract, EveryPromiseIsKept) {
  const auto parsed = ParseInstalled();
  const Contract released = ParseContract(ReadFile(kContractPath));
  ASSERT_FALSE(released.empty());
  const auto differences = CompareContracts(released, DescribeContract(parsed->files()));
  EXPECT_THAT(differences.broken, IsEmpty()) << "broker.proto says what may change within v1";
  EXPECT_THAT(differences.unlisted, IsEmpty())
      << "to promise what is new: bazel run //proto/rdmabroker/v1:contract_test -- --rewrite";
}

TEST(Contract, EverythingIsDocumented) { EXPECT_THAT(FindUndocumented(ParseInstalled()->files()), IsEmpty()); }

// --- The check itself, on small contracts ---

constexpr char kGood[] = R"(
syntax = "proto3";
package shop.v1;
// A parcel.
message Parcel {
  // Grams.
  uint32 weight = 1;
  // Where to.
  repeated string lines = 2;
  // How.
  oneof way {
    // By ship.
    string ship = 3;
    // By air.
    Speed air = 4;
  }
  // What is inside.
  message Content {
    // Its name.
    string name = 1;
  }
  // How fast.
  enum Speed {
    // Slowly.
    SLOW = 0;
    // At once.
    FAST = -1073741757;
  }
}
// The post.
service Post {
  // Takes a parcel.
  rpc Send(Parcel) returns (Parcel);
  // Follows parcels.
  rpc Follow(stream Parcel) returns (stream Parcel);
}
)";

constexpr char kGoodText[] = R"(
enum shop.v1.Parcel.Speed in shop.proto
  -1073741757 FAST
  0 SLOW

message shop.v1.Parcel in shop.proto
  1 weight: uint32
  2 lines: repeated string
  3 ship: string in oneof way
  4 air: shop.v1.Parcel.Speed in oneof way

message shop.v1.Parcel.Content in shop.proto
  1 name: string

service shop.v1.Post in shop.proto
  Follow: stream shop.v1.Parcel -> stream shop.v1.Parcel
  Send: shop.v1.Parcel -> shop.v1.Parcel
)";

Contract DescribeText(const std::string& proto) { return DescribeContract(ParseText(proto)->files()); }

std::string Replaced(const char* from, const char* to) {
  std::string text = kGood;
  EXPECT_EQ(absl::StrReplaceAll({{from, to}}, &text), 1) << from;
  return text;
}

TEST(ContractText, IsReadableAndLeadsBack) {
  const Contract contract = DescribeText(kGood);
  EXPECT_THAT(ContractText(contract), HasSubstr(kGoodText));
  EXPECT_EQ(ParseContract(ContractText(contract)), contract);
}

struct Edit {
  const char* from;
  const char* to;
  const char* complaint;
};

class ForbiddenEdit : public testing::TestWithParam<Edit> {};

TEST_P(ForbiddenEdit, IsReportedAsBroken) {
  const auto differences =
      CompareContracts(DescribeText(kGood), DescribeText(Replaced(GetParam().from, GetParam().to)));
  EXPECT_THAT(differences.broken, ElementsAre(HasSubstr(GetParam().complaint)));
}

INSTANTIATE_TEST_SUITE_P(
    Edits, ForbiddenEdit,
    testing::Values(
        Edit{"  uint32 weight = 1;", "", "Parcel in shop.proto: \"1 weight: uint32\" is gone"},
        Edit{"uint32 weight = 1;", "uint32 weight = 5;", "\"1 weight: uint32\" has become \"5 weight: uint32\""},
        Edit{"uint32 weight = 1;", "uint32 mass = 1;", "\"1 weight: uint32\" has become \"1 mass: uint32\""},
        Edit{"uint32 weight = 1;", "int32 weight = 1;", "has become \"1 weight: int32\""},
        Edit{"uint32 weight = 1;", "repeated uint32 weight = 1;", "has become \"1 weight: repeated uint32\""},
        Edit{"uint32 weight = 1;", "optional uint32 weight = 1;", "has become \"1 weight: optional uint32\""},
        Edit{"repeated string lines", "string lines", "has become \"2 lines: string\""},
        Edit{"Speed air = 4;", "Content air = 4;", "has become \"4 air: shop.v1.Parcel.Content in oneof way\""},
        Edit{"Speed air = 4;\n  }", "}\n  Speed air = 4;", "has become \"4 air: shop.v1.Parcel.Speed\""},
        Edit{"FAST = -1073741757;", "QUICK = -1073741757;", "has become \"-1073741757 QUICK\""},
        Edit{"FAST = -1073741757;", "FAST = 2;", "has become \"2 FAST\""},
        Edit{"FAST = -1073741757;", "", "\"-1073741757 FAST\" is gone"},
        Edit{"message Content {", "message Contents {", "message shop.v1.Parcel.Content in shop.proto is gone"},
        Edit{"service Post {", "service Mail {", "service shop.v1.Post in shop.proto is gone"},
        Edit{"rpc Send(Parcel)", "rpc Post(Parcel)", "\"Send: shop.v1.Parcel -> shop.v1.Parcel\" is gone"},
        Edit{"rpc Send(Parcel)", "rpc Send(Parcel.Content)", "has become \"Send: shop.v1.Parcel.Content -> "},
        Edit{"rpc Send(Parcel)", "rpc Send(stream Parcel)", "has become \"Send: stream shop.v1.Parcel -> "},
        Edit{"(stream Parcel) returns (stream Parcel)", "(stream Parcel) returns (Parcel)",
             "has become \"Follow: stream shop.v1.Parcel -> shop.v1.Parcel\""}));

TEST(ForbiddenEdit, TwoFieldsThatSwapNumbersAreBothReported) {
  std::string text = Replaced("string ship = 3;", "string ship = 1;");
  text = absl::StrReplaceAll(text, {{"uint32 weight = 1;", "uint32 weight = 3;"}});
  EXPECT_EQ(CompareContracts(DescribeText(kGood), DescribeText(text)).broken.size(), 2u);
}

TEST(ForbiddenEdit, AMessageThatMovesToAnotherFileIsReported) {
  const auto moved = ParseText(kGood, "store.proto");
  EXPECT_THAT(CompareContracts(DescribeText(kGood), DescribeContract(moved->files())).broken,
              testing::Contains("message shop.v1.Parcel in shop.proto is gone"));
}

class Addition : public testing::TestWithParam<Edit> {};

TEST_P(Addition, BreaksNothingButIsReportedUntilItIsListed) {
  const Contract grown = DescribeText(Replaced(GetParam().from, GetParam().to));
  const auto differences = CompareContracts(DescribeText(kGood), grown);
  EXPECT_THAT(differences.broken, IsEmpty());
  EXPECT_THAT(differences.unlisted, ElementsAre(HasSubstr(GetParam().complaint)));
  const auto listed = CompareContracts(ParseContract(ContractText(grown)), grown);
  EXPECT_THAT(listed.unlisted, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Edits, Addition,
    testing::Values(Edit{"uint32 weight = 1;", "uint32 weight = 1; bool fragile = 10;", "\"10 fragile: bool\" is new"},
                    Edit{"string ship = 3;", "string ship = 3; string rail = 5;", "\"5 rail: string in oneof way\""},
                    Edit{"SLOW = 0;", "SLOW = 0; SOON = 1;", "\"1 SOON\" is new"},
                    Edit{"// The post.", "message Stamp {}\n// The post.",
                         "message shop.v1.Stamp in shop.proto is new"},
                    Edit{"rpc Send(Parcel) returns (Parcel);",
                         "rpc Send(Parcel) returns (Parcel); rpc Return(Parcel) returns (Parcel);",
                         "\"Return: shop.v1.Parcel -> shop.v1.Parcel\" is new"}));

TEST(Documentation, AFullyCommentedFileHasNothingToReport) {
  EXPECT_THAT(FindUndocumented(ParseText(kGood)->files()), IsEmpty());
}

struct Missing {
  const char* comment;
  const char* name;
};

class MissingComment : public testing::TestWithParam<Missing> {};

TEST_P(MissingComment, IsReported) {
  const auto parsed = ParseText(Replaced(GetParam().comment, ""));
  EXPECT_THAT(FindUndocumented(parsed->files()), ElementsAre(GetParam().name));
}

INSTANTIATE_TEST_SUITE_P(
    Comments, MissingComment,
    testing::Values(Missing{"// A parcel.", "shop.v1.Parcel"}, Missing{"// Grams.", "shop.v1.Parcel.weight"},
                    Missing{"// How.", "shop.v1.Parcel.way"}, Missing{"// By air.", "shop.v1.Parcel.air"},
                    Missing{"// What is inside.", "shop.v1.Parcel.Content"},
                    Missing{"// Its name.", "shop.v1.Parcel.Content.name"},
                    Missing{"// How fast.", "shop.v1.Parcel.Speed"}, Missing{"// Slowly.", "shop.v1.Parcel.SLOW"},
                    Missing{"// The post.", "shop.v1.Post"}, Missing{"// Takes a parcel.", "shop.v1.Post.Send"}));

// Returns the process's exit status.
int Rewrite() {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (workspace == nullptr) {
    std::cerr << "--rewrite needs the source tree: bazel run //proto/rdmabroker/v1:contract_test -- --rewrite\n";
    return 2;
  }
  const std::filesystem::path path = std::filesystem::path(workspace) / kContractPath;
  const Contract current = DescribeContract(ParseInstalled()->files());
  const auto differences = CompareContracts(ParseContract(ReadFile(path)), current);
  for (const std::string& difference : differences.broken) std::cerr << difference << "\n";
  if (!differences.broken.empty()) {
    std::cerr << path.string() << " is unchanged: what was promised cannot be rewritten\n";
    return 1;
  }
  for (const std::string& difference : differences.unlisted) std::cout << difference << "\n";
  std::ofstream stream(path);
  stream << ContractText(current);
  return stream.flush() ? 0 : 1;
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "--rewrite") return rdmabroker::Rewrite();
  return RUN_ALL_TESTS();
}
