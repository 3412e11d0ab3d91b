// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_RECOVERY_H_
#define BROKER_CORE_RECOVERY_H_

#include "broker/core/turn.h"

namespace rdmabroker {

void Handle(Turn& turn, const Recover& event);

}  // namespace rdmabroker

#endif  // BROKER_CORE_RECOVERY_H_
