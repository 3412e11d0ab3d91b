// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/control_client.h"

#include <chrono>

#include "tests/bench/require.h"

namespace rdmabroker::bench {

ClientLoop::~ClientLoop() {
  queue_.Shutdown();
  void* tag = nullptr;
  for (bool ok = false; queue_.Next(&tag, &ok);) delete static_cast<Done*>(tag);
}

void ClientLoop::RunUntil(const std::function<bool()>& over) {
  while (!over()) {
    void* tag = nullptr;
    bool ok = false;
    const auto patience = std::chrono::system_clock::now() + std::chrono::minutes(1);
    Require(queue_.AsyncNext(&tag, &ok, patience) == grpc::CompletionQueue::GOT_EVENT, "nothing happens any more");
    const std::unique_ptr<Done> done(static_cast<Done*>(tag));
    (*done)(ok);
  }
}

ControlClient::ControlClient(ClientLoop& loop, std::shared_ptr<grpc::Channel> channel, Requests requests)
    : loop_(loop), requests_(requests), stub_(v1::Broker::NewStub(channel)) {
  stream_ = stub_->PrepareAsyncSession(&context_, loop_.queue());
  v1::SessionRequest first;
  first.mutable_open()->set_api_minor(2);
  if (requests == Requests::kOnStream) first.mutable_open()->add_features("requests-on-stream");
  bool opened = false;
  stream_->StartCall(loop_.Tag([&](bool started) {
    Require(started, "the broker is not there");
    stream_->Write(first, loop_.Tag([](bool) {}));
    stream_->Read(&reply_, loop_.Tag([&](bool ok) {
      Require(ok && reply_.has_opened(), "no session");
      session_ = reply_.opened().session_id();
      opened = true;
    }));
  }));
  loop_.RunUntil([&] { return opened; });
  Read();
}

ControlClient::~ControlClient() {
  v1::SessionRequest last;
  last.mutable_close();
  stream_->Write(last, loop_.Tag([](bool) {}));
  loop_.RunUntil([this] { return ended_; });
  grpc::Status status;
  bool finished = false;
  stream_->Finish(&status, loop_.Tag([&](bool) { finished = true; }));
  loop_.RunUntil([&] { return finished; });
}

void ControlClient::Read() {
  stream_->Read(&reply_, loop_.Tag([this](bool ok) {
    if (!ok) {
      ended_ = true;
      return;
    }
    Take(reply_);
    Read();
    // What all of the reply has led to.
    Flush();
  }));
}

void ControlClient::Flush() {
  if (writing_ || batch_.requests_size() == 0) return;
  writing_ = true;
  v1::SessionRequest message;
  batch_.set_acknowledged_event(last_event_);
  message.mutable_requests()->Swap(&batch_);
  stream_->Write(message, loop_.Tag([this](bool) {
    writing_ = false;
    Flush();
  }));
}

void ControlClient::Take(const v1::SessionReply& reply) {
  if (reply.has_event()) Take(reply.event());
  for (const v1::BatchedAnswer& answer : reply.batch().answers()) Finish(answer.request_id(), answer.outcome());
  for (const v1::SessionEvent& event : reply.batch().events()) Take(event);
}

void ControlClient::Take(const v1::SessionEvent& event) {
  last_event_ = event.number();
  if (event.has_outcome()) Finish(event.outcome().request_id(), event.outcome().outcome());
  if (event.has_connect()) on_connect_(event.connect());
  if (event.has_disconnect()) on_disconnect_(event.disconnect().connector_id());
}

void ControlClient::Finish(uint64_t request, const v1::Outcome& outcome) {
  if (outcome.status() != v1::STATUS_SUCCESS) Fail("a request failed: " + outcome.hint());
  const auto waiting = waiting_.extract(request);
  Require(!waiting.empty(), "an outcome came twice");
  waiting.mapped()(outcome);
}

}  // namespace rdmabroker::bench
