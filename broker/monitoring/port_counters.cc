// SPDX-License-Identifier: Apache-2.0

#include "broker/monitoring/port_counters.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "broker/monitoring/families.h"

namespace rdmabroker {
namespace {

using prometheus::MetricFamily;

// The kernel's Documentation/ABI/stable/sysfs-class-infiniband: data are counted in words of InfiniBand's four lanes.
constexpr double kWord = 4;

struct PortCounter {
  absl::string_view name;  // As the label has it.
  absl::string_view metric;
  absl::string_view help;
  double unit;
  // Of a port's folder. A driver has the first, the second or neither, or the first without a number in it.
  absl::string_view files[2];
};

constexpr PortCounter kPortCounters[] = {
    {"in_octets",
     "rdma_broker_adapter_in_octets_total",
     "Octets received at the ports (NDKPI's RDMAInOctets).",
     kWord,
     {"counters/port_rcv_data"}},
    {"out_octets",
     "rdma_broker_adapter_out_octets_total",
     "Octets sent at the ports (NDKPI's RDMAOutOctets).",
     kWord,
     {"counters/port_xmit_data"}},
    {"in_frames",
     "rdma_broker_adapter_in_frames_total",
     "Frames received at the ports (NDKPI's RDMAInFrames).",
     1,
     {"counters/port_rcv_packets", "hw_counters/rcvd_pkts"}},
    {"out_frames",
     "rdma_broker_adapter_out_frames_total",
     "Frames sent at the ports (NDKPI's RDMAOutFrames).",
     1,
     {"counters/port_xmit_packets", "hw_counters/sent_pkts"}},
};

std::vector<std::string> PortsOf(const std::string& device) {
  std::vector<std::string> ports;
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator port(device + "/ports", error); !error && port != end;
       port.increment(error)) {
    ports.push_back(port->path());
  }
  return ports;
}

std::optional<double> ReadAt(const std::string& port, const PortCounter& counter) {
  for (const absl::string_view file : counter.files) {
    std::string text;
    uint64_t number = 0;
    if (!file.empty() && std::ifstream(absl::StrCat(port, "/", file)) >> text && absl::SimpleAtoi(text, &number)) {
      return counter.unit * static_cast<double>(number);
    }
  }
  return std::nullopt;
}

// Nothing where one of the ports does not say: the others' sum would be less, as if all had begun anew.
std::optional<double> SumOf(const std::vector<std::string>& ports, const PortCounter& counter) {
  if (ports.empty()) return std::nullopt;
  double sum = 0;
  for (const std::string& port : ports) {
    const std::optional<double> value = ReadAt(port, counter);
    if (!value) return std::nullopt;
    sum += *value;
  }
  return sum;
}

}  // namespace

std::vector<MetricFamily> PortFamilies(const std::string& devices, const std::vector<Snapshot::Adapter>& adapters) {
  std::vector<MetricFamily> families;
  Family missing = GaugeFamily("rdma_broker_adapter_missing_counters",
                               "1 where the adapter does not have that counter (NDKPI's MissingCounterMask), else 0.");
  for (const PortCounter& counter : kPortCounters) {
    Family family = CounterFamily(counter.metric, counter.help);
    for (const Snapshot::Adapter& adapter : adapters) {
      const std::optional<double> sum = SumOf(PortsOf(absl::StrCat(devices, "/", adapter.name)), counter);
      if (sum) family.Add(*sum, {{"adapter", adapter.name}});
      missing.Add(sum ? 0 : 1, {{"adapter", adapter.name}, {"counter", std::string(counter.name)}});
    }
    families.push_back(std::move(family).Take());
  }
  // Completion queues are their processes', and nobody else learns of their errors.
  for (const Snapshot::Adapter& adapter : adapters) {
    missing.Add(1, {{"adapter", adapter.name}, {"counter", "cq_errors"}});
  }
  families.push_back(std::move(missing).Take());
  return families;
}

}  // namespace rdmabroker
