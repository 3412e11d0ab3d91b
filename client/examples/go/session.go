// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"math"
	"math/rand"
	"os"
	"strings"
	"sync"
	"time"

	v1 "rdmabroker/v1" // What protoc makes of the contract; the folder's generate calls it.

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	defaultSocket = "/run/rdma-broker/control.sock"
	brokerService = "/rdmabroker.v1.Broker/"
	apiMinor      = 1                // Of the contract that this was written against.
	openTimeout   = 10 * time.Second // That a broker may take to come up.
	firstReturn   = 50 * time.Millisecond
	longestReturn = time.Second // Between attempts to reach it again.
)

var (
	always       = context.Background() // To cancel the stream would end the session.
	sessionCall  = &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	closeMessage = &v1.SessionRequest{Message: &v1.SessionRequest_Close{Close: &v1.CloseSession{}}}
)

func init() { rand.Seed(time.Now().UnixNano()) } // Clients that start alike must not wait alike.

// messages has grpc use the messages' own package, whichever the one that grpc was built with.
type messages struct{}

func (messages) Marshal(v interface{}) ([]byte, error) { return proto.Marshal(v.(proto.Message)) }
func (messages) Unmarshal(data []byte, v interface{}) error {
	return proto.Unmarshal(data, v.(proto.Message))
}
func (messages) Name() string { return "proto" }

// BrokerError is what a request or a session ended with. Outcome.Retryable says whether the same may just be tried
// again.
type BrokerError struct{ Outcome *v1.Outcome }

func (e *BrokerError) Error() string { return StatusName(e.Outcome.Status) + ": " + e.Outcome.Hint }

// StatusName is the status's name; a negative one that is newer than this program counts as STATUS_UNSUCCESSFUL.
func StatusName(number v1.NdkStatus) string {
	if name, known := v1.NdkStatus_name[int32(number)]; known {
		return name
	}
	return v1.NdkStatus_STATUS_UNSUCCESSFUL.String()
}

func unsuccessful(hint string) *BrokerError {
	return &BrokerError{&v1.Outcome{Status: v1.NdkStatus_STATUS_UNSUCCESSFUL, Hint: hint}}
}

// outcomeOf is the Outcome that a failed call carries; nil where the broker's logic did not speak: the call may be
// repeated.
func outcomeOf(err error) *v1.Outcome {
	for _, detail := range status.Convert(err).Proto().GetDetails() {
		outcome := new(v1.Outcome)
		if strings.HasSuffix(detail.TypeUrl, "/rdmabroker.v1.Outcome") && proto.Unmarshal(detail.Value, outcome) == nil {
			return outcome
		}
	}
	return nil
}

// brokerErrorOf is of a call or a stream that has failed for good.
func brokerErrorOf(err error) error {
	if outcome := outcomeOf(err); outcome != nil {
		return &BrokerError{outcome}
	}
	return unsuccessful(err.Error())
}

// brokerIsAway says whether a call or a stream failed as there was nobody to speak; the broker may be back soon.
func brokerIsAway(err error) bool {
	code := status.Code(err)
	return outcomeOf(err) == nil && (code == codes.Unavailable || code == codes.Canceled)
}

func mayReturn(err error) bool {
	if outcome := outcomeOf(err); outcome != nil {
		return outcome.Retryable
	}
	return brokerIsAway(err)
}

// backOff doubles from attempt to attempt, with up to as much again at random, so that clients do not return together.
func backOff(attempt int) time.Duration {
	delay := math.Min(float64(firstReturn)*math.Pow(2, float64(attempt)), float64(longestReturn))
	return time.Duration(delay * (1 + rand.Float64()))
}

// Session is a session with rdma-brokerd, kept as proto/rdmabroker/v1/broker.proto asks its clients to. Opened by
// OpenSession, which waits for the broker; closed, with all that it has, by Close. Any goroutine may make requests; one
// takes the events. Where the broker restarts, the session returns to it: requests wait meanwhile, and are repeated
// under their ids.
type Session struct {
	channel *grpc.ClientConn
	ended   chan struct{} // Closed when the session is over.
	sending sync.Mutex    // Held by whoever sends on a stream.

	mutex       sync.Mutex // Guards the rest.
	changed     chan struct{}
	stream      grpc.ClientStream
	opened      *v1.SessionOpened // With the secret: never printed.
	present     bool              // The broker has taken the stream.
	over        bool
	end         error // What the session has ended with, where nobody closed it.
	closing     bool
	nextRequest uint64
	unanswered  map[uint64]bool        // The ids of requests of which no reply has come.
	outcomes    map[uint64]*v1.Outcome // Of requests by id; an OutcomeEvent may come before its request's reply.
	received    uint64                 // The number of the last event.
	events      []*v1.SessionEvent     // Those that nobody has dealt with, in order.
	taken       bool                   // The first of these is being dealt with.
}

// OpenSession opens one on this socket, or the one that the environment names, or else the usual one.
func OpenSession(socket string) (*Session, error) {
	for _, other := range []string{os.Getenv("RDMA_BROKER_SOCKET"), defaultSocket} {
		if socket == "" {
			socket = other
		}
	}
	channel, err := grpc.Dial("unix:"+socket, grpc.WithInsecure(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(messages{})),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: openTimeout,
		}))
	if err != nil {
		return nil, err
	}
	s := &Session{
		channel:     channel,
		ended:       make(chan struct{}),
		changed:     make(chan struct{}),
		nextRequest: 1,
		unanswered:  map[uint64]bool{},
		outcomes:    map[uint64]*v1.Outcome{},
	}
	go s.keep()
	if err := s.awaitPresence(); err != nil {
		return nil, err
	}
	return s, nil
}

// ListAdapters lists the devices that this user may open; or a BrokerError, as policies bound how often one may look,
// too.
func (s *Session) ListAdapters() ([]*v1.Device, error) {
	reply := new(v1.ListAdaptersReply)
	err := s.repeat(func() error {
		return s.channel.Invoke(always, "/rdmabroker.v1.Inspection/ListAdapters", &v1.ListAdaptersRequest{}, reply)
	})
	return reply.Devices, err
}

// Request makes a request by the name of its RPC, without a header: its final Outcome, or a BrokerError.
func (s *Session) Request(rpc string, message proto.Message) (*v1.Outcome, error) {
	id, err := s.beginRequest()
	if err != nil {
		return nil, err
	}
	defer s.change(func() { delete(s.outcomes, id) })
	outcome := new(v1.Outcome)
	err = s.repeat(func() error {
		s.setHeader(message, id)
		return s.channel.Invoke(always, brokerService+rpc, message, outcome)
	})
	s.change(func() { delete(s.unanswered, id) })
	if err == nil && outcome.Status == v1.NdkStatus_STATUS_PENDING {
		err = s.await(always, func() bool {
			outcome = s.outcomes[id]
			return outcome != nil
		})
	}
	if err == nil && outcome.Status != v1.NdkStatus_STATUS_SUCCESS {
		err = &BrokerError{outcome}
	}
	return outcome, err
}

// beginRequest is the next id, when the oldest request without a reply is no further behind than the broker's answers
// reach.
func (s *Session) beginRequest() (id uint64, err error) {
	err = s.await(always, func() bool {
		oldest := s.nextRequest
		for unanswered := range s.unanswered {
			if unanswered < oldest {
				oldest = unanswered
			}
		}
		if !s.present || s.nextRequest-oldest >= uint64(s.opened.Limits.AnswersKept) {
			return false
		}
		id = s.nextRequest
		s.nextRequest++
		s.unanswered[id] = true
		s.outcomes[id] = nil
		return true
	})
	return id, err
}

func (s *Session) setHeader(message proto.Message, id uint64) {
	s.mutex.Lock()
	header := &v1.RequestHeader{SessionId: s.opened.SessionId, RequestId: id, AcknowledgedEvent: s.acknowledged()}
	s.mutex.Unlock()
	request := message.ProtoReflect()
	request.Set(request.Descriptor().Fields().ByName("header"), protoreflect.ValueOfMessage(header.ProtoReflect()))
}

// Next waits for what happens next to the session's objects; each event comes once. The one before counts as dealt
// with by then, and is acknowledged. An error: the context's, or what the session has ended with.
func (s *Session) Next(ctx context.Context) (event *v1.SessionEvent, err error) {
	s.acknowledge()
	err = s.await(ctx, func() bool {
		if len(s.events) == 0 {
			return false
		}
		event, s.taken = s.events[0], true
		return true
	})
	return event, err
}

// acknowledge is for those who make no requests, each of which acknowledges as well.
func (s *Session) acknowledge() {
	s.mutex.Lock()
	stream, taken := s.stream, s.taken
	if taken {
		s.events, s.taken = s.events[1:], false
	}
	number := s.acknowledged()
	s.mutex.Unlock()
	if taken {
		s.send(stream, &v1.SessionRequest{Message: &v1.SessionRequest_Acknowledge{
			Acknowledge: &v1.AcknowledgeEvents{AcknowledgedEvent: number}}})
	}
}

// acknowledged is called with the lock.
func (s *Session) acknowledged() uint64 {
	if len(s.events) > 0 {
		return s.events[0].Number - 1
	}
	return s.received
}

// Close ends the session with all it has; one that is away returns first, where it can.
func (s *Session) Close() {
	var stream grpc.ClientStream
	s.change(func() { stream, s.closing = s.stream, true })
	s.send(stream, closeMessage)
	<-s.ended
}

// change makes a change for which others may wait.
func (s *Session) change(act func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	act()
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until the condition holds, which is asked with the lock. An error: the context's, or what the session has
// ended with.
func (s *Session) await(ctx context.Context, condition func() bool) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for !condition() {
		if s.over && s.end != nil {
			return s.end
		} else if s.over {
			return unsuccessful("the session is closed")
		}
		changed := s.changed
		s.mutex.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mutex.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (s *Session) awaitPresence() error {
	return s.await(always, func() bool { return s.present })
}

// repeat asks until there is the broker's own word, or the session is over.
func (s *Session) repeat(ask func() error) error {
	for attempt := 0; ; attempt++ {
		if err := s.awaitPresence(); err != nil {
			return err
		}
		err := ask()
		if err == nil {
			return nil
		}
		if !brokerIsAway(err) {
			return brokerErrorOf(err)
		}
		time.Sleep(backOff(attempt))
	}
}

// keep follows one stream after the other, for as long as the session can be returned to.
func (s *Session) keep() {
	deadline := time.Now().Add(openTimeout)
	var err error
	for attempt := 0; ; attempt++ {
		var taken bool
		taken, err = s.followStream()
		if err == io.EOF || !mayReturn(err) {
			break
		}
		if taken {
			attempt = 0
			deadline = time.Now().Add(time.Duration(s.opened.Limits.SessionGraceMs) * time.Millisecond)
		}
		delay := backOff(attempt)
		if time.Now().Add(delay).After(deadline) {
			break
		}
		time.Sleep(delay)
	}
	s.change(func() {
		s.over = true
		if err != io.EOF {
			s.end = brokerErrorOf(err)
		}
	})
	s.channel.Close()
	close(s.ended)
}

// followStream says whether the broker has taken this stream, and what ended it: io.EOF after Close. The stream stays
// open on this side: to end it would close the session.
func (s *Session) followStream() (taken bool, err error) {
	stream, err := s.channel.NewStream(always, sessionCall, brokerService+"Session")
	if err != nil {
		return false, err
	}
	var first *v1.SessionRequest
	s.change(func() { s.stream, first = stream, s.firstMessage() })
	s.send(stream, first)
	for {
		reply := new(v1.SessionReply)
		if err = stream.RecvMsg(reply); err != nil {
			break
		}
		if opened := reply.GetOpened(); opened != nil {
			s.handleOpened(opened)
		} else if event := reply.GetEvent(); event != nil {
			s.handleEvent(event)
		}
	}
	s.change(func() { taken, s.present = s.present, false })
	return taken, err
}

// firstMessage is called with the lock.
func (s *Session) firstMessage() *v1.SessionRequest {
	if s.opened == nil {
		return &v1.SessionRequest{Message: &v1.SessionRequest_Open{Open: &v1.OpenSession{ApiMinor: apiMinor}}}
	}
	return &v1.SessionRequest{Message: &v1.SessionRequest_Resume{Resume: &v1.ResumeSession{
		SessionId:         s.opened.SessionId,
		SessionSecret:     s.opened.SessionSecret,
		Lineage:           s.opened.Lineage,
		AcknowledgedEvent: s.acknowledged(),
		ApiMinor:          apiMinor,
	}}}
}

// send sends on a stream; where that has ended, whoever reads from it learns why.
func (s *Session) send(stream grpc.ClientStream, message *v1.SessionRequest) {
	s.sending.Lock()
	defer s.sending.Unlock()
	_ = stream.SendMsg(message)
}

func (s *Session) handleOpened(opened *v1.SessionOpened) {
	var closing bool
	var stream grpc.ClientStream
	s.change(func() {
		if s.opened == nil {
			s.opened = opened // After a return the secret is not sent again.
		}
		s.present = true
		closing, stream = s.closing, s.stream
	})
	if closing {
		s.send(stream, closeMessage)
	}
}

func (s *Session) handleEvent(event *v1.SessionEvent) {
	s.change(func() {
		if event.Number <= s.received {
			return // Sent again after a return, as it had not been acknowledged.
		}
		s.received = event.Number
		outcome := event.GetOutcome()
		if outcome == nil && event.Event != nil { // Others are of a kind that this program does not know.
			s.events = append(s.events, event)
		} else if _, waits := s.outcomes[outcome.GetRequestId()]; waits {
			s.outcomes[outcome.RequestId] = outcome.Outcome
		}
	})
}
