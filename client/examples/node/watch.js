// SPDX-License-Identifier: Apache-2.0

// What a Node process does with rdma-brokerd: lists the adapters, reserves a port, listens on it, watches who wants to
// connect, turns them away with a word, and closes all in order. It cannot accept: an accepted connection needs a queue
// pair, which is the C or C++ library's.

import { parseArgs } from 'node:util';
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { BrokerError, Session } from './session.js';

const NDK_VERSION = { major: 2, minor: 1 };
const WORDS = Buffer.from('no queue pairs here'); // For the peers that are turned away.

const say = (words) => process.stdout.write(`${words}\n`);

// An IpAddress or SocketAddress for a person.
function textOf({ ip, port, scope_id: scope, interface: name }) {
  const groups = [];
  for (let i = 0; i < ip.length; i += 2) groups.push(ip.readUInt16BE(i).toString(16));
  // The URL's host is the short form of the address.
  const text = ip.length === 4 ? [...ip].join('.') : new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1);
  const scoped = scope ? `${text}%${name || scope}` : text;
  if (port === undefined) return scoped;
  return ip.length === 4 ? `${scoped}:${port}` : `[${scoped}]:${port}`;
}

// The index of an interface here. Node shows it only beside the interface's link-local address.
function indexOf(scope) {
  if (/^\d+$/.test(scope)) return Number(scope);
  const index = (networkInterfaces()[scope] ?? []).map(({ scopeid }) => scopeid).find(Boolean);
  if (!index) throw new Error(`--address: no interface ${scope} with a link-local address`);
  return index;
}

// An address without a port: 192.0.2.1, 2001:db8::1, fe80::1%3 or fe80::1%eth0.
function addressOf(text) {
  const [ip, scope] = text.split(/%(.*)/s);
  if (isIP(ip) === 4 && scope === undefined) return { ip: Buffer.from(ip.split('.').map(Number)) };
  if (isIP(ip) !== 6) throw new Error(`--address ${text}: not an IP address`);
  // The URL's host has no dots, and at most one gap.
  const [head, tail] = new URL(`http://[${ip}]`).hostname.slice(1, -1).split('::')
    .map((part) => part.split(':').filter(Boolean));
  const groups = tail ? [...head, ...Array(8 - head.length - tail.length).fill('0'), ...tail] : head;
  const bytes = Buffer.alloc(16);
  groups.forEach((group, i) => bytes.writeUInt16BE(parseInt(group, 16), 2 * i));
  return { ip: bytes, scope_id: scope === undefined ? 0 : indexOf(scope) };
}

async function listAdapters(session) {
  const devices = await session.listAdapters();
  for (const { name, info, usable, unusable_reason: reason, addresses } of devices) {
    const technology = info.technology.replace('RDMA_TECHNOLOGY_', '');
    say(`adapter ${name}: ${technology}, ${usable ? 'usable' : reason}, ${addresses.map(textOf).join(' ')}`);
  }
  return devices;
}

// A port of the broker's choice, and what happens to those who want it besides.
async function reserve(session, adapter_id, address) {
  const { port_reserved: reserved } = await session.request('ReservePort', { adapter_id, address });
  say(`reserved ${textOf(reserved.address)}`);
  try {
    await session.request('ReservePort', { adapter_id, address: reserved.address });
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    const { status, retryable, hint } = error.outcome;
    say(`reserved twice: ${status}, ${retryable ? 'can be tried again' : 'not to be tried again'}: ${hint}`);
  }
  return reserved;
}

// Rejects a peer. The connector is this process's to close whatever becomes of it.
async function turnAway(session, { connector_id, data }) {
  const said = data.private_data.toString('latin1').replace(/\0+$/, '');
  say(`${textOf(data.peer)} wants to connect, and says ${JSON.stringify(said)}`);
  try {
    await session.request('Reject', { connector_id, private_data: WORDS });
    say('rejected');
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    say(`not rejected: ${error.message}`); // STATUS_CONNECTION_ABORTED: it has given up meanwhile.
  }
  await session.request('CloseConnector', { connector_id });
}

// Deals with the session's events, until so many peers have come; until a signal with 0.
async function watch(session, peers, signal) {
  let come = 0;
  for await (const event of session.events(signal)) {
    say(`event ${event.number}: ${event.event}`);
    if (event.event === 'connect') {
      await turnAway(session, event.connect);
      come += 1;
    } else if (event.event === 'adapter_removed' || event.event === 'adapter_disabled') {
      return; // What is open is to be closed.
    }
    if (peers !== 0 && come === peers) return;
  }
  if (signal.aborted) say('interrupted');
}

async function serve(session, options, signal) {
  const devices = await listAdapters(session);
  const device = devices.find(({ name, usable, addresses }) =>
    usable && addresses.length > 0 && (options.device ?? name) === name);
  if (!device) throw new Error(`no adapter ${options.device ?? 'here'} can be used; the list above says why`);
  const address = options.address ? addressOf(options.address) : device.addresses[0];
  const opened = await session.request('OpenAdapter', { device: device.name, version: NDK_VERSION });
  const { adapter_id } = opened.adapter_opened;
  const { reservation_id } = await reserve(session, adapter_id, address);
  const { listener_created: { listener_id } } = await session.request('CreateListener', { adapter_id });
  // The listener takes the reservation's place: that is used up, and nobody comes in between.
  const { listening } = await session.request('Listen', { listener_id, reservation_id });
  say(`listening on ${textOf(listening.address)}`);
  await watch(session, Number(options.peers), signal);
  // In any order, but the adapter's close would wait for the listener's, and that for each connector's.
  await session.request('CloseListener', { listener_id });
  await session.request('CloseAdapter', { adapter_id });
  say('closed');
}

async function main() {
  const { values: options } = parseArgs({
    options: {
      socket: { type: 'string' }, // The broker's control socket; else RDMA_BROKER_SOCKET, else the usual one.
      device: { type: 'string' }, // The adapter; else the first that can be used.
      address: { type: 'string' }, // Where to listen; else the adapter's first.
      peers: { type: 'string', default: '0' }, // How many to turn away; 0: until a signal.
    },
  });
  const stop = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => stop.abort());
  const session = await Session.open(options.socket);
  try {
    await serve(session, options, stop.signal);
  } finally {
    await session.close();
  }
}

main().catch((error) => {
  process.stderr.write(`watch: ${error.message}\n`);
  process.exitCode = 1;
});
