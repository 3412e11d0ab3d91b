// SPDX-License-Identifier: Apache-2.0

#include "broker/store/format.h"

namespace rdmabroker::store {

const uint32_t kFormatVersion = 2;

}  // namespace rdmabroker::store
