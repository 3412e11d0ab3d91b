// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_DATA_PATH_H_
#define CLIENT_DATA_PATH_H_

#include <functional>
#include <string>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/ndk/adapter_info.h"
#include "dataplane/queue_pair.h"

namespace rdmabroker::v1 {
class QpAttributes;
}  // namespace rdmabroker::v1

namespace rdmabroker::client {

// How the bytes of one kind of adapter move in this process.
struct DataPath {
  // Which adapters it serves.
  RdmaTechnology technology = RdmaTechnology::kUndefined;
  bool client_ends_connections = false;  // As AdapterOpened's: the data path holds the transport.

  // Opens the data plane's side of a device, by the name that it has now. Called on the session's thread.
  std::function<Created<rdmabroker::Adapter>(const std::string& device)> open;
  // Tells what `open` has made that its device is being removed, which waits until all programs have closed the device.
  // Called on the session's thread, once, before the adapter's close. Null where adapters hold no device open.
  void (*release_device)(rdmabroker::Adapter* adapter) = nullptr;
  // What QueuePair::Attach takes for one transition of ConnectionData.qp_attributes. Empty where queue pairs are
  // connected by a transport and not by attributes. Where client_ends_connections is not set, an empty Attachment
  // follows when the connection is established.
  std::function<Attachment(const v1::QpAttributes& attributes)> transition;
};

// The data paths that this library brings: user-space iWARP, and libibverbs for the kernel's devices of each
// technology.
std::vector<DataPath> BuiltInDataPaths();

}  // namespace rdmabroker::client

#endif  // CLIENT_DATA_PATH_H_
