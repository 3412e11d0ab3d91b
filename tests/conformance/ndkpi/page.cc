// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/ndkpi/page.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/conformance/ndkpi/surroundings.h"

namespace rdmabroker::ndkpi {
namespace {

constexpr char kHead[] = R"(# Conformance

For whoever asks how much of NDKPI holds here. Every row is an assertion about NDKPI, taken from Microsoft's published
pages or following from them; every column an adapter: the fake fabric, user-space iWARP, Soft-RoCE and soft iWARP, the
latter two the kernel's, on `./tests/run conformance`, which holds this page against the tests that it comes from.

- `yes`: the number of cases that show it there
- `core`: decided before any adapter is asked, so shown once for all of them
- `[1]`: there is something else in its stead, which a case shows; the note below says what
- `open`: nothing shows it yet

| no. | assertion | fake | iwarp | rxe | siw |
| --- | --- | --- | --- | --- | --- |
)";

// The notes, numbered in the order in which they are first used.
class Notes {
 public:
  size_t NumberOf(const std::string& text) {
    const auto found = std::find(texts_.begin(), texts_.end(), text);
    if (found != texts_.end()) return static_cast<size_t>(found - texts_.begin()) + 1;
    texts_.push_back(text);
    return texts_.size();
  }
  std::string List() const {
    std::string list;
    for (size_t i = 0; i < texts_.size(); ++i) absl::StrAppend(&list, "\n", i + 1, ". ", texts_[i]);
    return list;
  }

 private:
  std::vector<std::string> texts_;
};

std::string Cell(const std::vector<const Case*>& cases, const std::string& adapter, Notes* notes) {
  if (cases.empty()) return "open";
  if (std::all_of(cases.begin(), cases.end(), [](const Case* one) { return one->core_only; })) return "core";
  size_t shown = 0;
  std::string marks;
  for (const Case* one : cases) {
    const auto lack = std::find_if(one->lacks.begin(), one->lacks.end(),
                                   [&adapter](const Lack& candidate) { return candidate.adapter == adapter; });
    if (lack == one->lacks.end()) {
      ++shown;
      continue;
    }
    const std::string mark = absl::StrCat("[", notes->NumberOf(lack->instead), "]");
    if (marks.find(mark) == std::string::npos) absl::StrAppend(&marks, marks.empty() ? "" : " ", mark);
  }
  if (shown == 0) return marks;
  return absl::StrCat(shown == 1 ? "yes" : absl::StrCat("yes, ", shown), marks.empty() ? "" : " ", marks);
}

}  // namespace

std::map<int, std::string> ParseAssertions(const std::string& text) {
  std::map<int, std::string> assertions;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t bar = line.find('|');
    int number = 0;
    if (bar != std::string::npos && absl::SimpleAtoi(line.substr(0, bar), &number)) {
      assertions[number] = line.substr(bar + 1);
    }
  }
  return assertions;
}

std::string ConformancePage(const std::map<int, std::string>& assertions, const Cases& cases) {
  std::string page = kHead;
  Notes notes;
  for (const auto& [number, sentence] : assertions) {
    std::vector<const Case*> own;
    for (const Case& one : cases) {
      if (one.assertion == number) own.push_back(&one);
    }
    absl::StrAppend(&page, "| ", number, " | ", absl::StrReplaceAll(sentence, {{"|", "\\|"}}), " |");
    for (const std::string& adapter : Adapters()) absl::StrAppend(&page, " ", Cell(own, adapter, &notes), " |");
    page += "\n";
  }
  const std::string list = notes.List();
  return list.empty() ? page : absl::StrCat(page, list, "\n");
}

}  // namespace rdmabroker::ndkpi
