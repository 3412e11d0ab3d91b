// SPDX-License-Identifier: Apache-2.0

#include "dataplane/provider_error_text.h"

#include "dataplane/provider_error.h"

namespace rdmabroker {

std::string ProviderErrorText(uint32_t provider_error) {
  // Without a number, a text would be of the status alone, which the caller has.
  if (provider_error == 0) return {};
  try {
    return ConnectionEndText(NdkStatus::kConnectionAborted, provider_error);
  } catch (...) {
    return {};
  }
}

}  // namespace rdmabroker
