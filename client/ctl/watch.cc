// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/watch.h"

#include <google/protobuf/util/time_util.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#include "client/ctl/table.h"
#include "client/rpc_status.h"
#include "client/translation.h"

namespace rdmabroker::ctl {
namespace {

// Far longer than a restart takes.
constexpr std::chrono::seconds kAnotherBrokerComes{120};
constexpr std::chrono::milliseconds kBetweenTries{200};

// As a list with this row alone: the names of its columns and its fields, of which the first are the row's own.
template <typename Reply, typename Row>
Table ListOf(google::protobuf::RepeatedPtrField<Row>* (Reply::*rows)(), const Row& row) {
  Reply reply;
  *(reply.*rows)()->Add() = row;
  return ToTable(reply);
}

Table ListOf(const v1::AdapterRow& row) {
  v1::ListAdaptersReply reply;
  *reply.add_devices() = row.device();
  *reply.add_activities() = row.activity();
  return ToTable(reply);
}

struct KindOfRow {
  const char* command;  // That lists them.
  v1::RowKind kind;
  v1::RowChange::RowCase field;
  const char* one;
  Table (*table)(const v1::RowChange& change);
};

constexpr KindOfRow kKinds[] = {
    {"adapters", v1::ROW_KIND_ADAPTER, v1::RowChange::kAdapter, "adapter",
     [](const v1::RowChange& change) { return ListOf(change.adapter()); }},
    {"sessions", v1::ROW_KIND_SESSION, v1::RowChange::kSession, "session",
     [](const v1::RowChange& change) { return ListOf(&v1::ListSessionsReply::mutable_sessions, change.session()); }},
    {"endpoints", v1::ROW_KIND_ENDPOINT, v1::RowChange::kEndpoint, "endpoint",
     [](const v1::RowChange& change) { return ListOf(&v1::ListEndpointsReply::mutable_endpoints, change.endpoint()); }},
    {"listeners", v1::ROW_KIND_LISTENER, v1::RowChange::kListener, "listener",
     [](const v1::RowChange& change) { return ListOf(&v1::ListListenersReply::mutable_listeners, change.listener()); }},
    {"shared-endpoints", v1::ROW_KIND_SHARED_ENDPOINT, v1::RowChange::kSharedEndpoint, "shared-endpoint",
     [](const v1::RowChange& change) {
       return ListOf(&v1::ListSharedEndpointsReply::mutable_shared_endpoints, change.shared_endpoint());
     }},
    {"reservations", v1::ROW_KIND_RESERVATION, v1::RowChange::kReservation, "reservation",
     [](const v1::RowChange& change) {
       return ListOf(&v1::ListReservationsReply::mutable_reservations, change.reservation());
     }},
    {"connectors", v1::ROW_KIND_CONNECTOR, v1::RowChange::kConnector, "connector",
     [](const v1::RowChange& change) {
       return ListOf(&v1::ListConnectorsReply::mutable_connectors, change.connector());
     }},
};

// "address=192.0.2.1:7471 state=listening": the fields after the first, but for those that say nothing.
std::string FieldsOf(const Table& table) {
  std::string text;
  for (size_t i = 1; i < table[1].size(); ++i) {
    const std::string& value = table[1][i];
    if (value.empty() || value == "-") continue;
    std::string name = table[0][i];
    for (char& c : name) c = c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool quoted = value.find(' ') != std::string::npos;
    text += (text.empty() ? "" : " ") + name + "=" + (quoted ? "\"" + value + "\"" : value);
  }
  return text;
}

std::string Line(const std::string& time, const std::string& kind, const std::string& id, const std::string& fate,
                 const std::string& row) {
  constexpr size_t kTime = 26;
  constexpr size_t kKind = 17;
  constexpr size_t kId = 10;
  constexpr size_t kFate = 9;
  const auto padded = [](std::string text, size_t width) {
    text.resize(std::max(width - 1, text.size()), ' ');
    return text + " ";
  };
  std::string line = padded(time, kTime) + padded(kind, kKind) + padded(id, kId) + padded(fate, kFate) + row;
  line.erase(line.find_last_not_of(' ') + 1);
  return Printable(line) + "\n";
}

std::string LineOf(const std::string& time, const v1::RowChange& change) {
  const auto* const kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                        [&](const KindOfRow& each) { return each.field == change.row_case(); });
  // A newer broker's.
  if (kind == std::end(kKinds)) return "";
  const Table table = kind->table(change);
  const std::string fate = Word(v1::RowFate_Name(change.fate()), "ROW_FATE_");
  return Line(time, kind->one, table[1].front(), fate, change.fate() == v1::ROW_FATE_REMOVED ? "" : FieldsOf(table));
}

std::string AsLines(const v1::WatchReply& reply) {
  // To the millisecond.
  google::protobuf::Timestamp shown = reply.time();
  shown.set_nanos(shown.nanos() / 1000000 * 1000000);
  const std::string time = google::protobuf::util::TimeUtil::ToString(shown);
  std::string text = reply.begins() ? Line("TIME", "KIND", "ID", "CHANGE", "ROW") : "";
  for (const v1::RowChange& change : reply.changes()) text += LineOf(time, change);
  return text;
}

// Whether another watch may do better, and may be begun at once.
bool Passes(const grpc::Status& status) {
  if (const auto outcome = client::FailureDetail(status); outcome.has_value()) return outcome->retryable();
  return status.error_code() == grpc::StatusCode::UNAVAILABLE || status.error_code() == grpc::StatusCode::CANCELLED;
}

std::string CauseOf(const grpc::Status& status) {
  if (const auto outcome = client::FailureDetail(status); outcome.has_value()) return outcome->hint();
  // There is no other way to end a stream that is full.
  if (status.error_code() == grpc::StatusCode::CANCELLED) return "it was not read for too long";
  return "the broker has gone";
}

}  // namespace

std::vector<std::string> WatchedKinds() {
  std::vector<std::string> words;
  for (const KindOfRow& kind : kKinds) words.emplace_back(kind.command);
  return words;
}

std::string ShowChanges(const v1::WatchReply& reply, OutputForm form) {
  if (form == OutputForm::kTable) return AsLines(reply);
  std::string text;
  v1::WatchReply one;
  *one.mutable_time() = reply.time();
  // One without a row, too: it tells that there are no more.
  const int count = std::max(1, reply.changes_size());
  for (int i = 0; i < count; ++i) {
    one.clear_changes();
    if (i < reply.changes_size()) *one.add_changes() = reply.changes(i);
    one.set_begins(reply.begins() && i == 0);
    one.set_complete(reply.complete() && i == count - 1);
    const auto shown = InForm(form, JsonOf(one, form == OutputForm::kJson));
    text += (form == OutputForm::kYaml ? "---\n" : "") + shown.value_or("");
  }
  return text;
}

ExitCode WatchRows(BrokerQueries& queries, const std::vector<std::string>& kinds, OutputForm form, std::ostream& output,
                   std::ostream& notices) {
  v1::WatchRequest request;
  for (const KindOfRow& kind : kKinds) {
    if (std::find(kinds.begin(), kinds.end(), kind.command) != kinds.end()) request.add_kinds(kind.kind);
  }
  const auto stub = v1::Inspection::NewStub(queries.channel());
  bool told = false;  // That the broker has ended it, at `lost`.
  bool ever = false;
  std::chrono::steady_clock::time_point lost;
  while (true) {
    grpc::ClientContext context;
    const auto reader = stub->Watch(&context, request);
    v1::WatchReply reply;
    while (reader->Read(&reply)) {
      output << ShowChanges(reply, form) << std::flush;
      if (!output) {
        context.TryCancel();
        return ExitCode::kDone;
      }
      ever = true;
      told = false;
    }
    const grpc::Status status = reader->Finish();
    const auto now = std::chrono::steady_clock::now();
    if (!told) lost = now;
    if (!ever || !Passes(status) || now - lost > kAnotherBrokerComes) return queries.Fail(status);
    if (!std::exchange(told, true)) {
      notices << "rdma-brokerctl: " << Printable(CauseOf(status)) << "; the watch begins anew\n" << std::flush;
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace rdmabroker::ctl
