// SPDX-License-Identifier: Apache-2.0

#include "broker/core/fabric_messages.h"

namespace rdmabroker {

// To copy, move, end or compare so many alternatives takes a compiler seconds. Here it is compiled once, and not in
// each file that has one.

FabricRequest::FabricRequest() = default;
FabricRequest::FabricRequest(const FabricRequest&) = default;
FabricRequest::FabricRequest(FabricRequest&&) noexcept = default;
FabricRequest& FabricRequest::operator=(const FabricRequest&) = default;
FabricRequest& FabricRequest::operator=(FabricRequest&&) noexcept = default;
FabricRequest::~FabricRequest() = default;
bool FabricRequest::operator==(const FabricRequest& other) const {
  return static_cast<const variant&>(*this) == static_cast<const variant&>(other);
}

FabricReport::FabricReport() = default;
FabricReport::FabricReport(const FabricReport&) = default;
FabricReport::FabricReport(FabricReport&&) noexcept = default;
FabricReport& FabricReport::operator=(const FabricReport&) = default;
FabricReport& FabricReport::operator=(FabricReport&&) noexcept = default;
FabricReport::~FabricReport() = default;
bool FabricReport::operator==(const FabricReport& other) const {
  return static_cast<const variant&>(*this) == static_cast<const variant&>(other);
}

}  // namespace rdmabroker
