// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_NDK_EXTENSION_H_
#define DATAPLANE_NDK_EXTENSION_H_

#include <array>
#include <cstdint>

#include "dataplane/ndk/adapter_info.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {

// A GUID that a provider has given an interface of its own, in the order of its text form.
using ExtensionId = std::array<uint8_t, 16>;

// NDK_FN_QUERY_EXTENSION_INTERFACE, which every NDK object has: functions beyond NDKPI that a provider may offer.
class Extensible {
 public:
  // kSuccess: `*functions` is the extension's table, good as long as the object. kNotSupported: the object has no such
  // extension, and `*functions` is null. NDKPI defines none, and no object here has one.
  NdkStatus QueryExtension(const ExtensionId&, NdkVersion, const void** functions) const {
    *functions = nullptr;
    return NdkStatus::kNotSupported;
  }

 protected:
  Extensible() = default;
  ~Extensible() = default;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_NDK_EXTENSION_H_
