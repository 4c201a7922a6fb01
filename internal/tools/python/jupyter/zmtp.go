package jupyter

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Kernels speak ZeroMQ's transport protocol. Of it (ZMTP 3.0, ZeroMQ RFC 23) a client needs little:
// a greeting, a READY command, and messages of several frames, without encryption.

// Bits of a frame's flags.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// Bounds of what a kernel may send.
const (
	mostFrame  = 64 << 20
	mostFrames = 64
)

// greeting is what both sides begin with: the signature, version 3.0, no security, no more.
var greeting = append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'N', 'U', 'L', 'L'}, make([]byte, 48)...)

// A socket is a connection that messages go over.
type socket struct {
	conn net.Conn
	in   *bufio.Reader
}

// dial connects as a socket of a kind: DEALER or SUB.
func dial(ctx context.Context, network, address, kind string) (*socket, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	s := &socket{conn, bufio.NewReader(conn)}
	if err := s.shake(kind); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s does not speak ZMTP 3: %w", address, err)
	}
	return s, nil
}

// shake exchanges greetings and READY commands.
func (s *socket) shake(kind string) error {
	if _, err := s.conn.Write(greeting); err != nil {
		return err
	}
	theirs := make([]byte, len(greeting))
	if _, err := io.ReadFull(s.in, theirs); err != nil {
		return err
	}
	// ZMTP 3.0: the signature, its version from byte 10 on, and no security.
	if theirs[0] != 0xff || theirs[9] != 0x7f || theirs[10] < 3 || !bytes.HasPrefix(theirs[12:], []byte("NULL\x00")) {
		return fmt.Errorf("greeting %x", theirs[:32])
	}
	ready := "\x05READY\x0bSocket-Type" + string(binary.BigEndian.AppendUint32(nil, uint32(len(kind)))) + kind
	if _, err := s.conn.Write(appendFrame(nil, flagCommand, []byte(ready))); err != nil {
		return err
	}
	flags, body, err := readFrame(s.in)
	if err == nil && (flags&flagCommand == 0 || !bytes.HasPrefix(body, []byte("\x05READY"))) {
		err = fmt.Errorf("%.100q in place of READY", body)
	}
	return err
}

// send writes a message.
func (s *socket) send(parts ...[]byte) error {
	var all []byte
	for i, part := range parts {
		flags := byte(flagMore)
		if i == len(parts)-1 {
			flags = 0
		}
		all = appendFrame(all, flags, part)
	}
	_, err := s.conn.Write(all)
	return err
}

// receive reads the next message, past commands.
func (s *socket) receive() (parts [][]byte, err error) {
	for {
		flags, body, err := readFrame(s.in)
		if err != nil {
			return nil, err
		}
		if flags&flagCommand != 0 {
			continue
		}
		parts = append(parts, body)
		if flags&flagMore == 0 {
			return parts, nil
		}
		if len(parts) > mostFrames {
			return nil, errors.New("a message of too many frames")
		}
	}
}

// appendFrame appends a frame.
func appendFrame(to []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		return append(binary.BigEndian.AppendUint64(append(to, flags|flagLong), uint64(len(body))), body...)
	}
	return append(append(to, flags, byte(len(body))), body...)
}

// readFrame reads a frame. Memory is taken as its bytes come.
func readFrame(from io.Reader) (flags byte, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(from, head[:1]); err != nil {
		return 0, nil, err
	}
	flags = head[0]
	width := 1
	if flags&flagLong != 0 {
		width = 8
	}
	head = [8]byte{}
	if _, err := io.ReadFull(from, head[8-width:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint64(head[:])
	if flags&^(flagMore|flagLong|flagCommand) != 0 || size > mostFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes with flags %#x", size, flags)
	}
	var got bytes.Buffer
	if _, err := io.CopyN(&got, from, int64(size)); err != nil {
		return 0, nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return flags, got.Bytes(), nil
}
