/* SPDX-License-Identifier: Apache-2.0 */

/* The client library of rdma-broker for C, and for bindings of other languages. C99; link librdma_broker.so.
 *
 * Handles. Every object is named by a number, which the library gives only once in a process; 0 names nothing. A handle
 * is good until rdma_broker_close is called for the object or its session. A call with 0 returns
 * STATUS_INVALID_PARAMETER; with a handle that is no longer good, of another kind or made up,
 * STATUS_OBJECT_NAME_NOT_FOUND. No call is unsafe, on whatever thread.
 *
 * Requests and events. No function calls back. One that asks the broker or waits for a peer returns STATUS_PENDING, and
 * one event says how it ended, perhaps before the call has returned; or it returns why not, and no event comes. Events
 * wait in a queue that the program makes, with a descriptor for poll(2), until they are taken. A session has one such
 * queue for all that it makes; completion queues may have another. The order of a session's events is that in which
 * things happened. At most one waits for each pending request, one for each waiting peer, whom the broker's backlog
 * bounds, and one or two for each object.
 *
 * Threads. Every function may be called on any thread at any time. The library has threads of its own, on which nothing
 * of the program runs. A thread must not be cancelled (pthread_cancel) within a call, which ends the process; the close
 * of a queue of events ends a wait for one.
 *
 * Forks. In a child by fork(2) of a process that has called rdma_broker_session_open before, with whatever result,
 * every function returns at once and touches nothing of the parent's: STATUS_INVALID_DEVICE_STATE,
 * rdma_broker_session_open STATUS_NOT_SUPPORTED. Fork before that, or let the child start another program. The parent's
 * session ends with the parent, even if a child lives on.
 *
 * Errors. Functions return NDK statuses (rdma_broker_status.h). A pointer that is null where a value is needed, a
 * struct that is too small, and text that is no address or no UTF-8 are STATUS_INVALID_PARAMETER. Out parameters are
 * written on success only. No C++ exception leaves the library.
 *
 * Addresses. "192.0.2.1:4420" or "[2001:db8::1]:4420". A link-local one has its interface: "[fe80::1%eth0]:4420" by its
 * name in the process's network namespace, "[fe80::1%3]:4420" by its index in the broker's. Out parameters have the
 * index.
 *
 * A call for which memory runs out returns STATUS_NO_MEMORY, and one for which the process gets no thread or descriptor
 * STATUS_INSUFFICIENT_RESOURCES. It leaves nothing that stays, and no event comes, but the objects that it concerns may
 * be good for nothing but their close. Where memory runs out for an event, or otherwise on a thread of the library's
 * own or gRPC's, the process ends: the library could not keep its word.
 *
 * Structs. Those with a `size` may grow at their end: set it to sizeof the struct. Fields that an older library does
 * not know must be 0; those that a newer library adds stay unseen by an older program. Those without a `size` never
 * change. Fields called `reserved` must be 0.
 *
 * Memory. A call copies what it is given, except for registered memory and what scatter/gather entries name: these must
 * stay until the region's close, or the request's result. Do not free anything that the library returns.
 *
 * Semantics are NDKPI's, as the comments of proto/rdmabroker/v1/broker.proto and of the C++ library's headers give
 * them; docs/from-ndkpi.md maps the names. Not here: memory windows, shared receive queues, fast registration, sends
 * that invalidate a token, and completion queues that are resized or whose notifications are moderated. */

#ifndef CLIENT_C_RDMA_BROKER_H_
#define CLIENT_C_RDMA_BROKER_H_

#include <stddef.h>
#include <stdint.h>

#include "rdma_broker_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names are C's here. NOLINTBEGIN(readability-identifier-naming) */

typedef uint64_t rdma_broker_handle;

/* Bytes of text, with the null that ends it. */
#define RDMA_BROKER_ADDRESS_SIZE 64
#define RDMA_BROKER_NAME_SIZE 64
#define RDMA_BROKER_HINT_SIZE 1032
/* More private data than any adapter carries. */
#define RDMA_BROKER_PRIVATE_DATA_SIZE 1024

/* "STATUS_SHARING_VIOLATION"; for a number that is none of this library's statuses "STATUS_UNSUCCESSFUL". */
const char* rdma_broker_status_name(rdma_broker_status status);
/* Why a function has returned to this thread a status that is neither STATUS_SUCCESS nor STATUS_PENDING, and what to do
 * about it, for a person: of the last such function. Not to be parsed. Empty if there was none. Good until the thread's
 * next call of this library. */
const char* rdma_broker_last_hint(void);
/* What the `provider_error` of a result or of a DISCONNECT event means: who noticed the error, and what to do. For a
 * person, and not to be parsed: it is the hint of the DISCONNECT event that has the same number. Empty for 0. */
rdma_broker_status rdma_broker_provider_error_text(uint32_t provider_error, char text[RDMA_BROKER_HINT_SIZE]);

/* ---- Events ---- */

enum {
  /* A request has ended; `object` is what it made, 0 where it makes nothing or failed. */
  RDMA_BROKER_EVENT_OUTCOME = 1,
  /* The close of `source` has completed: it was its last event. */
  RDMA_BROKER_EVENT_CLOSED = 2,
  /* A peer wants to connect to the listener `source`: `object` is its connector, the program's to close in any case. */
  RDMA_BROKER_EVENT_CONNECT = 3,
  /* The connection of `source` has ended, not by this side. STATUS_SUCCESS: gracefully. */
  RDMA_BROKER_EVENT_DISCONNECT = 4,
  /* The device of the adapter `source` is gone: STATUS_DEVICE_REMOVED. What is on it can only be closed. The device's
   * removal waits until the program has closed the domains and completion queues of the adapter. */
  RDMA_BROKER_EVENT_ADAPTER_REMOVED = 5,
  /* An administrator waits until the adapter `source` is closed. */
  RDMA_BROKER_EVENT_ADAPTER_DISABLED = 6,
  /* The session `source` has ended by itself. What it has can only be closed. */
  RDMA_BROKER_EVENT_SESSION_END = 7,
  /* The completion queue `source` has what it was armed for. An error: it is dead. */
  RDMA_BROKER_EVENT_COMPLETION_QUEUE = 8,
  /* The adapter has lost the address of the listener `source`, or has it (again): STATUS_SUCCESS, and peers reach it;
   * STATUS_INVALID_ADDRESS. The listener holds the address and port against others meanwhile. */
  RDMA_BROKER_EVENT_LISTENER_ADDRESS = 9,
  /* The same for the shared endpoint or reservation `source`; `context` is that of the request which made it. A connect
   * from a shared endpoint without its address is STATUS_NETWORK_UNREACHABLE. */
  RDMA_BROKER_EVENT_ENDPOINT_ADDRESS = 10
};

enum {
  RDMA_BROKER_RETRYABLE = 1,    /* The same request may succeed if it is just tried again. */
  RDMA_BROKER_RETRY_SAME_QP = 2 /* Also with the same queue pair, whose posted receives are still there. */
};

typedef struct rdma_broker_event {
  uint32_t size;
  uint32_t kind;             /* RDMA_BROKER_EVENT_*; ignore those that you do not know. */
  uint64_t context;          /* Of an OUTCOME's or CLOSED's request; of all others the object's own; see `kind`. */
  rdma_broker_handle source; /* Whom it concerns: for an OUTCOME the object that was asked. */
  rdma_broker_handle object; /* See `kind`. */
  rdma_broker_status status; /* How it ended; never STATUS_PENDING. */
  uint32_t provider_error;   /* The cause in the adapter's own numbers; 0: none known. */
  uint32_t flags;            /* RDMA_BROKER_RETRY*; of a failure. */
  uint32_t reserved;
  char hint[RDMA_BROKER_HINT_SIZE]; /* For a person, empty on success. Not to be parsed. */
} rdma_broker_event;

/* A queue of events. Its close drops what is in it, and what was to come. */
rdma_broker_status rdma_broker_events_create(rdma_broker_handle* events);
/* A descriptor that can be read while there are events, and from the queue's close on. The library's own: poll it, do
 * not read or close it. The close lets its number go, which may be another file's from then on. So who polls while
 * another thread may close the queue polls a dup(2) of it, made before: that wakes, can be read for good, and is the
 * program's to close. */
rdma_broker_status rdma_broker_events_descriptor(rdma_broker_handle events, int* descriptor);
/* Takes the oldest event. STATUS_TIMEOUT: none came within so many milliseconds; -1: waits for ever, 0: not at all.
 * STATUS_CANCELLED: the queue was closed meanwhile. */
rdma_broker_status rdma_broker_events_next(rdma_broker_handle events, int timeout_ms, rdma_broker_event* event);
/* Likewise the oldest OUTCOME or CLOSED with this context, past others: for programs that would rather wait. */
rdma_broker_status rdma_broker_events_await(rdma_broker_handle events, uint64_t context, int timeout_ms,
                                            rdma_broker_event* event);

/* Closes any object: a session with everything that it has, a list by freeing its memory. Fails only for a bad handle,
 * and with STATUS_NO_MEMORY, where nothing has changed; else the handle is invalid from this call on. STATUS_PENDING: a
 * CLOSED event follows, once everything that depends on the object is closed. STATUS_SUCCESS: it is closed, and no
 * event follows. From then on nothing uses the object's memory: its rights are revoked, its hardware object is
 * destroyed, and no result of it is taken. Objects may be closed in any order. What a program makes on an adapter's
 * data half (domains, queues, queue pairs, regions) it closes itself, also when the session is closed. */
rdma_broker_status rdma_broker_close(rdma_broker_handle object, uint64_t context);

/* ---- Session ---- */

typedef struct rdma_broker_session_options {
  uint32_t size;
  uint32_t open_timeout_ms;   /* For the broker to come up; 0: 10 seconds. */
  const char* control_socket; /* Null: the environment's RDMA_BROKER_SOCKET, else the usual one. */
  uint64_t context;           /* Of SESSION_END. */
} rdma_broker_session_options;

/* Opens a session, and waits for the broker. `options` may be null. `failure`, if it is not null, is filled in as an
 * OUTCOME where this fails and there is more to say than the status. STATUS_CONNECTION_REFUSED: nobody listens on the
 * socket. A process that has changed its user since can only close and disconnect what it has, once another process
 * of the broker has taken over: open a session as the user that the process will stay. */
rdma_broker_status rdma_broker_session_open(const rdma_broker_session_options* options, rdma_broker_handle events,
                                            rdma_broker_handle* session, rdma_broker_event* failure);

typedef struct rdma_broker_adapter_info {
  uint32_t size;
  uint32_t version;    /* The NDK version: major << 16 | minor. */
  uint32_t technology; /* 1: iWARP, 2: InfiniBand, 3: RoCE, 4: RoCE v2. */
  uint32_t vendor_id;
  uint32_t device_id;
  uint32_t frmr_page_count;
  uint64_t max_registration_size;
  uint64_t max_window_size;
  uint32_t max_initiator_request_sge;
  uint32_t max_receive_request_sge;
  uint32_t max_read_request_sge;
  uint32_t max_transfer_length;
  uint32_t max_inline_data_size;
  uint32_t max_inbound_read_limit;
  uint32_t max_outbound_read_limit;
  uint32_t max_receive_queue_depth;
  uint32_t max_initiator_queue_depth;
  uint32_t max_srq_depth;
  uint32_t max_cq_depth;
  uint32_t large_request_threshold;
  uint32_t max_caller_data;
  uint32_t max_callee_data;
  uint32_t adapter_flags; /* As AdapterInfo.adapter_flags in adapter.proto. */
  uint32_t client_ends_connections;
} rdma_broker_adapter_info;

typedef struct rdma_broker_device {
  uint32_t size;
  uint32_t usable; /* 1: rdma_broker_adapter_open takes it. */
  uint32_t technology;
  uint32_t address_count;
  char name[RDMA_BROKER_NAME_SIZE];
  char unusable_reason[RDMA_BROKER_HINT_SIZE]; /* For a person; empty if usable. */
  uint32_t mtu;                                /* As Device.mtu in adapter.proto. */
} rdma_broker_device;

/* Lists the devices that the broker knows: the event's `object` is the list, which the program closes. */
rdma_broker_status rdma_broker_list_devices(rdma_broker_handle session, uint64_t context);
/* The device at an index of the list, from 0. STATUS_NO_MORE_ENTRIES: there are fewer. */
rdma_broker_status rdma_broker_list_device(rdma_broker_handle list, uint32_t index, rdma_broker_device* device);
/* An address of that device, without a port: "192.0.2.1". As rdma_broker_list_device. */
rdma_broker_status rdma_broker_list_address(rdma_broker_handle list, uint32_t index, uint32_t address_index,
                                            char address[RDMA_BROKER_ADDRESS_SIZE]);

/* ---- Adapter ---- */

/* Opens an adapter on the device: `object`. `adapter_context` is that of ADAPTER_REMOVED and ADAPTER_DISABLED. */
rdma_broker_status rdma_broker_adapter_open(rdma_broker_handle session, const char* device, uint64_t adapter_context,
                                            uint64_t context);
rdma_broker_status rdma_broker_adapter_get_info(rdma_broker_handle adapter, rdma_broker_adapter_info* info);

/* ---- Addresses: listeners, shared endpoints, reservations ---- */

/* Makes a listener without an address: `object`. `listener_context` is that of its CONNECT and LISTENER_ADDRESS events.
 */
rdma_broker_status rdma_broker_listener_create(rdma_broker_handle adapter, uint64_t listener_context, uint64_t context);
/* Binds the address and starts; CONNECT events follow the OUTCOME. Port 0 asks for a free one. */
rdma_broker_status rdma_broker_listen(rdma_broker_handle listener, const char* address, uint64_t context);
enum {
  /* The adapter need not have the address yet: the listener holds it, and peers reach it as soon as the adapter has it,
   * of which LISTENER_ADDRESS tells. */
  RDMA_BROKER_AWAIT_ADDRESS = 1,
  /* The listener follows the address, no wildcard, to any adapter that the session has opened and that is of the same
   * kind; rdma_broker_connector_get_adapter says which one a peer has reached. */
  RDMA_BROKER_ANY_ADAPTER = 2
};
/* As rdma_broker_listen. `flags` is RDMA_BROKER_AWAIT_ADDRESS, RDMA_BROKER_ANY_ADAPTER, both or 0;
 * STATUS_INVALID_PARAMETER: it has a flag that this library does not know. */
rdma_broker_status rdma_broker_listen_with(rdma_broker_handle listener, const char* address, uint32_t flags,
                                           uint64_t context);
/* Likewise, in the place of a reservation, which success uses up. */
rdma_broker_status rdma_broker_listen_reserved(rdma_broker_handle listener, rdma_broker_handle reservation,
                                               uint64_t context);
/* Turns peers away while `pause` is not 0. */
rdma_broker_status rdma_broker_listener_pause(rdma_broker_handle listener, int pause);

/* A local address from which several connectors connect: `object`, whose ENDPOINT_ADDRESS events have this context,
 * too. Port 0 asks for a free one. */
rdma_broker_status rdma_broker_shared_endpoint_create(rdma_broker_handle adapter, const char* address,
                                                      uint64_t context);
/* Likewise, in the place of a reservation, which success uses up. */
rdma_broker_status rdma_broker_shared_endpoint_create_reserved(rdma_broker_handle adapter,
                                                               rdma_broker_handle reservation, uint64_t context);
/* Holds an address: `object`, whose ENDPOINT_ADDRESS events have this context, too. Port 0 asks for a free one. */
rdma_broker_status rdma_broker_reserve_port(rdma_broker_handle adapter, const char* address, uint64_t context);

/* The local address of a listener, shared endpoint, reservation or connector, with the port that was chosen.
 * STATUS_INVALID_DEVICE_STATE, STATUS_CONNECTION_INVALID: it has none yet. */
rdma_broker_status rdma_broker_get_local_address(rdma_broker_handle object, char address[RDMA_BROKER_ADDRESS_SIZE]);

/* ---- Connections ---- */

/* Options of one side of a connection. */
typedef struct rdma_broker_connection_options {
  uint32_t size;
  /* How often the peer tries a send again that finds no receive of this side's posted, 0 to 7; 7: for ever. Else the
   * peer's queue pair breaks in the end. Over iWARP, where such a send always breaks the connection, it is ignored. */
  uint32_t rnr_retry_count;
} rdma_broker_connection_options;

#define RDMA_BROKER_NO_READS 0xFFFFFFFFu

typedef struct rdma_broker_connect_parameters {
  uint32_t size;
  uint32_t inbound_reads;             /* Reads of the peer that this side serves at a time, or RDMA_BROKER_NO_READS. */
  uint32_t outbound_reads;            /* Reads of this side, likewise. 0: as many as the adapter has. */
  uint32_t private_data_length;       /* At most max_caller_data of the adapter. */
  const void* private_data;           /* May be null if the length is 0. */
  const char* source;                 /* One of the adapter's addresses, port 0 for a free one; null: by the route. */
  rdma_broker_handle shared_endpoint; /* From whose address to connect, and `source` is null; else 0. */
  const char* destination;
  const rdma_broker_connection_options* options; /* Null: rnr_retry_count is 7. */
} rdma_broker_connect_parameters;

typedef struct rdma_broker_accept_parameters {
  uint32_t size;
  uint32_t inbound_reads; /* As in rdma_broker_connect_parameters. */
  uint32_t outbound_reads;
  uint32_t private_data_length; /* At most max_callee_data of the adapter. */
  const void* private_data;
  const rdma_broker_connection_options* options; /* Null: rnr_retry_count is 7. */
} rdma_broker_accept_parameters;

typedef struct rdma_broker_connection_data {
  uint32_t size;
  uint32_t inbound_reads; /* In effect, as far as both sides have spoken. */
  uint32_t outbound_reads;
  uint32_t three_way; /* 1: the handshake has a third message. */
  char local[RDMA_BROKER_ADDRESS_SIZE];
  char peer[RDMA_BROKER_ADDRESS_SIZE];
  uint32_t private_data_length; /* Of the peer's last message, perhaps padded with zeros. */
  uint32_t reserved;
  uint8_t private_data[RDMA_BROKER_PRIVATE_DATA_SIZE];
} rdma_broker_connection_data;

/* Makes a connector: `object`. */
rdma_broker_status rdma_broker_connector_create(rdma_broker_handle adapter, uint64_t context);
/* The adapter that the connector was made on, or that its peer has reached: connect and accept take queue pairs of that
 * one. STATUS_OBJECT_NAME_NOT_FOUND also where the adapter's close was called. */
rdma_broker_status rdma_broker_connector_get_adapter(rdma_broker_handle connector, rdma_broker_handle* adapter);
/* Connects; ends when the peer has accepted or rejected. rdma_broker_complete_connect or rdma_broker_reject is next.
 * STATUS_INVALID_PARAMETER: also where both source and shared endpoint are given. Without both, or from 0.0.0.0 or ::,
 * the source is the address that the route to the destination leaves from; STATUS_INVALID_ADDRESS: that is not the
 * adapter's, as the hint says. */
rdma_broker_status rdma_broker_connect(rdma_broker_handle connector, rdma_broker_handle queue_pair,
                                       const rdma_broker_connect_parameters* parameters, uint64_t context);
/* Ends when the connection is established. `connector_context` is that of its DISCONNECT. */
rdma_broker_status rdma_broker_complete_connect(rdma_broker_handle connector, uint64_t connector_context,
                                                uint64_t context);
/* Accepts the peer of a CONNECT event; otherwise as rdma_broker_complete_connect. `parameters` may be null: the
 * adapter's reads, no private data. */
rdma_broker_status rdma_broker_accept(rdma_broker_handle connector, rdma_broker_handle queue_pair,
                                      const rdma_broker_accept_parameters* parameters, uint64_t connector_context,
                                      uint64_t context);
/* Turns the peer away, instead of accept or complete_connect. */
rdma_broker_status rdma_broker_reject(rdma_broker_handle connector, const void* private_data, size_t length,
                                      uint64_t context);
/* Ends when the peer has disconnected, too. Call it after the queue pair's requests have completed. */
rdma_broker_status rdma_broker_disconnect(rdma_broker_handle connector, uint64_t context);
/* STATUS_CONNECTION_INVALID: nothing is known yet. */
rdma_broker_status rdma_broker_get_connection_data(rdma_broker_handle connector, rdma_broker_connection_data* data);

/* ---- Names in place of addresses: as docs/services.md has them; no broker is needed ---- */

typedef struct rdma_broker_address {
  char text[RDMA_BROKER_ADDRESS_SIZE];
} rdma_broker_address;

/* Resolves "rdma-broker://NAME" where the environment's RDMA_BROKER_NAMES says, and waits `timeout_ms` at most; 0: five
 * seconds. `count` is how many addresses there is room for, and becomes how many there are, never more than sixteen. A
 * literal address stands for itself. They come in the order in which to try them. `time_to_live`, if it is not null,
 * becomes the seconds for which they may be kept. `failure` as in rdma_broker_session_open.
 * STATUS_OBJECT_NAME_NOT_FOUND: nobody has the name; STATUS_NOT_SUPPORTED: names are resolved nowhere. */
rdma_broker_status rdma_broker_resolve_name(const char* name, uint32_t timeout_ms, rdma_broker_address* addresses,
                                            uint32_t* count, uint32_t* time_to_live, rdma_broker_event* failure);
/* Gives a listener's address a name in etcd, until the registration is closed, which may take a second, or, where this
 * process dies, for the `lease` in seconds; 0: ten. Otherwise as rdma_broker_resolve_name; STATUS_NOT_SUPPORTED also
 * where names are kept in DNS. */
rdma_broker_status rdma_broker_register_name(const char* name, const char* address, uint32_t timeout_ms, uint32_t lease,
                                             rdma_broker_handle* registration, rdma_broker_event* failure);

/* ---- Data path: nothing here asks the broker, and every call ends at once ---- */

enum { RDMA_BROKER_NOTIFY_ERRORS = 0, RDMA_BROKER_NOTIFY_ANY = 1, RDMA_BROKER_NOTIFY_SOLICITED = 2 };

enum {
  RDMA_BROKER_MR_LOCAL_WRITE = 1,  /* The target of receives. */
  RDMA_BROKER_MR_REMOTE_READ = 2,  /* Peers read it by the remote token. */
  RDMA_BROKER_MR_REMOTE_WRITE = 5, /* Includes local write. */
  RDMA_BROKER_MR_READ_SINK = 8     /* The target of this side's reads. */
};

enum {
  RDMA_BROKER_OP_SILENT_SUCCESS = 0x1, /* No result unless it fails. */
  RDMA_BROKER_OP_READ_FENCE = 0x2,
  RDMA_BROKER_OP_SOLICIT = 0x4, /* Send. */
  RDMA_BROKER_OP_INLINE = 0x40  /* Send, write: the tokens do not count, and the bytes are copied. */
};

enum {
  RDMA_BROKER_RESULT_RECEIVE = 1,
  RDMA_BROKER_RESULT_SEND = 2,
  RDMA_BROKER_RESULT_READ = 32,
  RDMA_BROKER_RESULT_WRITE = 64
};

typedef struct rdma_broker_sge {
  void* address;
  uint32_t length;
  uint32_t token; /* The local one of the region that it is in. */
} rdma_broker_sge;

typedef struct rdma_broker_result {
  uint64_t request_context;
  uint64_t queue_pair_context;
  rdma_broker_status status;
  uint32_t type;              /* RDMA_BROKER_RESULT_*. */
  uint32_t bytes_transferred; /* Of receives. */
  uint32_t provider_error;    /* rdma_broker_provider_error_text has its text. 0: a success, or none is known. */
} rdma_broker_result;

typedef struct rdma_broker_queue_pair_attributes {
  uint32_t size;
  uint32_t receive_queue_depth;
  uint32_t initiator_queue_depth;
  uint32_t max_receive_request_sge;   /* 0 stands for 1. */
  uint32_t max_initiator_request_sge; /* 0 stands for 1. */
  uint32_t inline_data_size;
  rdma_broker_handle receive_cq;
  rdma_broker_handle initiator_cq; /* May be the same. */
  uint64_t context;                /* Of results. */
  uint32_t keepalive_seconds;      /* A peer's silence by which its host counts as dead: 2 to 3600; 0: nobody asks. */
  uint32_t reserved;
} rdma_broker_queue_pair_attributes;

/* STATUS_NOT_SUPPORTED: the library has no data path for the adapter's technology. */
rdma_broker_status rdma_broker_domain_create(rdma_broker_handle adapter, rdma_broker_handle* domain);
/* `events` gets a COMPLETION_QUEUE event for each arming; 0: none, and the queue is only polled. The CLOSED event of
 * its close comes to the session's events, as every object's. */
rdma_broker_status rdma_broker_completion_queue_create(rdma_broker_handle adapter, uint32_t depth,
                                                       rdma_broker_handle events, uint64_t context,
                                                       rdma_broker_handle* completion_queue);
/* Asks for one event, for the next result of the kind; at once where one has come since the last event and was not
 * taken. */
rdma_broker_status rdma_broker_completion_queue_arm(rdma_broker_handle completion_queue, uint32_t notify);
/* Takes up to *count results out; *count becomes how many. */
rdma_broker_status rdma_broker_completion_queue_take(rdma_broker_handle completion_queue, rdma_broker_result* results,
                                                     uint32_t* count);
/* Registers memory: it must stay mapped until the region's close has completed. The tokens may be null. */
rdma_broker_status rdma_broker_memory_register(rdma_broker_handle domain, void* address, size_t length, uint32_t flags,
                                               rdma_broker_handle* region, uint32_t* local_token,
                                               uint32_t* remote_token);
rdma_broker_status rdma_broker_queue_pair_create(rdma_broker_handle domain,
                                                 const rdma_broker_queue_pair_attributes* attributes,
                                                 rdma_broker_handle* queue_pair);

/* Posts: each gives one result in the completion queue, unless the queue pair is closed before. Serialise the posts to
 * one queue of a queue pair. */
rdma_broker_status rdma_broker_send(rdma_broker_handle queue_pair, uint64_t request_context,
                                    const rdma_broker_sge* sges, uint32_t count, uint32_t flags);
rdma_broker_status rdma_broker_receive(rdma_broker_handle queue_pair, uint64_t request_context,
                                       const rdma_broker_sge* sges, uint32_t count);
rdma_broker_status rdma_broker_read(rdma_broker_handle queue_pair, uint64_t request_context,
                                    const rdma_broker_sge* sges, uint32_t count, uint64_t remote_address,
                                    uint32_t remote_token, uint32_t flags);
rdma_broker_status rdma_broker_write(rdma_broker_handle queue_pair, uint64_t request_context,
                                     const rdma_broker_sge* sges, uint32_t count, uint64_t remote_address,
                                     uint32_t remote_token, uint32_t flags);
/* Cancels every request, which ends a connection. */
rdma_broker_status rdma_broker_flush(rdma_broker_handle queue_pair);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* CLIENT_C_RDMA_BROKER_H_ */
