// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_AUDIT_FIELDS_H_
#define BROKER_CONTROL_AUDIT_FIELDS_H_

#include <vector>

#include "broker/control/audit.h"
#include "broker/log/log.h"

namespace rdmabroker {

// The fields of the event "policy decision", as docs/operating.md has them: those that the entry has.
std::vector<LogField> AuditFields(bool allowed, const AuditEntry& entry);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_AUDIT_FIELDS_H_
