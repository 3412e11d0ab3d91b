// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_MONITORING_SCRAPE_SERVER_H_
#define BROKER_MONITORING_SCRAPE_SERVER_H_

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Serves one page over HTTP, on a thread of its own. Whoever is slow is given up: a scraper has some seconds, and the
// oldest of many goes when one more comes, so that nobody can keep another away by doing nothing.
class ScrapeServer {
 public:
  static constexpr size_t kMostConnections = 16;  // Two Prometheus servers and some people.
  // Longer than it takes to make a page and to send it over any network on which scrapes are of use.
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  // `page` is called on the server's thread and should not take long. Null where the process gets no descriptor or no
  // thread for it; the listener is closed then.
  static std::unique_ptr<ScrapeServer> Start(UniqueFd listener, std::function<std::string()> page,
                                             absl::Duration patience = kPatience);
  // Waits for a page that is being made, and for nothing else.
  ~ScrapeServer();
  ScrapeServer(const ScrapeServer&) = delete;
  ScrapeServer& operator=(const ScrapeServer&) = delete;

 private:
  struct Connection {
    UniqueFd socket;
    absl::Time end;        // Of the patience.
    std::string received;  // Until there is an answer.
    std::string answer;
    size_t sent = 0;
  };
  using Connections = std::list<Connection>;  // The oldest first.

  ScrapeServer(UniqueFd listener, std::function<std::string()> page, absl::Duration patience);
  void Run();
  void Accept();
  // False: it is over.
  bool Receive(Connection& connection);
  bool Send(Connection& connection);

  const UniqueFd listener_;
  const std::function<std::string()> page_;
  const absl::Duration patience_;
  UniqueFd stop_;            // eventfd.
  Connections connections_;  // The thread's.
  std::thread thread_;
};

}  // namespace rdmabroker

#endif  // BROKER_MONITORING_SCRAPE_SERVER_H_
