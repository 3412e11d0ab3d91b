// SPDX-License-Identifier: Apache-2.0

#include "broker/control/inspection_service.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "broker/control/connector_explanation.h"
#include "broker/control/inspection_rows.h"
#include "broker/control/status_mapping.h"
#include "broker/control/translation.h"
#include "broker/control/unary_call.h"
#include "broker/control/view.h"
#include "broker/runtime/loop.h"
#include "proto/rdmabroker/v1/inspection.pb.h"

namespace rdmabroker {
namespace {

// inspection.proto, Page.limit.
constexpr uint32_t kUsualPage = 100;
constexpr uint32_t kLargestPage = 1000;

// OK for who may look just now.
template <typename Request>
rpc::Status RefusalToLook(Broker& broker, const Caller& caller, const Request&) {
  const auto refusal = broker.gate().Look(caller, CallOf<Request>(), Loop::Now());
  return refusal ? RpcStatusOf(*refusal) : rpc::Status();
}

// The asked page of `table`, as far as the view shows it and `wanted` has it. `add` gives the reply a row.
template <typename Id, typename Record, typename Reply, typename Wanted, typename Add>
rpc::Status List(const BrokerCore& core, const Table<Id, Record>& table, const View& view, const v1::Page& page,
                 Reply* reply, Wanted wanted, Add add) {
  if (page.limit() > kLargestPage) {
    return RpcStatusOf({.status = NdkStatus::kInvalidParameter,
                        .hint = absl::StrCat("page.limit: ", page.limit(), "; at most ", kLargestPage)});
  }
  size_t left = page.limit() == 0 ? kUsualPage : page.limit();
  const auto next = view.Walk(ListOf(core.index().lists, Id()), table, Id(page.after()), [&](const Record& record) {
    if (!wanted(record)) return true;
    // There is another one, for the next page.
    if (left == 0) return false;
    --left;
    Fill(core.records(), record, add(reply));
    return true;
  });
  if (next) reply->set_next(next->value());
  return {};
}

rpc::Status ListSessions(Broker& broker, const Caller& caller, const v1::ListSessionsRequest& request,
                         v1::ListSessionsReply* reply) {
  if (rpc::Status refusal = RefusalToLook(broker, caller, request); !refusal.ok()) return refusal;
  const BrokerCore& core = broker.core();
  const Records& records = core.records();
  const View view(caller, records, broker.gate());
  // Removed devices of that name that sessions still have open count, too.
  std::vector<DeviceId> devices;
  for (const auto& [id, record] : records.devices) {
    if (record.device.name == request.device() && view.Shows(record)) devices.push_back(id);
  }
  const auto wanted = [&](const SessionRecord& session) {
    const auto has = [&](DeviceId device) { return core.index().adapters_on.contains({device, session.id}); };
    return request.device().empty() || std::any_of(devices.begin(), devices.end(), has);
  };
  return List(core, records.sessions, view, request.page(), reply, wanted, [](auto* to) { return to->add_sessions(); });
}

// One that the caller may not see is one that is not there.
rpc::Status ExplainConnector(Broker& broker, const Caller& caller, const v1::ExplainConnectorRequest& request,
                             v1::ExplainConnectorReply* reply) {
  if (rpc::Status refusal = RefusalToLook(broker, caller, request); !refusal.ok()) return refusal;
  const Records& records = broker.core().records();
  const View view(caller, records, broker.gate());
  const auto found = records.connectors.find(ConnectorId(request.connector_id()));
  if (found == records.connectors.end() || !view.Shows(found->second)) {
    return RpcStatusOf({.status = NdkStatus::kObjectNameNotFound,
                        .hint = absl::StrCat("connector_id ", request.connector_id(),
                                             ": no such connector; ListConnectors names those there are")});
  }
  Explain(records, broker.core().index(), view, found->second, absl::Now() - Loop::Now(), reply);
  return {};
}

// Serves pages of a whole table. `add` gives the reply a row.
template <typename Request, typename Reply, typename TableType, typename Add>
void ServeList(Services& services, Broker& broker, const TableType& table, Add add) {
  const UnaryHandler<Request, Reply> handler = [&broker, &table, add](const Caller& caller, const Request& request,
                                                                      Reply* reply) {
    if (rpc::Status refusal = RefusalToLook(broker, caller, request); !refusal.ok()) return refusal;
    const auto all = [](const auto&) { return true; };
    const View view(caller, broker.core().records(), broker.gate());
    return List(broker.core(), table, view, request.page(), reply, all, add);
  };
  ServeUnary(services, handler, Services::kPageCost);
}

}  // namespace

void ServeInspection(Services& services, Broker& broker) {
  const Records& records = broker.core().records();
  const UnaryHandler<v1::ListAdaptersRequest, v1::ListAdaptersReply> list_adapters =
      [&records, &broker](const Caller& caller, const v1::ListAdaptersRequest& request, v1::ListAdaptersReply* reply) {
        if (rpc::Status refusal = RefusalToLook(broker, caller, request); !refusal.ok()) return refusal;
        const View view(caller, records, broker.gate());
        for (const auto& [name, record] : DevicesThere(records)) {
          if (!view.Shows(*record)) continue;
          ToProto(*record, reply->add_devices());
          Fill(broker.core().index().states, *record, view.ShowsActivity(), reply->add_activities());
        }
        return rpc::Status();
      };
  ServeUnary(services, list_adapters);
  const UnaryHandler<v1::ListSessionsRequest, v1::ListSessionsReply> list_sessions =
      [&broker](const Caller& caller, const v1::ListSessionsRequest& request, v1::ListSessionsReply* reply) {
        return ListSessions(broker, caller, request, reply);
      };
  ServeUnary(services, list_sessions, Services::kPageCost);
  const UnaryHandler<v1::ExplainConnectorRequest, v1::ExplainConnectorReply> explain =
      [&broker](const Caller& caller, const v1::ExplainConnectorRequest& request, v1::ExplainConnectorReply* reply) {
        return ExplainConnector(broker, caller, request, reply);
      };
  // It looks at as many rows as a page of a list does.
  ServeUnary(services, explain, Services::kPageCost);
  ServeList<v1::ListEndpointsRequest, v1::ListEndpointsReply>(services, broker, records.endpoints,
                                                              [](auto* reply) { return reply->add_endpoints(); });
  ServeList<v1::ListListenersRequest, v1::ListListenersReply>(services, broker, records.listeners,
                                                              [](auto* reply) { return reply->add_listeners(); });
  ServeList<v1::ListSharedEndpointsRequest, v1::ListSharedEndpointsReply>(
      services, broker, records.shared_endpoints, [](auto* reply) { return reply->add_shared_endpoints(); });
  ServeList<v1::ListReservationsRequest, v1::ListReservationsReply>(
      services, broker, records.reservations, [](auto* reply) { return reply->add_reservations(); });
  ServeList<v1::ListConnectorsRequest, v1::ListConnectorsReply>(services, broker, records.connectors,
                                                                [](auto* reply) { return reply->add_connectors(); });
}

}  // namespace rdmabroker
