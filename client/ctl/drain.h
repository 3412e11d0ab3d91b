// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_DRAIN_H_
#define CLIENT_CTL_DRAIN_H_

#include <chrono>
#include <ostream>
#include <string>
#include <vector>

#include "client/ctl/broker_queries.h"
#include "client/ctl/output.h"

namespace rdmabroker::ctl {

// Takes devices out of service, all that there are where none is named: nobody opens them any more, their clients are
// told, and their adapters, addresses and connections are waited for, but at most `patience`. A line on `progress` for
// each change of what is left; at the end what is left on `output`. kRefused: something is. May be called again.
ExitCode Drain(BrokerQueries& queries, std::vector<std::string> devices, std::chrono::seconds patience, OutputForm form,
               std::ostream& output, std::ostream& progress);

// Puts them into service again.
ExitCode Undrain(BrokerQueries& queries, std::vector<std::string> devices);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_DRAIN_H_
