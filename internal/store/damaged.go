package store

// Damaged files are kept beside the one that takes their place: they may hold more than
// was found. None is written over; their number is bounded, so that a disk which damages
// every file does not fill.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// damagedName is what the name of a kept file begins with; a number that grows follows.
const damagedName = databaseName + ".damaged-"

// mostKept bounds the kept files: the first, which holds most of what was there before the
// damage began, and the latest.
const mostKept = 3

// repaired is what Open found damaged, and did.
type repaired struct {
	Report
	kept    string // path of the damaged file, "" = there was no need
	removed string // path of the one that had to go for it
}

// A keptFile is a damaged file by its number.
type keptFile struct {
	number int
	path   string
}

// keptFiles returns the damaged files in dir, the first one first.
func keptFiles(dir string) ([]keptFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var out []keptFile
	for _, entry := range entries {
		text, ok := strings.CutPrefix(entry.Name(), damagedName)
		if number, err := strconv.Atoi(text); ok && err == nil && number > 0 && !entry.IsDir() {
			out = append(out, keptFile{number, filepath.Join(dir, entry.Name())})
		}
	}
	slices.SortFunc(out, func(a, b keptFile) int { return a.number - b.number })
	return out, nil
}

// keep gives the damaged file at path, which is open, a second name that says so, and
// removes one where there are too many. The first name stays: a crash before the new file
// takes it must not leave the store without any.
func keep(file *os.File, path string) (kept, removed string, err error) {
	files, err := keptFiles(filepath.Dir(path))
	if err != nil {
		return "", "", err
	}
	info, err := file.Stat()
	if err != nil {
		return "", "", fmt.Errorf("store: %w", err)
	}
	number := 1
	for _, other := range files {
		if same, err := os.Stat(other.path); err == nil && os.SameFile(info, same) {
			return other.path, "", nil // a crash came between keep and install
		}
		number = other.number + 1
	}
	kept = filepath.Join(filepath.Dir(path), damagedName+strconv.Itoa(number))
	if err := os.Link(path, kept); err != nil { // some file systems have no second names
		if err := copyFile(file, info.Size(), kept); err != nil {
			return "", "", fmt.Errorf("store: the damaged %s cannot be kept, so it is left as it is; move it away or make room: %w", path, err)
		}
	}
	if len(files) >= mostKept {
		removed = files[1].path
		if err := os.Remove(removed); err != nil {
			return "", "", fmt.Errorf("store: %w", err)
		}
	}
	return kept, removed, syncDir(filepath.Dir(path))
}

// copyFile copies size bytes of file to a new one at path, or leaves none there.
func copyFile(file *os.File, size int64, path string) error {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(file, 0, size))
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
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
	if found.kept == "" {
		log.Warn("the file of stored responses was damaged, and is repaired: nothing is lost", "records", found.Records)
		return
	}
	if found.removed != "" {
		log.Warn("too many damaged files of stored responses are kept: one is removed", "removed", found.removed, "most", mostKept)
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
