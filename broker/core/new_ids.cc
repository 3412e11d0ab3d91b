// SPDX-License-Identifier: Apache-2.0

#include "broker/core/new_ids.h"

namespace rdmabroker {

void SetKeyOfIds(uint64_t key, Counters& counters) {
  counters.id_key = key;
  constexpr uint64_t kOfOneKey = uint64_t{1} << 32;
  for (uint64_t* counter : {&counters.session, &counters.adapter, &counters.listener, &counters.shared_endpoint,
                            &counters.reservation, &counters.connector, &counters.endpoint}) {
    if (*counter != 0) *counter = (*counter / kOfOneKey + 1) * kOfOneKey;
  }
}

}  // namespace rdmabroker
