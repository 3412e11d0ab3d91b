// SPDX-License-Identifier: Apache-2.0

#include "client/names/names.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "client/back_off.h"
#include "client/catch_as_outcome.h"
#include "client/names/dns.h"
#include "client/names/etcd.h"
#include "client/names/etcd.pb.h"
#include "client/names/etcd_answer.h"
#include "client/names/source.h"
#include "dataplane/forked_child.h"
#include "dataplane/start_thread.h"

namespace rdmabroker::client {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstAgain{200};  // After etcd has not taken a name: the first attempt, and the longest wait.
constexpr milliseconds kLongestAgain{5'000};
constexpr milliseconds kGoodbye{1'000};

std::string FromEnvironment(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

NameOptions WithFiles(NameOptions options) {
  for (const auto& [file, variable] : {std::pair(&options.ca_file, "RDMA_BROKER_NAMES_CA"),
                                       {&options.certificate_file, "RDMA_BROKER_NAMES_CERT"},
                                       {&options.key_file, "RDMA_BROKER_NAMES_KEY"}}) {
    if (file->empty()) *file = FromEnvironment(variable);
  }
  return options;
}

Resolution NoSource(const std::string& source) {
  if (source.empty()) {
    return Failure(NdkStatus::kNotSupported,
                   "names are resolved nowhere: RDMA_BROKER_NAMES says where, as dns or etcd://");
  }
  return Failure(NdkStatus::kInvalidParameter,
                 "RDMA_BROKER_NAMES " + source + ": not dns, dns://IPV4:PORT, or etcd://HOST:PORT[,...][/PREFIX]");
}

Resolution ResolveByEtcd(const ParsedName& name, const EtcdSource& source, const NameOptions& options) {
  if (name.port != 0) {
    return Failure(NdkStatus::kInvalidParameter, "name " + name.host + ": etcd has its port; leave it out");
  }
  // gRPC has threads.
  if (IsForkedChild()) return Failure(NdkStatus::kNotSupported, kForkedChildHint);
  NoticeForks();
  std::string problem;
  Etcd etcd(source, options, &problem);
  if (!problem.empty()) return Failure(NdkStatus::kInvalidParameter, problem);
  etcd::RangeResponse answer;
  const Outcome found = Etcd::OutcomeOf(etcd.Find(name.host, options.timeout, &answer));
  if (!found.ok()) return {.outcome = found, .addresses = {}};
  return ReadAddresses(name.host, answer);
}

// What is wrong with the arguments of a registration; else the name's host and where it goes.
Outcome CheckRegistration(const std::string& name, const SocketAddress& address, const NameOptions& options,
                          std::chrono::seconds time_to_live, std::string* host, std::optional<EtcdSource>* source) {
  const auto refused = [](std::string hint) { return Failure(NdkStatus::kInvalidParameter, std::move(hint)).outcome; };
  const auto parsed = ParseName(name);
  if (!parsed.has_value() || parsed->literal.has_value() || parsed->port != 0) {
    return refused("name " + name + ": not rdma-broker://NAME");
  }
  if (!IsUsable(address)) return refused("address " + address.ToString() + ": nobody could connect to it");
  // Other machines have other interfaces.
  if (address.ip.IsLinkLocal()) {
    return refused("address " + address.ToString() + ": link-local, and so of this machine's; listen on another");
  }
  if (time_to_live <= std::chrono::seconds(0)) return refused("time_to_live: not positive");
  *host = parsed->host;
  *source = ParseEtcdSource(options.source);
  if (source->has_value()) return {};
  if (!ParseDnsSource(options.source)) return NoSource(options.source).outcome;
  return Failure(NdkStatus::kNotSupported, "names can be registered in etcd only").outcome;
}

}  // namespace

std::string NameSource() { return FromEnvironment("RDMA_BROKER_NAMES"); }

Resolution ResolveName(const std::string& name, const NameOptions& given) {
  return CatchAsOutcome([&]() -> Resolution {
    const NameOptions options = WithFiles(given);
    std::string problem = "not rdma-broker://NAME or rdma-broker://NAME:PORT";
    const auto parsed = ParseName(name, &problem);
    if (parsed.has_value() && parsed->literal.has_value()) {
      const IpAddress& ip = parsed->literal->ip;
      if (IsUsable(*parsed->literal)) return {.outcome = {}, .addresses = {*parsed->literal}};
      if (ip.IsLinkLocal() && ip.scope_id == 0)
        problem = "a link-local address; name its interface, as in [fe80::1%eth0]";
    }
    if (!parsed.has_value() || parsed->literal.has_value()) {
      return Failure(NdkStatus::kInvalidParameter, "name " + name + ": " + problem);
    }
    if (const auto dns = ParseDnsSource(options.source)) return ResolveByDns(*parsed, *dns, options.timeout);
    if (const auto etcd = ParseEtcdSource(options.source)) return ResolveByEtcd(*parsed, *etcd, options);
    return NoSource(options.source);
  });
}

// Keeps one name in etcd, by a thread.
class NameRegistration::Keeper {
 public:
  // Where a file for TLS cannot be read, `problem` says so.
  Keeper(const EtcdSource& source, const NameOptions& options, std::string name, const SocketAddress& address,
         std::chrono::seconds time_to_live, std::string* problem)
      : etcd_(source, options, problem),
        name_(std::move(name)),
        address_(address.ToString()),
        time_to_live_(time_to_live),
        timeout_(options.timeout) {}
  ~Keeper() {
    if (thread_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        over_ = true;
      }
      changed_.notify_all();
      etcd_.Cancel();
      thread_.join();
    } else if (!has_name_) {
      return;
    }
    try {
      etcd_.Revoke(lease_, kGoodbye);
    } catch (const std::bad_alloc&) {
      // The name ends with its lease.
    }
  }

  Outcome Register() {
    const auto end = std::chrono::steady_clock::now() + timeout_;
    has_name_ = false;
    grpc::Status status = etcd_.Grant(time_to_live_, timeout_, &lease_);
    if (status.ok()) {
      const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
      status = etcd_.Put(name_, address_, lease_, left);
      has_name_ = status.ok();
    }
    return Etcd::OutcomeOf(status);
  }
  // False: the process gets no more threads.
  bool Start() {
    thread_ = StartThread([this] { Keep(); });
    return thread_.joinable();
  }

 private:
  void Keep() {
    RandomBackOff back_off;
    // Two renewals may get lost.
    const milliseconds period = std::chrono::duration_cast<milliseconds>(time_to_live_) / 3;
    int failures = 0;
    std::unique_lock lock(mutex_);
    while (!over_) {
      const milliseconds delay = failures == 0 ? period : back_off(kFirstAgain, kLongestAgain, failures - 1);
      if (changed_.wait_for(lock, delay, [this] { return over_; })) return;
      lock.unlock();
      bool is_there = false;
      const bool renewed = etcd_.Renew(lease_, timeout_, &is_there).ok();
      // A lease of which etcd says nothing may still be there, and is asked for again.
      const bool kept = renewed && ((is_there && has_name_) || Register().ok());
      failures = kept ? 0 : failures + 1;
      lock.lock();
    }
  }

  Etcd etcd_;
  const std::string name_;
  const std::string address_;
  const std::chrono::seconds time_to_live_;
  const milliseconds timeout_;
  int64_t lease_ = 0;
  bool has_name_ = false;  // The lease has the name's key.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

NameRegistration::NameRegistration(std::unique_ptr<Keeper> keeper) : keeper_(std::move(keeper)) {}
NameRegistration::~NameRegistration() {
  // The name is the parent's, as is the thread that keeps it.
  if (IsForkedChild()) (void)keeper_.release();
}

NameRegistration::Registering NameRegistration::Register(const std::string& name, const SocketAddress& address,
                                                         const NameOptions& given, std::chrono::seconds time_to_live) {
  return CatchAsOutcome([&]() -> Registering {
    const NameOptions options = WithFiles(given);
    std::string host;
    std::optional<EtcdSource> source;
    if (Outcome wrong = CheckRegistration(name, address, options, time_to_live, &host, &source); !wrong.ok()) {
      return {.outcome = std::move(wrong)};
    }
    if (IsForkedChild()) return {.outcome = Failure(NdkStatus::kNotSupported, kForkedChildHint).outcome};
    NoticeForks();
    std::string problem;
    // All memory before etcd has the name.
    std::unique_ptr<NameRegistration> registration(new NameRegistration(
        std::make_unique<Keeper>(*source, options, std::move(host), address, time_to_live, &problem)));
    if (!problem.empty()) return {.outcome = Failure(NdkStatus::kInvalidParameter, std::move(problem)).outcome};
    const Outcome registered = registration->keeper_->Register();
    if (!registered.ok()) return {.outcome = registered};
    if (!registration->keeper_->Start()) {
      return {.outcome = Failure(NdkStatus::kInsufficientResources, kNoThreadHint, true).outcome};
    }
    return {.outcome = {}, .registration = std::move(registration)};
  });
}

}  // namespace rdmabroker::client
