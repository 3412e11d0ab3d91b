// SPDX-License-Identifier: Apache-2.0

#include "broker/control/audit_fields.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace rdmabroker {

std::vector<LogField> AuditFields(bool allowed, const AuditEntry& entry) {
  std::vector<LogField> fields = {{"decision", allowed ? "allowed" : "refused"}, {"action", entry.action}};
  const auto add_text = [&](const char* name, const std::string& value) {
    if (!value.empty()) fields.emplace_back(name, value);
  };
  add_text("rule", entry.rule);
  add_text("quota", entry.quota);
  if (entry.session) fields.emplace_back("session", entry.session.value());
  if (entry.request) fields.emplace_back("request", entry.request.value());
  if (entry.caller != nullptr && entry.caller->spiffe_id.empty()) {
    fields.emplace_back("uid", entry.caller->identity.uid);
    fields.emplace_back("gid", entry.caller->identity.gid);
    fields.emplace_back("pid", entry.caller->identity.pid);
  } else if (entry.caller != nullptr) {
    add_text("spiffe_id", entry.caller->spiffe_id);
  }
  add_text("adapter", entry.use.adapter);
  if (const auto& ports = entry.use.local_ports) {
    add_text("local_port",
             ports->first == ports->last ? absl::StrCat(ports->first) : absl::StrCat(ports->first, "-", ports->last));
  }
  if (entry.use.destination && entry.use.destination_port != 0) {
    add_text("destination", SocketAddress{*entry.use.destination, entry.use.destination_port}.ToString());
  } else if (entry.use.destination) {
    add_text("peer", entry.use.destination->ToString());
  }
  return fields;
}

}  // namespace rdmabroker
