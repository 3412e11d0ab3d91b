// SPDX-License-Identifier: Apache-2.0

// Usage: client [dialer] SOCKET
// The rows of interop.py by grpc-go; "dialer": with a dialer of its own, which sends the socket's path as :authority.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Messages are plain octets.
type octets struct{}

func (octets) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (octets) Unmarshal(data []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (octets) Name() string   { return "proto" }
func (octets) String() string { return "proto" }

var (
	input  = bufio.NewReader(os.Stdin)
	always = context.Background()
	client *grpc.ClientConn
	stream = &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
)

func connect(options ...grpc.DialOption) *grpc.ClientConn {
	socket := os.Args[len(os.Args)-1]
	target := "unix:" + socket
	options = append(options, grpc.WithInsecure(), grpc.WithDefaultCallOptions(grpc.ForceCodec(octets{})))
	if os.Args[1] == "dialer" {
		target = "passthrough:///" + socket
		options = append(options, grpc.WithContextDialer(func(_ context.Context, path string) (net.Conn, error) {
			return net.Dial("unix", path)
		}))
	}
	connection, err := grpc.Dial(target, options...)
	if err != nil {
		panic(err)
	}
	return connection
}

func ask(ctx context.Context, method, request string, options ...grpc.CallOption) (string, error) {
	in, out := []byte(request), []byte(nil)
	err := client.Invoke(ctx, "/interop.Echo/"+method, &in, &out, options...)
	return string(out), err
}

func open(ctx context.Context, method string) grpc.ClientStream {
	call, err := client.NewStream(ctx, stream, "/interop.Echo/"+method)
	check(err)
	return call
}
func send(call grpc.ClientStream, request string) {
	octets := []byte(request)
	check(call.SendMsg(&octets))
}
func receive(call grpc.ClientStream) (string, error) {
	var reply []byte
	err := call.RecvMsg(&reply)
	return string(reply), err
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
func expect(found, wanted interface{}) {
	if found != wanted {
		panic(fmt.Errorf("%v instead of %v", found, wanted))
	}
}
func expectCode(err error, wanted codes.Code) { expect(status.Code(err), wanted) }
func expectReply(reply string, err error, wanted string) {
	check(err)
	expect(reply, wanted)
}
func says(text string) {
	reply, err := ask(always, "Say", text)
	expectReply(reply, err, text)
}
func lost() int {
	reply, err := ask(always, "Lost", "")
	check(err)
	number, err := strconv.Atoi(reply)
	check(err)
	return number
}
func untilOneMoreIsLost(before int) {
	for lost() == before {
	}
}
func askDriver(what string) {
	fmt.Println(what)
	_, err := input.ReadString('\n')
	check(err)
}

var rows = []struct {
	name string
	run  func()
}{
	{"unary", func() { says("hello"); says("") }},
	{"metadata", func() {
		ctx := metadata.AppendToOutgoingContext(always, "key", "a value", "key-bin", "\x00\xff")
		reply, err := ask(ctx, "Metadata", "")
		expectReply(reply, err, "a value,\x00\xff")
	}},
	{"status_with_details", func() {
		_, err := ask(always, "Fail", "")
		expectCode(err, codes.Aborted)
		expect(status.Convert(err).Message(), "über 100 % ✓")
		// Of details, which are a google.rpc.Status, Go takes code and message.
		_, err = ask(always, "Fail", "\x08\x0a\x12\x0eof the details")
		expectCode(err, codes.Aborted)
		expect(status.Convert(err).Message(), "of the details")
	}},
	{"unknown_method", func() {
		_, err := ask(always, "Nothing", "")
		expectCode(err, codes.Unimplemented)
	}},
	{"largest_request", func() { says(strings.Repeat("x", 65536)) }},
	{"too_long_request", func() {
		for _, size := range []int{65537, 70000, 4000000} {
			_, err := ask(always, "Say", strings.Repeat("x", size))
			expectCode(err, codes.ResourceExhausted)
		}
		says("and the next")
	}},
	{"deadline", func() {
		ctx, end := context.WithTimeout(always, 200*time.Millisecond)
		defer end()
		_, err := ask(ctx, "Wait", "")
		expectCode(err, codes.DeadlineExceeded)
	}},
	{"cancelled", func() {
		before := lost()
		ctx, cancel := context.WithCancel(always)
		ended := make(chan error)
		call := open(ctx, "Wait")
		send(call, "")
		check(call.CloseSend())
		go func() { _, err := receive(call); ended <- err }()
		says("the server has it")
		cancel()
		expectCode(<-ended, codes.Canceled)
		untilOneMoreIsLost(before)
	}},
	{"compressed", func() {
		_, err := ask(always, "Say", strings.Repeat("x", 1000), grpc.UseCompressor(gzip.Name))
		expectCode(err, codes.Unimplemented)
	}},
	{"thousand_turns", func() {
		call := open(always, "Chat")
		for turn := 0; turn < 1000; turn++ {
			send(call, strconv.Itoa(turn))
			reply, err := receive(call)
			expectReply(reply, err, strconv.Itoa(turn))
		}
		check(call.CloseSend())
		_, err := receive(call)
		expect(err, io.EOF)
	}},
	{"pour_held_up", func() {
		call := open(always, "Pour")
		send(call, "1000 30000")
		check(call.CloseSend())
		for replies := 0; replies < 1000; replies++ {
			reply, err := receive(call)
			check(err)
			expect(len(reply), 30000)
			if replies == 10 {
				says("others are served while nobody reads")
			}
		}
		_, err := receive(call)
		expect(err, io.EOF)
	}},
	{"pour_cancelled", func() {
		before := lost()
		ctx, cancel := context.WithCancel(always)
		call := open(ctx, "Pour")
		send(call, "1000000 30000")
		check(call.CloseSend())
		_, err := receive(call)
		check(err)
		cancel()
		untilOneMoreIsLost(before)
	}},
	{"early_status", func() {
		for i := 0; i < 300; i++ {
			call := open(always, "Chat")
			send(call, "stop")
			_, err := receive(call)
			expectCode(err, codes.FailedPrecondition)
		}
	}},
	{"thousand_at_once", func() {
		errs := make(chan error)
		for i := 0; i < 1000; i++ {
			go func() {
				reply, err := ask(always, "Say", strings.Repeat("x", 30000))
				if err == nil && len(reply) != 30000 {
					err = errors.New("another reply")
				}
				errs <- err
			}()
		}
		for i := 0; i < 1000; i++ {
			check(<-errs)
		}
	}},
	{"deadlines_in_numbers", func() {
		for i := 0; i < 20; i++ {
			ctx, end := context.WithTimeout(always, 30*time.Millisecond)
			errs := make(chan error)
			for j := 0; j < 100; j++ {
				go func() { _, err := ask(ctx, "Wait", ""); errs <- err }()
			}
			for j := 0; j < 100; j++ {
				expectCode(<-errs, codes.DeadlineExceeded)
			}
			end()
		}
		says("and the next")
	}},
	{"long_metadata", func() {
		ctx := metadata.AppendToOutgoingContext(always, "key", strings.Repeat("v", 20000))
		_, err := ask(ctx, "Say", "")
		// grpc-go may know the server's bound already, and then refuses by itself.
		if code := status.Code(err); code != codes.ResourceExhausted && code != codes.Internal {
			expectCode(err, codes.ResourceExhausted)
		}
		says("and the next")
	}},
	{"keepalive", func() {
		former := client
		defer func() { client = former }()
		// grpc-go pings every ten seconds at most.
		client = connect(grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 10 * time.Second, Timeout: time.Second, PermitWithoutStream: true}))
		defer client.Close()
		call := open(always, "Chat")
		send(call, "here")
		reply, err := receive(call)
		expectReply(reply, err, "here")
		time.Sleep(11 * time.Second)
		send(call, "still here")
		reply, err = receive(call)
		expectReply(reply, err, "still here")
		check(call.CloseSend())
	}},
	{"drained", func() {
		call := open(always, "Chat")
		send(call, "before")
		reply, err := receive(call)
		expectReply(reply, err, "before")
		askDriver("drain")
		send(call, "after")
		reply, err = receive(call)
		expectReply(reply, err, "after")
		reply, err = ask(always, "Say", "at the next one", grpc.WaitForReady(true))
		expectReply(reply, err, "at the next one")
		check(call.CloseSend())
		_, err = receive(call)
		expect(err, io.EOF)
	}},
	{"killed", func() {
		call := open(always, "Chat")
		send(call, "the server has it")
		reply, err := receive(call)
		expectReply(reply, err, "the server has it")
		askDriver("kill")
		_, err = receive(call)
		expectCode(err, codes.Unavailable)
		later := make(chan error)
		go func() { _, err := ask(always, "Say", "later", grpc.WaitForReady(true)); later <- err }()
		askDriver("start")
		check(<-later)
	}},
}

func try(run func()) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	run()
	return nil
}

func main() {
	client = connect()
	for _, row := range rows {
		if err := try(row.run); err != nil {
			fmt.Printf("failed %s: %v\n", row.name, err)
		} else {
			fmt.Printf("passed %s\n", row.name)
		}
	}
}
