package kvevents

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
)

// A peer is a connection that speaks ZeroMQ's protocol. The library's sockets are not used but its
// connections: a PUB socket of v0.17 writes to one subscriber after another, so that one that does
// not read keeps all waiting, and drops what is too much uncounted.
//
// What the other side sends is believed in nothing: the library makes room for as many bytes as a
// frame announces, so frames are read here, and in the handshake a long one is refused.
type peer struct {
	net.Conn
	server    bool
	shaken    bool // the handshake is over
	read      int  // bytes of the other side during the handshake
	longFrame bool // its frame has a length of eight bytes
	out       *bufio.Writer
	zmtp      *zmq4.Conn
}

const (
	handshakeTime = 10 * time.Second
	writeTime     = 30 * time.Second // of a message, after which the other side counts as gone
	greetingBytes = 64               // of ZMTP 3
	mostInbound   = 4096             // bytes of a message from the other side
	mostFrames    = 8
)

// Bits of a frame's flags (ZMTP 3.0).
const (
	moreBit    = 1
	longBit    = 2
	commandBit = 4
)

var errTooLong = errors.New("kvevents: the other side sends more than is read")

// shake performs the handshake, as a socket of that type.
func (p *peer) shake(kind zmq4.SocketType) error {
	p.out = bufio.NewWriterSize(p.Conn, 32<<10)
	_ = p.SetDeadline(time.Now().Add(handshakeTime))
	zmtp, err := zmq4.Open(p, null.Security(), kind, nil, p.server, nil)
	if err != nil {
		return err
	}
	p.zmtp, p.shaken = zmtp, true
	return p.SetDeadline(time.Time{})
}

// Read implements net.Conn for the handshake: a frame that announces more than a handshake takes is
// refused before anybody makes room for it.
func (p *peer) Read(to []byte) (int, error) {
	if p.shaken {
		return p.Conn.Read(to)
	}
	if err := p.out.Flush(); err != nil {
		return 0, err
	}
	count, err := p.Conn.Read(to)
	for i := range count {
		// Of the only frame the flags come first, then one byte of length, or eight, of which the
		// last two are enough.
		at := p.read - greetingBytes
		if p.read++; (at == 0 && to[i]&^(longBit|commandBit) != 0) || (at > 0 && at < 7 && p.longFrame && to[i] != 0) {
			return 0, errTooLong
		}
		if at == 0 {
			p.longFrame = to[i]&longBit != 0
		}
	}
	return count, err
}

// Write implements net.Conn: what is written is sent with flush, or before the next Read of the
// handshake.
func (p *peer) Write(data []byte) (int, error) { return p.out.Write(data) }

// send sends a message of several frames.
func (p *peer) send(frames ...[]byte) error {
	if err := p.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	if err := p.zmtp.SendMsg(zmq4.NewMsgFrom(frames...)); err != nil {
		return err
	}
	return p.out.Flush()
}

// receive reads a message; command says that it is one of the protocol.
func (p *peer) receive() (frames [][]byte, command bool, err error) {
	total := 0
	for len(frames) < mostFrames {
		var head [9]byte
		if _, err := io.ReadFull(p.Conn, head[:2]); err != nil {
			return nil, false, err
		}
		size := uint64(head[1])
		if head[0]&longBit != 0 {
			if _, err := io.ReadFull(p.Conn, head[2:]); err != nil {
				return nil, false, err
			}
			size = binary.BigEndian.Uint64(head[1:])
		}
		// Sizes come from the other side: what all frames of a message hold together has a bound.
		if size > uint64(mostInbound-total) {
			return nil, false, errTooLong
		}
		total += int(size)
		frame := make([]byte, size)
		if _, err := io.ReadFull(p.Conn, frame); err != nil {
			return nil, false, err
		}
		frames = append(frames, frame)
		if head[0]&moreBit == 0 {
			return frames, head[0]&commandBit != 0, nil
		}
	}
	return nil, false, errTooLong
}
