// SPDX-License-Identifier: Apache-2.0

// Usage: node client.js PACKAGE SOCKET
// The rows of interop.py by this package of @grpc/grpc-js.

import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const [, , PACKAGE, SOCKET] = process.argv;
const { default: grpc } = await import(PACKAGE);
const { status: Code } = grpc;
const OPTIONS = {
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_retries': 0,
  'grpc.initial_reconnect_backoff_ms': 50,
  'grpc.max_reconnect_backoff_ms': 200,
};

const same = (octets) => octets;
const path = (method) => `/interop.Echo/${method}`;
const connect = (options = {}) =>
  new grpc.Client(`unix:${SOCKET}`, grpc.credentials.createInsecure(), { ...OPTIONS, ...options });
let client = connect();

// A call of one request: its reply and its status's code.
function start(method, request, { metadata = new grpc.Metadata(), options = {}, by = client } = {}) {
  let call;
  const ended = new Promise((resolve) => {
    const done = (error, reply) => resolve({ code: error?.code ?? Code.OK, error, reply: reply?.toString('latin1') });
    call = by.makeUnaryRequest(path(method), same, same, Buffer.from(request, 'latin1'), metadata, options, done);
  });
  return { call, ended };
}
const ask = (...args) => start(...args).ended;
const chat = (by = client) => by.makeBidiStreamRequest(path('Chat'), same, same);
const pour = (count, size) => client.makeServerStreamRequest(path('Pour'), same, same, Buffer.from(`${count} ${size}`));
// The code of a stream's status.
const endOf = (call) => new Promise((resolve) => call.on('error', () => {}).on('status', ({ code }) => resolve(code)));
const next = async (call) => (await once(call, 'data'))[0].toString();

function expect(found, wanted) {
  if (found !== wanted) throw new Error(`${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`);
}
const expectCode = async (ended, wanted) => expect((await ended).code, wanted);

const input = createInterface({ input: process.stdin });
async function askDriver(what) {
  console.log(what);
  await once(input, 'line');
}

async function says(text, by = client) {
  expect((await ask('Say', text, { by })).reply, text);
}
const lost = async () => Number((await ask('Lost', '')).reply);
async function untilOneMoreIsLost(before) {
  while ((await lost()) === before);
}

const rows = {
  async unary() {
    await says('hello');
    await says('');
  },
  async metadata() {
    const metadata = new grpc.Metadata();
    metadata.set('key', 'a value');
    metadata.set('key-bin', Buffer.from([0, 255]));
    expect((await ask('Metadata', '', { metadata })).reply, 'a value,\0\xff');
  },
  async status_with_details() {
    const { error } = await ask('Fail', '\0\xff\x01');
    expect(error.code, Code.ABORTED);
    expect(error.details, 'über 100 % ✓');
    expect(error.metadata.get('grpc-status-details-bin')[0].toString('latin1'), '\0\xff\x01');
  },
  async unknown_method() {
    await expectCode(ask('Nothing', ''), Code.UNIMPLEMENTED);
  },
  async largest_request() {
    await says('x'.repeat(65536));
  },
  async too_long_request() {
    for (const size of [65537, 70000, 4000000]) await expectCode(ask('Say', 'x'.repeat(size)), Code.RESOURCE_EXHAUSTED);
    await says('and the next');
  },
  async deadline() {
    await expectCode(ask('Wait', '', { options: { deadline: Date.now() + 200 } }), Code.DEADLINE_EXCEEDED);
  },
  async cancelled() {
    const before = await lost();
    const { call, ended } = start('Wait', '');
    await says('the server has it');
    call.cancel();
    await expectCode(ended, Code.CANCELLED);
    await untilOneMoreIsLost(before);
  },
  async compressed() {
    const by = connect({ 'grpc.default_compression_algorithm': 2 });
    await expectCode(ask('Say', 'x'.repeat(1000), { by }), Code.UNIMPLEMENTED);
    by.close();
  },
  async thousand_turns() {
    const call = chat();
    const end = endOf(call);
    for (let turn = 0; turn < 1000; ++turn) {
      call.write(Buffer.from(String(turn)));
      expect(await next(call), String(turn));
    }
    call.end();
    expect(await end, Code.OK);
  },
  async pour_held_up() {
    const call = pour(1000, 30000);
    const end = endOf(call);
    let replies = 0;
    for await (const reply of call) {
      expect(reply.length, 30000);
      if (++replies === 10) await says('others are served while nobody reads');
    }
    expect(replies, 1000);
    expect(await end, Code.OK);
  },
  async pour_cancelled() {
    const before = await lost();
    const call = pour(1000000, 30000);
    const end = endOf(call);
    await next(call);
    call.cancel();
    expect(await end, Code.CANCELLED);
    await untilOneMoreIsLost(before);
  },
  async early_status() {
    for (let i = 0; i < 300; ++i) {
      const call = chat();
      const end = endOf(call.resume());
      call.write(Buffer.from('stop'));
      expect(await end, Code.FAILED_PRECONDITION);
    }
  },
  async thousand_at_once() {
    const calls = Array.from({ length: 1000 }, () => ask('Say', 'x'.repeat(30000)));
    for (const { reply } of await Promise.all(calls)) expect(reply?.length, 30000);
  },
  async deadlines_in_numbers() {
    for (let i = 0; i < 20; ++i) {
      const options = { deadline: Date.now() + 30 };
      const calls = Array.from({ length: 100 }, () => ask('Wait', '', { options }));
      for (const { code } of await Promise.all(calls)) expect(code, Code.DEADLINE_EXCEEDED);
    }
    await says('and the next');
  },
  async long_metadata() {
    const metadata = new grpc.Metadata();
    metadata.set('key', 'v'.repeat(20000));
    await expectCode(ask('Say', '', { metadata }), Code.RESOURCE_EXHAUSTED);
    await says('and the next');
  },
  async keepalive() {
    const by = connect({
      'grpc.keepalive_time_ms': 1000,
      'grpc.keepalive_timeout_ms': 1000,
      'grpc.keepalive_permit_without_calls': 1,
    });
    const call = chat(by);
    const end = endOf(call);
    await sleep(4000); // Pings of four seconds.
    call.write(Buffer.from('still here'));
    expect(await next(call), 'still here');
    call.end();
    expect(await end, Code.OK);
    by.close();
  },
  async drained() {
    const call = chat();
    const end = endOf(call);
    call.write(Buffer.from('before'));
    expect(await next(call), 'before');
    await askDriver('drain');
    call.write(Buffer.from('after'));
    expect(await next(call), 'after');
    const metadata = new grpc.Metadata({ waitForReady: true });
    expect((await ask('Say', 'at the next one', { metadata })).reply, 'at the next one');
    call.end();
    expect(await end, Code.OK);
  },
  async killed() {
    const { ended } = start('Wait', '');
    await says('the server has it');
    await askDriver('kill');
    const { code } = await ended;
    // Node ends the streams of a lost connection as if they were cancelled, and version 1.9 may not look further.
    if (code !== Code.CANCELLED || PACKAGE !== 'grpc-js-1.9') expect(code, Code.UNAVAILABLE);
    const later = ask('Say', 'later', { metadata: new grpc.Metadata({ waitForReady: true }) });
    await askDriver('start');
    expect((await later).reply, 'later');
  },
};

for (const [name, row] of Object.entries(rows)) {
  try {
    await row();
    console.log(`passed ${name}`);
  } catch (error) {
    console.log(`failed ${name}: ${error.message}`);
  }
}
client.close();
input.close();
