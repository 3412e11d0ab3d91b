// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_WATCH_H_
#define CLIENT_CTL_WATCH_H_

#include <ostream>
#include <string>
#include <vector>

#include "client/ctl/broker_queries.h"
#include "client/ctl/output.h"
#include "proto/rdmabroker/v1/inspection.pb.h"

namespace rdmabroker::ctl {

// The words for what can be watched, as the commands that list it.
std::vector<std::string> WatchedKinds();

// What a watch has told, as it is printed: a line for each row, or for each a line of JSON or a YAML document, which
// are WatchReply messages with one change. The first message has a heading.
std::string ShowChanges(const v1::WatchReply& reply, OutputForm form);

// Prints what becomes of the rows of these kinds, or of all, until nobody reads `output`. Begins anew where the broker
// has ended it for a reason that passes, as by a restart, which is waited for; and says so on `notices`. Returns kDone
// when `output` takes nothing more; otherwise the error is that of `queries`.
ExitCode WatchRows(BrokerQueries& queries, const std::vector<std::string>& kinds, OutputForm form, std::ostream& output,
                   std::ostream& notices);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_WATCH_H_
