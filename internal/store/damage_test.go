package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ossian/internal/soak"
)

// makeStore fills dir with records of many sizes, some deleted again, and returns
// their ids.
func makeStore(t testing.TB, dir string) (names []string) {
	t.Helper()
	s, err := Open(Config{Dir: dir})
	check(t, err)
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range 120 {
		id := fmt.Sprintf("resp_%03d", i)
		check(t, s.Create(ctx, New{ID: id, Owner: ownerOf(id), Background: i%2 == 0, Object: text(id, rng.IntN(3000)*(1+i%9)),
			Items: []Item{{"in", text(id, rng.IntN(300))}, {"in2", text(id, 10)}}, Events: events(id, 0, 4), Refs: []string{"m" + id}}))
		check(t, s.Update(ctx, ownerOf(id), id, Update{Events: events(id, 4, 20), Done: i != 119}))
		if i%5 == 1 {
			check(t, s.Delete(ctx, ownerOf(id), id))
		} else {
			names = append(names, id)
		}
	}
	check(t, s.Close())
	return names
}

// ownerOf returns whose record id is.
func ownerOf(id string) string {
	n, _ := strconv.Atoi(strings.TrimPrefix(id, "resp_"))
	return fmt.Sprint("owner ", n%3)
}

// content returns all that the store says of id.
func content(s *Store, id string) (string, error) {
	owner := ownerOf(id)
	r, err := s.Get(owner, id)
	items, _, errItems := s.Items(owner, id, Page{Limit: 9, Ascending: true})
	found, errFind := s.Find(owner, "m"+id)
	var all [][]byte
	var errEvents error
	for done := false; !done && errEvents == nil; {
		var more [][]byte
		more, done, errEvents = s.eventsWithoutWait(owner, id, len(all)-1)
		all = append(all, more...)
	}
	h := sha256.New()
	fmt.Fprintln(h, r.Owner, r.Created, r.Items, r.Events, len(r.Object), len(items), len(all), found) // Open may change the state
	h.Write(r.Object)
	for _, it := range items {
		fmt.Fprintf(h, "%s %d %s", it.ID, len(it.Data), it.Data)
	}
	for _, e := range all {
		fmt.Fprintf(h, "%d %s", len(e), e)
	}
	return string(h.Sum(nil)), errors.Join(err, errItems, errEvents, errFind)
}

func (s *Store) eventsWithoutWait(owner, id string, after int) ([][]byte, bool, error) {
	e, _, _, err := s.eventsNow(owner, id, after)
	return e, len(e) == 0, err
}

// storeFile makes a store and returns its folder, its records with what each of them holds,
// and its file with the newest meta page.
func storeFile(t *testing.T) (dir string, names []string, want map[string]string, file []byte, m meta) {
	t.Helper()
	dir, want = t.TempDir(), map[string]string{}
	names = makeStore(t, dir)
	s, err := Open(Config{Dir: dir}) // finishes the running one
	check(t, err)
	for _, id := range names {
		want[id], err = content(s, id)
		check(t, err)
	}
	check(t, s.Close())
	file, err = os.ReadFile(filepath.Join(dir, databaseName))
	check(t, err)
	m, err = newestMeta(file)
	check(t, err)
	return dir, names, want, file, m
}

// DUR-4: any bit of the file or of its format line is turned over. What the store
// then says is what was stored, or that one record is damaged; Check has listed
// exactly that one, Open has repaired the rest, and the record can be deleted.
// 10 000 flips with a release.
func TestDUR4BitFlips(t *testing.T) {
	source, names, want, file, m := storeFile(t)
	file = file[:m.high*pageSize] // what is behind was never used
	line, err := os.ReadFile(filepath.Join(source, formatName))
	check(t, err)

	rng := rand.New(rand.NewPCG(9, 9))
	harmless, repaired, damaged := 0, 0, 0
	dir := t.TempDir()
	for i := range soak.Cases(t, 60, 10_000) {
		bit := rng.IntN(8 * len(file))
		switch i % 3 {
		case 1: // the start of a page, where the structure is
			bit = 8*pageSize*rng.IntN(int(m.high)) + rng.IntN(8*160)
		case 2:
			bit = 8*pageSize*rng.IntN(4) + rng.IntN(8*80) // meta pages among them
		}
		target := file
		if i%50 == 7 {
			target, bit = line, rng.IntN(8*len(line))
		}
		target[bit/8] ^= 1 << (bit % 8)
		check(t, os.WriteFile(filepath.Join(dir, databaseName), file, 0o600))
		check(t, os.WriteFile(filepath.Join(dir, formatName), line, 0o600))
		target[bit/8] ^= 1 << (bit % 8)

		before, after := flipOne(t, dir, names, want)
		switch {
		case t.Failed():
			t.Fatalf("case %d: bit %d of byte %d, page %d offset %d: check said %+v", i, bit%8, bit/8, bit/8/pageSize, bit/8%pageSize, before)
		case len(after) > 0:
			damaged++
		case len(before.Structure) > 0:
			repaired++
		default:
			harmless++
		}
	}
	t.Logf("DUR-4: %d flips damaged a record, %d damaged and Open repaired, %d hit unused bytes", damaged, repaired, harmless)
	if damaged == 0 || repaired == 0 {
		t.Error("the flips missed the records or the structure")
	}
}

// flipOne checks, opens and compares a store with one wrong bit. It returns what
// Check said and the records that are damaged.
func flipOne(t *testing.T, dir string, names []string, want map[string]string) (Report, []string) {
	t.Helper()
	before, err := Check(dir)
	check(t, err)
	s, err := Open(Config{Dir: dir})
	check(t, err)
	var affected, listed []string
	for _, id := range names {
		got, err := content(s, id)
		if err == nil && got == want[id] {
			continue
		}
		if _, ok := errors.AsType[*DamageError](err); !ok {
			t.Errorf("%s: error %v, content as stored %v", id, err, got == want[id])
		}
		affected = append(affected, id)
	}
	for _, d := range before.Damaged {
		listed = append(listed, d.ID)
	}
	if len(affected) > 1 || !slices.Equal(affected, listed) {
		t.Errorf("%d records are affected: %v; listed are %v", len(affected), affected, listed)
	}
	if n := s.Stats().Records; n != len(names) {
		t.Errorf("%d records, want %d", n, len(names))
	}
	for _, id := range affected {
		if err := s.Delete(t.Context(), ownerOf(id), id); err != nil {
			t.Errorf("delete of the damaged %s: %v", id, err)
		}
	}
	check(t, s.Close())
	if r, err := Check(dir); err != nil || len(r.Damaged)+len(r.Structure) > 0 || r.Records != len(names)-len(affected) {
		t.Errorf("check after the repair: %+v, %v", r, err)
	}
	return before, affected
}

// Whole pages of garbage: nothing crashes, nothing foreign is told, and every
// record that is not on the page is there.
func TestDUR4GarbagePages(t *testing.T) {
	source := t.TempDir()
	names := makeStore(t, source)
	file, err := os.ReadFile(filepath.Join(source, databaseName))
	check(t, err)
	m, err := newestMeta(file)
	check(t, err)
	line, err := os.ReadFile(filepath.Join(source, formatName))
	check(t, err)
	rng := rand.New(rand.NewPCG(2, 9))
	for p := pgid(2); p < m.high; p += pgid(1 + rng.IntN(max(1, int(m.high)/soak.Cases(t, 12, 2_000)))) {
		dir := t.TempDir()
		bad := bytes.Clone(file)
		for i := range pageSize {
			bad[int(p)*pageSize+i] = byte(rng.Uint32())
		}
		check(t, os.WriteFile(filepath.Join(dir, databaseName), bad, 0o600))
		check(t, os.WriteFile(filepath.Join(dir, formatName), line, 0o600))
		before, err := Check(dir)
		check(t, err)
		s, err := Open(Config{Dir: dir})
		check(t, err)
		lost := 0
		for _, id := range names {
			if _, err := content(s, id); err != nil {
				lost++
			}
		}
		// A page holds 40 heads or entries at most; a record whose head and every
		// other value were on it is gone.
		if lost > 40 || lost < len(before.Damaged) {
			t.Errorf("garbage on page %d: %d records are affected, %d listed", p, lost, len(before.Damaged))
		}
		check(t, s.Close())
		if r, err := Check(dir); err != nil || len(r.Structure) > 0 {
			t.Errorf("garbage on page %d: check after the repair: %v, %v", p, r.Structure, err)
		}
	}
}

// FuzzImage patches a sound file: reading it must neither panic nor take long, and
// what is called sound the database can read.
func FuzzImage(f *testing.F) {
	dir := f.TempDir()
	makeStore(f, dir)
	file, err := os.ReadFile(filepath.Join(dir, databaseName))
	check(f, err)
	fm, _, err := findFormat(filepath.Join(dir, databaseName))
	check(f, err)
	f.Add([]byte{})
	for p := range uint32(12) { // a wrong type, count, child, position on the first pages
		f.Add(append(binary.LittleEndian.AppendUint32(nil, p*pageSize+8), 1, 0, 255, 255))
		f.Add(append(binary.LittleEndian.AppendUint32(nil, p*pageSize+24), 3, 0, 0, 0))
	}
	f.Fuzz(func(t *testing.T, patches []byte) {
		img := bytes.Clone(file)
		for ; len(patches) >= 8; patches = patches[8:] {
			copy(img[binary.LittleEndian.Uint32(patches)%uint32(len(img)-4):], patches[4:8])
		}
		path := filepath.Join(t.TempDir(), databaseName)
		check(t, os.WriteFile(path, img, 0o600))
		r, err := os.Open(path)
		check(t, err)
		defer r.Close() // read only
		start := time.Now()
		im, _, sound, err := survey(r, fm.salt)
		if err != nil {
			return
		}
		n := 0
		check(t, im.elements(func(bucket, []byte, []byte) error { n++; return nil }))
		if d := time.Since(start); d > 30*time.Second { // it takes milliseconds, and a busy machine has pauses
			t.Errorf("it took %v", d)
		}
		if !sound || im.mended != nil {
			return
		}
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, PageSize: pageSize, ReadOnly: true})
		check(t, err)
		defer db.Close() // read only
		check(t, db.View(func(tx *bbolt.Tx) error {
			return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
				return b.ForEach(func(_, _ []byte) error { n--; return nil })
			})
		}))
		if n != 0 {
			t.Errorf("the database sees %d values less", n)
		}
	})
}

// FuzzValues: the parsers of values are total, and batches round-trip.
func FuzzValues(f *testing.F) {
	f.Add([]byte("\x02\x00ab payload"))
	f.Add(eventBytes([][]byte{[]byte("one"), nil, []byte("three")}))
	f.Add([]byte(format{1, 0, 77}.String()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if it, err := parseItem(b); err == nil && !bytes.Equal(itemBytes(&it), b) {
			t.Errorf("item %q from %q", it, b)
		}
		for n := range 4 {
			if e, err := parseEvents(b, n); err == nil && (len(e) != n || !bytes.Equal(eventBytes(e), b)) {
				t.Errorf("%d events %q from %q", n, e, b)
			}
		}
		if size, _, rest, err := blobStart(b); err == nil && size < len(rest) {
			t.Errorf("a blob of %d bytes begins with %d", size, len(rest))
		}
		if fm, err := parseFormat(string(b)); err == nil && !strings.HasPrefix(fm.String(), string(b[:min(len(b), 14)])) {
			t.Errorf("format %v from %q", fm, b)
		}
		if _, ok := salt(1).open(data, []byte("k"), b); ok && len(b) < castagnoliN {
			t.Errorf("%d bytes hold a checksum", len(b))
		}
	})
}

// A file that ends too early: what is there is as it was stored.
func TestTruncated(t *testing.T) {
	source, names, want, file, m := storeFile(t)
	for i := range soak.Cases(t, 4, 1_000) {
		path := filepath.Join(source, databaseName)
		size := pageSize * (4 + (int(m.high)-4)*i/4%int(m.high-4))
		check(t, os.WriteFile(path, file[:size+i%2*100], 0o600))
		check(t, os.WriteFile(path+".new", []byte("of a crash"), 0o600))
		s, err := Open(Config{Dir: source})
		check(t, err)
		kept := 0
		for _, id := range names {
			got, err := content(s, id)
			if err == nil && got != want[id] {
				t.Errorf("%d bytes: record %s differs", size, id)
			}
			if err == nil {
				kept++
			}
		}
		if most := len(names) * size / (int(m.high) * pageSize); kept < most/4 {
			t.Errorf("%d of %d bytes: %d of %d records are there", size, len(file), kept, len(names))
		}
		check(t, s.Close())
	}
}

// A rebuild keeps all there is, and gives back the pages that wait for reuse.
func TestRebuild(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, databaseName)
	s := open(t, Config{Dir: dir})
	for i := range 50 {
		check(t, s.Create(t.Context(), New{ID: fmt.Sprint("big", i), Owner: "o", Object: text("x", 100_000), Done: true}))
	}
	fillGolden(t, s)
	for i := range 50 {
		check(t, s.Delete(t.Context(), "o", fmt.Sprint("big", i)))
	}
	check(t, s.Close())
	before, err := os.Stat(path)
	check(t, err)
	fm, _, err := findFormat(filepath.Join(dir, databaseName))
	check(t, err)
	file, err := os.Open(path)
	check(t, err)
	im, _, sound, err := survey(file, fm.salt)
	check(t, err)
	if !sound {
		t.Errorf("the store is not sound: %v, %v", im.treeErr, im.freeErr)
	}
	check(t, rebuild(path, fm, im))
	check(t, file.Close())
	check(t, install(path))
	after, err := os.Stat(path)
	check(t, err)
	if after.Size() > before.Size()/10 {
		t.Errorf("%d bytes after the rebuild, %d before", after.Size(), before.Size())
	}
	compareGolden(t, open(t, Config{Dir: dir}))
}
