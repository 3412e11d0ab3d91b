// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/status.h"

#include <nghttp2/nghttp2.h>

#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace rdmabroker::rpc {
namespace {

constexpr char kCode[] = "grpc-status";
constexpr char kMessage[] = "grpc-message";
constexpr char kDetails[] = "grpc-status-details-bin";

// Clients bound trailers, C++'s and Python's at 8 KiB, which these two are together.
constexpr size_t kLongestMessage = 4096;
constexpr size_t kLongestDetails = 3584;

bool ContinuesLetter(char octet) { return (static_cast<uint8_t>(octet) & 0xC0) == 0x80; }

// As much of the text as fits, in whole letters of UTF-8: octets beyond printable ASCII, and "%", as "%" and two
// digits. So are spaces, as a header's value neither begins nor ends with one.
std::string PercentEncoded(absl::string_view text) {
  std::string encoded;
  size_t letter = 0;  // Where the last letter begins in `encoded`.
  for (const char octet : text) {
    if (!ContinuesLetter(octet)) letter = encoded.size();
    if (octet > 0x20 && octet < 0x7F && octet != '%') {
      encoded += octet;
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<uint8_t>(octet));
    }
    if (encoded.size() <= kLongestMessage) continue;
    encoded.resize(letter);
    break;
  }
  return encoded;
}

// What is no escape stays as it is.
std::string PercentDecoded(absl::string_view text) {
  std::string decoded;
  for (size_t at = 0; at < text.size(); ++at) {
    const absl::string_view digits = text[at] == '%' ? text.substr(at + 1, 2) : absl::string_view();
    int octet = 0;
    if (digits.size() == 2 && absl::SimpleHexAtoi(digits, &octet) && absl::ascii_isxdigit(digits.front())) {
      decoded += static_cast<char>(octet);
      at += 2;
    } else {
      decoded += text[at];
    }
  }
  return decoded;
}

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Headers TrailersOf(const Status& status) {
  Headers trailers = {{kCode, absl::StrCat(static_cast<int>(status.code))}};
  if (!status.message.empty()) {
    trailers.push_back({kMessage, PercentEncoded(status.message)});
  }
  if (!status.details.empty()) {
    std::string base64;
    absl::Base64Escape(status.details, &base64);
    base64.erase(base64.find_last_not_of('=') + 1);
    // Half of a message is none.
    if (base64.size() <= kLongestDetails) trailers.push_back({kDetails, std::move(base64)});
  }
  return trailers;
}

Status StatusOf(const Headers& trailers) {
  Status status{.code = absl::StatusCode::kUnknown};
  const auto code = Find(trailers, kCode);
  int number = 0;
  if (code && absl::SimpleAtoi(View(*code), &number) && number >= 0 && number <= 16) {
    status.code = static_cast<absl::StatusCode>(number);
  } else {
    status.message = code ? "The server ended the call with a status that gRPC does not have."
                          : "The server ended the call without a status.";
  }
  if (const auto message = Find(trailers, kMessage)) status.message = PercentDecoded(View(*message));
  if (const auto details = Find(trailers, kDetails)) {
    if (!absl::Base64Unescape(View(*details), &status.details)) status.details.clear();
  }
  return status;
}

Status StatusOfHttp(int code) {
  const auto as = [code](absl::StatusCode code_of_grpc) {
    return Status{.code = code_of_grpc, .message = absl::StrCat("The server answered with HTTP status ", code, ".")};
  };
  switch (code) {
    case 400:
      return as(absl::StatusCode::kInternal);
    case 401:
      return as(absl::StatusCode::kUnauthenticated);
    case 403:
      return as(absl::StatusCode::kPermissionDenied);
    case 404:
      return as(absl::StatusCode::kUnimplemented);
    case 429:
    case 502:
    case 503:
    case 504:
      return as(absl::StatusCode::kUnavailable);
    default:
      return as(absl::StatusCode::kUnknown);
  }
}

Status StatusOfFault(MessageFault fault, const char* message, size_t longest) {
  if (fault == MessageFault::kTooLong) {
    return {.code = absl::StatusCode::kResourceExhausted,
            .message = absl::StrCat("The ", message, " is longer than ", longest, " octets, the most that is taken.")};
  }
  return {.code = absl::StatusCode::kInternal,
          .message = absl::StrCat("The ", message, " does not begin with 0, the flag of one that is not compressed.")};
}

Status StatusOfReset(uint32_t error) {
  const auto as = [error](absl::StatusCode code_of_grpc) {
    return Status{.code = code_of_grpc,
                  .message = absl::StrCat("The stream was reset: ", nghttp2_http2_strerror(error), ".")};
  };
  switch (error) {
    case NGHTTP2_REFUSED_STREAM:
      return as(absl::StatusCode::kUnavailable);
    case NGHTTP2_CANCEL:
      return as(absl::StatusCode::kCancelled);
    case NGHTTP2_ENHANCE_YOUR_CALM:
      return as(absl::StatusCode::kResourceExhausted);
    case NGHTTP2_INADEQUATE_SECURITY:
      return as(absl::StatusCode::kPermissionDenied);
    default:
      return as(absl::StatusCode::kInternal);
  }
}

}  // namespace rdmabroker::rpc
