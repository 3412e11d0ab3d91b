/* SPDX-License-Identifier: Apache-2.0 */

/* A connection by the C interface: the server tells where its memory is, the client writes there, reads it back, and says
 * so; the server looks, and answers. c_api.py in ../python speaks with it as well.
 *
 *   echo server SOCKET DEVICE ADDRESS           ADDRESS: IP:PORT, port 0 for a free one
 *   echo client SOCKET DEVICE SOURCE SERVER     SOURCE: IP:0, SERVER: what the server prints */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma_broker.h"

enum { PATIENCE_MS = 30000, MESSAGE_SIZE = 128, SHARED_SIZE = 2048 };

/* What one side of a connection has. */
struct side {
  rdma_broker_handle events;      /* Of the session. */
  rdma_broker_handle completions; /* Of the completion queue, which is waited for by itself. */
  rdma_broker_handle session, adapter, domain, queue, region, pair;
  uint32_t local_token, remote_token;
  uint64_t requests;                               /* How many there were; their contexts. */
  uint32_t results[RDMA_BROKER_RESULT_WRITE + 1]; /* By type, those that have come but not been expected yet. */
  /* Registered, and so for as long as the region is there. */
  struct {
    char outgoing[MESSAGE_SIZE];
    char incoming[MESSAGE_SIZE];
    char shared[SHARED_SIZE]; /* The peer's to read and write. */
  } memory;
};

static void fail(const char* what, rdma_broker_status status, const char* hint) {
  fprintf(stderr, "echo: %s: %s: %s\n", what, rdma_broker_status_name(status), hint);
  exit(1);
}

static void check(const char* what, rdma_broker_status status) {
  if (status != RDMA_BROKER_STATUS_SUCCESS) fail(what, status, rdma_broker_last_hint());
}

/* Waits for the end of the request that has just been made with the context side->requests: what it made. */
static rdma_broker_handle outcome_of(struct side* side, const char* what, rdma_broker_status made) {
  rdma_broker_event event = {.size = sizeof event};
  const uint64_t context = side->requests++;
  if (made != RDMA_BROKER_STATUS_PENDING) fail(what, made, rdma_broker_last_hint());
  check(what, rdma_broker_events_await(side->events, context, PATIENCE_MS, &event));
  if (event.status != RDMA_BROKER_STATUS_SUCCESS) fail(what, event.status, event.hint);
  return event.object;
}

/* Waits for an event of the kind, as long as it takes: its object. Others are none of this program's business. */
static rdma_broker_handle event_of(struct side* side, uint32_t kind) {
  rdma_broker_event event = {.size = sizeof event};
  do {
    check("events", rdma_broker_events_next(side->events, -1, &event));
    if (event.kind == RDMA_BROKER_EVENT_SESSION_END) fail("session", event.status, event.hint);
    if (event.kind == RDMA_BROKER_EVENT_ADAPTER_REMOVED) fail("adapter", event.status, event.hint);
  } while (event.kind != kind);
  return event.object;
}

/* The next result of the queue pair. */
static rdma_broker_result next_result(struct side* side) {
  rdma_broker_event event = {.size = sizeof event};
  rdma_broker_result result;
  uint32_t count = 1;
  check("results", rdma_broker_completion_queue_take(side->queue, &result, &count));
  while (count == 0) {
    check("arm", rdma_broker_completion_queue_arm(side->queue, RDMA_BROKER_NOTIFY_ANY));
    check("completion queue", rdma_broker_events_next(side->completions, PATIENCE_MS, &event));
    count = 1;
    check("results", rdma_broker_completion_queue_take(side->queue, &result, &count));
  }
  if (result.status != RDMA_BROKER_STATUS_SUCCESS) fail("request", result.status, "the connection is lost");
  return result;
}

/* Waits for a result of the type. Those of receives may come before those of sends that were posted earlier. */
static void expect(struct side* side, uint32_t type) {
  while (side->results[type] == 0) {
    const uint32_t came = next_result(side).type;
    if (came < sizeof side->results / sizeof *side->results) ++side->results[came];
  }
  --side->results[type];
}

static void open_side(struct side* side, const char* socket, const char* device) {
  rdma_broker_session_options options = {.size = sizeof options};
  rdma_broker_event failure = {.size = sizeof failure};
  rdma_broker_queue_pair_attributes attributes = {.size = sizeof attributes};
  rdma_broker_status status;
  memset(side, 0, sizeof *side);
  check("events", rdma_broker_events_create(&side->events));
  check("completions", rdma_broker_events_create(&side->completions));
  options.control_socket = socket;
  status = rdma_broker_session_open(&options, side->events, &side->session, &failure);
  if (status != RDMA_BROKER_STATUS_SUCCESS) fail("session", status, failure.hint);
  side->adapter = outcome_of(side, device, rdma_broker_adapter_open(side->session, device, 0, side->requests));
  check("domain", rdma_broker_domain_create(side->adapter, &side->domain));
  check("queue", rdma_broker_completion_queue_create(side->adapter, 8, side->completions, 0, &side->queue));
  check("memory", rdma_broker_memory_register(side->domain, &side->memory, sizeof side->memory,
                                              RDMA_BROKER_MR_LOCAL_WRITE | RDMA_BROKER_MR_REMOTE_READ |
                                                  RDMA_BROKER_MR_REMOTE_WRITE | RDMA_BROKER_MR_READ_SINK,
                                              &side->region, &side->local_token, &side->remote_token));
  attributes.receive_queue_depth = attributes.initiator_queue_depth = 4;
  attributes.receive_cq = attributes.initiator_cq = side->queue;
  attributes.keepalive_seconds = 30;
  check("queue pair", rdma_broker_queue_pair_create(side->domain, &attributes, &side->pair));
}

/* Everything, in the order in which things depend on each other; any other would do. */
static void close_side(struct side* side) {
  const rdma_broker_handle objects[] = {side->pair, side->region, side->queue, side->domain, side->adapter, side->session};
  size_t i;
  for (i = 0; i < sizeof objects / sizeof *objects; ++i) {
    rdma_broker_event event = {.size = sizeof event};
    const rdma_broker_status status = rdma_broker_close(objects[i], side->requests);
    if (status == RDMA_BROKER_STATUS_PENDING) {
      check("close", rdma_broker_events_await(side->events, side->requests++, PATIENCE_MS, &event));
    }
  }
  rdma_broker_close(side->completions, 0);
  rdma_broker_close(side->events, 0);
}

static rdma_broker_sge sge_of(const struct side* side, char* bytes, uint32_t length) {
  rdma_broker_sge sge;
  sge.address = bytes;
  sge.length = length;
  sge.token = side->local_token;
  return sge;
}

static void post_receive(struct side* side) {
  const rdma_broker_sge sge = sge_of(side, side->memory.incoming, MESSAGE_SIZE);
  check("receive", rdma_broker_receive(side->pair, 0, &sge, 1));
}

/* The message in memory.outgoing. */
static void send_message(struct side* side) {
  const rdma_broker_sge sge = sge_of(side, side->memory.outgoing, (uint32_t)strlen(side->memory.outgoing) + 1);
  check("send", rdma_broker_send(side->pair, 0, &sge, 1, 0));
}

/* The one that has come. Its end is the peer's to say, and may be missing. */
static const char* message_of(struct side* side) {
  side->memory.incoming[MESSAGE_SIZE - 1] = '\0';
  return side->memory.incoming;
}

static void fill(char* bytes) {
  size_t i;
  for (i = 0; i < SHARED_SIZE; ++i) bytes[i] = (char)(i * 7 + 1);
}

static int is_filled(const char* bytes) {
  char expected[SHARED_SIZE];
  fill(expected);
  return memcmp(bytes, expected, sizeof expected) == 0;
}

static void serve(struct side* side, const char* address) {
  char local[RDMA_BROKER_ADDRESS_SIZE];
  rdma_broker_accept_parameters parameters = {.size = sizeof parameters};
  const rdma_broker_handle listener =
      outcome_of(side, "listener", rdma_broker_listener_create(side->adapter, 0, side->requests));
  rdma_broker_handle connector;
  outcome_of(side, "listen", rdma_broker_listen(listener, address, side->requests));
  check("address", rdma_broker_get_local_address(listener, local));
  printf("listening on %s\n", local);
  fflush(stdout);

  connector = event_of(side, RDMA_BROKER_EVENT_CONNECT);
  post_receive(side); /* Before the peer can send. */
  parameters.inbound_reads = 1;
  outcome_of(side, "accept", rdma_broker_accept(connector, side->pair, &parameters, 0, side->requests));
  sprintf(side->memory.outgoing, "%" PRIx64 " %" PRIx32, (uint64_t)(uintptr_t)side->memory.shared, side->remote_token);
  send_message(side);
  expect(side, RDMA_BROKER_RESULT_SEND);
  expect(side, RDMA_BROKER_RESULT_RECEIVE);
  printf("the client says \"%s\"\n", message_of(side));
  strcpy(side->memory.outgoing, is_filled(side->memory.shared) ? "all bytes are there" : "bytes are missing");
  send_message(side);
  expect(side, RDMA_BROKER_RESULT_SEND);

  event_of(side, RDMA_BROKER_EVENT_DISCONNECT);
  outcome_of(side, "disconnect", rdma_broker_disconnect(connector, side->requests));
  rdma_broker_close(connector, side->requests++);
  rdma_broker_close(listener, side->requests++);
}

static void run_client(struct side* side, const char* source, const char* server) {
  rdma_broker_connect_parameters parameters = {.size = sizeof parameters};
  uint64_t remote_address;
  uint32_t remote_token;
  const rdma_broker_handle connector =
      outcome_of(side, "connector", rdma_broker_connector_create(side->adapter, side->requests));
  const rdma_broker_sge shared = sge_of(side, side->memory.shared, SHARED_SIZE);
  post_receive(side);
  parameters.source = source;
  parameters.destination = server;
  parameters.outbound_reads = 1;
  outcome_of(side, "connect", rdma_broker_connect(connector, side->pair, &parameters, side->requests));
  outcome_of(side, "complete", rdma_broker_complete_connect(connector, 0, side->requests));
  expect(side, RDMA_BROKER_RESULT_RECEIVE);
  if (sscanf(message_of(side), "%" SCNx64 " %" SCNx32, &remote_address, &remote_token) != 2) exit(1);

  fill(side->memory.shared);
  check("write", rdma_broker_write(side->pair, 0, &shared, 1, remote_address, remote_token, 0));
  expect(side, RDMA_BROKER_RESULT_WRITE);
  memset(side->memory.shared, 0, SHARED_SIZE);
  check("read", rdma_broker_read(side->pair, 0, &shared, 1, remote_address, remote_token, 0));
  expect(side, RDMA_BROKER_RESULT_READ);
  printf("%d bytes written, and %s\n", SHARED_SIZE, is_filled(side->memory.shared) ? "read back" : "not read back");

  post_receive(side);
  strcpy(side->memory.outgoing, "done");
  send_message(side);
  expect(side, RDMA_BROKER_RESULT_SEND);
  expect(side, RDMA_BROKER_RESULT_RECEIVE);
  printf("the server says \"%s\"\n", message_of(side));
  outcome_of(side, "disconnect", rdma_broker_disconnect(connector, side->requests));
  rdma_broker_close(connector, side->requests++);
}

int main(int argc, char** argv) {
  static struct side side;
  const int is_server = argc == 5 && strcmp(argv[1], "server") == 0;
  if (!is_server && !(argc == 6 && strcmp(argv[1], "client") == 0)) {
    fprintf(stderr, "usage: echo server SOCKET DEVICE ADDRESS | echo client SOCKET DEVICE SOURCE SERVER\n");
    return 2;
  }
  open_side(&side, argv[2], argv[3]);
  if (is_server) {
    serve(&side, argv[4]);
  } else {
    run_client(&side, argv[4], argv[5]);
  }
  close_side(&side);
  puts("closed");
  return 0;
}
