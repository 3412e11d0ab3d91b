// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/handshake_ways.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <utility>

#include "tests/bench/figures.h"

namespace rdmabroker::bench {
namespace {

double Microseconds(int64_t from, int64_t to) { return static_cast<double>(to - from) * 1e-3; }

void NoteCpu(const std::vector<double>& cpu, Steps* steps) {
  steps->cpu_of_active.push_back(cpu.back());
  if (cpu.size() < 3) return;
  steps->cpu_of_server.push_back(cpu[0]);
  steps->cpu_of_passive.push_back(cpu[1]);
}

void PrintSteps(const std::string& name, const Steps& steps) {
  std::printf("  %s, us:", name.c_str());
  const auto print = [](const char* step, const std::vector<double>& figures) {
    if (!figures.empty() && figures.front() != 0) std::printf(" %s %.0f;", step, SpreadOf(figures).median);
  };
  print("create the connector", steps.creation);
  print("resolve address", steps.address);
  print("resolve route", steps.route);
  print("connect to reply", steps.reply);
  print("reply to established there", steps.active);
  print("reply to established at the peer", steps.passive);
  print("in all", steps.whole);
  std::printf(" and of processor time:");
  print("the server", steps.cpu_of_server);
  print("the accepting side", steps.cpu_of_passive);
  print(steps.cpu_of_server.empty() ? "both sides" : "the connecting side", steps.cpu_of_active);
  std::printf("\n");
}

}  // namespace

HandshakeWay::HandshakeWay(std::string name, const MakeHandler& passive, const MakeHandler& active, pid_t served_by)
    : name_(std::move(name)), board_(*HandshakeBoard::Make()), served_by_(served_by) {
  if (passive) workers_.push_back(std::make_unique<Worker>([&] { return passive(board_); }));
  workers_.push_back(std::make_unique<Worker>([&] { return active(board_); }));
}

GroupFigures HandshakeWay::Run(uint32_t connections, bool at_once, Steps* steps) {
  for (const auto& worker : workers_) worker->Do({Order::kPrepare, at_once, connections});
  const std::vector<double> before = CpuOfEach();
  for (const auto& worker : workers_) worker->Tell({Order::kRun, at_once, connections});
  for (const auto& worker : workers_) worker->Await();
  std::vector<double> cpu = CpuOfEach();
  for (size_t i = 0; i < cpu.size(); ++i) cpu[i] = (cpu[i] - before[i]) * 1e6 / connections;
  if (steps != nullptr) NoteCpu(cpu, steps);
  GroupFigures figures = {.cpu_microseconds = std::accumulate(cpu.begin(), cpu.end(), 0.0),
                          .server_cpu_microseconds = cpu.front()};
  std::vector<double> wholes;
  int64_t begun = board_.times[0].begun, established = 0;
  for (uint32_t index = 0; index < connections; ++index) {
    const HandshakeTimes& times = board_.times[index];
    wholes.push_back(Microseconds(times.begun, times.established()));
    begun = std::min(begun, times.begun);
    established = std::max(established, times.established());
    if (steps != nullptr) Note(index, steps);
  }
  figures.microseconds = at_once ? Microseconds(begun, established) / connections : SpreadOf(wholes).median;
  for (const auto& worker : workers_) worker->Tell({Order::kEnd});
  for (const auto& worker : workers_) worker->Await();
  return figures;
}

std::vector<double> HandshakeWay::CpuOfEach() const {
  std::vector<double> seconds = {served_by_ == 0 ? 0 : CpuSeconds(served_by_)};
  for (const auto& worker : workers_) seconds.push_back(CpuSeconds(worker->process()));
  return seconds;
}

void HandshakeWay::Note(uint32_t index, Steps* steps) const {
  const HandshakeTimes& times = board_.times[index];
  int64_t before = times.begun;
  if (times.address_resolved != 0) {
    steps->address.push_back(Microseconds(before, times.address_resolved));
    steps->route.push_back(Microseconds(times.address_resolved, times.route_resolved));
    before = times.route_resolved;
  }
  steps->creation.push_back(static_cast<double>(board_.creation[index]) * 1e-3);
  steps->reply.push_back(Microseconds(before, times.replied));
  steps->active.push_back(Microseconds(times.replied, times.active_established));
  steps->passive.push_back(Microseconds(times.replied, times.passive_established));
  steps->whole.push_back(Microseconds(times.begun, times.established()));
}

void RunInTurn(const std::vector<HandshakeWay*>& ways, const std::string& how, int groups, uint32_t connections,
               bool at_once, const std::function<void(const std::vector<GroupFigures>&)>& each) {
  std::vector<GroupFigures> figures(ways.size());
  std::vector<Steps> steps(ways.size());
  for (int group = -1; group < groups; ++group) {
    for (size_t i = 0; i < ways.size(); ++i) {
      const size_t which = (i + static_cast<size_t>(group + 1)) % ways.size();
      figures[which] = ways[which]->Run(connections, at_once, group < 0 ? nullptr : &steps[which]);
    }
    if (group >= 0) each(figures);
  }
  for (size_t i = 0; i < ways.size(); ++i) PrintSteps(how + ", " + ways[i]->name(), steps[i]);
}

}  // namespace rdmabroker::bench
