package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"math"
	"slices"
	"strings"

	"ossian/internal/limits"
)

// settings are what Reload replaces as a whole. Nothing in them changes.
type settings struct {
	keys []key // nil = none is needed
	last uint32
	lim  *limits.Set
}

// A key is known by its digest. Its tenant is its own as long as it is one of the keys:
// fair queues and cached prefixes are told apart by it, wherever in the list it stands.
type key struct {
	sum    [sha256.Size]byte
	tenant uint32
}

// Reload replaces keys and limits, nil = the defaults. Requests that are served already
// go on as they are. Limits that are not Live count when the server is started anew.
func (s *Server) Reload(keys []string, lim *limits.Set) {
	if lim == nil {
		lim = limits.Defaults()
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	before, next := s.live.Load(), &settings{lim: lim}
	if before == nil {
		before = next
	}
	next.last = before.last
	for _, text := range keys {
		k := key{sum: sha256.Sum256([]byte(text))}
		same := func(other key) bool { return other.sum == k.sum }
		if slices.ContainsFunc(next.keys, same) {
			continue
		}
		if i := slices.IndexFunc(before.keys, same); i >= 0 {
			k.tenant = before.keys[i].tenant
		} else {
			next.last++
			k.tenant = next.last
		}
		next.keys = append(next.keys, k)
	}
	s.live.Store(next)
}

// lim are the limits in force.
func (s *Server) lim() *limits.Set { return s.live.Load().lim }

// tenant returns whose key it is. All keys are compared, in constant time, and a key
// that is known is no more work than another: the answer's time says nothing (SEC-5).
func (s *Server) tenant(authorization string) (uint32, bool) {
	keys := s.live.Load().keys
	if len(keys) == 0 {
		return 0, true
	}
	scheme, text, _ := strings.Cut(authorization, " ")
	bearer := strings.EqualFold(scheme, "Bearer")
	sum := sha256.Sum256([]byte(strings.TrimSpace(text)))
	found := 0
	for i := range keys {
		found |= subtle.ConstantTimeCompare(sum[:], keys[i].sum[:]) * int(keys[i].tenant&math.MaxInt32)
	}
	known := subtle.ConstantTimeLessOrEq(1, found)
	if !bearer {
		known = 0
	}
	return uint32(found), known == 1
}
