// SPDX-License-Identifier: Apache-2.0

// The contract of broker/core/fabric_messages.h as tests, which every fabric passes. A fabric takes part with a
// FabricPair of its own in a test that links this and instantiates FabricConformance and FabricAdoptionConformance; one
// of FabricDisconnectConformance and FabricHandOffConformance, as its devices or their clients end connections, with
// the latter FabricHandOffAdoptionConformance; and FabricSilentPeerConformance where its network has one.

#ifndef TESTS_CONFORMANCE_FABRIC_CONFORMANCE_H_
#define TESTS_CONFORMANCE_FABRIC_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "broker/fabric/fabric.h"

namespace rdmabroker {

// Far beyond what any of this takes: only a report that never comes waits so long.
inline constexpr absl::Duration kPatience = absl::Seconds(60);
// What is still to come on one machine comes within this. Only tests that nothing comes depend on it, and one that
// should fail may pass where it is too short, never the other way round.
inline constexpr absl::Duration kQuiet = absl::Milliseconds(100);

enum class Side : uint8_t { kServer, kClient };

// Two fabrics that can reach each other, or one that can reach itself, and what surrounds them.
class FabricPair {
 public:
  virtual ~FabricPair() = default;

  // The same object for both sides, or two whose devices have different ids. The suite starts them and uses the first
  // device that each reports.
  virtual Fabric& fabric(Side side) = 0;

  // Lets the fabrics go on: one round of the event loop, one delivery. Returns as soon as something may have been
  // reported; false when nothing was to do within `at_most`, or nothing can come any more.
  virtual bool Step(absl::Duration at_most) = 0;

  // A queue pair of `session` on the side's device that no other connection has.
  virtual QpNumber NewQp(Side side, SessionId session) = 0;

  // As a process outside the broker on the side's host: holds the address. False where somebody has it.
  virtual bool Occupy(Side side, const SocketAddress& address) = 0;
  virtual void Vacate(Side side, const SocketAddress& address) = 0;

  // An address of the family that a connect from the side reaches, and gets no answer from. Only asked where there is
  // one.
  virtual SocketAddress SilentPeer(Side, IpFamily) { return {}; }

  // As the client: fetches an established connection's transport, and closes it. Only asked where the device's clients
  // end connections.
  virtual bool Fetch(Side, const HandoffSecret&) { return false; }
  virtual void CloseTransport(Side, ConnectionId) {}

  // The process of the side's fabric dies when all that it knew is stored, and the next one's fabric starts in its
  // place; its core knows `device`. Only asked of pairs that are made for it.
  virtual void GoOn(Side, const Device&, const ReportSink&) {}
};

struct FabricCase {
  std::string name;
  // Not OK where what the case needs is not on this machine: its tests are skipped, with the message.
  std::function<absl::StatusOr<std::unique_ptr<FabricPair>>()> make;
};

// Checks on every report and request what can be said of each: answered exactly once, released exactly once, nothing
// after that.
class ContractObserver {
 public:
  void OnRequest(const FabricRequest& request);
  void OnReport(const FabricReport& report);
  // Everything was given up and answered.
  void ExpectNothingLeft() const;

  // The device that the connection is on, for those not given up.
  [[nodiscard]] std::map<ConnectionId, DeviceId> living() const;
  [[nodiscard]] const std::map<EndpointId, DeviceId>& bound() const { return bound_; }
  [[nodiscard]] bool Releases() const;

 private:
  struct Life {
    DeviceId device;
    bool requested = false;  // FabricConnect is unanswered.
    bool stepped = false;    // FabricAccept or FabricComplete is unanswered.
    bool established = false;
    bool over = false;
    bool given_up = false;
    std::optional<AdoptedStage> adopted;  // What has led to it may be reported once more.
  };

  std::map<EndpointId, DeviceId> binding_;
  std::map<EndpointId, DeviceId> bound_;
  std::map<EndpointId, DeviceId> unbinding_;
  std::map<ConnectionId, Life> lives_;
  std::map<EndpointId, DeviceId> known_;
};

inline EndpointId KeyOf(const FabricConnectRequested& report) { return report.endpoint; }
inline auto KeyOf(const auto& report) {
  if constexpr (requires { report.connection; }) {
    return report.connection;
  } else {
    return report.endpoint;
  }
}

// By kind and status, for a failure.
std::string Listed(const std::vector<FabricReport>& reports);

class FabricConformance : public ::testing::TestWithParam<std::tuple<FabricCase, IpFamily>> {
 protected:
  // A bound endpoint, or several addresses of it.
  struct Bound {
    Side side = Side::kServer;
    EndpointId id;
    SocketAddress address;  // The first.
  };
  // Both ends of a connection.
  struct Link {
    ConnectionId client;
    ConnectionId server;
  };
  enum class Stage : uint8_t { kConnecting, kRequested, kAccepted, kReplied, kEstablished };

  void SetUp() override;
  void TearDown() override;

  void Perform(Side side, const FabricRequest& request);
  // All of them.
  void MakeWay();
  // Waits for a report of the kind about the object, and takes it out of those that have come. Fails the test where it
  // does not come.
  template <typename Report, typename Key>
  Report Await(Key key);
  // The same, without failing: within what can still come by itself.
  template <typename Report, typename Key>
  std::optional<Report> AwaitIfAny(Key key);
  template <typename Report, typename Key>
  std::optional<Report> Take(Key key);
  // Steps until nothing comes any more.
  void Settle();
  // Steps until `done`; false where that does not come.
  bool StepUntil(const std::function<bool()>& done);

  // One for each fabric.
  std::vector<Side> Sides() const;
  const Device& device(Side side) const { return devices_.at(static_cast<size_t>(side)); }
  bool hands_off() const { return device(Side::kClient).client_ends_connections; }
  std::vector<IpAddress> Addresses(Side side) const;
  EndpointId NewEndpoint() { return EndpointId(++last_id_); }
  uint16_t NextPort();

  // Binds to a port that is free: on the first address, or on these.
  Bound Bind(Side side, EndpointUse use);
  Bound Bind(Side side, EndpointUse use, const std::vector<IpAddress>& ips);
  std::optional<FabricBindFailed> TryBind(Side side, EndpointId endpoint, EndpointUse use,
                                          const std::vector<IpAddress>& ips, uint16_t port);
  void Unbind(const Bound& endpoint);

  ConnectionId Connect(const Bound& from, const SocketAddress& to, Bytes private_data = {}, ReadLimits limits = {4, 3},
                       SessionId session = SessionId(1), ConnectionOptions options = {});
  void Accept(ConnectionId connection, Bytes private_data = {}, ReadLimits limits = {2, 1},
              ConnectionOptions options = {});
  void Complete(ConnectionId connection);
  void Release(Side side, ConnectionId connection);
  // A connection from `from` to the listener `to`, as far as `stage`.
  Link Make(const Bound& from, const Bound& to, Stage stage);
  void ExpectCarried(const Bytes& sent, const Bytes& received, uint32_t area) const;
  // The listener accepts connections from now on.
  void ExpectReachable(const Bound& listener, const SocketAddress& address);
  void ExpectRefused(const SocketAddress& address);

  const ReportSink sink_ = [this](FabricReport report) {
    observer_.OnReport(report);
    reports_.push_back(std::move(report));
  };
  std::unique_ptr<FabricPair> pair_;
  std::vector<Device> devices_;
  std::vector<FabricReport> reports_;
  ContractObserver observer_;
  uint64_t last_id_ = 0;
  bool three_way_ = true;  // Of the last connection made.
};

template <typename Report, typename Key>
std::optional<Report> FabricConformance::Take(Key key) {
  for (auto it = reports_.begin(); it != reports_.end(); ++it) {
    const auto* typed = std::get_if<Report>(&*it);
    if (typed == nullptr || KeyOf(*typed) != key) continue;
    const Report report = *typed;
    reports_.erase(it);
    return report;
  }
  return std::nullopt;
}

template <typename Report, typename Key>
Report FabricConformance::Await(Key key) {
  const absl::Time end = absl::Now() + kPatience;
  while (true) {
    if (auto report = Take<Report>(key)) return *report;
    if (absl::Now() >= end || !pair_->Step(end - absl::Now())) {
      ADD_FAILURE() << "no " << typeid(Report).name() << " about " << key.value() << " has come, but"
                    << Listed(reports_);
      return Report{};
    }
  }
}

template <typename Report, typename Key>
std::optional<Report> FabricConformance::AwaitIfAny(Key key) {
  while (true) {
    if (auto report = Take<Report>(key)) return report;
    if (!pair_->Step(kQuiet)) return std::nullopt;
  }
}

// Pairs with a silent peer.
class FabricSilentPeerConformance : public FabricConformance {};

// Devices whose connections the fabric ends.
class FabricDisconnectConformance : public FabricConformance {};

// Devices whose clients fetch the transport and end connections.
class FabricHandOffConformance : public FabricConformance {};

// Pairs whose fabrics go on where those of other processes were: all of them die at once.
class FabricAdoptionConformance : public FabricConformance {
 protected:
  // To what follows until FinishAdoption the next process's core is put that knows nothing else.
  void GoOn();
  void Adopt(const Bound& endpoint, EndpointUse use);
  void Adopt(ConnectionId connection, AdoptedStage stage, const Bound& own, const Bound& peers);
  // A dedicated endpoint, a listener, and an established connection between them.
  void Adopt(const Bound& from, const Bound& listener, const Link& link);
  void FinishAdoption();
};

// The same, where devices' clients fetch the transport and end connections.
class FabricHandOffAdoptionConformance : public FabricAdoptionConformance {};

}  // namespace rdmabroker

#endif  // TESTS_CONFORMANCE_FABRIC_CONFORMANCE_H_
