// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/doctor/doctor.h"

#include <algorithm>
#include <cstdio>

#include "client/ctl/doctor/judge.h"
#include "client/ctl/doctor/machine_calls.h"
#include "client/ctl/doctor/machine_files.h"
#include "client/ctl/table.h"

namespace rdmabroker::ctl {
namespace {

std::string Word(Severity severity) {
  switch (severity) {
    case Severity::kOk:
      return "ok";
    case Severity::kNote:
      return "note";
    case Severity::kProblem:
      break;
  }
  return "problem";
}

// RFC 8259, section 7. Bytes beyond ASCII become '?', as names and reasons need not be UTF-8.
std::string JsonText(const std::string& text) {
  std::string quoted = "\"";
  for (const unsigned char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c < ' ') {
      char escape[sizeof "\\u0000"];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      quoted += escape;
    } else {
      quoted += c < 0x7F ? static_cast<char>(c) : '?';
    }
  }
  return quoted + "\"";
}

std::string ToJson(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += text.empty() ? "\n" : ",\n";
    text += "  {\n   \"what\": " + JsonText(finding.what) + ",\n   \"state\": " + JsonText(Word(finding.severity)) +
            ",\n   \"meaning\": " + JsonText(finding.meaning) + ",\n   \"command\": " + JsonText(finding.command) +
            "\n  }";
  }
  return "{\n \"findings\": [" + text + (text.empty() ? "" : "\n ") + "]\n}\n";
}

}  // namespace

Findings Examine(const std::string& control_socket) {
  MachineState machine = ReadMachineFiles("/");
  AskKernel(&machine);
  machine.broker = AskBroker(control_socket);
  return Judge(machine);
}

std::string ShowFindings(const Findings& findings, OutputForm form) {
  if (form == OutputForm::kJson) return ToJson(findings);
  Table table = {{"WHAT", "STATE", "MEANING", "COMMAND THAT MENDS IT"}};
  for (const Finding& finding : findings) {
    table.push_back({finding.what, Word(finding.severity), finding.meaning, finding.command});
  }
  return Format(table);
}

bool HasProblem(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::kProblem; });
}

}  // namespace rdmabroker::ctl
