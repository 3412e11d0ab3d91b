// SPDX-License-Identifier: Apache-2.0

#include "broker/control/watch_service.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "broker/control/row_feed.h"
#include "broker/control/status_mapping.h"
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

// One call, which the operations under way own.
class WatchService::Watch : public std::enable_shared_from_this<Watch> {
 public:
  explicit Watch(WatchService& service) : service_(service) {}

  void Wait() {
    const auto self = shared_from_this();
    GrpcLoop& loop = service_.context_.loop;
    void* done = loop.Tag([self](bool) { self->service_.Forget(*self); });
    call_.AsyncNotifyWhenDone(done);
    auto* queue = loop.queue();
    service_.service_.RequestWatch(&call_, &request_, &writer_, queue, queue, loop.Tag([self, done](bool ok) {
      if (!ok) return self->service_.context_.loop.Drop(done);
      self->service_.Serve();
      self->service_.Begin(self);
    }));
  }

  const v1::WatchRequest& request() const { return request_; }
  const grpc::ServerContext& call() const { return call_; }
  const std::string& who() const { return who_; }

  void Start(const BrokerCore& core, const Gate& gate, const Caller& caller) {
    who_ = WhoIs(caller);
    std::vector<v1::RowKind> kinds;
    for (const int kind : request_.kinds()) kinds.push_back(static_cast<v1::RowKind>(kind));
    feed_ = std::make_unique<RowFeed>(core.records(), core.index(), View(caller, core.records(), gate), kinds);
    SendNext();
  }

  void Note(const Changes& changes) {
    if (finishing_) return;
    if (!feed_->Note(changes)) return Finish(Overrun());
    SendNext();
  }

  void Finish(const Outcome& outcome) { Finish(GrpcStatusOf(outcome)); }
  void Finish(const grpc::Status& status) {
    if (std::exchange(finishing_, true)) return;
    final_status_ = status;
    if (!writing_) FinishNow();
  }

  void CancelTimers() {
    service_.watcher_.CancelTimer(std::exchange(patience_, TimerId::kNone));
    service_.watcher_.CancelTimer(std::exchange(pause_, TimerId::kNone));
  }

 private:
  void SendNext() {
    if (writing_ || finishing_ || pause_ != TimerId::kNone) return;
    reply_.Clear();
    if (!feed_->Next(&reply_)) return;
    *reply_.mutable_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(absl::Now()));
    writing_ = true;
    patience_ = service_.watcher_.StartTimer(Watcher::Now() + service_.patience_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Abandon();
    });
    writer_.Write(reply_, service_.context_.loop.Tag([self = shared_from_this()](bool ok) { self->Written(ok); }));
  }

  void Written(bool ok) {
    writing_ = false;
    service_.watcher_.CancelTimer(std::exchange(patience_, TimerId::kNone));
    if (finishing_) return FinishNow();
    // A failed write is the caller's end, which the call's done notification tells of.
    if (!ok) return;
    // Who reads is not kept behind.
    if (!feed_->complete() || feed_->waiting() > RowFeed::kRowsAtATime) return SendNext();
    pause_ = service_.watcher_.StartTimer(Watcher::Now() + kBetweenMessages, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      self->pause_ = TimerId::kNone;
      self->SendNext();
    });
  }

  void FinishNow() {
    CancelTimers();
    writer_.Finish(final_status_, service_.context_.loop.Tag([self = shared_from_this()](bool) {}));
  }

  // What is unread is lost, and the status with it: it would come after it.
  void Abandon() {
    patience_ = TimerId::kNone;
    if (const auto left_out = service_.unread_.Pass(Watcher::Now())) {
      LogWarning("watch ended, as the client does not read", {{"by", who_}, {"left_out", *left_out}});
    }
    call_.TryCancel();
  }

  WatchService& service_;
  grpc::ServerContext call_;
  v1::WatchRequest request_;
  v1::WatchReply reply_;
  grpc::ServerAsyncWriter<v1::WatchReply> writer_{&call_};
  std::unique_ptr<RowFeed> feed_;  // Once it has started.
  std::string who_;
  bool writing_ = false;
  bool finishing_ = false;
  grpc::Status final_status_;
  TimerId patience_ = TimerId::kNone;  // While a message is being written.
  TimerId pause_ = TimerId::kNone;     // After one of changes.
};

WatchService::WatchService(UnaryContext& context, Watcher& watcher, Broker& broker,
                           v1::Inspection::AsyncService& service, absl::Duration patience)
    : context_(context), watcher_(watcher), broker_(broker), service_(service), patience_(patience) {
  Serve();
}

void WatchService::Serve() { std::make_shared<Watch>(*this)->Wait(); }

std::optional<Outcome> WatchService::RefuseTo(const Caller* caller) const {
  if (stopping_) return Stopping();
  if (auto refusal = open_.RefuseTo(caller)) return refusal;
  return broker_.gate().Look(*caller, "Watch", Watcher::Now());
}

void WatchService::Begin(const std::shared_ptr<Watch>& watch) {
  std::shared_ptr<const Caller> caller;
  const grpc::Status admitted = context_.Admit(watch->call(), "Watch", &caller);
  if (!admitted.ok()) return watch->Finish(admitted);
  if (const auto refusal = RefuseUnlessKnown(watch->request())) return watch->Finish(*refusal);
  if (const auto refusal = RefuseTo(caller.get())) return watch->Finish(*refusal);
  if (watches_.empty()) broker_.Follow([this](const Changes& changes) { Note(changes); });
  watches_.push_back(watch);
  open_.Enter(WhoIs(*caller));
  watch->Start(broker_.core(), broker_.gate(), *caller);
}

void WatchService::Note(const Changes& changes) {
  for (const auto& watch : watches_) watch->Note(changes);
}

void WatchService::Forget(const Watch& watch) {
  const auto found =
      std::find_if(watches_.begin(), watches_.end(), [&](const auto& each) { return each.get() == &watch; });
  if (found == watches_.end()) return;
  (*found)->CancelTimers();
  open_.Leave((*found)->who());
  watches_.erase(found);
  if (watches_.empty()) broker_.Follow(nullptr);
}

void WatchService::Apply(absl::Duration patience) {
  patience_ = patience;
  for (const auto& watch : watches_) watch->Finish(Reloaded());
}

void WatchService::Stop() {
  stopping_ = true;
  for (const auto& watch : watches_) watch->Finish(Stopping());
}

}  // namespace rdmabroker
