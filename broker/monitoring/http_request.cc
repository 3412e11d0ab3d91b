// SPDX-License-Identifier: Apache-2.0

#include "broker/monitoring/http_request.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rdmabroker {
namespace {

// The text format of Prometheus.
constexpr char kPageType[] = "text/plain; version=0.0.4; charset=utf-8";

std::string Answer(absl::string_view status, absl::string_view type, absl::string_view more, absl::string_view body) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nContent-Type: ", type, "\r\nContent-Length: ", body.size(), "\r\n",
                      more, "Connection: close\r\n\r\n", body);
}

std::string Refusal(absl::string_view status, absl::string_view why, absl::string_view more = "") {
  return Answer(status, "text/plain; charset=utf-8", more, why);
}

}  // namespace

std::optional<std::string> AnswerTo(absl::string_view received, const std::function<std::string()>& page) {
  const size_t end = received.find("\r\n\r\n");
  if (end == absl::string_view::npos) {
    if (received.size() < kMostRequestBytes) return std::nullopt;
    return Refusal("431 Request Header Fields Too Large", "The request is too long.\n");
  }
  const std::vector<absl::string_view> words = absl::StrSplit(received.substr(0, received.find("\r\n")), ' ');
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.")) {
    return Refusal("400 Bad Request", "This is not HTTP/1.\n");
  }
  const absl::string_view path = words[1].substr(0, words[1].find('?'));
  if (path != "/metrics") return Refusal("404 Not Found", "There is /metrics and nothing else.\n");
  if (words[0] != "GET") return Refusal("405 Method Not Allowed", "Use GET.\n", "Allow: GET\r\n");
  return Answer("200 OK", kPageType, "", page());
}

}  // namespace rdmabroker
