package store

// What Open tells of a damaged file and of records found damaged later. The file itself is kept
// (package disk).

import (
	"errors"
	"fmt"
	"strings"

	"ossian/internal/store/disk"
)

// repaired is what Open found damaged, and did.
type repaired struct {
	Report
	kept    string // path of the damaged file, "" = there was no need
	removed string // path of the one that had to go for it
}

// mostNamed bounds the ids in a log line; Check has them all.
const mostNamed = 50

// tell logs what Open found, and counts it.
func (s *Store) tell(found *repaired) {
	s.health.LostBytes, s.health.Rebuilt = found.LostBytes, found.kept != ""
	s.health.Lost = len(found.Lost) + found.Nameless
	for _, damage := range found.Damaged {
		s.hurt[damage.ID] = true
	}
	log := s.cfg.Log.With("file", found.File, "problems", strings.Join(found.Structure, "; "))
	// No copy was kept: the file was mended in its place, from its other meta page.
	if found.kept == "" {
		log.Warn("the file of stored responses was damaged, and is repaired: nothing is lost", "records", found.Records)
		return
	}
	if found.removed != "" {
		log.Warn("too many damaged files of stored responses are kept: one is removed", "removed", found.removed, "most", disk.MostKept)
	}
	var damaged, ranges []string
	for _, damage := range found.Damaged {
		damaged = append(damaged, damage.ID)
	}
	for _, lost := range found.Ranges {
		ranges = append(ranges, lost.String())
	}
	log.Warn("the file of stored responses is damaged: what is left of it is in a new one, and the damaged file is kept",
		"kept", found.kept, "records", found.Records, "damaged", len(damaged), "damaged_ids", some(damaged),
		"lost", s.health.Lost, "lost_ids", some(found.Lost), "perhaps_lost", found.Absent,
		"lost_bytes", found.LostBytes, "lost_ranges", some(ranges))
}

// some returns the first of names as text, and how many more there are.
func some(names []string) string {
	if more := len(names) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], " "), more)
	}
	return strings.Join(names, " ")
}

// mostHurt bounds the damaged records that are counted.
const mostHurt = 100_000

// suffered notes a record that a call found damaged, if err says so, and logs it once. It
// returns err with the id where the error did not know one.
func (s *Store) suffered(id string, err error) error {
	damage, ok := errors.AsType[*DamageError](err)
	if _, refused := errors.AsType[*ReadOnlyError](err); !ok || refused {
		return err // the whole store's
	}
	if damage.ID == "" {
		damage = &DamageError{id, damage.Problem}
		err = damage
	}
	s.stateMu.Lock()
	known := s.hurt[damage.ID] || len(s.hurt) >= mostHurt
	if !known {
		s.hurt[damage.ID] = true
	}
	s.stateMu.Unlock()
	if !known {
		s.cfg.Log.Warn("a stored response is damaged", "id", damage.ID, "problem", damage.Problem)
	}
	return err
}
