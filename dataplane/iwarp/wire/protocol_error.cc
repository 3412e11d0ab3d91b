// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/protocol_error.h"

namespace rdmabroker::iwarp {
namespace {

struct Row {
  TerminateCause cause;
  std::string_view name;
};

constexpr Row kRows[] = {
    {kRdmapLocalCatastrophic, "RDMAP: local catastrophic error"},
    {kRdmapInvalidStag, "RDMAP: invalid STag"},
    {kRdmapBaseOrBounds, "RDMAP: base or bounds violation"},
    {kRdmapAccessRights, "RDMAP: access rights violation"},
    {kRdmapStagNotAssociated, "RDMAP: STag not associated with the stream"},
    {kRdmapToWrap, "RDMAP: tagged offset wraps"},
    {kRdmapProtectionStagCannotBeInvalidated, "RDMAP: STag cannot be invalidated"},
    {kRdmapProtectionUnspecified, "RDMAP: unspecified protection error"},
    {kRdmapInvalidVersion, "RDMAP: invalid version"},
    {kRdmapUnexpectedOpcode, "RDMAP: unexpected opcode"},
    {kRdmapStreamCatastrophic, "RDMAP: catastrophic error of the stream"},
    {kRdmapGlobalCatastrophic, "RDMAP: global catastrophic error"},
    {kRdmapStagCannotBeInvalidated, "RDMAP: STag cannot be invalidated"},
    {kRdmapOperationUnspecified, "RDMAP: unspecified operation error"},
    {kDdpLocalCatastrophic, "DDP: local catastrophic error"},
    {kDdpInvalidStag, "DDP: invalid STag"},
    {kDdpBaseOrBounds, "DDP: base or bounds violation"},
    {kDdpStagNotAssociated, "DDP: STag not associated with the stream"},
    {kDdpToWrap, "DDP: tagged offset wraps"},
    {kDdpTaggedInvalidVersion, "DDP: invalid version in a tagged segment"},
    {kDdpInvalidQueue, "DDP: invalid queue number"},
    {kDdpNoBuffer, "DDP: no buffer for the message"},
    {kDdpMsnOutOfRange, "DDP: message sequence number out of range"},
    {kDdpInvalidMo, "DDP: invalid message offset"},
    {kDdpMessageTooLong, "DDP: message too long for its buffer"},
    {kDdpUntaggedInvalidVersion, "DDP: invalid version in an untagged segment"},
    {kMpaStreamLost, "MPA: TCP connection lost"},
    {kMpaCrc, "MPA: CRC error"},
    {kMpaLengthMismatch, "MPA: ULPDU length mismatch"},
    {kMpaInvalidStartup, "MPA: invalid request or reply frame"},
    {kMpaLocalCatastrophic, "MPA: local catastrophic error"},
    {kMpaInsufficientIrd, "MPA: insufficient inbound read limit"},
    {kMpaNoMatchingRtr, "MPA: no matching ready-to-receive form"},
};

}  // namespace

std::string_view TerminateCauseName(TerminateCause cause) {
  for (const Row& row : kRows) {
    if (row.cause == cause) return row.name;
  }
  return "unknown cause";
}

}  // namespace rdmabroker::iwarp
