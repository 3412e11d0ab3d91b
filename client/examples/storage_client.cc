// SPDX-License-Identifier: Apache-2.0

// The storage server's client: fetches the file by RDMA READ and stores a copy back by RDMA WRITE.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>

#include "absl/status/status.h"
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
  std::string source = "0.0.0.0:0";
  std::string server;
  std::string output;
  bool pause = false;
};

// Shows how far a transfer is, ten times, and in the end how fast it went.
class Meter {
 public:
  Meter(const char* verb, uint64_t size) : verb_(verb), size_(size), begin_(std::chrono::steady_clock::now()) {}

  void Note(uint64_t done) {
    const uint64_t tenth = done * 10 / size_;
    if (tenth == shown_) return;
    shown_ = tenth;
    std::printf("client: %s %3d %%\n", verb_, static_cast<int>(tenth * 10));
    if (done == size_) {
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin_;
      std::printf("client: %s %.1f MB in %.3f s, %.0f MB/s\n", verb_, static_cast<double>(size_) / 1e6, taken.count(),
                  static_cast<double>(size_) / 1e6 / taken.count());
    }
    std::fflush(stdout);
  }

 private:
  const char* verb_;
  uint64_t size_;
  uint64_t shown_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

absl::Status Fetch(StorageLink& link, const Message& offer, const MappedFile& copy, const MemoryRegion& region) {
  Meter meter("READ", offer.size);
  absl::Status read = link.Read(copy.bytes(), region, offer.memory, [&](uint64_t done) { meter.Note(done); });
  if (!read.ok()) return read;
  if (Sha256(copy.bytes()) != offer.digest) return absl::DataLossError("what was fetched is not the server's file");
  std::cout << "client: fetched, SHA-256 matches" << std::endl;
  return absl::OkStatus();
}

absl::Status StoreBack(StorageLink& link, const MappedFile& copy, const MemoryRegion& region) {
  const uint64_t size = copy.bytes().size();
  if (absl::Status sent = link.Send({MessageKind::kStore, size, {}, {}}); !sent.ok()) return sent;
  const auto space = link.Receive(MessageKind::kSpace);
  if (!space.ok()) return space.status();
  Meter meter("WRITE", size);
  absl::Status written = link.Write(copy.bytes(), region, space->memory, [&](uint64_t done) { meter.Note(done); });
  if (!written.ok()) return written;
  if (absl::Status sent = link.Send({MessageKind::kStored, size, {}, Sha256(copy.bytes())}); !sent.ok()) return sent;
  const auto verdict = link.Receive(MessageKind::kVerdict);
  if (!verdict.ok()) return verdict.status();
  if (verdict->size != 1) return absl::DataLossError("the server says that the copy is not its file");
  std::cout << "client: stored back, the server's SHA-256 matches" << std::endl;
  return absl::OkStatus();
}

absl::Status Talk(StorageLink& link, const Options& options) {
  const auto offer = link.Receive(MessageKind::kOffer);
  if (!offer.ok()) return offer.status();
  if (offer->size == 0) return absl::InvalidArgumentError("the server offers an empty file");
  const auto copy = MappedFile::Create(options.output, offer->size);
  if (!copy.ok()) return copy.status();
  const auto region = link.connection().Register(copy->bytes(), kMrAllowLocalWrite | kMrRdmaReadSink);
  if (!region.ok()) return region.status();
  absl::Status result = Fetch(link, *offer, *copy, **region);
  if (result.ok() && options.pause) {
    std::cout << "client: connected; a line on standard input goes on" << std::endl;
    std::string line;
    std::getline(std::cin, line);
  }
  if (result.ok()) result = StoreBack(link, *copy, **region);
  // Before the mapping goes.
  if (absl::Status status = Report("deregister", (*region)->Deregister()); !status.ok()) return status;
  return result;
}

absl::Status Run(const Options& options) {
  const auto server = ParseAddress("--server", options.server);
  if (!server.ok()) return server.status();
  const auto source = ParseAddress("--source", options.source);
  if (!source.ok()) return source.status();
  const auto device = OpenDevice(options.socket, options.device);
  if (!device.ok()) return device.status();
  const auto& adapter = device->adapter;
  absl::Status result;
  {
    auto link = StorageLink::Make(adapter);
    if (!link.ok()) return link.status();
    result = (*link)->connection().Connect(*source, *server);
    if (result.ok()) result = Talk(**link, options);
  }
  client::BlockingClose(adapter);
  return result;
}

}  // namespace
}  // namespace rdmabroker::examples

int main(int argc, char** argv) {
  rdmabroker::examples::Options options;
  CLI::App app{"Fetches a file over RDMA and stores a copy back."};
  app.add_option("--socket", options.socket, "The broker's control socket")->capture_default_str();
  app.add_option("--device", options.device, "The device to connect from")->capture_default_str();
  app.add_option("--source", options.source, "The local address, 0.0.0.0 for the route's; port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--server", options.server, "The storage server's IP:PORT")->required();
  app.add_option("--output", options.output, "Where the fetched file goes")->required();
  app.add_flag("--pause", options.pause, "Wait for a line on standard input before storing back");
  CLI11_PARSE(app, argc, argv);
  const absl::Status result = rdmabroker::examples::Run(options);
  if (!result.ok()) std::cerr << "storage_client: " << result.message() << "\n";
  return result.ok() ? 0 : 1;
}
