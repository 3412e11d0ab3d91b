// SPDX-License-Identifier: Apache-2.0

#include "client/data_path.h"

#include "dataplane/iwarp/adapter.h"

namespace rdmabroker::client {

std::vector<DataPath> BuiltInDataPaths() {
  return {{.technology = RdmaTechnology::kIwarp, .client_ends_connections = true, .open = [](const std::string&) {
             return iwarp::OpenAdapter();
           }}};
}

}  // namespace rdmabroker::client
