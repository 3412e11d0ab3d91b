// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_SESSION_OPTIONS_H_
#define CLIENT_SESSION_OPTIONS_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "client/control_socket.h"
#include "client/data_path.h"
#include "client/values.h"

namespace rdmabroker::client {

// How Session::Open goes about it.
struct SessionOptions {
  // The broker's control socket; its hand-off socket lies beside it.
  std::string control_socket = ControlSocketPath();
  // How long Session::Open waits for the broker.
  std::chrono::milliseconds open_timeout{10'000};
  // An adapter gets the first that fits it; where none does, Adapter::data is null.
  std::vector<DataPath> data_paths = BuiltInDataPaths();
  // Called once if the session ends other than by Session::Close, after everything in it has been told of the end. May
  // be empty.
  OutcomeCompletion on_end;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_SESSION_OPTIONS_H_
