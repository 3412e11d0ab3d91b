// SPDX-License-Identifier: Apache-2.0

// A storage server in small: exports one file for RDMA READ and takes a copy of it back by RDMA WRITE.

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/blocking.h"
#include "client/control_socket.h"
#include "client/examples/mapped_file.h"
#include "client/examples/opened_device.h"
#include "client/examples/storage_link.h"

namespace rdmabroker::examples {
namespace {

struct Options {
  std::string socket = client::ControlSocketPath();
  std::string device = "iwarp0";
  std::string address = "127.0.0.1:0";
  std::string file;
  std::string store;
  int clients = 1;
};

// Lets the client write into `space`, and no longer than that: what it says when it has done so.
absl::StatusOr<Message> TakeCopy(StorageLink& link, std::span<uint8_t> space) {
  const auto region = link.connection().Register(space, kMrAllowRemoteWrite);
  if (!region.ok()) return region.status();
  const RemoteMemory sink{reinterpret_cast<uint64_t>(space.data()), (*region)->remote_token()};
  const absl::Status sent = link.Send({MessageKind::kSpace, space.size(), sink, {}});
  absl::StatusOr<Message> stored = sent.ok() ? link.Receive(MessageKind::kStored) : sent;
  if (absl::Status status = Report("deregister", (*region)->Deregister()); !status.ok()) return status;
  return stored;
}

// One client, from the moment that it is accepted.
absl::Status Talk(StorageLink& link, const MappedFile& file, const Digest& digest, const std::string& store) {
  const auto exported = link.connection().Register(file.bytes(), kMrAllowRemoteRead);
  if (!exported.ok()) return exported.status();
  const RemoteMemory source{reinterpret_cast<uint64_t>(file.bytes().data()), (*exported)->remote_token()};
  if (absl::Status sent = link.Send({MessageKind::kOffer, file.bytes().size(), source, digest}); !sent.ok())
    return sent;
  const auto wish = link.Receive(MessageKind::kStore);
  if (!wish.ok()) return wish.status();
  // Not both at a time: Debian lets a process lock 8 MiB for a device of the kernel's.
  if (absl::Status status = Report("deregister", (*exported)->Deregister()); !status.ok()) return status;
  if (wish->size != file.bytes().size()) return absl::InvalidArgumentError("the copy is not as long as the file");
  const auto copy = MappedFile::Create(store, wish->size);
  if (!copy.ok()) return copy.status();
  const auto stored = TakeCopy(link, copy->bytes());
  if (!stored.ok()) return stored.status();
  const Digest arrived = Sha256(copy->bytes());
  const bool same = arrived == stored->digest && arrived == digest;
  if (absl::Status sent = link.Send({MessageKind::kVerdict, same, {}, arrived}); !sent.ok()) return sent;
  std::cout << "server: copy stored, SHA-256 " << (same ? "matches" : "DIFFERS") << std::endl;
  return same ? absl::OkStatus() : absl::DataLossError("the copy is not the file");
}

absl::Status ServeOne(const std::shared_ptr<client::Adapter>& adapter, client::BlockingListener& listener,
                      const MappedFile& file, const Digest& digest, const Options& options) {
  auto link = StorageLink::Make(adapter);
  if (!link.ok()) return link.status();
  auto [arrived, connector] = listener.Next();
  if (!arrived.ok()) return Report("listener", arrived);
  const absl::Status accepted = (*link)->connection().Accept(std::move(connector));
  return accepted.ok() ? Talk(**link, file, digest, options.store) : accepted;
}

absl::Status Serve(const Options& options) {
  const auto file = MappedFile::Open(options.file);
  if (!file.ok()) return file.status();
  const Digest digest = Sha256(file->bytes());
  const auto address = ParseAddress("--address", options.address);
  if (!address.ok()) return address.status();
  const auto device = OpenDevice(options.socket, options.device);
  if (!device.ok()) return device.status();
  const auto& adapter = device->adapter;
  auto [listening, listener] = client::BlockingListener::Listen(adapter, *address);
  if (!listening.ok()) return Report("listen", listening);
  std::cout << "server: listening on " << listener->address().ToString() << std::endl;
  absl::Status result;
  for (int i = 0; i < options.clients && result.ok(); ++i)
    result = ServeOne(adapter, *listener, *file, digest, options);
  listener.reset();
  client::BlockingClose(adapter);
  return result;
}

}  // namespace
}  // namespace rdmabroker::examples

int main(int argc, char** argv) {
  rdmabroker::examples::Options options;
  CLI::App app{"Exports a file over RDMA and takes a copy back."};
  app.add_option("--socket", options.socket, "The broker's control socket")->capture_default_str();
  app.add_option("--device", options.device, "The device to listen on")->capture_default_str();
  app.add_option("--address", options.address, "Where to listen; port 0 takes a free one")->capture_default_str();
  app.add_option("--file", options.file, "The file to export")->required();
  app.add_option("--store", options.store, "Where the copy goes")->required();
  app.add_option("--clients", options.clients, "End after so many clients")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status result = rdmabroker::examples::Serve(options);
  if (!result.ok()) std::cerr << "storage_server: " << result.message() << "\n";
  return result.ok() ? 0 : 1;
}
