// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_AUDIT_LEVEL_H_
#define BROKER_CONTROL_AUDIT_LEVEL_H_

#include <cstdint>

namespace rdmabroker {

// Which decisions on clients' requests are logged.
enum class AuditLevel : uint8_t { kNone, kRefused, kAll };

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_AUDIT_LEVEL_H_
