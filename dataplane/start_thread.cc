// SPDX-License-Identifier: Apache-2.0

#include "dataplane/start_thread.h"

#include <exception>
#include <utility>

namespace rdmabroker {

std::thread StartThread(std::function<void()> run) noexcept {
  try {
    return std::thread(std::move(run));
  } catch (const std::exception&) {  // std::system_error, std::bad_alloc.
    return {};
  }
}

}  // namespace rdmabroker
