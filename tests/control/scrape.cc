// SPDX-License-Identifier: Apache-2.0

#include "tests/control/scrape.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "dataplane/ndk/socket_address.h"
#include "tests/control/patience.h"

namespace rdmabroker {

UniqueFd ConnectByTcp(const std::string& address) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(SocketAddress::Parse(address).value_or(SocketAddress()).port);
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) socket.Reset();
  return socket;
}

std::string AskByHttp(const std::string& address, const std::string& request) {
  const UniqueFd socket = ConnectByTcp(address);
  const timeval patience = absl::ToTimeval(kTestPatience);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string answer;
  if (!socket) return answer;
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
    return answer;
  }
  std::vector<char> buffer(65536);
  for (ssize_t length = 1; length > 0;) {
    length = ::read(socket.get(), buffer.data(), buffer.size());
    if (length > 0) answer.append(buffer.data(), static_cast<size_t>(length));
  }
  return answer;
}

std::map<std::string, double> Scrape(const std::string& address) {
  const std::string answer = AskByHttp(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(answer.find("HTTP/1.1 200 OK\r\n"), 0u) << answer.substr(0, 200);
  std::map<std::string, double> values;
  bool body = false;
  for (const absl::string_view line : absl::StrSplit(answer, '\n')) {
    if (body && !line.empty() && line[0] != '#') {
      const size_t space = line.rfind(' ');
      values[std::string(line.substr(0, space))] = std::atof(std::string(line.substr(space + 1)).c_str());
    }
    body |= line == "\r";
  }
  return values;
}

}  // namespace rdmabroker
