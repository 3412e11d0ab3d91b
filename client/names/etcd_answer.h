// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_NAMES_ETCD_ANSWER_H_
#define CLIENT_NAMES_ETCD_ANSWER_H_

#include <string>

#include "client/names/etcd.pb.h"
#include "client/names/names.h"

namespace rdmabroker::client {

// The addresses that etcd has under a name: kMostAddresses at most, however many the answer has, and none that nobody
// could connect to. kObjectNameNotFound: nobody has the name; kUnsuccessful: no value is such an address. No I/O but
// the kernel's look-up of an interface that a link-local address names.
Resolution ReadAddresses(const std::string& name, const etcd::RangeResponse& answer);

}  // namespace rdmabroker::client

#endif  // CLIENT_NAMES_ETCD_ANSWER_H_
