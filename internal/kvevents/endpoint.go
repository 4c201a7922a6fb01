package kvevents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// An endpoint is an address of ZeroMQ in the words of package net.
type endpoint struct {
	network, address string
	listens          bool // else it is connected to
}

// parseEndpoint reads tcp://HOST:PORT or ipc://PATH. Whether it is one to listen on shows in its
// host, by vLLM's rule: * or ::.
func parseEndpoint(text string) (endpoint, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	switch scheme {
	case "tcp":
		host, port, err := net.SplitHostPort(rest)
		if err != nil || port == "" {
			return endpoint{}, fmt.Errorf("%q: tcp://HOST:PORT expected, with * for all of this machine's addresses", text)
		}
		// Go's spelling of all addresses is an empty host.
		if host == "*" {
			host = ""
		}
		return endpoint{"tcp", net.JoinHostPort(host, port), strings.Contains(text, "*") || strings.Contains(text, "::")}, nil
	case "ipc":
		if rest == "" {
			return endpoint{}, fmt.Errorf("%q: ipc:// and the path of a socket expected", text)
		}
		return endpoint{"unix", rest, true}, nil
	case "inproc":
		return endpoint{}, fmt.Errorf("%q reaches nobody outside this process: tcp:// or ipc:// expected", text)
	}
	return endpoint{}, fmt.Errorf("%q: tcp://HOST:PORT or ipc://PATH expected", text)
}

// moved is where another model listens that has the number, 0 is the first's: at a port above, or a
// path with the number. What is connected to stays.
func moved(text string, number int) (string, error) {
	at, err := parseEndpoint(text)
	if err != nil || !at.listens {
		return text, err
	}
	if at.network == "unix" {
		return fmt.Sprintf("%s.%d", text, number), nil
	}
	cut := strings.LastIndexByte(text, ':')
	port, err := strconv.Atoi(text[cut+1:])
	if err != nil || port < 1 || port+number > 65535 {
		return "", fmt.Errorf("endpoint %s: a port for each model is needed, the first of which is a number from 1 to %d", text, 65535-number)
	}
	return fmt.Sprintf("%s:%d", text[:cut], port+number), nil
}

// open listens on an endpoint, or connects to it, and has conversations served.
func (p *Publisher) open(text string, serve func(*peer)) error {
	at, err := parseEndpoint(text)
	if err != nil {
		return err
	}
	if at.listens {
		return p.listen(text, serve)
	}
	p.working.Go(func() { p.connect(at, serve) })
	return nil
}

// listen serves whoever connects to an endpoint.
func (p *Publisher) listen(text string, serve func(*peer)) error {
	at, err := parseEndpoint(text)
	if err != nil {
		return err
	}
	if at.network == "unix" {
		if err := removeStale(at.address); err != nil {
			return fmt.Errorf("endpoint %s: %w", text, err)
		}
	}
	listener, err := net.Listen(at.network, at.address)
	if err != nil {
		return fmt.Errorf("endpoint %s: %w", text, err)
	}
	p.mu.Lock()
	p.closers = append(p.closers, listener.Close)
	p.mu.Unlock()
	p.log.Info("KV events", "endpoint", text, "address", listener.Addr().String())
	p.working.Go(func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // no descriptors left, say: later there are some
				select {
				case <-time.After(100 * time.Millisecond):
				case <-p.done:
				}
				continue
			}
			p.working.Go(func() { p.converse(conn, true, serve) })
		}
	})
	return nil
}

// removeStale removes the socket of a process that has ended.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return errors.New("there is a file of that name that is no socket")
	}
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
		return errors.New("another process listens there")
	}
	return os.Remove(path)
}

// reconnectPause is how long one that was not reached, or has gone, is left alone.
const reconnectPause = time.Second

// connect serves the one at an endpoint, again and again.
func (p *Publisher) connect(at endpoint, serve func(*peer)) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // Close does not wait for one who does not answer
		<-p.done
		cancel()
	}()
	dialer := net.Dialer{Timeout: 10 * time.Second}
	for {
		if conn, err := dialer.DialContext(ctx, at.network, at.address); err == nil {
			p.converse(conn, false, serve)
		}
		select {
		case <-time.After(reconnectPause):
		case <-p.done:
			return
		}
	}
}

// mostConns bounds the connections of a publisher.
const mostConns = 256

// converse serves a connection until it ends.
func (p *Publisher) converse(conn net.Conn, server bool, serve func(*peer)) {
	defer conn.Close()
	p.mu.Lock()
	full := p.closed || len(p.conns) >= mostConns
	if !full {
		p.conns[conn] = true
	}
	p.mu.Unlock()
	if full {
		return
	}
	defer func() {
		p.mu.Lock()
		delete(p.conns, conn)
		p.mu.Unlock()
	}()
	serve(&peer{Conn: conn, server: server})
}
