// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_STORE_RECORDS_FOR_TEST_H_
#define BROKER_STORE_RECORDS_FOR_TEST_H_

#include "broker/core/state.h"

namespace rdmabroker {

// Records in which no field that version 1 of the store's format knows has the value it has by itself; several where a
// field can be in several ways. Together they make no sense to a core.
//
// The store of version 1 in testdata has them. Once that version is released, what is added to the core's records does
// not belong in here, but in what the next version's store has.
Records FullRecords();

}  // namespace rdmabroker

#endif  // BROKER_STORE_RECORDS_FOR_TEST_H_
