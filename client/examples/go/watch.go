// SPDX-License-Identifier: Apache-2.0

// Watch is what a Go process does with rdma-brokerd: it lists the adapters, reserves a port, listens on it, watches who
// wants to connect, turns them away with a word, and closes all in order. It cannot accept: an accepted connection
// needs a queue pair, which is the C or C++ library's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	v1 "rdmabroker/v1"
)

var (
	ndkVersion = &v1.NdkVersion{Major: 2, Minor: 1}
	words      = []byte("no queue pairs here") // For the peers that are turned away.
)

type ipAddress interface {
	GetIp() []byte
	GetScopeId() uint32
	GetInterface() string
}

// textOf is an address without its port, for a person.
func textOf(address ipAddress) string {
	text := net.IP(address.GetIp()).String()
	if address.GetInterface() != "" {
		return text + "%" + address.GetInterface()
	} else if address.GetScopeId() != 0 {
		return fmt.Sprintf("%s%%%d", text, address.GetScopeId())
	}
	return text
}

func textWithPort(address *v1.SocketAddress) string {
	return net.JoinHostPort(textOf(address), strconv.Itoa(int(address.Port)))
}

// addressOf is an address without a port: 192.0.2.1, 2001:db8::1, fe80::1%3 or fe80::1%eth0, of an interface here.
func addressOf(text string) (*v1.SocketAddress, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil || ip.Zone() == "" {
		return &v1.SocketAddress{Ip: ip.AsSlice()}, err
	}
	index, err := strconv.ParseUint(ip.Zone(), 10, 32)
	if err != nil {
		found, err := net.InterfaceByName(ip.Zone())
		if err != nil {
			return nil, fmt.Errorf("--address %s: no interface %s here", text, ip.Zone())
		}
		index = uint64(found.Index)
	}
	return &v1.SocketAddress{Ip: ip.AsSlice(), ScopeId: uint32(index)}, nil
}

func listAdapters(session *Session) ([]*v1.Device, error) {
	devices, err := session.ListAdapters()
	for _, device := range devices {
		technology := strings.TrimPrefix(device.Info.Technology.String(), "RDMA_TECHNOLOGY_")
		state := "usable"
		if !device.Usable {
			state = device.UnusableReason
		}
		var addresses []string
		for _, address := range device.Addresses {
			addresses = append(addresses, textOf(address))
		}
		fmt.Printf("adapter %s: %s, %s, %s\n", device.Name, technology, state, strings.Join(addresses, " "))
	}
	return devices, err
}

// choose says where to listen: at the address that is asked for, or the device's first.
func choose(devices []*v1.Device, name, address string) (string, *v1.SocketAddress, error) {
	for _, device := range devices {
		if !device.Usable || (name != "" && name != device.Name) || len(device.Addresses) == 0 {
			continue
		}
		if address != "" {
			chosen, err := addressOf(address)
			return device.Name, chosen, err
		}
		first := device.Addresses[0]
		return device.Name, &v1.SocketAddress{Ip: first.Ip, ScopeId: first.ScopeId}, nil
	}
	if name == "" {
		name = "here"
	}
	return "", nil, fmt.Errorf("no adapter %s can be used; the list above says why", name)
}

// reserve reserves a port of the broker's choice, and shows what happens to those who want it besides.
func reserve(session *Session, adapter uint64, address *v1.SocketAddress) (uint64, error) {
	outcome, err := session.Request("ReservePort", &v1.ReservePortRequest{AdapterId: adapter, Address: address})
	if err != nil {
		return 0, err
	}
	reserved := outcome.GetPortReserved()
	fmt.Println("reserved", textWithPort(reserved.Address))
	_, err = session.Request("ReservePort", &v1.ReservePortRequest{AdapterId: adapter, Address: reserved.Address})
	var refusal *BrokerError
	if errors.As(err, &refusal) {
		again := "not to be tried again"
		if refusal.Outcome.Retryable {
			again = "can be tried again"
		}
		fmt.Printf("reserved twice: %s, %s: %s\n", StatusName(refusal.Outcome.Status), again, refusal.Outcome.Hint)
	}
	return reserved.ReservationId, nil
}

// turnAway rejects a peer. The connector is this process's to close whatever becomes of it.
func turnAway(session *Session, connect *v1.ConnectEvent) error {
	said := strings.TrimRight(string(connect.Data.PrivateData), "\x00")
	fmt.Printf("%s wants to connect, and says %q\n", textWithPort(connect.Data.Peer), said)
	_, err := session.Request("Reject", &v1.RejectRequest{ConnectorId: connect.ConnectorId, PrivateData: words})
	if err != nil {
		fmt.Println("not rejected:", err) // STATUS_CONNECTION_ABORTED: it has given up meanwhile.
	} else {
		fmt.Println("rejected")
	}
	_, err = session.Request("CloseConnector", &v1.CloseConnectorRequest{ConnectorId: connect.ConnectorId})
	return err
}

// watch deals with the session's events, until so many peers have come; until the context's end with 0.
func watch(ctx context.Context, session *Session, peers int) error {
	for come := 0; peers == 0 || come < peers; {
		event, err := session.Next(ctx)
		if ctx.Err() != nil {
			fmt.Println("interrupted")
			return nil
		} else if err != nil {
			return err
		}
		content := event.ProtoReflect()
		kind := content.WhichOneof(content.Descriptor().Oneofs().ByName("event")).Name()
		fmt.Printf("event %d: %s\n", event.Number, kind)
		if connect := event.GetConnect(); connect != nil {
			if err := turnAway(session, connect); err != nil {
				return err
			}
			come++
		} else if kind == "adapter_removed" || kind == "adapter_disabled" {
			return nil // What is open is to be closed.
		}
	}
	return nil
}

func serve(ctx context.Context, session *Session, device, address string, peers int) error {
	devices, err := listAdapters(session)
	if err != nil {
		return err
	}
	name, at, err := choose(devices, device, address)
	if err != nil {
		return err
	}
	outcome, err := session.Request("OpenAdapter", &v1.OpenAdapterRequest{Device: name, Version: ndkVersion})
	if err != nil {
		return err
	}
	adapter := outcome.GetAdapterOpened().AdapterId
	reservation, err := reserve(session, adapter, at)
	if err != nil {
		return err
	}
	outcome, err = session.Request("CreateListener", &v1.CreateListenerRequest{AdapterId: adapter})
	if err != nil {
		return err
	}
	listener := outcome.GetListenerCreated().ListenerId
	// The listener takes the reservation's place: that is used up, and nobody comes in between.
	outcome, err = session.Request("Listen", &v1.ListenRequest{ListenerId: listener, ReservationId: reservation})
	if err != nil {
		return err
	}
	fmt.Println("listening on", textWithPort(outcome.GetListening().Address))
	if err := watch(ctx, session, peers); err != nil {
		return err
	}
	// In any order, but the adapter's close would wait for the listener's, and that for each connector's.
	if _, err := session.Request("CloseListener", &v1.CloseListenerRequest{ListenerId: listener}); err != nil {
		return err
	}
	if _, err := session.Request("CloseAdapter", &v1.CloseAdapterRequest{AdapterId: adapter}); err != nil {
		return err
	}
	fmt.Println("closed")
	return nil
}

func run() error {
	socket := flag.String("socket", "", "the broker's control socket; else RDMA_BROKER_SOCKET, else the usual one")
	device := flag.String("device", "", "the adapter; else the first that can be used")
	address := flag.String("address", "", "where to listen; else the adapter's first")
	peers := flag.Int("peers", 0, "how many to turn away; 0: until a signal")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	session, err := OpenSession(*socket)
	if err != nil {
		return err
	}
	defer session.Close()
	return serve(ctx, session, *device, *address, *peers)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "watch:", err)
		os.Exit(1)
	}
}
