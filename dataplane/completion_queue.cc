// SPDX-License-Identifier: Apache-2.0

#include "dataplane/completion_queue.h"

#include <algorithm>
#include <array>

namespace rdmabroker {

size_t CompletionQueue::GetResults(std::span<Result> results) {
  std::array<ResultEx, 16> batch;
  size_t total = 0;
  while (total < results.size()) {
    const size_t wanted = std::min(batch.size(), results.size() - total);
    const size_t got = GetResultsEx(std::span(batch).first(wanted));
    std::copy_n(batch.begin(), got, results.begin() + static_cast<ptrdiff_t>(total));
    total += got;
    if (got < wanted) break;
  }
  return total;
}

}  // namespace rdmabroker
