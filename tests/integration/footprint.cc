// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/footprint.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace rdmabroker {
namespace {

namespace fs = std::filesystem;

// The words of each line but the first `skipped` ones.
std::vector<std::vector<std::string>> Rows(const std::string& path, size_t skipped) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  rows.erase(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(std::min(skipped, rows.size())));
  return rows;
}

Footprint Sorted(Footprint lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

// The entries of a folder as they are at one moment; what goes meanwhile is not missed.
std::vector<fs::path> Entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    entries.push_back(at->path());
  }
  return entries;
}

constexpr char kTimeWait[] = "06";  // include/net/tcp_states.h

// "socket:[4711]" without the number.
std::string WithoutNumbers(const std::string& text) {
  std::string kept;
  std::copy_if(text.begin(), text.end(), std::back_inserter(kept), [](unsigned char c) { return !std::isdigit(c); });
  return kept;
}

}  // namespace

Footprint Processes() {
  Footprint lines;
  for (const fs::path& entry : Entries("/proc")) {
    if (!std::isdigit(static_cast<unsigned char>(entry.filename().native()[0]))) continue;
    std::string name, state, parent;
    for (const auto& row : Rows(entry / "status", 0)) {
      if (row.size() < 2) continue;
      if (row[0] == "Name:") name = row[1];
      if (row[0] == "State:") state = row[1];
      if (row[0] == "PPid:") parent = row[1];
    }
    // Whether one runs or sleeps is no difference.
    if (parent == std::to_string(::getpid())) lines.push_back("process " + name + (state == "Z" ? ", a zombie" : ""));
  }
  return Sorted(lines);
}

Footprint TcpSockets() {
  Footprint lines;
  for (const char* const path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    for (const auto& row : Rows(path, 1)) {
      if (row.at(3) != kTimeWait) lines.push_back("TCP socket " + row[1] + " " + row[2] + " in state " + row[3]);
    }
  }
  return Sorted(lines);
}

Footprint Sockets() {
  Footprint lines = TcpSockets();
  for (const auto& row : Rows("/proc/net/unix", 1)) {
    lines.push_back("Unix socket of type " + row.at(4) + " in state " + row.at(5) +
                    (row.size() > 7 ? " " + row[7] : ""));
  }
  return Sorted(lines);
}

Footprint Descriptors(pid_t pid) {
  Footprint lines;
  for (const fs::path& entry : Entries("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code error;
    const fs::path target = fs::read_symlink(entry, error);
    if (!error) lines.push_back("descriptor of " + WithoutNumbers(target));
  }
  return Sorted(lines);
}

Footprint Files(const std::string& folder) {
  std::error_code error;
  Footprint lines;
  for (fs::recursive_directory_iterator at(folder, error); !error && at != fs::recursive_directory_iterator();
       at.increment(error)) {
    lines.push_back("file " + at->path().string());
  }
  return Sorted(lines);
}

Footprint SharedMemory() {
  Footprint lines = Files("/dev/shm");
  for (const char* const kind : {"shm", "sem", "msg"}) {
    for (const auto& row : Rows(std::string("/proc/sysvipc/") + kind, 1)) {
      lines.push_back(std::string("System V ") + kind + " " + row.at(1));
    }
  }
  return Sorted(lines);
}

int64_t ResidentMemory(pid_t pid) {
  for (const auto& row : Rows("/proc/" + std::to_string(pid) + "/status", 0)) {
    if (row.size() > 1 && row[0] == "RssAnon:") return 1024 * std::atoll(row[1].c_str());
  }
  return -1;
}

std::string Difference(const Footprint& before, const Footprint& after) {
  Footprint gone, new_ones;
  std::set_difference(before.begin(), before.end(), after.begin(), after.end(), std::back_inserter(gone));
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(new_ones));
  std::string text;
  for (const std::string& line : gone) text += "  gone: " + line + "\n";
  for (const std::string& line : new_ones) text += "  left: " + line + "\n";
  return text;
}

}  // namespace rdmabroker
