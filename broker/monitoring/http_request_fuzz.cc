// SPDX-License-Identifier: Apache-2.0

// What comes to the port of the metrics: it is answered once, and the answer is HTTP.

#include "broker/monitoring/http_request.h"

#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/fuzz.h"

namespace rdmabroker {
namespace {

std::optional<std::string> Answer(absl::string_view received, int* pages) {
  return AnswerTo(received, [pages] {
    ++*pages;
    return std::string("a 1\n");
  });
}

}  // namespace
}  // namespace rdmabroker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  const absl::string_view received(reinterpret_cast<const char*>(data), size);
  const size_t end = received.find("\r\n\r\n");
  const bool whole = end != absl::string_view::npos;
  int pages = 0;
  const std::optional<std::string> answer = Answer(received, &pages);
  Require(answer.has_value() == (whole || size >= kMostRequestBytes), "a whole request is answered, or one too long");
  if (!answer) return 0;
  const size_t body = answer->find("\r\n\r\n") + 4;
  Require(absl::StartsWith(*answer, "HTTP/1.1 ") && body >= 4, "an answer is HTTP");
  Require(absl::StrContains(*answer, absl::StrCat("\r\nContent-Length: ", answer->size() - body, "\r\n")),
          "an answer says how long its body is");
  Require(pages == (absl::StartsWith(*answer, "HTTP/1.1 200 ") ? 1 : 0), "the page is made where the answer has it");
  if (!whole) return 0;
  int again = 0;
  Require(Answer(received.substr(0, end + 4), &again) == answer, "a body changes nothing");
  for (size_t length = 0; length < end + 4 && length < kMostRequestBytes; ++length) {
    Require(!Answer(received.substr(0, length), &again), "half a request has no answer yet");
  }
  return 0;
}
