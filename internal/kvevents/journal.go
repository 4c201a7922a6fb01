package kvevents

import "sync"

// A journal is the last messages, numbered from 0 as they come. Whoever appends waits for no
// reader: the oldest messages give way.
type journal struct {
	mostMessages, mostBytes int

	mu       sync.Mutex // guards what follows
	grown    sync.Cond  // there is more, or nothing more comes, or somebody has left
	messages [][]byte   // those kept, the oldest first
	first    uint64     // number of the oldest
	bytes    int
	closed   bool
}

func newJournal(messages, bytes int) *journal {
	j := &journal{mostMessages: messages, mostBytes: bytes}
	j.grown.L = &j.mu
	return j
}

// append adds a message. One that is larger than all that may be kept is kept alone.
func (j *journal) append(message []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.messages = append(j.messages, message)
	j.bytes += len(message)
	for len(j.messages) > 1 && (len(j.messages) > j.mostMessages || j.bytes > j.mostBytes) {
		j.bytes -= len(j.messages[0])
		j.messages[0] = nil
		j.messages = j.messages[1:]
		j.first++
	}
	j.grown.Broadcast()
}

// next is the number of the message that comes next.
func (j *journal) next() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.first + uint64(len(j.messages))
}

// from returns the message with that number, or the oldest one behind it, and its number; nil if
// there is none yet.
func (j *journal) from(number uint64) (message []byte, at uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	number = max(number, j.first)
	if number-j.first >= uint64(len(j.messages)) {
		return nil, number
	}
	return j.messages[number-j.first], number
}

// wait waits until there is a message with that number, or one behind it, or left reports true. It
// reports whether there may be one.
func (j *journal) wait(number uint64, left func() bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for !j.closed && !left() && number >= j.first+uint64(len(j.messages)) {
		j.grown.Wait()
	}
	return !j.closed && !left()
}

// wake has all who wait look again.
func (j *journal) wake() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.grown.Broadcast()
}

// close ends all waits.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.grown.Broadcast()
}
