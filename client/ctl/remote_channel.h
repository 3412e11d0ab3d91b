// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_REMOTE_CHANNEL_H_
#define CLIENT_CTL_REMOTE_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace rdmabroker::ctl {

// A broker's TCP port, and how both ends show who they are there.
struct RemoteBroker {
  std::string address;      // HOST:PORT; "": the control socket of this machine.
  std::string certificate;  // PEM files: the caller's chain, its key, and who may sign the broker's.
  std::string private_key;
  std::string authorities;
  // The name that the broker's certificate is to have in place of the address's host: of DNS, or a SPIFFE id, which is
  // then its only URI name. "": the host.
  std::string server_name;
};

// What is missing or cannot be read of it; "" where all is there. The files are read by OpenRemoteChannel.
std::string ProblemOf(const RemoteBroker& broker);

// A connection to it, over which nothing goes before both ends have shown who they are. Null, with what is wrong in
// `problem`.
std::shared_ptr<grpc::Channel> OpenRemoteChannel(const RemoteBroker& broker, std::string* problem);

// What to do when the broker there does not answer, for a person; `cause` is gRPC's.
std::string NoRemoteBrokerHint(const RemoteBroker& broker, const std::string& cause);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_REMOTE_CHANNEL_H_
