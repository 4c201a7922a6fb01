package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/store/disk"
)

// damagedName is what the names of kept files begin with.
const damagedName = databaseName + disk.DamagedSuffix

// spoil overwrites the start of the database in dir and returns the file as it is then.
func spoil(t *testing.T, dir string, with byte) []byte {
	t.Helper()
	path := filepath.Join(dir, databaseName)
	file, err := os.ReadFile(path)
	check(t, err)
	for i := range 3 * pageSize {
		file[i] = with
	}
	check(t, os.WriteFile(path, file, 0o600))
	return file
}

// Damaged files are kept under names of their own: the first, the latest, no more than
// there may be, and none is written over.
func TestKeptFiles(t *testing.T) {
	dir := t.TempDir()
	makeStore(t, dir)
	spoiled := map[string][]byte{}
	for i := range disk.MostKept + 3 {
		name := fmt.Sprint(damagedName, i+1)
		spoiled[name] = spoil(t, dir, byte(i+1))
		var log bytes.Buffer
		s, err := Open(Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
		check(t, err)
		if n := s.Stats().Kept; n != min(i+1, disk.MostKept) || !s.Stats().Rebuilt {
			t.Errorf("damage %d: figures %+v", i, s.Stats())
		}
		if removed := strings.Contains(log.String(), "removed="+filepath.Join(dir, damagedName)); removed != (i >= disk.MostKept) || !strings.Contains(log.String(), name) {
			t.Errorf("damage %d: the log says %q", i, log.String())
		}
		check(t, s.Close())
		found, err := filepath.Glob(filepath.Join(dir, damagedName+"*"))
		if err != nil || len(found) != min(i+1, disk.MostKept) || filepath.Base(found[0]) != damagedName+"1" || filepath.Base(found[len(found)-1]) != name {
			t.Errorf("damage %d: kept %v, %v", i, found, err)
		}
		for _, path := range found {
			if file, err := os.ReadFile(path); err != nil || !bytes.Equal(file, spoiled[filepath.Base(path)]) {
				t.Errorf("damage %d: %s has changed: %v", i, path, err)
			}
		}
	}
	// A start that finds nothing wrong keeps and tells nothing.
	s := open(t, Config{Dir: dir})
	if st := s.Stats(); st.Rebuilt || st.Kept != disk.MostKept || st.Lost != 0 {
		t.Errorf("behind the damage: %+v", st)
	}
}

// A crash between keeping the damaged file and its replacement: the next start keeps no
// second one, and loses nothing.
func TestKeptOnce(t *testing.T) {
	dir := t.TempDir()
	names := makeStore(t, dir)
	spoil(t, dir, 9)
	path := filepath.Join(dir, databaseName)
	file, err := os.Open(path)
	check(t, err)
	_, _, err = disk.Keep(file, path)
	check(t, errors.Join(err, file.Close()))
	check(t, os.WriteFile(path+".new", []byte("of a crash"), 0o600))
	s := open(t, Config{Dir: dir})
	if st := s.Stats(); st.Kept != 1 || st.Records != len(names) {
		t.Errorf("%+v, want one kept file and %d records", st, len(names))
	}
}

// What is wrong beside the records is told, too.
func TestOpenTells(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(dir string) error
		want  string // in the log, "" = nothing is
		err   string // of Open and Check
	}{
		{"nothing", func(string) error { return nil }, "", ""},
		{"a bit of FORMAT", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, formatName), []byte("ossian-stors"), 0o600)
		}, "FORMAT was damaged", ""},
		{"one byte of a meta page", func(dir string) error { return patch(dir, 16+20, []byte{0xAA}) }, "nothing is lost", ""},
		{"a meta page", func(dir string) error { return patch(dir, 16, make([]byte, 64)) }, "nothing is lost", ""},
		{"the meta page before", func(dir string) error { return patch(dir, pageSize+16, make([]byte, 64)) }, "meta page 1 of two is not valid", ""},
		{"the FORMAT of another", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, formatName), []byte(format{1, 0, 77}.String()), 0o600)
		}, "", "FORMAT beside"},
		{"no FORMAT and no page", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, formatName)), os.Truncate(filepath.Join(dir, databaseName), 0))
		}, "", "FORMAT is not usable"},
		{"no file", func(dir string) error { return remove(dir, databaseName) }, "is not there", ""},
		{"no file and no key", func(dir string) error { return remove(dir, databaseName, keyName) }, "found=FORMAT", ""},
		{"no file and no FORMAT", func(dir string) error { return remove(dir, databaseName, formatName) }, "found=seal.key", ""},
		{"a kept file alone", func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, databaseName), filepath.Join(dir, damagedName+"1")), remove(dir, formatName, keyName))
		}, "found=" + damagedName + "1", ""},
		{"nothing of it", func(dir string) error { return remove(dir, databaseName, formatName, keyName) }, "", ""},
	} {
		dir := t.TempDir()
		check(t, os.CopyFS(dir, os.DirFS(goldenDir)))
		s, err := Open(Config{Dir: dir})
		check(t, err)
		_, err = s.Key()
		check(t, errors.Join(err, s.Close(), c.spoil(dir)))
		var log bytes.Buffer
		_, checked := Check(dir)
		if checked == nil {
			checked = errors.New("none")
		}
		if s, err = Open(Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))}); err == nil {
			check(t, s.Close())
		}
		if (err == nil) != (c.err == "") || (err != nil && (!strings.Contains(err.Error(), c.err) || !strings.Contains(checked.Error(), c.err))) {
			t.Errorf("%s: error %v, of Check %v", c.name, err, checked)
		}
		if !strings.Contains(log.String(), c.want) || (c.want == "" && log.Len() > 0) {
			t.Errorf("%s: the log says %q, want %q", c.name, log.String(), c.want)
		}
	}
}

// remove removes files of a store.
func remove(dir string, names ...string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, os.Remove(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// patch writes over the database in dir.
func patch(dir string, at int64, with []byte) error {
	file, err := os.OpenFile(filepath.Join(dir, databaseName), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(with, at)
	return errors.Join(err, file.Close())
}

// A record whose bytes change below a running store is told as damaged by its id, once in
// the log, and to nobody else; it can be deleted.
func TestDamagedWhileOpen(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	s := open(t, Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	ctx := t.Context()
	for _, id := range []string{"object", "head", "entry", "sound"} {
		check(t, s.Create(ctx, New{ID: id, Owner: "o", Background: true, Object: text("object of "+id, 900), Items: []Item{{"in", []byte("x")}}, Refs: []string{"m" + id}}))
	}
	file, err := os.ReadFile(s.path())
	check(t, err)
	for _, found := range []string{"object of object object", `{"id":"head"`, "entry" + string(s.salt.seal(ids, []byte("entry"), idValue(3, "o")))} {
		at, last := bytes.Index(file, []byte(found)), 0
		for ; at >= 0; at = bytes.Index(file[last:], []byte(found)) { // in older states, too
			last += at + 3
			spoiled := file[last] ^ 1
			if strings.HasPrefix(found, "entry") {
				spoiled = file[last+2] ^ 1
				check(t, patch(dir, int64(last+2), []byte{spoiled})) // the checksum
				continue
			}
			check(t, patch(dir, int64(last), []byte{spoiled}))
		}
	}
	reads := map[string]func(id string) error{
		"get":    func(id string) error { _, err := s.Get("o", id); return err },
		"chain":  func(id string) error { _, err := s.Chain("o", id, 9); return err },
		"items":  func(id string) error { _, _, err := s.Items("o", id, Page{Limit: 1}); return err },
		"events": func(id string) error { _, _, _, err := s.eventsNow("o", id, -1); return s.suffered(id, err) },
		"cancel": func(id string) error { return s.Cancel(ctx, "o", id) },
	}
	for id, names := range map[string]string{"object": "get chain", "head": "get chain items events cancel", "entry": "get chain items events cancel"} {
		for _, name := range strings.Fields(names) {
			damage, ok := errors.AsType[*DamageError](reads[name](id))
			if !ok || damage.ID != id {
				t.Errorf("%s of %q: %v", name, id, reads[name](id))
			}
		}
		_, err := s.Get("other", id)
		wantErr(t, "get of "+id+" by another", err, ErrNotFound)
		if n := strings.Count(log.String(), "id="+id); n != 1 {
			t.Errorf("%q is %d times in the log: %s", id, n, log.String())
		}
	}
	if n := s.Stats().Damaged; n != 3 {
		t.Errorf("%d records are damaged, want 3", n)
	}
	check(t, errors.Join(s.Delete(ctx, "o", "object"), s.Delete(ctx, "o", "head")))
	if n := s.Stats().Damaged; n != 1 {
		t.Errorf("%d records are damaged behind the deletes, want 1", n)
	}
	if _, err := s.Get("o", "sound"); err != nil {
		t.Error(err)
	}
	check(t, s.Close())
	// The next start makes the entry anew from the record.
	s = open(t, Config{Dir: dir})
	if r, err := s.Get("o", "entry"); err != nil || !bytes.Equal(r.Object, text("object of entry", 900)) {
		t.Errorf("behind a start: %v", err)
	}
}

// Check leaves no trace, not even a lock, and says that a store is in use.
func TestCheckReadsOnly(t *testing.T) {
	dir := t.TempDir()
	check(t, os.CopyFS(dir, os.DirFS(goldenDir)))
	before := dirBytes(t, dir)
	for _, path := range []string{dir, filepath.Join(dir, databaseName)} {
		if report, err := Check(path); err != nil || !report.Sound() || report.File != filepath.Join(dir, databaseName) || report.Records != 3 {
			t.Errorf("%s: %+v, %v", path, report, err)
		}
	}
	if dirBytes(t, dir) != before {
		t.Error("the directory has changed")
	}
	s := open(t, Config{Dir: dir})
	_, err := Check(filepath.Join(dir, databaseName))
	wantErr(t, "check beside a server", err, ErrLocked)
	check(t, os.Link(s.path(), filepath.Join(dir, "copy.db"))) // not the server's
	if _, err := Check(filepath.Join(dir, "copy.db")); err != nil {
		t.Error(err)
	}
	if _, err := Check(filepath.Join(dir, "none.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("check of no file: %v", err)
	}
}

// FuzzCheck cuts and patches a sound file: Check neither panics nor changes anything, and
// what it says comes true when the store is opened.
func FuzzCheck(f *testing.F) {
	source := f.TempDir()
	makeStore(f, source)
	file, err := os.ReadFile(filepath.Join(source, databaseName))
	check(f, err)
	line, err := os.ReadFile(filepath.Join(source, formatName))
	check(f, err)
	for size := uint32(0); size < uint32(len(file)); size += 100_003 {
		f.Add(size, []byte{})
	}
	f.Add(uint32(len(file)), append(binary.LittleEndian.AppendUint32(nil, 3*pageSize+8), 1, 0, 255, 255))
	f.Fuzz(func(t *testing.T, size uint32, patches []byte) {
		img := bytes.Clone(file[:min(int(size), len(file))])
		for ; len(patches) >= 8 && len(img) > 8; patches = patches[8:] {
			copy(img[binary.LittleEndian.Uint32(patches)%uint32(len(img)-4):], patches[4:8])
		}
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, databaseName), img, 0o600))
		check(t, os.WriteFile(filepath.Join(dir, formatName), line, 0o600))
		before := dirBytes(t, dir)
		report, err := Check(dir)
		check(t, err)
		if dirBytes(t, dir) != before {
			t.Error("the directory has changed")
		}
		s, err := Open(Config{Dir: dir})
		check(t, err)
		st := s.Stats()
		check(t, s.Close())
		if st.Rebuilt != report.Rebuild || st.Records != report.Records || (report.Rebuild && st.LostBytes != report.LostBytes) {
			t.Errorf("figures %+v, the report: %d records, rebuild %v, %d bytes lost", st, report.Records, report.Rebuild, report.LostBytes)
		}
		after, err := Check(dir)
		if err != nil || after.Rebuild || after.Records != report.Records || len(after.Damaged) != len(report.Damaged) {
			t.Errorf("behind the start: %+v, %v; before: %+v", after, err, report)
		}
	})
}
