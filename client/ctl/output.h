// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_OUTPUT_H_
#define CLIENT_CTL_OUTPUT_H_

#include <google/protobuf/message.h>

#include <optional>
#include <string>

namespace rdmabroker::ctl {

enum class OutputForm { kTable, kJson, kYaml };

// What the program exits with.
enum class ExitCode : int {
  kDone = 0,
  kRefused = 1,   // The broker says no, or breaks off; or there is a problem.
  kUsage = 2,     // The command line is wrong.
  kNoBroker = 3,  // Nobody answers on the socket.
};

// As protobuf's JSON: every field by the name that it has in the contract, times as RFC 3339 has them. Ends with a
// line's end. Nothing where that cannot be, as with text that is no UTF-8.
std::optional<std::string> JsonOf(const google::protobuf::Message& message, bool in_one_line = false);

// A text between quotes (RFC 8259, section 7). Bytes beyond ASCII become '?', as names and reasons need not be UTF-8.
std::string JsonText(const std::string& text);

// The same as a YAML document's content, in the same order; what JSON has between quotes is text in YAML, too, whatever
// it looks like. Nothing for what is no JSON.
std::optional<std::string> YamlOf(const std::string& json);

// `json` as it is or as YAML.
std::optional<std::string> InForm(OutputForm form, const std::optional<std::string>& json);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_OUTPUT_H_
