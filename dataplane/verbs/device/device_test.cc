// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/device.h"

#include <gtest/gtest.h>

#include "dataplane/verbs/device/device_attributes.h"

namespace rdmabroker::verbs {
namespace {

// As Soft-RoCE has it.
class Devices : public testing::Test {
 protected:
  Devices() {
    ibv_device_attr& attributes = device.orig_attr;
    attributes.max_mr_size = ~uint64_t{0};
    attributes.vendor_id = 0xFFFFFF;
    attributes.device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_SRQ_RESIZE;
    attributes.max_qp_wr = 1 << 20;
    attributes.max_sge = 32;
    attributes.max_sge_rd = 32;
    attributes.max_cqe = 32767;
    attributes.max_qp_rd_atom = 128;
    attributes.max_qp_init_rd_atom = 128;
    attributes.max_mw = 1000;
    attributes.max_srq_wr = 1 << 20;
    attributes.max_srq_sge = 27;
    port.link_layer = IBV_LINK_LAYER_ETHERNET;
    port.max_msg_sz = 1 << 23;
  }
  AdapterInfo Info(ibv_transport_type transport = IBV_TRANSPORT_IB) const {
    return Describe(transport, device, port, trials).info;
  }

  ibv_device_attr_ex device = {};
  ibv_port_attr port = {};
  DeviceTrials trials = {.inline_data = 512, .depth = 16384, .resizes_cqs = true};
};

TEST_F(Devices, TheTechnologyFollowsFromTransportAndLinkLayer) {
  EXPECT_EQ(Info().technology, RdmaTechnology::kRoceV2);
  EXPECT_EQ(Info(IBV_TRANSPORT_IWARP).technology, RdmaTechnology::kIwarp);
  port.link_layer = IBV_LINK_LAYER_INFINIBAND;
  EXPECT_EQ(Info().technology, RdmaTechnology::kInfiniBand);
}

TEST_F(Devices, TrialsOfInlineDataBeginWhereTheDeviceMayTakeIt) {
  EXPECT_EQ(MostInlineData(device.orig_attr), 512u) << "all that Soft-RoCE takes, so that it refuses none";
  device.orig_attr.vendor_id = 0x2c9;
  EXPECT_EQ(MostInlineData(device.orig_attr), 4096u);
}

TEST_F(Devices, PrivateDataIsWhatTheConnectionManagerLeaves) {
  EXPECT_EQ(Info().max_caller_data, 56u);
  EXPECT_EQ(Info().max_callee_data, 148u);
  EXPECT_EQ(Info(IBV_TRANSPORT_IWARP).max_caller_data, 251u);
  EXPECT_EQ(Info(IBV_TRANSPORT_IWARP).max_callee_data, 251u);
}

TEST_F(Devices, ReadLimitsStayBelowTheConnectionManagersOwnNumber) {
  EXPECT_EQ(Info().max_inbound_read_limit, 128u);
  device.orig_attr.max_qp_rd_atom = 255;
  device.orig_attr.max_qp_init_rd_atom = 1024;
  EXPECT_EQ(Info().max_inbound_read_limit, 254u);
  EXPECT_EQ(Info().max_outbound_read_limit, 254u);
}

TEST_F(Devices, WindowsAreOnlyThoseOfTypeTwo) {
  EXPECT_EQ(Info().max_window_size, ~uint64_t{0});
  device.orig_attr.device_cap_flags = IBV_DEVICE_MEM_WINDOW;
  EXPECT_EQ(Info().max_window_size, 0u);
  device.orig_attr.device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2A;
  device.orig_attr.max_mw = 0;
  EXPECT_EQ(Info().max_window_size, 0u);
}

TEST_F(Devices, WhatADeviceLacksIsNotOffered) {
  constexpr uint32_t kOnlySome = kCqResizeSupported | kCqInterruptModerationSupported | kRdmaReadSinkNotRequired;
  EXPECT_EQ(Info().adapter_flags & kOnlySome, kCqResizeSupported | kRdmaReadSinkNotRequired);
  EXPECT_EQ(Info().frmr_page_count, 0u);
  EXPECT_EQ(Info().max_receive_request_sge, 27u) << "of a shared receive queue";
  trials = {};
  device.cq_mod_caps.max_cq_count = 16;
  device.orig_attr.max_srq_wr = 0;
  device.orig_attr.max_sge_rd = 1;
  EXPECT_EQ(Info(IBV_TRANSPORT_IWARP).adapter_flags & kOnlySome, kCqInterruptModerationSupported);
  EXPECT_EQ(Info().max_srq_depth, 0u);
  EXPECT_EQ(Info().max_receive_request_sge, 32u);
  EXPECT_EQ(Info().max_read_request_sge, 1u);
  EXPECT_EQ(Info().max_inline_data_size, 0u);
}

TEST_F(Devices, SoftIwarpHasItsQuirksAndReachesItself) {
  EXPECT_TRUE(Describe(IBV_TRANSPORT_IB, device, port, trials).tells_of_solicited);
  EXPECT_FALSE(Describe(IBV_TRANSPORT_IB, device, port, trials).loses_an_offset);
  EXPECT_FALSE(Describe(IBV_TRANSPORT_IWARP, device, port, trials).raises_sigpipe);
  EXPECT_FALSE(Describe(IBV_TRANSPORT_IWARP, device, port, trials).forgets_late_posts);
  EXPECT_FALSE(Describe(IBV_TRANSPORT_IWARP, device, port, trials).speaks_by_the_kernels_tcp);
  EXPECT_FALSE(Describe(IBV_TRANSPORT_IWARP, device, port, trials).hides_queue_pairs);
  EXPECT_EQ(Info(IBV_TRANSPORT_IWARP).adapter_flags & kLoopbackConnectionsSupported, 0u) << "not every adapter does";
  device.orig_attr.vendor_id = 0x626d74;
  EXPECT_FALSE(Describe(IBV_TRANSPORT_IWARP, device, port, trials).tells_of_solicited);
  EXPECT_TRUE(Describe(IBV_TRANSPORT_IWARP, device, port, trials).loses_an_offset);
  EXPECT_TRUE(Describe(IBV_TRANSPORT_IWARP, device, port, trials).raises_sigpipe);
  EXPECT_TRUE(Describe(IBV_TRANSPORT_IWARP, device, port, trials).forgets_late_posts);
  EXPECT_TRUE(Describe(IBV_TRANSPORT_IWARP, device, port, trials).speaks_by_the_kernels_tcp);
  EXPECT_TRUE(Describe(IBV_TRANSPORT_IWARP, device, port, trials).hides_queue_pairs);
  EXPECT_NE(Info(IBV_TRANSPORT_IWARP).adapter_flags & kLoopbackConnectionsSupported, 0u);
}

TEST_F(Devices, PlacesOfTheInitiatorQueueAreTheDataPathsOwn) {
  EXPECT_EQ(Info().max_initiator_queue_depth, trials.depth - kHiddenRequests);
  EXPECT_EQ(Info().max_receive_queue_depth, trials.depth);
}

TEST_F(Devices, OnlySoftRoceSpeaksWithTheKernelsFlag) {
  EXPECT_TRUE(Describe(IBV_TRANSPORT_IB, device, port, trials).kernel_invalidate_flag);
  EXPECT_EQ(Info().vendor_id, 0u) << "its number is nobody's OUI";
  device.orig_attr.vendor_id = 0x02c9;
  EXPECT_FALSE(Describe(IBV_TRANSPORT_IB, device, port, trials).kernel_invalidate_flag);
  EXPECT_EQ(Info().vendor_id, 0x02c9u);
}

TEST(Device, OneThatIsNotThereIsNotFound) {
  DeviceContext context;
  EXPECT_EQ(OpenDevice("no such device", &context), NdkStatus::kObjectNameNotFound);
  EXPECT_EQ(context, nullptr);
  DeviceDescription description;
  EXPECT_EQ(QueryDevice("", &description), NdkStatus::kObjectNameNotFound);
}

}  // namespace
}  // namespace rdmabroker::verbs
