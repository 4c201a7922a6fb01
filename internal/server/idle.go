package server

import (
	fifo "container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// A roster knows which connections are idle: no request of theirs is being answered. Where
// there is no room for another connection it closes one of them, the one that has been idle
// longest among those of the peer with most: who opens many connections and sends nothing
// pays for it, not the others (CON-3). Of one peer, which may be a proxy or a house, those
// go that are more: connections that have not brought a request yet, or those that have.
// Where none is idle, one goes whose body has been awaited for slowBody.
//
// Invariant: a connection is in one list of its peer exactly while it is idle or its body is
// awaited, the one that is so for longest in front.
type roster struct {
	mu    sync.Mutex // guards what follows, and the lists of all peers
	peers map[netip.Addr]*peer
	at    map[*counted]place // where an idle one is
}

// A place is where an idle connection is in a list of its peer.
type place struct {
	list *fifo.List
	at   *fifo.Element
}

// A peer is where connections come from.
type peer struct {
	connections int       // open ones
	fresh       fifo.List // of *idler: without a request so far
	idle        fifo.List // of *idler: behind a request
	awaited     fifo.List // of *idler: their bodies have not come
}

// slowBody is how long a body may take before its connection makes room for others.
const slowBody = 2 * time.Second

// slowest returns the connection whose body is awaited longest, nil if none is slow.
func (p *peer) slowest() (gone *idler, soon bool) {
	if p.awaited.Len() == 0 {
		return nil, false
	}
	first := p.awaited.Front().Value.(*idler)
	if time.Since(first.since) < slowBody {
		return nil, false
	}
	return first, false
}

// longest returns the idle connection that is to go, nil without any among the first looked at.
// One whose request has come, but has not been read yet, is not idle: it is in the list only
// because this machine is busy, and soon says that there are such.
func (p *peer) longest() (gone *idler, soon bool) {
	list := &p.idle
	if p.fresh.Len() > p.idle.Len() {
		list = &p.fresh
	}
	at := list.Front()
	for range mostAsked {
		if at == nil {
			break
		}
		here := at.Value.(*idler)
		if !here.conn.asked() {
			return here, false
		}
		at, soon = at.Next(), true
	}
	return nil, soon
}

// mostAsked is how many connections of a peer are looked at for one that is idle.
const mostAsked = 64

// An idler is an idle connection.
type idler struct {
	conn  *counted
	since time.Time
}

func newRoster() *roster {
	return &roster{peers: map[netip.Addr]*peer{}, at: map[*counted]place{}}
}

// watch is the ConnState of the HTTP server. A connection is new until its first request
// has come as a whole.
func (r *roster) watch(conn net.Conn, state http.ConnState) {
	counted := countedOf(conn)
	if counted == nil || counted.isSpare() {
		return // a spare one has no place that another could get
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	who := r.peers[counted.peer]
	switch {
	case state == http.StateNew:
		if who == nil {
			who = new(peer)
			r.peers[counted.peer] = who
		}
		who.connections++
		r.at[counted] = place{&who.fresh, who.fresh.PushBack(&idler{counted, time.Now()})}
	case who == nil:
	case state == http.StateIdle:
		r.leave(counted)
		r.at[counted] = place{&who.idle, who.idle.PushBack(&idler{counted, time.Now()})}
	case state == http.StateActive:
		r.leave(counted)
	default: // closed
		r.leave(counted)
		if who.connections--; who.connections == 0 {
			delete(r.peers, counted.peer)
		}
	}
}

// await says that the body of a connection's request is awaited, or no more.
func (r *roster) await(counted *counted, awaited bool) {
	if counted == nil || counted.isSpare() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(counted)
	if who := r.peers[counted.peer]; who != nil && awaited {
		r.at[counted] = place{&who.awaited, who.awaited.PushBack(&idler{counted, time.Now()})}
	}
}

// leave takes a connection off the list that it is in.
func (r *roster) leave(c *counted) {
	if here := r.at[c]; here.list != nil {
		here.list.Remove(here.at)
		delete(r.at, c)
	}
}

// evict closes an idle connection, or a slow one, and reports whether there was one; soon
// says that there was none only because requests wait to be read.
func (r *roster) evict() (evicted, soon bool) {
	r.mu.Lock()
	gone, soon := r.oldest((*peer).longest)
	if gone == nil {
		gone, _ = r.oldest((*peer).slowest)
	}
	if gone != nil {
		r.leave(gone.conn)
	}
	r.mu.Unlock()
	if gone == nil {
		return false, soon
	}
	_ = gone.conn.Close() // whose goroutine sees that, and ends
	return true, false
}

// oldest returns what choose finds at the peer with most connections of those where it
// finds one, and whether it said soon of any.
func (r *roster) oldest(choose func(*peer) (*idler, bool)) (oldest *idler, soon bool) {
	var most *peer
	for _, who := range r.peers {
		first, here := choose(who)
		soon = soon || here
		if first == nil {
			continue
		}
		if most == nil || who.connections > most.connections || (who.connections == most.connections && first.since.Before(oldest.since)) {
			most, oldest = who, first
		}
	}
	return oldest, soon
}

// peerOf returns whom an address counts for: an IPv4 address, or the network of an IPv6
// one, which one subscriber has.
func peerOf(address net.Addr) netip.Addr {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	at := tcp.AddrPort().Addr().Unmap()
	if at.Is6() {
		network, _ := at.WithZone("").Prefix(64) // 64 is within an IPv6 address
		return network.Addr()
	}
	return at
}
