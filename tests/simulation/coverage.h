// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SIMULATION_COVERAGE_H_
#define TESTS_SIMULATION_COVERAGE_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "broker/core/messages.h"

namespace rdmabroker {

// How often each kind of event, request, effect and status has occurred.
class Coverage {
 public:
  void Count(const Event& event);
  void Count(const Effect& effect);
  void Add(const Coverage& other);

  // A line for each kind.
  [[nodiscard]] std::string ToString() const;
  // What never occurred and is not known to be beyond the simulation's model: see coverage.cc.
  [[nodiscard]] std::vector<std::string> Missing() const;
  // What is listed as beyond the model and occurred nevertheless.
  [[nodiscard]] std::vector<std::string> Unexpected() const;

 private:
  void CountOutcome(const Outcome& outcome);

  std::array<uint64_t, std::variant_size_v<Event::variant>> events_ = {};
  std::array<uint64_t, std::variant_size_v<FabricReport::variant>> reports_ = {};
  std::array<uint64_t, std::variant_size_v<Request::variant>> requests_ = {};
  std::array<uint64_t, std::variant_size_v<Effect::variant>> effects_ = {};
  std::array<uint64_t, std::variant_size_v<FabricRequest::variant>> fabric_requests_ = {};
  std::array<uint64_t, std::variant_size_v<SessionEvent::variant>> session_events_ = {};
  std::array<uint64_t, std::variant_size_v<Payload::variant>> payloads_ = {};
  std::map<NdkStatus, uint64_t> statuses_;
};

}  // namespace rdmabroker

#endif  // TESTS_SIMULATION_COVERAGE_H_
