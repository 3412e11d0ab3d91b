// SPDX-License-Identifier: Apache-2.0

#include "client/session.h"

#include <future>
#include <new>
#include <utility>

#include "client/broker_link.h"
#include "client/catch_as_outcome.h"
#include "client/translation.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/refusal.h"
#include "dataplane/start_thread.h"

namespace rdmabroker::client {

Session::Session(std::shared_ptr<BrokerLink> link) : link_(std::move(link)) {}

Session::Opening Session::Open(SessionOptions options) {
  return CatchAsOutcome([&options]() -> Opening {
    if (const std::string_view problem = SocketPathProblem(options.control_socket); !problem.empty()) {
      return {.outcome = {.status = NdkStatus::kInvalidParameter, .hint = std::string(problem)}};
    }
    if (IsForkedChild()) return {.outcome = {.status = NdkStatus::kNotSupported, .hint = kForkedChildHint}};
    NoticeForks();
    auto link = BrokerLink::Start(std::move(options));
    if (link == nullptr) {
      return {.outcome = {.status = NdkStatus::kInsufficientResources, .retryable = true, .hint = kNoThreadHint}};
    }
    std::unique_ptr<Session> session;
    try {
      session.reset(new Session(link));
    } catch (const std::bad_alloc&) {
      link->PostClose({});
      link->Join();
      throw;
    }
    const auto opened = std::make_shared<std::promise<Outcome>>();
    link->PostAlways([opened, link] { link->Open([opened](const Outcome& outcome) { opened->set_value(outcome); }); });
    Opening opening = {.outcome = opened->get_future().get()};
    if (opening.outcome.ok()) opening.session = std::move(session);
    return opening;
  });
}

Session::~Session() {
  // Its thread and its connection are the parent's.
  if (IsForkedChild()) {
    Leak(link_);
  } else {
    Close({});
    link_->Join();
  }
}

NdkStatus Session::ListAdapters(std::function<void(const Outcome&, std::vector<Device>)> completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (!completion) return RefuseWithoutCompletion();
    return link_->Post(
        [link = link_, completion = std::move(completion)]() mutable { link->ListAdapters(std::move(completion)); });
  });
}

NdkStatus Session::OpenAdapter(const std::string& device, NdkVersion version, AdapterEventCallback on_event,
                               CreateCompletion<Adapter> completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (!completion || !IsUtf8(device)) {
      return Refuse(NdkStatus::kInvalidParameter, "completion: missing, or device: a name that is no UTF-8");
    }
    return link_->Post(
        [link = link_, device, version, on_event = std::move(on_event), completion = std::move(completion)]() mutable {
          v1::OpenAdapterRequest request;
          request.set_device(device);
          *request.mutable_version() = ToMessage(version);
          Adapter::Open(link, request, std::move(on_event), std::move(completion));
        });
  });
}

NdkStatus Session::Close(CloseCompletion completion) {
  if (IsForkedChild()) return NdkStatus::kSuccess;
  if (close_called_.exchange(true)) return NdkStatus::kSuccess;
  link_->PostClose(std::move(completion));
  return NdkStatus::kPending;
}

}  // namespace rdmabroker::client
