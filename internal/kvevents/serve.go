package kvevents

import (
	"encoding/binary"
	"strings"
	"sync"

	"github.com/go-zeromq/zmq4"
)

// A subscription is what one subscriber wants to hear.
type subscription struct {
	mu     sync.Mutex // guards what follows
	topics map[string]int
	left   bool
}

// mostTopics bounds the topics of a subscriber.
const mostTopics = 64

// change takes what a subscriber says: a topic, and whether it is to be told of it.
func (s *subscription) change(topic string, wanted bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case wanted:
		s.topics[topic]++
	case s.topics[topic] > 1:
		s.topics[topic]--
	default:
		delete(s.topics, topic)
	}
	return len(s.topics) <= mostTopics
}

// wants reports whether a topic is one of those, or begins like one.
func (s *subscription) wants(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for prefix := range s.topics {
		if strings.HasPrefix(topic, prefix) {
			return true
		}
	}
	return false
}

// hasLeft reports whether there is nobody any more.
func (s *subscription) hasLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// listen reads what a subscriber says until it has left.
func (s *subscription) listen(from *peer, changed func()) {
	defer func() {
		s.mu.Lock()
		s.left = true
		s.mu.Unlock()
		changed()
		_ = from.Close() // whoever writes to it learns it, too
	}()
	for {
		frames, command, err := from.receive()
		if err != nil {
			return
		}
		text, wanted, ok := said(frames, command)
		if ok && !s.change(text, wanted) {
			return
		}
		changed()
	}
}

// said reads a subscription or its end: a message that begins with 1 or 0, or, since ZMTP 3.1, a
// command of that name.
func said(frames [][]byte, command bool) (topic string, wanted, ok bool) {
	if len(frames) != 1 || len(frames[0]) == 0 {
		return "", false, false
	}
	first, rest := frames[0][0], string(frames[0][1:])
	if !command {
		return rest, first == 1, first <= 1
	}
	if int(first) > len(rest) {
		return "", false, false
	}
	switch name := rest[:first]; name {
	case zmq4.CmdSubscribe, zmq4.CmdCancel:
		return rest[first:], name == zmq4.CmdSubscribe, true
	}
	return "", false, false
}

// serveSubscriber sends messages to a subscriber from when it subscribes until it leaves. What it
// is too slow for is left out and counted.
func (p *Publisher) serveSubscriber(to *peer) {
	if err := to.shake(zmq4.Pub); err != nil {
		p.log.Debug("KV events: no handshake", "error", err)
		return
	}
	heard, counted := &subscription{topics: map[string]int{}}, false
	changed := func() {
		if listens := heard.wants(p.cfg.Topic) && !heard.hasLeft(); listens != counted {
			counted = listens
			p.subscribers.Add(map[bool]int64{true: 1, false: -1}[listens])
		}
		p.journal.wake()
	}
	at := p.journal.next() // before anybody hears that it subscribes: it gets all that comes from then on
	p.working.Go(func() { heard.listen(to, changed) })
	var number [8]byte
	for p.journal.wait(at, heard.hasLeft) {
		from := at
		// The journal may have dropped what a slow subscriber has not had: it goes on with the
		// newest that it may still get.
		if behind, most := p.journal.next()-at, uint64(p.cfg.mostBehind()); behind > most {
			from = at + behind - most
		}
		payload, found := p.journal.from(from)
		if payload == nil {
			continue
		}
		wanted := heard.wants(p.cfg.Topic)
		if wanted {
			p.dropped.Add(found - at)
			binary.BigEndian.PutUint64(number[:], found)
			if err := to.send([]byte(p.cfg.Topic), number[:], payload); err != nil {
				return
			}
		}
		at = found + 1
	}
}

// endOfReplay stands for the number behind the last message of a replay: -1.
var endOfReplay = []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// serveReplay answers requests for messages again: an empty frame and the number of the first one
// wanted. Those that are not kept any more are left out, which shows in the numbers.
func (p *Publisher) serveReplay(to *peer) {
	if err := to.shake(zmq4.Router); err != nil {
		p.log.Debug("KV events: no handshake for a replay", "error", err)
		return
	}
	for {
		frames, command, err := to.receive()
		if err != nil {
			return
		}
		if last := len(frames) - 1; !command && len(frames[last]) == 8 && p.replay(to, binary.BigEndian.Uint64(frames[last])) != nil {
			return
		}
	}
}

// replay sends the messages from a number on that are there now.
func (p *Publisher) replay(to *peer, at uint64) error {
	var number [8]byte
	end := p.journal.next()
	if most := uint64(p.cfg.BufferSteps); end > most {
		at = max(at, end-most)
	}
	for at < end {
		payload, found := p.journal.from(at)
		if payload == nil || found >= end {
			break
		}
		binary.BigEndian.PutUint64(number[:], found)
		if err := to.send(nil, number[:], payload); err != nil {
			return err
		}
		at = found + 1
	}
	return to.send(nil, endOfReplay, nil)
}
