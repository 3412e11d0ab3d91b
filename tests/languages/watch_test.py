# SPDX-License-Identifier: Apache-2.0
"""The examples in Python, Node and Go, as their users run them, beside a real broker."""

import functools
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from processes import PATIENCE, ROOT, Broker, Program

NODE_REQUESTS = """
  import { BrokerError, Session } from './session.js';
  const session = await Session.open(process.argv[1]);
  const version = { major: 2, minor: 1 };
  const { adapter_opened: { adapter_id } } = await session.request('OpenAdapter', { device: 'iwarp0', version });
  const address = { ip: Buffer.from([127, 0, 0, 1]) };
  const ports = new Set(await Promise.all(Array.from({ length: 100 }, async () => {
    const { port_reserved: reserved } = await session.request('ReservePort', { adapter_id, address });
    await session.request('ReleasePort', { reservation_id: reserved.reservation_id });
    return reserved.reservation_id;
  })));
  console.log(`${ports.size} reservations`);
  await session.close();
"""

# Has 221 promises wait for the session, each until it learns of the end, and asks again after that. Closes of adapters
# stay under way, as a listener is on each.
NODE_WAITS = """
  import { BrokerError, Session } from './session.js';
  const session = await Session.open(process.argv[1]);
  const openAdapter = async () => {
    const version = { major: 2, minor: 1 };
    return (await session.request('OpenAdapter', { device: 'iwarp0', version })).adapter_opened.adapter_id;
  };
  const createListener = (adapter_id) => session.request('CreateListener', { adapter_id });
  const close = (adapter_id) => session.request('CloseAdapter', { adapter_id });
  const reserve = async (adapter_id) => {
    const address = { ip: Buffer.from([127, 0, 0, 1]) };
    const { port_reserved: { reservation_id } } = await session.request('ReservePort', { adapter_id, address });
    await session.request('ReleasePort', { reservation_id });
  };
  const seeEvents = async (adapter_id) => {
    for await (const _ of session.events());
    await reserve(adapter_id);
  };
  let told = 0;
  const untilRefused = async (act, adapter_id) => {
    try {
      for (;;) await act(adapter_id);
    } catch (error) {
      if (!(error instanceof BrokerError)) throw error;
      told += 1;
    }
  };
  const adapters = await Promise.all(Array.from({ length: 200 }, openAdapter));
  await Promise.all(adapters.map(createListener));
  const used = await openAdapter();
  const ends = adapters.map((adapter) => untilRefused(close, adapter));
  for (const act of [...Array(20).fill(reserve), seeEvents]) ends.push(untilRefused(act, used));
  // Nothing is created any more on one whose close is under way.
  await Promise.all(adapters.map((adapter) => untilRefused(createListener, adapter)));
  told = 0;
  console.log('waiting');
  if (process.argv[2] === 'closes') await session.close();
  await Promise.all(ends);
  for (const act of [reserve, seeEvents, () => session.listAdapters()]) await untilRefused(act, used);
  console.log(`${told} told`);
"""

# Deals with two events, each when it is told to. The first one's peer has gone with the broker's handshake.
NODE_SLOW = """
  import { once } from 'node:events';
  import { createInterface } from 'node:readline';
  import { Session } from './session.js';
  const input = createInterface({ input: process.stdin });
  const session = await Session.open(process.argv[1]);
  const version = { major: 2, minor: 1 };
  const { adapter_opened: { adapter_id } } = await session.request('OpenAdapter', { device: 'iwarp0', version });
  const { listener_created: { listener_id } } = await session.request('CreateListener', { adapter_id });
  const address = { ip: Buffer.from([127, 0, 0, 1]) };
  const { listening } = await session.request('Listen', { listener_id, address });
  console.log(`listening on 127.0.0.1:${listening.address.port}`);
  let come = 0;
  for await (const { event, connect } of session.events()) {
    console.log(event);
    await once(input, 'line');
    const rejected = session.request('Reject', { connector_id: connect.connector_id });
    await rejected.catch(({ outcome }) => console.log(outcome.status));
    if (++come === 2) break;
  }
  await session.close();
  input.close();
  console.log('closed');
"""

NODE_LIST = """
  import { once } from 'node:events';
  import { createInterface } from 'node:readline';
  import { Session } from './session.js';
  const input = createInterface({ input: process.stdin });
  const session = await Session.open(process.argv[1]);
  console.log('open');
  await once(input, 'line');
  for (const { name } of await session.listAdapters()) console.log(name);
  await session.close();
  input.close();
"""

# By somebody whom the policy binds, as it does not bind those who administer when they look.
NODE_HASTE = """
  import { BrokerError, Session } from './session.js';
  process.seteuid(65534);
  const session = await Session.open(process.argv[1]);
  try {
    for (let i = 0; i < 100; i += 1) await session.listAdapters();
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    console.log(error.outcome.retryable ? 'to be tried again' : 'not to be tried again');
    console.log(error.message);
  }
  await session.close();
"""

NODE_CLOSE = """
  import { once } from 'node:events';
  import { createInterface } from 'node:readline';
  import { Session } from './session.js';
  const input = createInterface({ input: process.stdin });
  const session = await Session.open(process.argv[1]);
  console.log('open');
  await once(input, 'line');
  const closed = session.close();
  console.log('closing');
  await closed;
  input.close();
  console.log('closed');
"""

NODE_FAULT = """
  import { Session } from './session.js';
  process.on('uncaughtException', () => {}); // As a service has it that goes on whatever happens.
  const session = await Session.open(process.argv[1]);
  const message = { device: 'iwarp0', version: { major: 2, minor: 1 } };
  await session.request('OpenAdapter', message);
  globalThis.BigInt = () => { throw new Error('a fault'); }; // Of which the session makes the numbers of events.
  console.log('waiting');
  const told = [];
  for (const wait of [() => session.events().next(), () => session.request('OpenAdapter', message)]) {
    await wait().catch((error) => told.push(error.message));
  }
  await session.close();
  told.forEach((words) => console.log(words));
"""

PYTHON_LIST = """
import sys
from session import Session
with Session(sys.argv[1]) as session:
    print("open", flush=True)
    sys.stdin.readline()
    for device in session.list_adapters():
        print(device.name)
"""

# By somebody whom the policy binds, as it does not bind those who administer when they look.
PYTHON_HASTE = """
import os, sys
from session import BrokerError, Session
os.seteuid(65534)
with Session(sys.argv[1]) as session:
    try:
        for _ in range(100):
            session.list_adapters()
    except BrokerError as error:
        print("to be tried again" if error.outcome.retryable else "not to be tried again")
        print(error)
"""

PYTHON_CLOSE = """
import sys, threading
from session import Session
session = Session(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
closing = threading.Thread(target=session.close)
closing.start()
print("closing", flush=True)
closing.join()
print("closed", flush=True)
"""

PYTHON_SLOW = """
import sys
from proto.rdmabroker.v1 import adapter_pb2, address_pb2, requests_pb2 as r
from session import BrokerError, Session, status_name
with Session(sys.argv[1]) as session:
    version = adapter_pb2.NdkVersion(major=2, minor=1)
    adapter = session.request("OpenAdapter", r.OpenAdapterRequest(device="iwarp0", version=version)).adapter_opened
    request = r.CreateListenerRequest(adapter_id=adapter.adapter_id)
    listener = session.request("CreateListener", request).listener_created.listener_id
    address = address_pb2.SocketAddress(ip=bytes([127, 0, 0, 1]))
    listening = session.request("Listen", r.ListenRequest(listener_id=listener, address=address)).listening
    print(f"listening on 127.0.0.1:{listening.address.port}", flush=True)
    for come, event in enumerate(session.events(), 1):
        print(event.WhichOneof("event"), flush=True)
        sys.stdin.readline()
        try:
            session.request("Reject", r.RejectRequest(connector_id=event.connect.connector_id))
        except BrokerError as error:
            print(status_name(error.outcome.status), flush=True)
        if come == 2:
            break
print("closed", flush=True)
"""

PYTHON_REQUESTS = """
import sys, threading
from proto.rdmabroker.v1 import adapter_pb2, address_pb2, requests_pb2 as r
from session import Session
ids = set()
with Session(sys.argv[1]) as session:
    version = adapter_pb2.NdkVersion(major=2, minor=1)
    adapter = session.request("OpenAdapter", r.OpenAdapterRequest(device="iwarp0", version=version)).adapter_opened
    address = address_pb2.SocketAddress(ip=bytes([127, 0, 0, 1]))
    def reserve():
        for _ in range(10):
            request = r.ReservePortRequest(adapter_id=adapter.adapter_id, address=address)
            reserved = session.request("ReservePort", request).port_reserved
            session.request("ReleasePort", r.ReleasePortRequest(reservation_id=reserved.reservation_id))
            ids.add(reserved.reservation_id)
    threads = [threading.Thread(target=reserve) for _ in range(10)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(len(ids), "reservations")
"""

# Has 221 threads wait for the session, each until it learns of the end, and asks again after that. Closes of adapters
# stay under way, as a listener is on each.
PYTHON_WAITS = """
import sys, threading
from proto.rdmabroker.v1 import adapter_pb2, address_pb2, requests_pb2 as r
from session import BrokerError, Session
sys.setswitchinterval(1e-6)  # Threads come in each other's way more often.
session = Session(sys.argv[1])
def open_adapter():
    request = r.OpenAdapterRequest(device="iwarp0", version=adapter_pb2.NdkVersion(major=2, minor=1))
    return session.request("OpenAdapter", request).adapter_opened.adapter_id
def create_listener(adapter):
    session.request("CreateListener", r.CreateListenerRequest(adapter_id=adapter))
def close(adapter):
    session.request("CloseAdapter", r.CloseAdapterRequest(adapter_id=adapter))
def reserve(adapter):
    address = address_pb2.SocketAddress(ip=bytes([127, 0, 0, 1]))
    request = r.ReservePortRequest(adapter_id=adapter, address=address)
    reserved = session.request("ReservePort", request).port_reserved
    session.request("ReleasePort", r.ReleasePortRequest(reservation_id=reserved.reservation_id))
def see_events(adapter):
    for _ in session.events():
        pass
    reserve(adapter)
told = []
def until_refused(act, adapter):
    try:
        while True:
            act(adapter)
    except BrokerError:
        told.append(act)
adapters = [open_adapter() for _ in range(200)]
for adapter in adapters:
    create_listener(adapter)
used = open_adapter()
acts = [(close, adapter) for adapter in adapters] + [(reserve, used)] * 20 + [(see_events, used)]
threads = [threading.Thread(target=until_refused, args=words) for words in acts]
for thread in threads: thread.start()
for adapter in adapters:  # Nothing is created any more on one whose close is under way.
    until_refused(create_listener, adapter)
told.clear()
print("waiting", flush=True)
if sys.argv[2:] == ["closes"]: session.close()
for thread in threads: thread.join()
for act in (reserve, see_events, lambda _: session.list_adapters()): until_refused(act, used)
print(len(told), "told")
"""

PYTHON_MISTAKES = """
import sys
from proto.rdmabroker.v1 import adapter_pb2, requests_pb2 as r
from session import Session
with Session(sys.argv[1]) as session:
    for _ in range(2):
        try:
            session.request("OpenAdapter", None)
        except AttributeError:
            pass
    request = r.OpenAdapterRequest(device="iwarp0", version=adapter_pb2.NdkVersion(major=2, minor=1))
    session.request("OpenAdapter", request)
print("closed")
"""

PYTHON_FAULT = """
import sys
from proto.rdmabroker.v1 import adapter_pb2, requests_pb2 as r
from session import BrokerError, Session
class Faulty(Session):
    def _handle_event(self, event):
        raise RuntimeError("a fault")
session = Faulty(sys.argv[1])
request = r.OpenAdapterRequest(device="iwarp0", version=adapter_pb2.NdkVersion(major=2, minor=1))
session.request("OpenAdapter", request)
print("waiting", flush=True)
told = []
for wait in (lambda: list(session.events()), lambda: session.request("OpenAdapter", request)):
    try:
        wait()
    except BrokerError as error:
        told.append(str(error))
session.close()  # Behind the thread's last words.
print(*told, sep="\\n")
"""

GO_LIST = """
package main
import ("bufio"; "fmt"; "os")
func main() {
	session, err := OpenSession(os.Args[1])
	check(err)
	fmt.Println("open")
	bufio.NewReader(os.Stdin).ReadString('\\n')
	devices, err := session.ListAdapters()
	check(err)
	for _, device := range devices { fmt.Println(device.Name) }
	session.Close()
}
"""

# By somebody whom the policy binds, as it does not bind those who administer when they look.
GO_HASTE = """
package main
import ("errors"; "fmt"; "os"; "syscall")
func main() {
	check(syscall.Setreuid(-1, 65534))
	session, err := OpenSession(os.Args[1])
	check(err)
	for i := 0; i < 100 && err == nil; i++ { _, err = session.ListAdapters() }
	var refusal *BrokerError
	if !errors.As(err, &refusal) { panic(err) }
	if refusal.Outcome.Retryable { fmt.Println("to be tried again") }
	fmt.Println(refusal)
	session.Close()
}
"""

GO_CLOSE = """
package main
import ("bufio"; "fmt"; "os")
func main() {
	session, err := OpenSession(os.Args[1])
	check(err)
	fmt.Println("open")
	bufio.NewReader(os.Stdin).ReadString('\\n')
	closed := make(chan bool)
	go func() { session.Close(); close(closed) }()
	fmt.Println("closing")
	<-closed
	fmt.Println("closed")
}
"""

# Deals with two events, each when it is told to. The first one's peer has gone with the broker's handshake.
GO_SLOW = """
package main
import ("bufio"; "context"; "errors"; "fmt"; "os"; v1 "rdmabroker/v1")
func main() {
	input := bufio.NewReader(os.Stdin)
	session, err := OpenSession(os.Args[1])
	check(err)
	adapter := openAdapter(session)
	outcome, err := session.Request("CreateListener", &v1.CreateListenerRequest{AdapterId: adapter})
	check(err)
	listener := outcome.GetListenerCreated().ListenerId
	outcome, err = session.Request("Listen", &v1.ListenRequest{ListenerId: listener, Address: loopback()})
	check(err)
	fmt.Printf("listening on 127.0.0.1:%d\\n", outcome.GetListening().Address.Port)
	for come := 0; come < 2; come++ {
		event, err := session.Next(context.Background())
		check(err)
		connector := event.GetConnect().ConnectorId
		fmt.Println("connect")
		input.ReadString('\\n')
		_, err = session.Request("Reject", &v1.RejectRequest{ConnectorId: connector})
		var refusal *BrokerError
		if errors.As(err, &refusal) { fmt.Println(StatusName(refusal.Outcome.Status)) }
	}
	session.Close()
	fmt.Println("closed")
}
"""

GO_REQUESTS = """
package main
import ("fmt"; "os"; "sync")
func main() {
	session, err := OpenSession(os.Args[1])
	check(err)
	adapter := openAdapter(session)
	var mutex sync.Mutex
	var all sync.WaitGroup
	ids := map[uint64]bool{}
	for i := 0; i < 100; i++ {
		all.Add(1)
		go func() {
			id, err := reserve(session, adapter)
			check(err)
			mutex.Lock()
			ids[id] = true
			mutex.Unlock()
			all.Done()
		}()
	}
	all.Wait()
	fmt.Println(len(ids), "reservations")
	session.Close()
}
"""

# Has 221 goroutines wait for the session, each until it learns of the end, and asks again after that. Closes of
# adapters stay under way, as a listener is on each.
GO_WAITS = """
package main
import ("context"; "errors"; "fmt"; "os"; "sync"; "sync/atomic"; v1 "rdmabroker/v1")
func main() {
	session, err := OpenSession(os.Args[1])
	check(err)
	createListener := func(adapter uint64) error {
		_, err := session.Request("CreateListener", &v1.CreateListenerRequest{AdapterId: adapter})
		return err
	}
	closeAdapter := func(adapter uint64) error {
		_, err := session.Request("CloseAdapter", &v1.CloseAdapterRequest{AdapterId: adapter})
		return err
	}
	reservePort := func(adapter uint64) error {
		_, err := reserve(session, adapter)
		return err
	}
	seeEvents := func(adapter uint64) error {
		var err error
		for err == nil { _, err = session.Next(context.Background()) }
		return reservePort(adapter)
	}
	list := func(uint64) error {
		_, err := session.ListAdapters()
		return err
	}
	var told int32
	untilRefused := func(act func(uint64) error, adapter uint64) {
		var err error
		for err == nil { err = act(adapter) }
		var refusal *BrokerError
		if !errors.As(err, &refusal) { panic(err) }
		atomic.AddInt32(&told, 1)
	}
	var adapters []uint64
	for i := 0; i < 200; i++ { adapters = append(adapters, openAdapter(session)) }
	for _, adapter := range adapters { check(createListener(adapter)) }
	used := openAdapter(session)
	var all sync.WaitGroup
	start := func(act func(uint64) error, adapter uint64) {
		all.Add(1)
		go func() { untilRefused(act, adapter); all.Done() }()
	}
	for _, adapter := range adapters { start(closeAdapter, adapter) }
	for i := 0; i < 20; i++ { start(reservePort, used) }
	start(seeEvents, used)
	// Nothing is created any more on one whose close is under way.
	for _, adapter := range adapters { untilRefused(createListener, adapter) }
	atomic.StoreInt32(&told, 0)
	fmt.Println("waiting")
	if len(os.Args) > 2 { session.Close() }
	all.Wait()
	for _, act := range []func(uint64) error{reservePort, seeEvents, list} { untilRefused(act, used) }
	fmt.Println(told, "told")
}
"""

# What these programs have in common.
GO_STEPS = """
package main
import v1 "rdmabroker/v1"
func check(err error) { if err != nil { panic(err) } }
func loopback() *v1.SocketAddress { return &v1.SocketAddress{Ip: []byte{127, 0, 0, 1}} }
func openAdapter(session *Session) uint64 {
	request := &v1.OpenAdapterRequest{Device: "iwarp0", Version: &v1.NdkVersion{Major: 2, Minor: 1}}
	outcome, err := session.Request("OpenAdapter", request)
	check(err)
	return outcome.GetAdapterOpened().AdapterId
}
func reserve(session *Session, adapter uint64) (uint64, error) {
	request := &v1.ReservePortRequest{AdapterId: adapter, Address: loopback()}
	outcome, err := session.Request("ReservePort", request)
	if err != nil { return 0, err }
	id := outcome.GetPortReserved().ReservationId
	_, err = session.Request("ReleasePort", &v1.ReleasePortRequest{ReservationId: id})
	return id, err
}
"""


def python(*words):
    environment = dict(os.environ, PYTHONPATH=os.environ["GENERATED"])
    return Program(["/usr/bin/python3", *words], cwd=ROOT / "client/examples/python", env=environment)


def node(*words):
    return Program(["node", *words], cwd=ROOT / "client/examples/node")


@functools.cache
def built(program):
    """Of the example's session and a program's text, or of the example itself."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ["GENERATED"]))
    example = ROOT / "client/examples/go"
    shutil.copy(example / "session.go", folder)
    if program == "watch.go":
        shutil.copy(example / program, folder)
    else:
        (folder / "steps.go").write_text(GO_STEPS, encoding="utf-8")
        (folder / "main.go").write_text(program, encoding="utf-8")
    packages = {"GO111MODULE": "off", "GOPATH": f"{os.environ['GENERATED']}/go:/usr/share/gocode"}
    subprocess.run(["go", "build", "-o", "program", "."], cwd=folder, env=os.environ | packages, check=True)
    return folder / "program"


def golang(program, *words):
    return Program([built(program), *words])


class Watch:
    """What all examples do. Their words are the same, but for how they quote what a peer says."""

    def setUp(self):
        self.broker = Broker(os.environ["BIN"])
        self.addCleanup(self.broker.end)

    def run_watch(self, *options):
        program = self.start(self.program, "--socket", self.broker.socket, "--address", "127.0.0.1", *options)
        self.addCleanup(program.end)
        return program

    def refused(self, address):
        """What becomes of a client of the C++ library."""
        command = [f"{os.environ['BIN']}/client/examples/request_reply", "client", "--socket", self.broker.socket]
        ended = subprocess.run(
            [*command, "--server", address], capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        self.assertEqual(ended.returncode, 1, ended)
        self.assertIn("connect: STATUS_CONNECTION_REFUSED", ended.stderr)

    def expect_turned_away(self, watch, address):
        self.refused(address)
        self.assertRegex(watch.line("event "), r"^\d+: connect$")
        self.assertRegex(watch.line(), r"^127\.0\.0\.1:\d+ wants to connect, and says ")
        self.assertEqual(watch.line(), "rejected")

    def expect_closed(self, watch):
        self.assertEqual(watch.status(), 0, watch.said)
        self.assertEqual(watch.said[-1], "closed")
        self.assertTrue(self.broker.becomes_empty())

    def test_it_lists_and_reserves_and_understands_a_refusal(self):
        watch = self.run_watch("--peers", "1")
        adapter = watch.line("adapter iwarp0: ")
        self.assertTrue(adapter.startswith("IWARP, usable, "), adapter)
        self.assertIn("127.0.0.1", adapter.split())
        reserved = watch.line("reserved ")
        refusal = watch.line("reserved twice: ")
        expected = f"STATUS_SHARING_VIOLATION, not to be tried again: address {reserved}: in use"
        self.assertTrue(refusal.startswith(expected), refusal)
        self.assertEqual(watch.line("listening on "), reserved)
        self.assertEqual(self.broker.rows("reservations"), [])
        self.expect_turned_away(watch, reserved)
        self.expect_closed(watch)

    def test_it_comes_back_to_a_broker_that_was_killed(self):
        watch = self.run_watch("--peers", "3")
        address = watch.line("listening on ")
        self.expect_turned_away(watch, address)
        for _ in range(2):
            self.broker.kill()
            self.broker.start()
            self.expect_turned_away(watch, address)
        self.expect_closed(watch)

    def test_an_event_that_it_deals_with_during_the_brokers_death_comes_once(self):
        program = self.start(*self.inline, self.slow, self.broker.socket)
        self.addCleanup(program.end)
        address = program.line("listening on ")
        command = [f"{os.environ['BIN']}/client/examples/request_reply", "client", "--socket", self.broker.socket]
        for outcome in ("STATUS_CONNECTION_ABORTED", "closed"):
            peer = Program([*command, "--server", address])
            self.addCleanup(peer.end)
            self.assertEqual(program.line(), "connect")
            if outcome != "closed":
                self.broker.kill()
                self.broker.start()
            program.write_line()
            self.assertEqual(program.line(), outcome)
        self.assertEqual(program.status(), 0, program.said)

    def test_a_session_that_is_away_is_closed_when_its_broker_is_back(self):
        program = self.start(*self.inline, self.closes, self.broker.socket)
        self.addCleanup(program.end)
        program.line("open")
        self.broker.kill()
        program.write_line()
        program.line("closing")
        self.broker.start()
        self.assertEqual(program.line(), "closed")
        self.assertEqual(program.status(), 0, program.said)
        self.assertTrue(self.broker.becomes_empty())

    def test_a_signal_closes_all(self):
        watch = self.run_watch()
        watch.line("listening on ")
        watch.signal(signal.SIGTERM)
        self.assertEqual(watch.line(), "interrupted")
        self.expect_closed(watch)

    def test_it_closes_an_adapter_that_is_disabled(self):
        watch = self.run_watch()
        watch.line("listening on ")
        self.broker.ctl("disable-adapter", "iwarp0", "--wait", "30")
        self.assertRegex(watch.line("event "), r"^\d+: adapter_disabled$")
        self.expect_closed(watch)

    def test_it_says_why_an_administrator_ended_its_session(self):
        watch = self.run_watch()
        watch.line("listening on ")
        self.broker.ctl("end-session", self.broker.rows("sessions")[0][0])
        self.assertIn("STATUS_REQUEST_ABORTED", watch.line("watch: "))
        self.assertEqual(watch.status(), 1)
        self.assertTrue(self.broker.becomes_empty())

    def test_what_cannot_be_used_is_an_error(self):
        watch = self.run_watch("--device", "iwarp7")
        self.assertEqual(watch.line("watch: "), "no adapter iwarp7 can be used; the list above says why")
        self.assertEqual(watch.status(), 1)


    def test_more_requests_at_once_than_the_broker_keeps_answers_for(self):
        broker = Broker(os.environ["BIN"], "[limits]\nanswers_kept = 2\n")
        self.addCleanup(broker.end)
        program = self.start(*self.inline, self.requests, broker.socket)
        self.addCleanup(program.end)
        self.assertEqual(program.status(), 0, program.said)
        self.assertEqual(program.said, ["100 reservations"])
        self.assertTrue(broker.becomes_empty())

    def test_a_list_that_is_asked_for_while_the_broker_is_dead_comes_when_it_is_back(self):
        program = self.start(*self.inline, self.lists, self.broker.socket)
        self.addCleanup(program.end)
        program.line("open")
        self.broker.kill()
        program.write_line()
        self.broker.start()
        self.assertEqual(program.status(), 0, program.said)
        self.assertIn("iwarp0", program.said)

    @unittest.skipIf(os.geteuid() != 0, "needs a root that may become other users")
    def test_a_list_that_the_policy_refuses_names_the_rule(self):
        rule = '[[policy.rules]]\nname = "slowly"\nallow = true\nrequests_per_second = 1\n'
        broker = Broker(os.environ["BIN"], f"socket_mode = 0o666\n{rule}")
        self.addCleanup(broker.end)
        broker.folder.chmod(0o711)
        program = self.start(*self.inline, self.haste, broker.socket)
        self.addCleanup(program.end)
        self.assertEqual(program.status(), 0, program.said)
        again, refusal = program.said
        self.assertEqual(again, "to be tried again")
        expected = 'STATUS_INSUFFICIENT_RESOURCES: policy rule "slowly": requests_per_second: uid 65534 has made its 1'
        self.assertTrue(refusal.startswith(expected), refusal)

    def expect_waits_to_end(self, end, *words):
        """That all who wait for a session when it ends are told, and all who ask later."""
        limits = "[limits]\nadapters_per_session = 1000\nlisteners_per_session = 1000\n"
        broker = Broker(os.environ["BIN"], f"{limits}[timeouts]\nsession_grace_ms = 1000\n")
        self.addCleanup(broker.end)
        program = self.start(*self.inline, self.waits, broker.socket, *words)
        self.addCleanup(program.end)
        program.line("waiting")
        end(broker)
        self.assertEqual(program.status(), 0, program.said)
        self.assertEqual(program.said, ["waiting", "224 told"])

    def test_nobody_waits_any_more_when_the_broker_does_not_come_back(self):
        self.expect_waits_to_end(Broker.kill)

    def test_nobody_waits_any_more_when_an_administrator_has_ended_the_session(self):
        self.expect_waits_to_end(lambda broker: broker.ctl("end-session", broker.rows("sessions")[0][0]))

    def test_nobody_waits_any_more_when_the_session_is_closed(self):
        self.expect_waits_to_end(lambda _: None, "closes")


class OutlivesItsFaults:
    """Of a language in which a fault of the session's own code may leave the program running."""

    def test_nobody_waits_any_more_when_the_session_meets_a_fault_of_the_program(self):
        program = self.start(*self.inline, self.fault, self.broker.socket)
        self.addCleanup(program.end)
        program.line("waiting")
        self.broker.ctl("disable-adapter", "iwarp0", check=False)  # An event; it fails, as the adapter is still open.
        self.assertEqual(program.status(), 0, program.said)
        self.assertEqual(program.said[-2:], [self.told_of_fault] * 2)
        self.assertTrue(self.broker.becomes_empty())


class Python(Watch, OutlivesItsFaults, unittest.TestCase):
    program = "watch.py"
    start = staticmethod(python)
    inline = ["-c"]
    requests = PYTHON_REQUESTS
    slow = PYTHON_SLOW
    closes = PYTHON_CLOSE
    lists = PYTHON_LIST
    haste = PYTHON_HASTE
    waits = PYTHON_WAITS
    fault = PYTHON_FAULT
    told_of_fault = "STATUS_UNSUCCESSFUL: the session's thread has failed; its traceback is on standard error"

    def test_what_is_no_request_does_not_count_as_one_without_an_answer(self):
        broker = Broker(os.environ["BIN"], "[limits]\nanswers_kept = 2\n")
        self.addCleanup(broker.end)
        program = self.start(*self.inline, PYTHON_MISTAKES, broker.socket)
        self.addCleanup(program.end)
        self.assertEqual(program.status(), 0, program.said)
        self.assertEqual(program.said, ["closed"])


class Node(Watch, OutlivesItsFaults, unittest.TestCase):
    program = "watch.js"
    start = staticmethod(node)
    inline = ["--input-type=module", "-e"]
    requests = NODE_REQUESTS
    slow = NODE_SLOW
    closes = NODE_CLOSE
    lists = NODE_LIST
    haste = NODE_HASTE
    waits = NODE_WAITS
    fault = NODE_FAULT
    told_of_fault = "STATUS_UNSUCCESSFUL: a fault"


class Go(Watch, unittest.TestCase):
    program = "watch.go"
    start = staticmethod(golang)
    inline = []
    requests = GO_REQUESTS
    slow = GO_SLOW
    closes = GO_CLOSE
    lists = GO_LIST
    haste = GO_HASTE
    waits = GO_WAITS
