// SPDX-License-Identifier: Apache-2.0

#include "broker/core/fabric_messages.h"

namespace rdmabroker {

// Defined here for the reason that requests.cc gives.

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
