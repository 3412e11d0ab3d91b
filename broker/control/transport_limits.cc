// SPDX-License-Identifier: Apache-2.0

#include "broker/control/transport_limits.h"

#include <grpcpp/resource_quota.h>

#include <cstddef>

namespace rdmabroker {
namespace {

// broker.proto: the longest message to the broker.
constexpr int kMaxMessage = 65536;
// Calls at a time on one connection beside a client's unanswered requests: its stream, and inspection.
constexpr int kOtherStreams = 64;
// A few round trips, and as many seconds of a machine that is busy.
constexpr int kHandshakeMs = 10'000;
// rdma-brokerctl's is twice as long.
constexpr int kLeastPingMs = 10'000;
// Memory for what clients send before it is read: 128 streams with a full window of 64 KiB on a few dozen connections.
constexpr size_t kMemoryQuota = size_t{256} << 20;

}  // namespace

void SetTransportLimits(grpc::ServerBuilder& builder, uint32_t unanswered) {
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  // A message of that size can be a thousand times as long when it is decompressed, on the loop thread.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(unanswered) + kOtherStreams);
  // 64 KiB of unread data for each stream instead of 4 MiB.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  // Of TLS, over TCP; two minutes without it.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  // Who watches a stream asks so often, at most, whether the broker is still there; every five minutes without it.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kLeastPingMs);
  grpc::ResourceQuota quota("control");
  quota.Resize(kMemoryQuota);
  builder.SetResourceQuota(quota);
}

}  // namespace rdmabroker
