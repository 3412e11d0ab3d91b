// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_INTEGRATION_STREAM_MESSAGES_H_
#define TESTS_INTEGRATION_STREAM_MESSAGES_H_

#include <cstddef>

namespace rdmabroker {

// Messages of one session's stream, as its client sees them.
struct StreamMessages {
  int to_broker = 0;  // But for those that only acknowledge: an idle client sends these when a while has passed.
  int acknowledgements = 0;
  int to_client = 0;

  StreamMessages operator-(const StreamMessages& other) const {
    return {to_broker - other.to_broker, acknowledgements - other.acknowledgements, to_client - other.to_client};
  }
};

// Has the streams counted that this process opens from now on. Call it once, before it uses gRPC.
void CountStreamMessages();
// How many were opened since. Any thread, as the next.
size_t CountedStreams();
// Of the stream that was opened as this one, from 0 on.
StreamMessages MessagesOfStream(size_t index);

}  // namespace rdmabroker

#endif  // TESTS_INTEGRATION_STREAM_MESSAGES_H_
