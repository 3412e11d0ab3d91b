// SPDX-License-Identifier: Apache-2.0

// Usage: client SOCKET
// The rows of interop.py by grpc++.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <deque>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace rdmabroker {
namespace {

using grpc::StatusCode;

const char* socket_path = nullptr;

std::shared_ptr<grpc::Channel> Connect(grpc::ChannelArguments arguments = {}) {
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  return grpc::CreateCustomChannel(std::string("unix:") + socket_path, grpc::InsecureChannelCredentials(), arguments);
}

grpc::ByteBuffer Buffer(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}
std::string Text(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return "";
  std::string text;
  for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

void Expect(bool fine, const std::string& what) {
  if (!fine) throw std::runtime_error(what);
}
void ExpectCode(const grpc::Status& status, StatusCode code) {
  Expect(status.error_code() == code,
         std::to_string(status.error_code()) + " (" + status.error_message() + ") instead of " + std::to_string(code));
}

// Calls of messages that are plain octets, on a channel. One thread.
class Client {
 public:
  explicit Client(std::shared_ptr<grpc::Channel> channel) : stub_(std::move(channel)) {}

  struct Unary {
    grpc::ClientContext context;
    grpc::ByteBuffer reply;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  };
  // The call is `tag` to Next.
  void Start(Unary& call, const std::string& method, const std::string& request) {
    call.reader = stub_.PrepareUnaryCall(&call.context, "/interop.Echo/" + method, Buffer(request), &queue_);
    call.reader->StartCall();
    call.reader->Finish(&call.reply, &call.status, &call);
  }
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    Expect(queue_.Next(&tag, &ok), "the queue has ended");
    return ok;
  }
  // Nothing comes in this time.
  void Pause(std::chrono::seconds time) {
    void* tag = nullptr;
    bool ok = false;
    const auto end = std::chrono::system_clock::now() + time;
    Expect(queue_.AsyncNext(&tag, &ok, end) == grpc::CompletionQueue::TIMEOUT, "something has come");
  }
  grpc::Status Ask(Unary& call, const std::string& method, const std::string& request) {
    Start(call, method, request);
    Next();
    return call.status;
  }
  // The reply of a call that succeeds.
  std::string Ask(const std::string& method, const std::string& request) {
    Unary call;
    ExpectCode(Ask(call, method, request), StatusCode::OK);
    return Text(call.reply);
  }
  void Says(const std::string& text) { Expect(Ask("Say", text) == text, "another reply"); }
  int Lost() { return std::stoi(Ask("Lost", "")); }
  void UntilOneMoreIsLost(int before) {
    while (Lost() == before) {
    }
  }

  // A call of many messages; each function waits.
  class Stream {
   public:
    Stream(Client& client, const std::string& method) : client_(client) {
      stream_ = client.stub_.PrepareCall(&context_, "/interop.Echo/" + method, &client.queue_);
      stream_->StartCall(nullptr);
      client.Next();
    }
    void Send(const std::string& request) {
      stream_->Write(Buffer(request), nullptr);
      client_.Next();
    }
    void Done() {
      stream_->WritesDone(nullptr);
      client_.Next();
    }
    bool Receive(std::string* reply) {
      grpc::ByteBuffer buffer;
      stream_->Read(&buffer, nullptr);
      const bool received = client_.Next();
      *reply = Text(buffer);
      return received;
    }
    void Answers(const std::string& request) {
      std::string reply;
      Send(request);
      Expect(Receive(&reply) && reply == request, "another reply");
    }
    grpc::Status Finish() {
      grpc::Status status;
      stream_->Finish(&status, nullptr);
      client_.Next();
      return status;
    }
    void Cancel() { context_.TryCancel(); }

   private:
    Client& client_;
    grpc::ClientContext context_;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  };

 private:
  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
};

void AskDriver(const char* what) {
  std::cout << what << std::endl;
  std::string line;
  std::getline(std::cin, line);
}

void SetTimeout(grpc::ClientContext& context, int milliseconds) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(milliseconds));
}

void AskForMetadata(Client& client) {
  Client::Unary call;
  call.context.AddMetadata("key", "a value");
  call.context.AddMetadata("key-bin", std::string("\0\xFF", 2));
  ExpectCode(client.Ask(call, "Metadata", ""), StatusCode::OK);
  Expect(Text(call.reply) == std::string("a value,\0\xFF", 10), "other metadata");
}

void FailWithDetails(Client& client) {
  Client::Unary call;
  const std::string details("\0\xFF\x01", 3);
  const grpc::Status status = client.Ask(call, "Fail", details);
  ExpectCode(status, StatusCode::ABORTED);
  Expect(status.error_message() == "\u00fcber 100 % \u2713", status.error_message());
  Expect(status.error_details() == details, "other details");
}

void AskTooLong(Client& client) {
  for (const size_t size : {65537, 70'000, 4'000'000}) {
    Client::Unary call;
    ExpectCode(client.Ask(call, "Say", std::string(size, 'x')), StatusCode::RESOURCE_EXHAUSTED);
  }
  client.Says("and the next");
}

void ExpectOf(Client& client, const std::string& method, StatusCode code, int timeout_ms = 0,
              const std::string& metadata = "") {
  Client::Unary call;
  if (timeout_ms > 0) SetTimeout(call.context, timeout_ms);
  if (!metadata.empty()) call.context.AddMetadata("key", metadata);
  ExpectCode(client.Ask(call, method, ""), code);
}

void CancelOne(Client& client) {
  const int before = client.Lost();
  Client waiting(Connect());
  Client::Stream call(waiting, "Wait");
  call.Send("");
  call.Done();
  waiting.Says("the server has it");
  call.Cancel();
  ExpectCode(call.Finish(), StatusCode::CANCELLED);
  client.UntilOneMoreIsLost(before);
}

void Compress(Client&) {
  grpc::ChannelArguments arguments;
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_GZIP);
  Client client(Connect(arguments));
  Client::Unary call;
  ExpectCode(client.Ask(call, "Say", std::string(1000, 'x')), StatusCode::UNIMPLEMENTED);
}

void TakeTurns(Client& client) {
  Client::Stream call(client, "Chat");
  for (int turn = 0; turn < 1000; ++turn) call.Answers(std::to_string(turn));
  call.Done();
  std::string reply;
  Expect(!call.Receive(&reply), "a reply too many");
  ExpectCode(call.Finish(), StatusCode::OK);
}

void HoldPourUp(Client& client) {
  Client::Stream call(client, "Pour");
  call.Send("1000 30000");
  call.Done();
  std::string reply;
  int replies = 0;
  while (call.Receive(&reply)) {
    Expect(reply.size() == 30'000, "another length");
    if (++replies == 10) Client(Connect()).Says("others are served while nobody reads");
  }
  Expect(replies == 1000, std::to_string(replies) + " replies");
  ExpectCode(call.Finish(), StatusCode::OK);
}

void CancelPour(Client& client) {
  const int before = client.Lost();
  Client pouring(Connect());
  Client::Stream call(pouring, "Pour");
  call.Send("1000000 30000");
  call.Done();
  std::string reply;
  Expect(call.Receive(&reply), "no reply");
  call.Cancel();
  ExpectCode(call.Finish(), StatusCode::CANCELLED);
  client.UntilOneMoreIsLost(before);
}

void EndEarly(Client& client) {
  for (int i = 0; i < 300; ++i) {
    Client::Stream call(client, "Chat");
    call.Send("stop");
    ExpectCode(call.Finish(), StatusCode::FAILED_PRECONDITION);
  }
}

void AskAtOnce(Client& client, int number, const std::string& method, const std::string& request, int timeout_ms,
               StatusCode code) {
  std::deque<Client::Unary> calls(static_cast<size_t>(number));
  for (Client::Unary& call : calls) {
    if (timeout_ms > 0) SetTimeout(call.context, timeout_ms);
    client.Start(call, method, request);
  }
  for (int i = 0; i < number; ++i) client.Next();
  for (const Client::Unary& call : calls) ExpectCode(call.status, code);
}

void KeepAlive(Client&) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  Client client(Connect(arguments));
  Client::Stream call(client, "Chat");
  client.Pause(std::chrono::seconds(4));  // Pings of four seconds.
  call.Answers("still here");
  call.Done();
  ExpectCode(call.Finish(), StatusCode::OK);
}

void SayWhenReady(Client& client) {
  Client::Unary call;
  call.context.set_wait_for_ready(true);
  ExpectCode(client.Ask(call, "Say", "at the next one"), StatusCode::OK);
}

void Drain(Client& client) {
  Client::Stream call(client, "Chat");
  call.Answers("before");
  AskDriver("drain");
  call.Answers("after");
  SayWhenReady(client);
  call.Done();
  ExpectCode(call.Finish(), StatusCode::OK);
}

void Kill(Client& client) {
  Client::Unary call;
  client.Start(call, "Wait", "");
  Client(Connect()).Says("somebody is served");
  AskDriver("kill");
  client.Next();
  ExpectCode(call.status, StatusCode::UNAVAILABLE);
  Client::Unary later;
  later.context.set_wait_for_ready(true);
  client.Start(later, "Say", "later");
  AskDriver("start");
  client.Next();
  ExpectCode(later.status, StatusCode::OK);
}

struct Row {
  const char* name;
  void (*run)(Client& client);
};
constexpr Row kRows[] = {
    {"unary", [](Client& client) { client.Says("hello"), client.Says(""); }},
    {"metadata", AskForMetadata},
    {"status_with_details", FailWithDetails},
    {"unknown_method", [](Client& client) { ExpectOf(client, "Nothing", StatusCode::UNIMPLEMENTED); }},
    {"largest_request", [](Client& client) { client.Says(std::string(65536, 'x')); }},
    {"too_long_request", AskTooLong},
    {"deadline", [](Client& client) { ExpectOf(client, "Wait", StatusCode::DEADLINE_EXCEEDED, 200); }},
    {"cancelled", CancelOne},
    {"compressed", Compress},
    {"thousand_turns", TakeTurns},
    {"pour_held_up", HoldPourUp},
    {"pour_cancelled", CancelPour},
    {"early_status", EndEarly},
    {"thousand_at_once",
     [](Client& client) { AskAtOnce(client, 1000, "Say", std::string(30'000, 'x'), 0, StatusCode::OK); }},
    {"deadlines_in_numbers",
     [](Client& client) {
       for (int i = 0; i < 20; ++i) AskAtOnce(client, 100, "Wait", "", 30, StatusCode::DEADLINE_EXCEEDED);
       client.Says("and the next");
     }},
    {"long_metadata",
     [](Client& client) {
       ExpectOf(client, "Say", StatusCode::RESOURCE_EXHAUSTED, 0, std::string(20'000, 'v'));
       client.Says("and the next");
     }},
    {"keepalive", KeepAlive},
    {"drained", Drain},
    {"killed", Kill},
};

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "Usage: client SOCKET\n";
    return 2;
  }
  rdmabroker::socket_path = argv[1];
  rdmabroker::Client client(rdmabroker::Connect());
  for (const auto& row : rdmabroker::kRows) {
    try {
      row.run(client);
      std::cout << "passed " << row.name << std::endl;
    } catch (const std::exception& error) {
      std::cout << "failed " << row.name << ": " << error.what() << std::endl;
    }
  }
}
