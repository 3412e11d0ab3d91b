// SPDX-License-Identifier: Apache-2.0

#include "tests/tenants/attacks.h"

namespace rdmabroker::tenants {

std::vector<Attack> Attacks() {
  std::vector<Attack> all;
  for (const auto& some : {FrameAttacks(), HeaderAttacks(), SessionAttacks(), BatchAttacks(), WaitingAttacks(),
                           TlsAttacks(), SocketAttacks()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace rdmabroker::tenants
