// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_TABLE_H_
#define CLIENT_CTL_TABLE_H_

#include <string>
#include <string_view>
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

// "SESSION_STATE_OPEN" without its prefix, in words: "open".
std::string Word(const std::string& name, std::string_view prefix);

// "192.0.2.1:7471"; "-" where there is none.
std::string AddressOf(const v1::SocketAddress& message, bool present);

// Control characters become '?': what comes from elsewhere must not steer a terminal.
std::string Printable(std::string text);

// Columns as wide as their widest field, two spaces apart. Printable.
std::string Format(const Table& table);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_TABLE_H_
