package python

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
)

// The server and an interpreter talk through two pipes: a request is a cell, a reply says that it
// has ended. Both carry a number that nobody can guess, new for each cell, so that nothing which an
// earlier cell left in the pipe passes for a reply. A cell that finds the pipe can forge its own;
// all it can say is that it has ended. Here a reply is read that may be anything.

const nonceSize = 16

// A nonce goes with a request and its reply.
type nonce [nonceSize]byte

func newNonce() (n nonce) {
	_, _ = rand.Read(n[:]) // it does not fail
	return n
}

// request returns the bytes of a cell's request.
func request(n nonce, source string) []byte {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+nonceSize+len(source)), uint32(nonceSize+len(source)))
	return append(append(frame, n[:]...), source...)
}

// errReply says that a reply is none.
var errReply = errors.New("what the interpreter sent is no reply")

// A replyReader compares a reply with the one that there can be, as it comes.
type replyReader struct{ left []byte }

func newReplyReader(n nonce) *replyReader {
	return &replyReader{append(binary.BigEndian.AppendUint32(nil, nonceSize), n[:]...)}
}

// take reads a part. It reports whether the reply is complete; an error means that it never will be.
func (r *replyReader) take(part []byte) (bool, error) {
	if !bytes.HasPrefix(r.left, part) {
		return false, errReply
	}
	r.left = r.left[len(part):]
	return len(r.left) == 0, nil
}
