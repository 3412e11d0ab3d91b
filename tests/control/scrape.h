// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_SCRAPE_H_
#define TESTS_CONTROL_SCRAPE_H_

#include <map>
#include <string>

#include "dataplane/unique_fd.h"

namespace rdmabroker {

// A connection to `address`, "127.0.0.1:9464"; empty where nobody listens there.
UniqueFd ConnectByTcp(const std::string& address);

// All that is answered to `request`, by HTTP, at `address`; "" where nobody answers.
std::string AskByHttp(const std::string& address, const std::string& request);

// One scrape: the values by their series, as the page has them. Fails the test where there is no page.
std::map<std::string, double> Scrape(const std::string& address);

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_SCRAPE_H_
