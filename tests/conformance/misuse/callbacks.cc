// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/misuse/callbacks.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/testing/tcp_pair.h"
#include "proto/rdmabroker/v1/administration.grpc.pb.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::misuse {
namespace {

using ndkpi::Party;
using ndkpi::TestListener;
using ndkpi::World;

// A connection beside the graph, up to the step that is wanted: of a's, or of that connector's.
struct Aside {
  explicit Aside(Graph& g) : Aside(g, g.world.a().NewConnector(), g.world.a().NewQueuePair()) {}
  Aside(Graph& g, std::shared_ptr<client::Connector> connector, QueuePair* qp)
      : a(g.world.a()),
        b(g.world.b()),
        at_b(b.Listening()),
        active(std::move(connector)),
        active_qp(qp),
        passive_qp(b.NewQueuePair()) {}
  ~Aside() {
    a.Close(active);
    if (passive != nullptr) b.Close(passive);
    b.Close(at_b.object).Wait();
  }

  void Request(const client::OutcomeCompletion& connected,
               const std::shared_ptr<client::SharedEndpoint>& endpoint = nullptr) {
    const client::ConnectParameters parameters = {.source = a.At(), .destination = at_b.address};
    EXPECT_EQ(endpoint == nullptr ? active->Connect(active_qp, parameters, connected)
                                  : active->ConnectWithSharedEndpoint(active_qp, endpoint, parameters, connected),
              NdkStatus::kPending);
    passive = at_b.Next();
  }
  void Accept() { b.Accept(passive, passive_qp); }
  void Establish(const client::DisconnectEventCallback& on_disconnect = {}) {
    const ndkpi::Call connect = a.Connect(active, active_qp, at_b.address);
    passive = at_b.Next();
    const ndkpi::Call accept = b.Accept(passive, passive_qp);
    EXPECT_EQ(connect.Status(), NdkStatus::kSuccess);
    EXPECT_EQ(a.CompleteConnect(active, on_disconnect).Status(), NdkStatus::kSuccess);
    EXPECT_EQ(accept.Status(), NdkStatus::kSuccess);
  }

  Party& a;
  Party& b;
  const TestListener at_b;
  const std::shared_ptr<client::Connector> active;
  std::shared_ptr<client::Connector> passive;
  QueuePair* const active_qp;
  QueuePair* const passive_qp;
};

template <typename Service, typename Request, typename Reply>
Reply Ask(World& w, grpc::Status (Service::Stub::*function)(grpc::ClientContext*, const Request&, Reply*),
          const Request& request) {
  grpc::ClientContext context;
  Reply reply;
  const grpc::Status status = (Service::NewStub(w.broker().channel()).get()->*function)(&context, request, &reply);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return reply;
}

void Disable(World& w) {
  v1::DisableAdapterRequest request;
  request.set_device(w.on().device);
  Ask<v1::Administration>(w, &v1::Administration::Stub::DisableAdapter, request);
}

void Enable(World& w) {
  v1::EnableAdapterRequest request;
  request.set_device(w.on().device);
  Ask<v1::Administration>(w, &v1::Administration::Stub::EnableAdapter, request);
}

// As an administrator may. The broker has fewer than a page, in the order of their opening.
void EndNewestSession(World& w) {
  const auto listed = Ask<v1::Inspection>(w, &v1::Inspection::Stub::ListSessions, v1::ListSessionsRequest());
  ASSERT_GT(listed.sessions_size(), 0);
  v1::EndSessionRequest request;
  request.set_session_id(listed.sessions().rbegin()->session_id());
  Ask<v1::Administration>(w, &v1::Administration::Stub::EndSession, request);
}

client::OutcomeCompletion Ends(const Once& once) {
  return [once](const client::Outcome&) { once(); };
}

template <typename Object>
client::CreateCompletion<Object> Creates(const Once& once) {
  return [once](const client::Outcome&, const std::shared_ptr<Object>& made) {
    once();
    if (made != nullptr) made->Close({});
  };
}

const CallbackRow kCallbacks[] = {
    {"ListAdapters", "Session.ListAdapters completion",
     [](Graph& g, const Once& once) {
       g.world.a().session().ListAdapters([once](const auto&, const auto&) { once(); });
       once.Await();
     }},
    {"OpenAdapter", "Session.OpenAdapter completion",
     [](Graph& g, const Once& once) {
       g.world.a().session().OpenAdapter(g.world.on().device, kNdkVersion, {}, Creates<client::Adapter>(once));
       once.Await();
     }},
    {"CreateListener", "Adapter.CreateListener completion",
     [](Graph& g, const Once& once) {
       g.adapter->CreateListener([](const auto&) {}, Creates<client::Listener>(once));
       once.Await();
     }},
    {"CreateSharedEndpoint", "Adapter.CreateSharedEndpoint completion",
     [](Graph& g, const Once& once) {
       g.adapter->CreateSharedEndpoint(g.world.a().At(), Creates<client::SharedEndpoint>(once));
       once.Await();
     }},
    {"ReservePort", "Adapter.ReservePort completion",
     [](Graph& g, const Once& once) {
       g.adapter->ReservePort(g.world.a().At(), Creates<client::Reservation>(once));
       once.Await();
     }},
    {"CreateConnector", "Adapter.CreateConnector completion",
     [](Graph& g, const Once& once) {
       g.adapter->CreateConnector(Creates<client::Connector>(once));
       once.Await();
     }},
    {"Listen", "Listener.Listen completion",
     [](Graph& g, const Once& once) {
       const TestListener other = g.world.a().NewListener();
       other.object->Listen(g.world.a().At(), Ends(once));
       once.Await();
       g.world.a().Close(other.object).Wait();
     }},
    {"ListenOfTheListener", "Listener.Listen completion",
     [](Graph& g, const Once& once) {
       g.listener->Listen(g.world.a().At(), Ends(once));
       once.Await();
     }},
    {"ConnectEvent", "Adapter.CreateListener on_connect",
     [](Graph& g, const Once& once) {
       const TestListener at_a = g.world.a().Listening();
       at_a.Handle([once](const std::shared_ptr<client::Connector>& delivered) {
         once();
         delivered->Close({});
       });
       const auto peer = g.world.b().NewConnector();
       g.world.b().Connect(peer, g.world.b().NewQueuePair(), at_a.address);
       once.Await();
       g.world.b().Close(peer).Wait();
       g.world.a().Close(at_a.object).Wait();
     }},
    {"Connect", "Connector.Connect completion",
     [](Graph& g, const Once& once) {
       Aside aside(g);
       aside.Request(Ends(once));
       aside.Accept();
       once.Await();
     }},
    {"ConnectWithSharedEndpoint", "Connector.ConnectWithSharedEndpoint completion",
     [](Graph& g, const Once& once) {
       const auto endpoint = g.world.a().NewSharedEndpoint(g.world.a().At());
       Aside aside(g);
       aside.Request(Ends(once), endpoint);
       aside.Accept();
       once.Await();
       g.world.a().Close(endpoint);
     }},
    {"CompleteConnect", "Connector.CompleteConnect completion",
     [](Graph& g, const Once& once) {
       Aside aside(g);
       const Once connected([] {});
       aside.Request(Ends(connected));
       aside.Accept();
       connected.Await();
       aside.active->CompleteConnect({}, Ends(once));
       once.Await();
     }},
    {"Accept", "Connector.Accept completion",
     [](Graph& g, const Once& once) {
       const TestListener at_a = g.world.a().Listening();
       const auto peer = g.world.b().NewConnector();
       const ndkpi::Call connect = g.world.b().Connect(peer, g.world.b().NewQueuePair(), at_a.address);
       const auto delivered = at_a.Next();
       delivered->Accept(g.world.a().NewQueuePair(), {}, {}, Ends(once));
       EXPECT_EQ(connect.Status(), NdkStatus::kSuccess);
       g.world.b().CompleteConnect(peer);
       once.Await();
       g.world.b().Close(peer).Wait();
       g.world.a().Close(delivered).Wait();
       g.world.a().Close(at_a.object).Wait();
     }},
    {"Reject", "Connector.Reject completion",
     [](Graph& g, const Once& once) {
       const TestListener at_a = g.world.a().Listening();
       const auto peer = g.world.b().NewConnector();
       g.world.b().Connect(peer, g.world.b().NewQueuePair(), at_a.address);
       const auto delivered = at_a.Next();
       delivered->Reject("", Ends(once));
       once.Await();
       g.world.b().Close(peer).Wait();
       g.world.a().Close(delivered).Wait();
       g.world.a().Close(at_a.object).Wait();
     }},
    {"Disconnect", "Connector.Disconnect completion",
     [](Graph& g, const Once& once) {
       Aside aside(g);
       aside.Establish();
       aside.active->Disconnect(Ends(once));
       aside.b.Disconnect(aside.passive);
       once.Await();
     }},
    {"DisconnectEvent", "Connector.CompleteConnect on_disconnect",
     [](Graph& g, const Once& once) {
       Aside aside(g);
       aside.Establish([once](const client::DisconnectEvent&) { once(); });
       aside.b.Close(aside.passive);
       once.Await();
     }},
    {"DisconnectEventOfTheAcceptor", "Connector.Accept on_disconnect",
     [](Graph& g, const Once& once) {
       const TestListener at_a = g.world.a().Listening();
       const ndkpi::Handshake made = g.world.Request(g.world.b(), g.world.a(), at_a);
       const ndkpi::Call accept =
           g.world.a().Accept(made.passive, made.passive_qp, {}, [once](const client::DisconnectEvent&) { once(); });
       EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess);
       g.world.b().CompleteConnect(made.active);
       EXPECT_EQ(accept.Status(), NdkStatus::kSuccess);
       g.world.b().Close(made.active);
       once.Await();
       g.world.a().Close(made.passive).Wait();
       g.world.a().Close(at_a.object).Wait();
     }},
    {"Close", "BrokerObject.Close completion",
     [](Graph& g, const Once& once) {
       g.world.a().NewConnector()->Close([once] { once(); });
       once.Await();
     }},
    {"CqNotification", "DataAdapter.CreateCompletionQueue notification",
     [](Graph& g, const Once& once) {
       g.on_notification.Set(once);
       g.cq->Arm(CqNotify::kAny);
       EXPECT_EQ(g.spare->Receive(nullptr, {}), NdkStatus::kSuccess);
       g.spare->Flush();
       once.Await();
     }},
    {"SrqNotification", "SharedReceiveQueueAttributes.notification",
     [](Graph& g, const Once& once) {
       g.on_notification.Set(once);
       EXPECT_EQ(g.srq->Modify(0, 4), NdkStatus::kSuccess);
       once.Await();
     }},
    {"DataClose", "DataObject.Close completion",
     [](Graph& g, const Once& once) {
       MemoryRegion* const other = g.domain->CreateMemoryRegion(false).object;
       other->AddReference();
       EXPECT_EQ(other->Close([once] { once(); }), NdkStatus::kPending);
       other->ReleaseReference();
       once.Await();
     }},
    {"QueuePairDisconnect", "QueuePair.Disconnect completion",
     [](Graph& g, const Once& once) {
       const NdkStatus status = g.qp->Disconnect(std::chrono::milliseconds(1), [once](NdkStatus) { once(); });
       if (status == NdkStatus::kNotSupported) once();  // Where the broker disconnects.
       once.Await();
     }},
    {"ConnectionEnd", "QueuePair.Attach on_end",
     [](Graph& g, const Once& once) {
       if (!g.adapter->client_ends_connections()) return once();  // Where the broker connects.
       TcpPair pair = ConnectTcpPair();
       EXPECT_EQ(g.spare->Attach({std::move(pair.passive), EncodeConnectionState(iwarp::StatesFor().passive)},
                                 [once](const ConnectionEnd&) { once(); }),
                 NdkStatus::kSuccess);
       pair.active.Reset();
       once.Await();
     }},
    {"AdapterEvent", "Session.OpenAdapter on_event",
     [](Graph& g, const Once& once) {
       g.on_adapter_event.Set(once);
       Disable(g.world);
       once.Await();
       Enable(g.world);
     }},
    {"OnSessionEnd", "BrokerObject.OnSessionEnd on_end",
     [](Graph& g, const Once& once) {
       g.listener->OnSessionEnd([once](NdkStatus) { once(); });
       EndNewestSession(g.world);
       once.Await();
     },
     Graph::Session::kOwn},
    {"OnSessionEndOfWhatHasEnded", "BrokerObject.OnSessionEnd on_end",
     [](Graph& g, const Once& once) {
       const Once ended([] {});
       g.on_session_end.Set(ended);
       EndNewestSession(g.world);
       ended.Await();
       g.listener->OnSessionEnd([once](NdkStatus) { once(); });
       once.Await();
     },
     Graph::Session::kOwn},
    {"DisconnectEventOfTheSessionEnd", "Connector.CompleteConnect on_disconnect",
     [](Graph& g, const Once& once) {
       g.on_disconnect.Set(once);
       EndNewestSession(g.world);
       once.Await();
     },
     Graph::Session::kOwn},
    {"SessionEnd", "SessionOptions.on_end",
     [](Graph& g, const Once& once) {
       g.on_session_end.Set(once);
       EndNewestSession(g.world);
       once.Await();
     },
     Graph::Session::kOwn},
    {"SessionClose", "Session.Close completion",
     [](Graph& g, const Once& once) {
       EXPECT_EQ(g.session().Close([once] { once(); }), NdkStatus::kPending);
       once.Await();
     },
     Graph::Session::kOwn},
    {"DataPathOpen", "DataPath.open",
     [](Graph& g, const Once& once) {
       g.on_data_path_open.Set(once);
       const Once opened([] {});
       g.session().OpenAdapter(g.world.on().device, kNdkVersion, {}, Creates<client::Adapter>(opened));
       opened.Await();
       once.Await();
     },
     Graph::Session::kOwn},
    {"DataPathTransition", "DataPath.transition",
     [](Graph& g, const Once& once) {
       if (g.adapter->info().technology == RdmaTechnology::kIwarp) return once();  // Where a transport connects.
       Aside aside(g, g.NewConnector(), g.spare);
       const Once connected([] {}), completed([] {});
       aside.Request(Ends(connected));
       aside.Accept();
       connected.Await();
       g.on_transition.Set(once);
       aside.active->CompleteConnect({}, Ends(completed));
       completed.Await();
       once.Await();
     },
     Graph::Session::kOwn},
};

}  // namespace

void Once::operator()() const {
  if (state_->begun.exchange(true)) return;
  state_->work();
  state_->done.set_value();
}

void Once::Await() const {
  EXPECT_EQ(state_->done.get_future().wait_for(kPatience), std::future_status::ready) << "the callback does not come";
}

std::span<const CallbackRow> CallbackRows() { return kCallbacks; }

}  // namespace rdmabroker::misuse
