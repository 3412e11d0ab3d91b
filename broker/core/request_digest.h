// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_REQUEST_DIGEST_H_
#define BROKER_CORE_REQUEST_DIGEST_H_

#include <array>
#include <cstdint>

#include "broker/core/requests.h"

namespace rdmabroker {

// Tells a request from others that have the same number, in place of the request itself.
using RequestDigest = std::array<uint8_t, 16>;

// Two CRC-64s of different polynomials (ECMA-182 and Jones), which only a client could make alike, to its own harm:
// requests that differ in no more than 16 bytes in a row never are. It is stored, so it must stay the same from version
// to version: a new field of a request changes no digest as long as the field has its default.
RequestDigest DigestOf(const Request& request);

}  // namespace rdmabroker

#endif  // BROKER_CORE_REQUEST_DIGEST_H_
