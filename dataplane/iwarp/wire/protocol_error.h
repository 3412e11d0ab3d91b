// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WIRE_PROTOCOL_ERROR_H_
#define DATAPLANE_IWARP_WIRE_PROTOCOL_ERROR_H_

#include <cstdint>
#include <string_view>

namespace rdmabroker::iwarp {

// Layer, error type and error code of a Terminate message (RFC 5040, section 4.8; RFC 6581, section 9.2).
struct TerminateCause {
  uint8_t layer = 0;  // Four bits: 0 RDMAP, 1 DDP, 2 LLP (here MPA).
  uint8_t type = 0;   // Four bits.
  uint8_t code = 0;

  constexpr bool operator==(const TerminateCause&) const = default;
  // The three as they stand in the message: layer, type, code from the most significant bit of 16 on.
  constexpr uint16_t number() const { return static_cast<uint16_t>(layer << 12 | type << 8 | code); }
};

inline constexpr TerminateCause kRdmapLocalCatastrophic = {0, 0, 0x00};
inline constexpr TerminateCause kRdmapInvalidStag = {0, 1, 0x00};
inline constexpr TerminateCause kRdmapBaseOrBounds = {0, 1, 0x01};
inline constexpr TerminateCause kRdmapAccessRights = {0, 1, 0x02};
inline constexpr TerminateCause kRdmapStagNotAssociated = {0, 1, 0x03};
inline constexpr TerminateCause kRdmapToWrap = {0, 1, 0x04};
inline constexpr TerminateCause kRdmapProtectionStagCannotBeInvalidated = {0, 1, 0x09};
inline constexpr TerminateCause kRdmapProtectionUnspecified = {0, 1, 0xFF};
inline constexpr TerminateCause kRdmapInvalidVersion = {0, 2, 0x05};
inline constexpr TerminateCause kRdmapUnexpectedOpcode = {0, 2, 0x06};
inline constexpr TerminateCause kRdmapStreamCatastrophic = {0, 2, 0x07};
inline constexpr TerminateCause kRdmapGlobalCatastrophic = {0, 2, 0x08};
inline constexpr TerminateCause kRdmapStagCannotBeInvalidated = {0, 2, 0x09};
inline constexpr TerminateCause kRdmapOperationUnspecified = {0, 2, 0xFF};
inline constexpr TerminateCause kDdpLocalCatastrophic = {1, 0, 0x00};
inline constexpr TerminateCause kDdpInvalidStag = {1, 1, 0x00};
inline constexpr TerminateCause kDdpBaseOrBounds = {1, 1, 0x01};
inline constexpr TerminateCause kDdpStagNotAssociated = {1, 1, 0x02};
inline constexpr TerminateCause kDdpToWrap = {1, 1, 0x03};
inline constexpr TerminateCause kDdpTaggedInvalidVersion = {1, 1, 0x04};
inline constexpr TerminateCause kDdpInvalidQueue = {1, 2, 0x01};
inline constexpr TerminateCause kDdpNoBuffer = {1, 2, 0x02};
inline constexpr TerminateCause kDdpMsnOutOfRange = {1, 2, 0x03};
inline constexpr TerminateCause kDdpInvalidMo = {1, 2, 0x04};
inline constexpr TerminateCause kDdpMessageTooLong = {1, 2, 0x05};
inline constexpr TerminateCause kDdpUntaggedInvalidVersion = {1, 2, 0x06};
inline constexpr TerminateCause kMpaStreamLost = {2, 0, 0x01};
inline constexpr TerminateCause kMpaCrc = {2, 0, 0x02};
inline constexpr TerminateCause kMpaLengthMismatch = {2, 0, 0x03};
inline constexpr TerminateCause kMpaInvalidStartup = {2, 0, 0x04};
inline constexpr TerminateCause kMpaLocalCatastrophic = {2, 0, 0x05};
inline constexpr TerminateCause kMpaInsufficientIrd = {2, 0, 0x06};
inline constexpr TerminateCause kMpaNoMatchingRtr = {2, 0, 0x07};

// "DDP: invalid STag", for people. "unknown cause" for what the RFCs do not name.
std::string_view TerminateCauseName(TerminateCause cause);

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WIRE_PROTOCOL_ERROR_H_
