// SPDX-License-Identifier: Apache-2.0

#include "dataplane/provider_error.h"

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

using absl::StrCat;
using iwarp::TerminateCause;

constexpr uint8_t kProtection = 1;  // The error type of both RDMAP's and DDP's tagged messages (RFC 5040, 4.8).
constexpr uint8_t kDdp = 1;

// What it means and who must act. `sender` and `receiver` are "this side" and "the peer", or the reverse.
std::string Advice(TerminateCause cause, const std::string& sender, const std::string& receiver) {
  if (cause == iwarp::kDdpNoBuffer) {
    return StrCat("a message of ", sender, " found no receive posted; ", receiver, " must post receives in time");
  }
  if (cause == iwarp::kDdpMessageTooLong) {
    return StrCat("a message of ", sender, " is longer than the receive that it found; ", receiver,
                  " must post larger receives");
  }
  if (cause.layer <= kDdp && cause.type == kProtection) {
    return StrCat(sender, " named memory of ", receiver, " that it may not use so; compare token, address, length and ",
                  "rights with what ", receiver, " has registered");
  }
  if (cause == iwarp::kMpaCrc) return "bytes were damaged on the way; look at both hosts' network adapters and memory";
  return "the two sides do not agree on the protocol; tell the maker of the one that was found fault with";
}

std::string TerminateText(TerminateCause cause, const std::string& finder, const std::string& sender) {
  return StrCat(finder, " found fault (", std::string(TerminateCauseName(cause)), "): ", Advice(cause, sender, finder));
}

std::string ErrnoText(const std::string& whose, uint32_t error) {
  const auto advice = [error] {
    switch (error) {
      case ETIMEDOUT:
      case EHOSTUNREACH:
      case ENETUNREACH:
        return "the peer's host does not answer: see that it and the network between are up";
      case ENOMEM:
      case ENOBUFS:
        return "this side has no memory for it: see what takes up that of its process, container or host";
      default:
        return "the peer's process or host has failed or closed abortively";
    }
  };
  return StrCat(whose, ": ", std::generic_category().message(static_cast<int>(error)), "; ", advice());
}

// By enum ibv_wc_status (libibverbs/verbs.h).
constexpr std::string_view kCompletions[] = {
    "",
    "local length error: a message and the memory that it is for do not fit; compare both sides' lengths",
    "local queue pair error: the adapter refuses a request; see its number and the kernel's log",
    "local end-to-end context error; see the kernel's log",
    "local protection error: a request names memory that it may not use; check address, length and token",
    "flushed: the queue pair was in its error state before; see on the other side how its connection ended",
    "memory window bind error: check the region's rights and the window",
    "bad response: the peer's adapter answers what was not asked; see both kernels' logs",
    "local access error: the peer wrote where this side's memory does not let it; compare token, length and rights",
    "remote invalid request: the peer's receive is too small, or its queue pair does not allow this operation",
    "remote access error: this side named memory of the peer that it may not use so; compare with what it registered",
    "remote operation error: the peer's adapter failed; see the peer's kernel's log",
    "transport retries exceeded: the peer's host or process is gone, or packets are lost, perhaps only large ones",
    "receiver not ready: a message of this side found no receive posted; the peer must post receives in time",
    "local domain violation; see the kernel's log",
    "remote invalid request of a datagram; see the kernel's log",
    "remote aborted: the peer gave the operation up",
    "invalid end-to-end context number; see the kernel's log",
    "invalid end-to-end context state; see the kernel's log",
    "fatal error of the adapter: see the kernel's log",
    "response timeout: the peer's adapter does not answer",
    "general error: see the kernel's log",
};

std::string CompletionText(uint32_t provider_error) {
  const size_t status = provider_error >> 24 & 0x7F;
  const uint32_t vendor_error = provider_error & 0xFFFFFF;
  const bool known = status < std::size(kCompletions);
  std::string text =
      StrCat("a request failed: ", known ? std::string(kCompletions[status]) : StrCat("status ", status));
  if (vendor_error != 0) absl::StrAppend(&text, " (vendor error ", vendor_error, ")");
  return text;
}

// For an end without a provider error.
std::string_view StatusText(NdkStatus status) {
  switch (status) {
    case NdkStatus::kConnectionAborted:
      return "the peer's process or host has failed or closed abortively, or this side's queue pair has; "
             "see on the other side how its connection ended";
    case NdkStatus::kIoTimeout:
      return "the peer no longer answers, or the client has not fetched the connection's transport in time";
    case NdkStatus::kDeviceRemoved:
      return "this side's device is gone; close what is on it and use another adapter";
    default:
      return "the session is over, and nobody watches the connection any more; open a new session";
  }
}

}  // namespace

std::string ConnectionEndText(NdkStatus status, uint32_t provider_error) {
  if (status == NdkStatus::kSuccess) return {};
  if (provider_error == 0) return std::string(StatusText(status));
  if ((provider_error & kFailedCompletion) != 0) return CompletionText(provider_error);
  const std::string this_side = "this side";
  const std::string peer = "the peer";
  const uint32_t number = provider_error & 0xFFFF;
  const TerminateCause cause = {static_cast<uint8_t>(number >> 12), static_cast<uint8_t>(number >> 8 & 0x0F),
                                static_cast<uint8_t>(number)};
  switch (provider_error & ~0xFFFFU) {
    case kTerminateSent:
      return TerminateText(cause, this_side, peer);
    case kTerminateReceived:
      return TerminateText(cause, peer, this_side);
    case kSocketError:
      if (number == 0) return "the peer's stream ended within a message: its process or host has failed";
      return ErrnoText("the connection's socket", number);
    case kLocalError:
      return "a request of this side named memory that it may not use; check address, length, token and rights";
    case 0:
      return ErrnoText("the kernel's connection manager", number);
    default:
      return StrCat("provider error ", provider_error);
  }
}

}  // namespace rdmabroker
