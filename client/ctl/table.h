// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_TABLE_H_
#define CLIENT_CTL_TABLE_H_

#include <string>
#include <vector>

#include "proto/rdmabroker/v1/inspection.pb.h"

namespace rdmabroker::ctl {

// Text in columns; the first row has their names.
using Table = std::vector<std::vector<std::string>>;

Table ToTable(const v1::ListAdaptersReply& reply);
Table ToTable(const v1::ListSessionsReply& reply);
Table ToTable(const v1::ListEndpointsReply& reply);
Table ToTable(const v1::ListListenersReply& reply);
Table ToTable(const v1::ListSharedEndpointsReply& reply);
Table ToTable(const v1::ListReservationsReply& reply);
Table ToTable(const v1::ListConnectorsReply& reply);

// Columns as wide as their widest field, two spaces apart. Control characters become '?': what comes from elsewhere
// must not steer a terminal.
std::string Format(const Table& table);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_TABLE_H_
