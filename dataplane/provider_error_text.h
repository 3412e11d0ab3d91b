// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_PROVIDER_ERROR_TEXT_H_
#define DATAPLANE_PROVIDER_ERROR_TEXT_H_

#include <cstdint>
#include <string>

namespace rdmabroker {

// What the provider error of a result, or of an established connection's end, means: who noticed the error, and what to
// do. For a person, and not to be parsed: it is the hint of the disconnect event that has the same number. Empty for 0,
// and without memory.
std::string ProviderErrorText(uint32_t provider_error);

}  // namespace rdmabroker

#endif  // DATAPLANE_PROVIDER_ERROR_TEXT_H_
