// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <string>

#include "client/c/interface.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::c {
namespace {

HandleTable& Table() { return HandleTable::Get(); }

// Nothing where there is no data but a length. More than any adapter carries is not even copied.
std::optional<std::string> PrivateData(const void* data, size_t length) {
  if (data == nullptr && length != 0) return std::nullopt;
  return std::string(static_cast<const char*>(data), std::min<size_t>(length, RDMA_BROKER_PRIVATE_DATA_SIZE + 1));
}

// Returns nothing if the struct is not valid.
std::optional<client::ConnectionOptions> Options(const rdma_broker_connection_options* given) {
  if (given == nullptr) return client::ConnectionOptions();
  const auto known = TakeIn(given);
  if (!known.has_value()) return std::nullopt;
  return client::ConnectionOptions{.rnr_retry_count = known->rnr_retry_count};
}

client::DisconnectEventCallback TellingOfEnd(const Affiliation& affiliation, rdma_broker_handle connector,
                                             uint64_t context) {
  return [events = affiliation.events, connector, context](const client::DisconnectEvent& event) {
    const client::Outcome outcome{.status = event.status, .provider_error = event.provider_error, .hint = event.hint};
    events->Post({RDMA_BROKER_EVENT_DISCONNECT, context, connector, 0, outcome});
  };
}

client::ReadLimits Reads(uint32_t inbound, uint32_t outbound) {
  const auto reads = [](uint32_t given) { return given == RDMA_BROKER_NO_READS ? 0 : given == 0 ? UINT32_MAX : given; };
  return {reads(inbound), reads(outbound)};
}

NdkStatus Connect(const Found<client::Connector>& connector, QueuePair* queue_pair,
                  const rdma_broker_connect_parameters& given, const client::OutcomeCompletion& completion) {
  const auto data = PrivateData(given.private_data, given.private_data_length);
  std::string problem;
  const auto destination =
      given.destination == nullptr ? std::nullopt : SocketAddress::Parse(given.destination, &problem);
  const auto options = Options(given.options);
  if (!destination.has_value()) return RefuseAddress("parameters: destination", given.destination, problem);
  if (!data.has_value() || !options.has_value() || (given.source != nullptr && given.shared_endpoint != 0)) {
    return RefuseArguments("parameters: private_data, options, and source or shared_endpoint");
  }
  client::ConnectParameters parameters{.source = {},
                                       .destination = *destination,
                                       .limits = Reads(given.inbound_reads, given.outbound_reads),
                                       .private_data = *data,
                                       .options = *options};
  if (given.shared_endpoint != 0) {
    const auto endpoint = Table().Find<client::SharedEndpoint>(given.shared_endpoint);
    if (!endpoint) return NoSuch(given.shared_endpoint);
    return connector->ConnectWithSharedEndpoint(queue_pair, endpoint.object, parameters, completion);
  }
  const auto source = given.source == nullptr ? SocketAddress() : SocketAddress::Parse(given.source, &problem);
  if (!source.has_value()) return RefuseAddress("parameters: source", given.source, problem);
  parameters.source = *source;
  return connector->Connect(queue_pair, parameters, completion);
}

rdma_broker_connection_data ToC(const client::ConnectionData& data) {
  rdma_broker_connection_data known = {};
  known.inbound_reads = data.limits.inbound;
  known.outbound_reads = data.limits.outbound;
  known.three_way = data.three_way ? 1 : 0;
  CopyText(data.local.ToString(), known.local);
  CopyText(data.peer.ToString(), known.peer);
  known.private_data_length = static_cast<uint32_t>(std::min(data.private_data.size(), sizeof known.private_data));
  std::copy_n(data.private_data.begin(), known.private_data_length, known.private_data);
  return known;
}

}  // namespace
}  // namespace rdmabroker::c

// The functions of rdma_broker.h, which have no namespace.
using namespace rdmabroker;
using namespace rdmabroker::c;

rdma_broker_status rdma_broker_connector_get_adapter(rdma_broker_handle connector, rdma_broker_handle* adapter) {
  return Guarded([&] {
    if (adapter == nullptr) return RefuseArguments("adapter");
    const auto found = Table().Find<client::Connector>(connector);
    if (!found) return NoSuch(connector);
    const rdma_broker_handle handle = Table().HandleOf(*found->adapter());
    if (handle == 0) {
      return Refuse(NdkStatus::kObjectNameNotFound, "handle %d: its adapter is closed, or being closed", connector);
    }
    *adapter = handle;
    return NdkStatus::kSuccess;
  });
}

rdma_broker_status rdma_broker_connector_create(rdma_broker_handle adapter, uint64_t context) {
  return Guarded([&] {
    const auto found = Table().Find<client::Adapter>(adapter);
    if (!found) return NoSuch(adapter);
    return found->CreateConnector(Making<client::Connector>(found.affiliation, adapter, context));
  });
}

rdma_broker_status rdma_broker_connect(rdma_broker_handle connector, rdma_broker_handle queue_pair,
                                       const rdma_broker_connect_parameters* parameters, uint64_t context) {
  return Guarded([&] {
    const auto known = TakeIn(parameters);
    if (!known.has_value()) return RefuseStruct("parameters", parameters);
    const auto found = Table().Find<client::Connector>(connector);
    const auto pair = Table().Refer<QueuePair>(queue_pair);
    if (!found || !pair) return NoSuch(found ? queue_pair : connector);
    return Connect(found, pair.get(), *known, Telling(found.affiliation, connector, context));
  });
}

rdma_broker_status rdma_broker_complete_connect(rdma_broker_handle connector, uint64_t connector_context,
                                                uint64_t context) {
  return Guarded([&] {
    const auto found = Table().Find<client::Connector>(connector);
    if (!found) return NoSuch(connector);
    return found->CompleteConnect(TellingOfEnd(found.affiliation, connector, connector_context),
                                  Telling(found.affiliation, connector, context));
  });
}

rdma_broker_status rdma_broker_accept(rdma_broker_handle connector, rdma_broker_handle queue_pair,
                                      const rdma_broker_accept_parameters* parameters, uint64_t connector_context,
                                      uint64_t context) {
  return Guarded([&] {
    const auto known = parameters == nullptr ? rdma_broker_accept_parameters{} : TakeIn(parameters);
    if (!known.has_value()) return RefuseStruct("parameters", parameters);
    const auto data = PrivateData(known->private_data, known->private_data_length);
    const auto options = Options(known->options);
    if (!data.has_value() || !options.has_value()) return RefuseArguments("parameters: private_data, options");
    const auto found = Table().Find<client::Connector>(connector);
    const auto pair = Table().Refer<QueuePair>(queue_pair);
    if (!found || !pair) return NoSuch(found ? queue_pair : connector);
    const client::AcceptParameters accepted{
        .limits = Reads(known->inbound_reads, known->outbound_reads), .private_data = *data, .options = *options};
    return found->Accept(pair.get(), accepted, TellingOfEnd(found.affiliation, connector, connector_context),
                         Telling(found.affiliation, connector, context));
  });
}

rdma_broker_status rdma_broker_reject(rdma_broker_handle connector, const void* private_data, size_t length,
                                      uint64_t context) {
  return Guarded([&] {
    const auto data = PrivateData(private_data, length);
    if (!data.has_value()) return RefuseArguments("private_data");
    const auto found = Table().Find<client::Connector>(connector);
    return found ? found->Reject(*data, Telling(found.affiliation, connector, context)) : NoSuch(connector);
  });
}

rdma_broker_status rdma_broker_disconnect(rdma_broker_handle connector, uint64_t context) {
  return Guarded([&] {
    const auto found = Table().Find<client::Connector>(connector);
    return found ? found->Disconnect(Telling(found.affiliation, connector, context)) : NoSuch(connector);
  });
}

rdma_broker_status rdma_broker_get_connection_data(rdma_broker_handle connector, rdma_broker_connection_data* data) {
  return Guarded([&] {
    if (!HasRoom(data)) return RefuseStruct("data", data);
    const auto found = Table().Find<client::Connector>(connector);
    if (!found) return NoSuch(connector);
    const auto known = found->connection_data();
    if (known == nullptr) return RefuseUnknown(connector);
    GiveOut(ToC(*known), data);
    return NdkStatus::kSuccess;
  });
}
