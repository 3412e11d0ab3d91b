// SPDX-License-Identifier: Apache-2.0

// TCP over Ethernet as it stands in captured packets, each with its Ethernet header.

#ifndef TESTS_INTEGRATION_TCP_PACKETS_H_
#define TESTS_INTEGRATION_TCP_PACKETS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rdmabroker {

// One direction of a TCP connection: both addresses and ports as they stand in the packets, the sender's first.
using TcpDirection = std::string;

// What each side of each TCP connection has sent. A connection without its first packet, or with bytes missing, fails
// the test; packets that overtook others or were sent again do not.
std::map<TcpDirection, std::string> TcpStreams(const std::vector<std::string>& packets);

// The length of the unit of the protocol above TCP that begins at an offset of a stream; nothing while it cannot be
// told or is not there as a whole.
using UnitLength = std::function<size_t(std::string_view stream, size_t at)>;

// The same conversation in segments that hold one unit each, or a part of a long one; what is none is left as a
// segment at the end. Nothing is acknowledged, as it would be something else now. For dissectors: those of iWARP in
// tshark 4.0 do not recognise an FPDU of whose first eight bytes a segment holds a part, and TCP may end a segment
// anywhere.
std::vector<std::string> ResegmentTcp(const std::vector<std::string>& packets, const UnitLength& unit_length);

// Writes packets as a file for tshark and the like. A file that cannot be written fails the test.
void WritePcap(const std::string& path, const std::vector<std::string>& packets);

}  // namespace rdmabroker

#endif  // TESTS_INTEGRATION_TCP_PACKETS_H_
