// SPDX-License-Identifier: Apache-2.0

#include "client/session_stream.h"

#include <utility>

namespace rdmabroker::client {

std::shared_ptr<SessionStream> SessionStream::Start(std::shared_ptr<CompletionThread> thread, v1::Broker::Stub* stub,
                                                    const v1::SessionRequest& first, Handlers handlers) {
  std::shared_ptr<SessionStream> stream(new SessionStream(std::move(thread)));
  stream->handlers_ = std::move(handlers);
  stream->first_ = first;
  stream->call_ = stub->PrepareAsyncSession(&stream->context_, stream->thread_->queue());
  stream->call_->StartCall(stream->Begin(&stream->start_));
  return stream;
}

void* SessionStream::Begin(StepTag* tag) {
  tag->self = shared_from_this();
  return thread_->Begin(tag);
}

void SessionStream::Send(const v1::SessionRequest& message) {
  if (!broken_ && !finishing_) call_->Write(message, Begin(&write_));
}

void SessionStream::Abandon() {
  handlers_ = {};
  context_.TryCancel();
}

void SessionStream::Started(bool ok) {
  broken_ = !ok;
  if (broken_) return FinishOnce();
  call_->Read(&received_, Begin(&read_));
  Send(first_);
}

// A failed write ends the stream; the read in progress fails too and says how it ended.
void SessionStream::Written(bool ok) {
  broken_ = broken_ || !ok;
  const auto handler = handlers_.on_sent;
  if (!broken_ && handler != nullptr) handler();
}

void SessionStream::Received(bool ok) {
  if (!ok) return FinishOnce();
  const v1::SessionReply reply = std::exchange(received_, {});
  const auto handler = handlers_.on_reply;
  if (handler != nullptr) handler(reply);
  call_->Read(&received_, Begin(&read_));
}

void SessionStream::FinishOnce() {
  if (std::exchange(finishing_, true)) return;
  call_->Finish(&status_, Begin(&finish_));
}

void SessionStream::Finished(bool) {
  const Handlers handlers = std::exchange(handlers_, {});
  if (handlers.on_end != nullptr) handlers.on_end(status_);
}

}  // namespace rdmabroker::client
