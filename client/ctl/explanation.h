// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_EXPLANATION_H_
#define CLIENT_CTL_EXPLANATION_H_

#include <chrono>
#include <string>

#include "proto/rdmabroker/v1/inspection.pb.h"

namespace rdmabroker::ctl {

// Why a connector is as it is, in words. `now` is what "ago" counts from.
std::string ExplainInWords(const v1::ExplainConnectorReply& reply, std::chrono::system_clock::time_point now);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_EXPLANATION_H_
