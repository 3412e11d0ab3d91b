// SPDX-License-Identifier: Apache-2.0

#include "broker/control/watch_service.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "broker/control/row_feed.h"
#include "broker/control/server_stream.h"
#include "broker/control/status_mapping.h"
#include "broker/control/unary_call.h"
#include "broker/log/log.h"

namespace rdmabroker {
namespace {

// Between two messages of changes: a person does not read faster, and a storm of connections costs a watch no more.
constexpr absl::Duration kBetweenMessages = absl::Milliseconds(100);

Outcome Stopping() {
  return {.status = NdkStatus::kConnectionDisconnected,
          .retryable = true,
          .hint = "watch: the broker is stopping; begin anew when it runs again"};
}

Outcome Reloaded() {
  return {.status = NdkStatus::kConnectionDisconnected,
          .retryable = true,
          .hint = "watch: the broker has another configuration, by which you may see other rows; begin anew"};
}

Outcome Overrun() {
  return {.status = NdkStatus::kInsufficientResources,
          .retryable = true,
          .hint = absl::StrCat("watch: more than ", RowFeed::kMostChanges,
                               " rows have changed that were not read; begin anew, and read faster or watch fewer "
                               "kinds")};
}

std::optional<Outcome> RefuseUnlessKnown(const v1::WatchRequest& request) {
  for (const int kind : request.kinds()) {
    if (kind != v1::ROW_KIND_UNSPECIFIED && v1::RowKind_IsValid(kind)) continue;
    return Outcome{.status = NdkStatus::kInvalidParameter,
                   .hint = absl::StrCat("kinds: ", kind, " is no kind that this broker knows")};
  }
  return std::nullopt;
}

}  // namespace

// One call.
class WatchService::Watch final : public ServerStream {
 public:
  Watch(WatchService& service, const BegunCall& call, const v1::WatchRequest& request, const Caller& caller)
      : ServerStream(call.connection, call.id, service.loop_, service.patience_),
        service_(service),
        who_(WhoIs(caller)),
        feed_(service.broker_.core().records(), service.broker_.core().index(),
              View(caller, service.broker_.core().records(), service.broker_.gate()), KindsOf(request)) {}
  ~Watch() override { loop().CancelTimer(pause_); }

  const std::string& who() const { return who_; }

  // Has SendNext called when it is the user's turn, unless it would have nothing to do.
  void SendSoon() {
    if (writing() || pause_ != TimerId::kNone || std::exchange(sends_soon_, true)) return;
    InTurn([this] {
      sends_soon_ = false;
      SendNext();
    });
  }

  void Note(const Changes& changes) {
    if (finishing()) return;
    if (!feed_.Note(changes)) return FinishWith(Overrun());
    SendSoon();
  }

  void FinishWith(const Outcome& outcome) { Finish(RpcStatusOf(outcome)); }

  void Ended(std::optional<rpc::CallLost::Why>) override {
    loop().CancelTimer(std::exchange(pause_, TimerId::kNone));
    service_.Forget(*this);
  }

 private:
  static std::vector<v1::RowKind> KindsOf(const v1::WatchRequest& request) {
    std::vector<v1::RowKind> kinds;
    for (const int kind : request.kinds()) kinds.push_back(static_cast<v1::RowKind>(kind));
    return kinds;
  }

  void SendNext() {
    if (writing() || finishing() || pause_ != TimerId::kNone) return;
    v1::WatchReply reply;
    const bool has_news = feed_.Next(&reply);
    Charge(Services::kPageCost);
    if (!has_news && feed_.waiting() > 0) return SendSoon();
    if (!has_news) return;
    *reply.mutable_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(absl::Now()));
    Write(reply);
  }

  // The call's only request arrives with the call.
  void TakeMessage(const std::string&) override {}
  void TakeHalfClose() override {}

  void Written() override {
    // Who reads is not kept behind.
    if (!feed_.complete() || feed_.waiting() > RowFeed::kRowsAtATime) return SendSoon();
    pause_ = loop().StartTimer(Loop::Now() + kBetweenMessages, [this] {
      pause_ = TimerId::kNone;
      SendSoon();
    });
  }

  // What is unread is lost, and the status with it: it would come after it.
  void Unread() override {
    if (const auto left_out = service_.unread_.Pass(Loop::Now())) {
      LogWarning("watch ended, as the client does not read", {{"by", who_}, {"left_out", *left_out}});
    }
  }

  WatchService& service_;
  const std::string who_;
  RowFeed feed_;
  TimerId pause_ = TimerId::kNone;  // After a message of changes.
  bool sends_soon_ = false;
};

WatchService::WatchService(Services& services, Loop& loop, Broker& broker, const absl::Duration& patience)
    : loop_(loop), broker_(broker), patience_(patience) {
  services.Add(PathOf(v1::WatchRequest::descriptor()), rpc::Requests::kOne,
               {.begin = [this](const BegunCall& call) { Begin(call); }});
}

std::optional<Outcome> WatchService::RefuseTo(const Caller& caller, const v1::WatchRequest& request) const {
  if (auto refusal = RefuseUnlessKnown(request)) return refusal;
  if (stopping_) return Stopping();
  if (auto refusal = open_.RefuseTo(caller)) return refusal;
  return broker_.gate().Look(caller, "Watch", Loop::Now());
}

void WatchService::Begin(const BegunCall& call) {
  std::shared_ptr<const Caller> caller;
  v1::WatchRequest request;
  rpc::Status refusal = BeginCall(call, "Watch", &caller, &request);
  if (refusal.ok()) {
    if (const auto outcome = RefuseTo(*caller, request)) refusal = RpcStatusOf(*outcome);
  }
  if (!refusal.ok()) return call.connection.Finish(call.id, refusal);
  if (watches_.empty()) broker_.Follow([this](const Changes& changes) { Note(changes); });
  const auto watch = std::make_shared<Watch>(*this, call, request, *caller);
  watches_.push_back(watch.get());
  open_.Enter(watch->who());
  call.connection.Open(call.id, watch);
  watch->SendSoon();
}

void WatchService::Note(const Changes& changes) {
  // A watch that cannot be told ends, and is forgotten.
  for (Watch* const watch : std::vector<Watch*>(watches_)) watch->Note(changes);
}

void WatchService::Forget(const Watch& watch) {
  watches_.erase(std::find(watches_.begin(), watches_.end(), &watch));
  open_.Leave(watch.who());
  if (watches_.empty()) broker_.Follow(nullptr);
}

void WatchService::EndAll() { FinishAll(Reloaded()); }

void WatchService::Stop() {
  stopping_ = true;
  FinishAll(Stopping());
}

void WatchService::FinishAll(const Outcome& outcome) {
  for (Watch* const watch : std::vector<Watch*>(watches_)) watch->FinishWith(outcome);
}

}  // namespace rdmabroker
