package bench

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is both ends of a connection over loopback.
func pair(t testing.TB) (*socket, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := dialer{address: l.Addr().String()}
	c, err := d.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); peer.Close() })
	return c.transport.(*socket), peer
}

// recvNow reads once, when bytes are there.
func recvNow(t testing.TB, s *socket, b []byte) (n int, lag time.Duration) {
	for {
		n, lag, err := recv(s.fd, b)
		if err == nil {
			return n, lag
		}
		if err != unix.EAGAIN {
			t.Fatal(err)
		}
	}
}

// The kernel says when bytes came, not when they are read.
func TestKernelTimes(t *testing.T) {
	c, peer := pair(t)
	for range 100 { // the kernel takes a moment to begin with it
		before := time.Now()
		if _, err := peer.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		written := time.Since(before)
		time.Sleep(20 * time.Millisecond)
		var b [16]byte
		n, lag := recvNow(t, c, b[:])
		after := time.Since(before)
		if lag < 0 {
			continue
		}
		if n != 3 || lag < 20*time.Millisecond-written || lag > after {
			t.Errorf("%d bytes, %v ago; want 3, sent between %v and %v ago", n, lag, after-written, after)
		}
		return
	}
	t.Error("no time of receipt in two seconds: SO_TIMESTAMPING_NEW needs Linux 5.1")
}

func TestAlive(t *testing.T) {
	for _, c := range []struct {
		name string
		act  func(peer net.Conn)
		want bool
	}{
		{"silent", func(net.Conn) {}, true},
		{"has said something", func(p net.Conn) { p.Write([]byte("x")) }, false},
		{"closed", func(p net.Conn) { p.Close() }, false},
	} {
		conn, peer := pair(t)
		c.act(peer)
		got := conn.alive()
		for end := time.Now().Add(time.Minute); got != c.want && time.Now().Before(end); got = conn.alive() {
			time.Sleep(time.Millisecond) // until it has come
		}
		if got != c.want {
			t.Errorf("%s: alive %v, want %v", c.name, got, c.want)
		}
	}
}

func TestReceivingDoesNotAllocate(t *testing.T) {
	c, peer := pair(t)
	message := []byte("x")
	b := make([]byte, 16)
	if n := testing.AllocsPerRun(100, func() {
		peer.Write(message)
		for {
			if _, _, err := recv(c.fd, b); err != unix.EAGAIN {
				break
			}
		}
	}); n != 0 {
		t.Errorf("reading allocates %v times", n)
	}
}

func BenchmarkReceive(b *testing.B) {
	c, peer := pair(b)
	message := make([]byte, 250)
	into := make([]byte, readBuffer)
	for b.Loop() {
		peer.Write(message)
		recvNow(b, c, into)
	}
}
