package store

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newestPage returns the number of the newer meta page of a file.
func newestPage(t *testing.T, file []byte) int {
	t.Helper()
	newest, err := newestMeta(file)
	check(t, err)
	return int(newest.txid % 2)
}

// DUR-4: after each transaction of a workload the newer meta page is lost, to zeros or to
// garbage: what the transaction changed is in the file, and is found there.
func TestDUR4LostMeta(t *testing.T) {
	file, log := recordCommits(t, 120)
	rng := rand.New(rand.NewPCG(4, 4))
	for at, commit := range log {
		for _, w := range append(commit.data, commit.meta) {
			copy(file[w.off:], w.b)
		}
		want := fingerprint(t, file)
		for _, garbage := range []bool{false, true} {
			spoiled := bytes.Clone(file)
			for i := range spoiled[commit.meta.off:][:pageSize] {
				spoiled[int(commit.meta.off)+i] = 0
				if garbage {
					spoiled[int(commit.meta.off)+i] = byte(rng.Uint32())
				}
			}
			if got := fingerprint(t, spoiled); got != want {
				t.Fatalf("transaction %d of %d, garbage %v: the state before it is taken", at, len(log), garbage)
			}
			im, err := openImage(bytes.NewReader(spoiled), int64(len(spoiled)), 0)
			check(t, err)
			if im.metaErr != nil || im.mending != remadeText || !bytes.Equal(im.mended[:2*pageSize], file[:2*pageSize]) {
				t.Errorf("transaction %d: %v, %q, the meta pages are not as they were", at, im.metaErr, im.mending)
			}
		}
		// The older page is of no use: the state stays.
		other := bytes.Clone(file)
		clear(other[pageSize-commit.meta.off:][:pageSize])
		if got := fingerprint(t, other); got != want {
			t.Errorf("transaction %d: without the older meta page another state is taken", at)
		}
	}
	if len(log) < 40 {
		t.Errorf("%d transactions", len(log))
	}
}

// A meta page is lost of a store with a past: nothing else is, nothing that was deleted is there
// again, and the log says what was done.
func TestDUR4LostMetaPage(t *testing.T) {
	for name, w := range wholeStores(t) {
		for number := range 2 {
			file := bytes.Clone(w.file)
			clear(file[number*pageSize:][:pageSize])
			got := w.reopen(t, file)
			if len(got.right) != len(w.names) || len(got.returned) > 0 || len(got.before.Damaged)+len(got.before.Lost)+got.before.Nameless > 0 {
				t.Errorf("%s: without meta page %d %d of %d records are there, %v again, said before: %+v", name, number, len(got.right), len(w.names), got.returned, got.before)
			}
			newest := newestPage(t, w.file) == number
			if said := strings.Join(got.before.Structure, "; "); newest != strings.Contains(said, remadeText) || newest == strings.Contains(said, newestText) || newest == got.before.Rebuild {
				t.Errorf("%s: meta page %d lost, the newer %v: %+v", name, number, newest, got.before)
			}
		}
	}
}

// Where pages of the last change are lost with its meta page, what it stored is not made up, and
// the report says that it is gone.
func TestDUR4LostChange(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	for _, id := range []string{"first", "second", "last"} {
		check(t, s.Create(t.Context(), New{ID: id, Owner: "o", Object: text(id, 9000), Done: true}))
	}
	check(t, s.Close())
	path := filepath.Join(dir, databaseName)
	file, err := os.ReadFile(path)
	check(t, err)
	newest, err := newestMeta(file)
	check(t, err)
	clear(file[newestPage(t, file)*pageSize:][:pageSize])
	clear(file[newest.free*pageSize:][:pageSize]) // its list of free pages
	check(t, os.WriteFile(path, file, 0o600))
	report, err := Check(dir)
	check(t, err)
	if said := strings.Join(report.Structure, "; "); !strings.Contains(said, partlyText) || report.Records != 2 {
		t.Errorf("said %q of %d records", said, report.Records)
	}
	s = open(t, Config{Dir: dir})
	for _, id := range []string{"first", "second"} {
		if got, err := s.Get("o", id); err != nil || !bytes.Equal(got.Object, text(id, 9000)) {
			t.Errorf("%s: %v", id, err)
		}
	}
	_, err = s.Get("o", "last")
	wantErr(t, "what is lost", err, ErrNotFound)
}

// A file of a version that left no stamps is as it was: what may be missing is said.
func TestLostMetaWithoutStamps(t *testing.T) {
	dir := t.TempDir()
	check(t, os.CopyFS(dir, os.DirFS(goldenDir)))
	path := filepath.Join(dir, databaseName)
	file, err := os.ReadFile(path)
	check(t, err)
	clear(file[newestPage(t, file)*pageSize:][:pageSize])
	check(t, os.WriteFile(path, file, 0o600))
	report, err := Check(dir)
	check(t, err)
	if said := strings.Join(report.Structure, "; "); !strings.Contains(said, ambiguousText) {
		t.Errorf("said %q", said)
	}
	check(t, open(t, Config{Dir: dir}).Close())
}
