// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_TENANTS_HOSTILE_SESSION_H_
#define TESTS_TENANTS_HOSTILE_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/rdmabroker/v1/outcome.pb.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "proto/rdmabroker/v1/session.pb.h"
#include "tests/tenants/hostile_connection.h"

namespace rdmabroker::tenants {

inline constexpr char kSessionPath[] = "/rdmabroker.v1.Broker/Session";

// A session over such a connection, which outlives it. It acknowledges no events.
class HostileSession {
 public:
  explicit HostileSession(HostileConnection& client, const std::vector<std::string>& features = {});

  // Waits until it is open; false where it does not become so.
  bool Opens();
  // The next message of its stream that has come.
  std::optional<v1::SessionReply> Next();
  void Send(const v1::SessionRequest& message) { client_.Message(stream_, message.SerializeAsString()); }
  uint64_t NewRequest() { return ++last_request_; }

  // Makes a request, by its method: its stream.
  template <typename Request>
  int32_t Start(const std::string& method, Request request) {
    request.mutable_header()->set_session_id(id_);
    request.mutable_header()->set_request_id(NewRequest());
    return client_.CallAtLength("/rdmabroker.v1.Broker/" + method, request.SerializeAsString());
  }
  // The same, and waits for the reply: an empty one where none comes.
  template <typename Request>
  v1::Outcome Ask(const std::string& method, const Request& request) {
    return Reply(Start(method, request));
  }

  // Steps that every client makes: the ids.
  uint64_t OpenAdapter();
  uint64_t CreateConnector(uint64_t adapter);

 private:
  v1::Outcome Reply(int32_t stream);

  HostileConnection& client_;
  int32_t stream_ = 0;
  uint64_t id_ = 0;
  uint64_t last_request_ = 0;
};

// Opens a session and creates that many connectors in it. Returns null if the session is refused.
std::unique_ptr<HostileSession> SessionWithConnectors(HostileConnection& client, size_t connectors);

// Connections of one user with sessions on each, which are all open.
struct Sessions {
  Sessions(Attacker& attacker, size_t connections, size_t on_each, const std::vector<std::string>& features = {});

  std::vector<std::unique_ptr<HostileConnection>> clients;
  std::vector<std::unique_ptr<HostileSession>> all;
};

}  // namespace rdmabroker::tenants

#endif  // TESTS_TENANTS_HOSTILE_SESSION_H_
