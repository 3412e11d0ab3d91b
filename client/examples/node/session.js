// SPDX-License-Identifier: Apache-2.0

// A session with rdma-brokerd, kept as proto/rdmabroker/v1/broker.proto asks its clients to.

import { EventEmitter, once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

const DEFAULT_SOCKET = '/run/rdma-broker/control.sock';
const API_MINOR = 1; // Of the contract that this was written against.
const OPEN_TIMEOUT = 10_000; // Milliseconds that a broker may take to come up.
const FIRST_RETURN = 50; // Milliseconds between attempts to reach it again: the first, and the most.
const LONGEST_RETURN = 1000;
const CHANNEL_OPTIONS = {
  'grpc.use_local_subchannel_pool': 1, // Requests count only on the connection that carries the stream.
  'grpc.enable_retries': 0, // Request ids are for that.
  'grpc.enable_http_proxy': 0,
  'grpc.initial_reconnect_backoff_ms': 20,
  'grpc.max_reconnect_backoff_ms': 500,
};

const { rdmabroker } = grpc.loadPackageDefinition(
  protoLoader.loadSync(
    ['broker', 'inspection', 'rpc_status'].map((file) => `proto/rdmabroker/v1/${file}.proto`),
    {
      includeDirs: [fileURLToPath(new URL('../../..', import.meta.url))],
      keepCase: true,
      longs: String, // Ids have 64 bits, more than a number has.
      enums: String,
      defaults: true,
      oneofs: true,
    },
  ),
);
const v1 = rdmabroker.v1;

// A status that this program does not know comes as its number, and is a failure where that is negative.
const nameOf = (status) => (typeof status === 'string' ? status : 'STATUS_UNSUCCESSFUL');

// What a request or a session ended with. `outcome.retryable` says whether the same may just be tried again.
export class BrokerError extends Error {
  constructor(outcome, cause) {
    super(`${nameOf(outcome.status)}: ${outcome.hint}`, { cause });
    this.outcome = outcome;
  }

  // Of an RPC or a stream that has failed for good.
  static of(error) {
    return new BrokerError(outcomeOf(error) ?? unsuccessful(error.message), error);
  }
}

const unsuccessful = (hint) => ({ status: 'STATUS_UNSUCCESSFUL', hint, retryable: false });

// The Outcome that a failed RPC carries; undefined where the broker's logic did not speak, so that it may be repeated.
function outcomeOf(error) {
  const [bytes] = error.metadata?.get('grpc-status-details-bin') ?? [];
  if (bytes === undefined) return undefined;
  try {
    const { details } = v1.RpcStatus.deserialize(bytes);
    const detail = details.find(({ type_url: type }) => type === 'type.googleapis.com/rdmabroker.v1.Outcome');
    return detail && v1.Outcome.deserialize(detail.value);
  } catch {
    return undefined; // Not a message.
  }
}

const brokerIsAway = (error) =>
  outcomeOf(error) === undefined && [grpc.status.UNAVAILABLE, grpc.status.CANCELLED].includes(error.code);

// Doubles from attempt to attempt, with up to as much again at random, so that clients do not return together.
const backOff = (attempt) => Math.min(FIRST_RETURN * 2 ** attempt, LONGEST_RETURN) * (1 + Math.random());

// Opened by `Session.open`, which waits for the broker; closed, with all that it has, by `close`. Where the broker
// restarts, the session returns to it: requests wait meanwhile, and are repeated under their ids.
export class Session {
  #broker;
  #inspection;
  #opened; // With the secret: never printed.
  #present; // A promise, kept while the stream is there; rejected when the session is over.
  #stream;
  #ended;
  #end; // The BrokerError that the session has ended with, where nobody closed it.
  #closing = false;
  #over = false;
  #nextRequest = 1n;
  #unanswered = new Set(); // The ids of requests of which no reply has come, the oldest first.
  #outcomes = new Map(); // Of requests by id; an OutcomeEvent may come before its request's reply.
  #received = 0n; // The number of the last event.
  #events = []; // Those that nobody has dealt with, in order.
  #changes = new EventEmitter().setMaxListeners(0);

  static async open(socket) {
    const session = new Session(socket || process.env.RDMA_BROKER_SOCKET || DEFAULT_SOCKET);
    await session.#present.promise;
    return session;
  }

  constructor(socket) {
    const credentials = grpc.credentials.createInsecure();
    this.#broker = new v1.Broker(`unix:${socket}`, credentials, CHANNEL_OPTIONS);
    // On the same connection; one of its own would do as well.
    const channelOverride = this.#broker.getChannel();
    this.#inspection = new v1.Inspection(`unix:${socket}`, credentials, { channelOverride });
    this.#present = deferred();
    this.#ended = this.#keep();
  }

  get limits() {
    return this.#opened.limits;
  }

  // The devices that this user may open; or a BrokerError, as policies bound how often one may look, too.
  async listAdapters() {
    const { devices } = await this.#repeat(() => call(this.#inspection, 'ListAdapters', {}));
    return devices;
  }

  // Makes a request by the name of its RPC, without a header: its final Outcome, or a BrokerError.
  async request(rpc, message) {
    await this.#present.promise;
    const id = await this.#beginRequest();
    const pending = deferred();
    this.#outcomes.set(id, pending);
    try {
      let outcome;
      try {
        outcome = await this.#reply(rpc, id, message);
      } finally {
        this.#unanswered.delete(BigInt(id));
        this.#changes.emit('answered');
      }
      if (outcome.status === 'STATUS_PENDING') outcome = await pending.promise;
      if (outcome.status !== 'STATUS_SUCCESS') throw new BrokerError(outcome);
      return outcome;
    } finally {
      this.#outcomes.delete(id);
    }
  }

  // What happens to the session's objects, each event once, until the session's end. One consumer. An event counts as
  // dealt with, and is acknowledged, when the next one is asked for, or no more are. `signal` ends the wait.
  async *events(signal) {
    const wake = () => this.#changes.emit('change');
    signal?.addEventListener('abort', wake);
    try {
      while (!signal?.aborted) {
        if (this.#events.length > 0) {
          try {
            yield this.#events[0];
          } finally {
            this.#events.shift();
            this.#acknowledge();
          }
        } else if (this.#over) {
          if (this.#end) throw this.#end;
          return;
        } else {
          await once(this.#changes, 'change');
        }
      }
    } finally {
      signal?.removeEventListener('abort', wake);
    }
  }

  // Ends the session and everything in it; one that is away returns first, where it can.
  async close() {
    this.#closing = true;
    if (!this.#over) this.#stream.write({ close: {} });
    await this.#ended;
  }

  get #acknowledged() {
    return String(this.#events.length > 0 ? BigInt(this.#events[0].number) - 1n : this.#received);
  }

  // For those who make no requests, each of which acknowledges as well.
  #acknowledge() {
    if (!this.#over) this.#stream.write({ acknowledge: { acknowledged_event: this.#acknowledged } });
  }

  // The next id, when the oldest request without a reply is no further behind than the broker's answers reach.
  async #beginRequest() {
    const oldest = () => this.#unanswered.values().next().value ?? this.#nextRequest;
    while (this.#nextRequest - oldest() >= BigInt(this.limits.answers_kept)) await once(this.#changes, 'answered');
    const id = this.#nextRequest;
    this.#nextRequest += 1n;
    this.#unanswered.add(id);
    return String(id);
  }

  #reply(rpc, id, message) {
    return this.#repeat(() => {
      const header = {
        session_id: this.#opened.session_id,
        request_id: id,
        acknowledged_event: this.#acknowledged,
      };
      return call(this.#broker, rpc, { header, ...message });
    });
  }

  // The broker's own word, for which it is asked until there is one, or the session is over.
  async #repeat(ask) {
    for (let attempt = 0; ; attempt += 1) {
      await this.#present.promise;
      try {
        return await ask();
      } catch (error) {
        if (!brokerIsAway(error)) throw BrokerError.of(error);
      }
      await sleep(backOff(attempt));
    }
  }

  // Follows one stream after the other, for as long as the session can be returned to.
  async #keep() {
    let deadline = Date.now() + OPEN_TIMEOUT;
    let error;
    for (let attempt = 0; ; attempt += 1) {
      const stream = await this.#followStream();
      error = stream.error;
      if (!error || !(outcomeOf(error)?.retryable ?? brokerIsAway(error))) break;
      if (stream.taken) {
        attempt = 0;
        deadline = Date.now() + this.limits.session_grace_ms;
      }
      const delay = backOff(attempt);
      if (Date.now() + delay > deadline) break;
      await sleep(delay);
    }
    this.#over = true;
    if (error) this.#end = BrokerError.of(error);
    const end = this.#end ?? new BrokerError(unsuccessful('the session is closed'));
    this.#present.reject(end);
    for (const pending of this.#outcomes.values()) pending.reject(end);
    this.#changes.emit('change');
    this.#broker.close();
  }

  // Resolves at the stream's end: whether the broker has taken it, and the error that ended it; none after `close`. The
  // stream stays open on this side: to end it would close the session.
  #followStream() {
    return new Promise((resolve) => {
      let taken = false;
      let over = false;
      const stream = this.#broker.Session();
      this.#stream = stream;
      const ended = (error) => {
        if (over) return; // An 'end' follows each 'error': those who wait by then for the return would do so for ever.
        over = true;
        if (taken) this.#present = deferred();
        resolve({ taken, error });
      };
      stream.on('data', ({ message, opened, event }) => {
        try {
          if (message === 'opened') {
            taken = true;
            this.#opened ??= opened; // After a return the secret is not sent again.
            if (this.#closing) stream.write({ close: {} });
            this.#present.resolve();
          } else if (message === 'event') {
            this.#handleEvent(event);
          }
        } catch (fault) {
          ended(fault); // The program's own. It ends the session, so that nobody is left waiting.
          stream.cancel();
        }
      });
      stream.on('error', ended);
      stream.on('end', () => ended());
      stream.write(this.#firstMessage());
    });
  }

  #firstMessage() {
    if (!this.#opened) return { open: { api_minor: API_MINOR } };
    const { session_id, session_secret, lineage } = this.#opened;
    const acknowledged_event = this.#acknowledged;
    return { resume: { session_id, session_secret, lineage, acknowledged_event, api_minor: API_MINOR } };
  }

  #handleEvent(event) {
    const number = BigInt(event.number);
    if (number <= this.#received) return; // Sent again after a return, as it had not been acknowledged.
    this.#received = number;
    if (event.event === 'outcome') {
      this.#outcomes.get(event.outcome.request_id)?.resolve(event.outcome.outcome);
    } else if (event.event) {
      this.#events.push(event); // Others are of a kind that this program does not know.
      this.#changes.emit('change');
    }
  }
}

// A promise that others keep. That it is broken is no error of its own where nobody waits.
function deferred() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  made.promise.catch(() => {});
  return made;
}

function call(stub, rpc, message) {
  return new Promise((resolve, reject) => {
    stub[rpc](message, (error, reply) => (error ? reject(error) : resolve(reply)));
  });
}
