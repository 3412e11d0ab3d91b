// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/doctor/doctor.h"

#include <algorithm>

#include "client/ctl/doctor/judge.h"
#include "client/ctl/doctor/machine_calls.h"
#include "client/ctl/doctor/machine_files.h"
#include "client/ctl/output.h"
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
  if (form != OutputForm::kTable) return InForm(form, ToJson(findings)).value_or("");
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
