// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_ADAPTER_H_
#define CLIENT_ADAPTER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "client/broker_object.h"
#include "client/data_path.h"
#include "client/listener.h"
#include "client/values.h"
#include "dataplane/adapter.h"
#include "dataplane/ndk/adapter_info.h"

namespace rdmabroker::v1 {
class CreateSharedEndpointRequest;
class OpenAdapterRequest;
}  // namespace rdmabroker::v1

namespace rdmabroker::client {

class Connector;
class Reservation;
class SharedEndpoint;

// NDK_ADAPTER: an opened instance of a device's adapter. Its close waits for everything made on it, the data plane's
// objects included; blocking.h has a close that waits, as NDK's does.
//
// When the device is gone, the adapter closes what it holds of the device with the last object of its data plane, at
// once where there is none. Until then the kernel waits with the removal, so close those objects.
//
// Each Create function, and ReservePort, returns kPending, and the completion delivers the object or says why there is
// none (the RPC of the same name in broker.proto lists the statuses); or it returns a failure and never calls the
// completion. The completion may be called before the function has returned.
class Adapter : public BrokerObject {
 public:
  const AdapterInfo& info() const { return info_; }
  // NDK_FN_QUERY_ADAPTER_INFO: copies info() into the caller's memory of `*size` bytes, and sets `*size` to
  // sizeof(AdapterInfo). kBufferTooSmall: there was less room than that, and `*size` alone is written.
  NdkStatus QueryInfo(AdapterInfo* info, size_t* size) const;
  // Whether this process's data path holds the transport of connections and ends them.
  bool client_ends_connections() const { return client_ends_connections_; }
  // The data plane's side of this adapter, which Close closes with it. Null where SessionOptions.data_paths has none
  // for its technology: connections can be brokered, but not by queue pairs of this library.
  rdmabroker::Adapter* data() const { return data_; }

  // The listener has no address yet: Listener::Listen is next. `on_connect` is called for each peer that wants to
  // connect; `on_address`, which may be null, when the adapter loses the listener's address or has it, or with
  // ListenOptions::any_adapter another adapter has it, but not before the completion of Listen.
  NdkStatus CreateListener(ConnectEventCallback on_connect, CreateCompletion<Listener> completion);
  NdkStatus CreateListener(ConnectEventCallback on_connect, AddressEventCallback on_address,
                           CreateCompletion<Listener> completion);
  // Port 0 asks for a free one. In the second form the endpoint takes the reservation's place.
  NdkStatus CreateSharedEndpoint(const SocketAddress& address, CreateCompletion<SharedEndpoint> completion);
  NdkStatus CreateSharedEndpoint(const std::shared_ptr<Reservation>& reservation,
                                 CreateCompletion<SharedEndpoint> completion);
  // Holds an address for a later Listen or CreateSharedEndpoint. Port 0 asks for a free one.
  NdkStatus ReservePort(const SocketAddress& address, CreateCompletion<Reservation> completion);
  // The connector is not connected yet: Connector::Connect or ConnectWithSharedEndpoint is next.
  NdkStatus CreateConnector(CreateCompletion<Connector> completion);

 private:
  friend class Connector;
  friend class Listener;
  friend class Session;

  explicit Adapter(std::shared_ptr<BrokerLink> link, AdapterEventCallback on_event);
  static void Open(const std::shared_ptr<BrokerLink>& link, const v1::OpenAdapterRequest& request,
                   AdapterEventCallback on_event, CreateCompletion<Adapter> completion);

  std::shared_ptr<Adapter> Self() { return std::static_pointer_cast<Adapter>(shared_from_this()); }
  const DataPath* data_path() const { return data_path_; }
  bool removed() const { return removed_; }
  void HandleRemoval();
  NdkStatus OpenDataPath(const std::string& device);
  void StartSharedEndpoint(const v1::CreateSharedEndpointRequest& request,
                           const std::shared_ptr<Reservation>& reservation,
                           CreateCompletion<SharedEndpoint> completion);
  void SubmitClose(Done done) override;
  void OnClosing() override;
  bool ReadyToFinish() const override { return data_closed_; }
  void OnFinished() override { on_event_ = nullptr; }
  void HandleEvent(const v1::SessionEvent& event) override;

  // Set before anybody else sees the object.
  AdapterInfo info_;
  bool client_ends_connections_ = false;
  rdmabroker::Adapter* data_ = nullptr;
  const DataPath* data_path_ = nullptr;  // One of the session's options.

  AdapterEventCallback on_event_;
  bool told_disabled_ = false;
  bool removed_ = false;
  bool data_closed_ = true;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_ADAPTER_H_
