// SPDX-License-Identifier: Apache-2.0

#include "client/data_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/verbs/transition.h"
#include "proto/rdmabroker/v1/connection.pb.h"

namespace rdmabroker::client {
namespace {

const DataPath* Find(const std::vector<DataPath>& paths, RdmaTechnology technology, bool client_ends_connections) {
  for (const DataPath& path : paths) {
    if (path.technology == technology && path.client_ends_connections == client_ends_connections) return &path;
  }
  return nullptr;
}

TEST(DataPaths, ThereIsOneForEachKindOfAdapter) {
  const std::vector<DataPath> paths = BuiltInDataPaths();
  EXPECT_EQ(paths.size(), 4u);
  const DataPath* const user_space = Find(paths, RdmaTechnology::kIwarp, true);
  ASSERT_NE(user_space, nullptr);
  EXPECT_FALSE(user_space->transition);
  for (const auto technology : {RdmaTechnology::kIwarp, RdmaTechnology::kRoceV2, RdmaTechnology::kInfiniBand}) {
    const DataPath* const verbs = Find(paths, technology, false);
    ASSERT_NE(verbs, nullptr);
    EXPECT_EQ(verbs->open("no such device").status, NdkStatus::kObjectNameNotFound);
  }
}

// Numbers the message's fields, all of which the transition has under the same names, but for the GID and the flag.
TEST(DataPaths, ATransitionHasEveryFieldOfTheMessage) {
  v1::QpAttributes message;
  const auto* const descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* const field = descriptor->field(i);
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_UINT32) continue;
    message.GetReflection()->SetUInt32(&message, field, static_cast<uint32_t>(field->number()));
  }
  message.set_destination_gid("0123456789abcdef");
  message.set_is_global(true);
  const std::vector<DataPath> paths = BuiltInDataPaths();
  const Attachment attachment = Find(paths, RdmaTechnology::kRoceV2, false)->transition(message);
  QpAttributes expected = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const std::string gid = message.destination_gid();
  std::copy(gid.begin(), gid.end(), expected.destination_gid.begin());
  expected.flow_label = 18;
  expected.source_gid_index = 19;
  expected.hop_limit = 20;
  expected.traffic_class = 21;
  expected.destination_lid = 22;
  expected.service_level = 23;
  expected.source_path_bits = 24;
  expected.static_rate = 25;
  expected.is_global = true;
  EXPECT_EQ(verbs::TransitionOf(attachment.state), expected);
  EXPECT_FALSE(attachment.socket);
}

TEST(DataPaths, AGidOfAnotherLengthReachesNobodysMemory) {
  const std::vector<DataPath> paths = BuiltInDataPaths();
  for (const size_t length : {0u, 1u, 17u, 1000u}) {
    v1::QpAttributes message;
    message.set_destination_gid(std::string(length, 'x'));
    const auto state = Find(paths, RdmaTechnology::kInfiniBand, false)->transition(message).state;
    const auto transition = verbs::TransitionOf(state);
    ASSERT_TRUE(transition.has_value());
    EXPECT_EQ(transition->destination_gid[0], length > 0 ? 'x' : 0);
    EXPECT_EQ(transition->destination_gid[15], length >= 16 ? 'x' : 0);
    EXPECT_FALSE(transition->is_global);
  }
}

}  // namespace
}  // namespace rdmabroker::client
