package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ossian/internal/soak"
)

// Stores whose file was cut or overwritten. The kind of damage is that of the case
// store_file_cut of the reliability cases (a file that lost its second half).

// A whole is a sound store, with what is known of it.
type whole struct {
	format, file []byte
	names        []string          // records, by age
	deleted      []string          // ids that were records once
	want         map[string]string // content of each
	ends         map[string]int    // the first byte behind all that the file holds of each
	used         int               // bytes of the file that were ever used
}

// wholeStores makes one store of plain responses, one of large jobs, one of small ones that changed often, and
// one with so much free space that older states of its records stay in it.
func wholeStores(t testing.TB) map[string]*whole {
	t.Helper()
	out := map[string]*whole{}
	dir := t.TempDir()
	names := makeStore(t, dir)
	var deleted []string
	for i := 1; i < 120; i += 5 {
		deleted = append(deleted, fmt.Sprintf("resp_%03d", i))
	}
	out["large"] = takeWhole(t, dir, names, deleted)

	dir = t.TempDir()
	names, deleted = nil, nil
	s, err := Open(Config{Dir: dir})
	check(t, err)
	rng := rand.New(rand.NewPCG(8, 1))
	for i := range 150 {
		id := fmt.Sprintf("resp_%03d", i)
		check(t, s.Create(t.Context(), New{ID: id, Owner: ownerOf(id), Background: true, Object: text(id+" queued", 60+rng.IntN(400)),
			Items: []Item{{"in", text(id, rng.IntN(300))}}, Events: events(id, 0, 1)}))
		for v := range 1 + rng.IntN(4) {
			check(t, s.Update(t.Context(), ownerOf(id), id, Update{Object: text(fmt.Sprint(id, " version ", v), 60+rng.IntN(400)), Events: events(id, 1+v, 2+v)}))
		}
		check(t, s.Update(t.Context(), ownerOf(id), id, Update{Object: text(id+" done", 60+rng.IntN(900)), Refs: []string{"m" + id}, Done: true}))
		if names = append(names, id); rng.IntN(3) == 0 {
			at := rng.IntN(len(names))
			check(t, s.Delete(t.Context(), ownerOf(names[at]), names[at]))
			deleted = append(deleted, names[at])
			names = slices.Delete(names, at, at+1)
		}
	}
	check(t, s.Close())
	out["changed"] = takeWhole(t, dir, names, deleted)
	out["free"] = freeStore(t)
	out["plain"] = plainStore(t)
	return out
}

// plainStore makes a store of responses that were stored when they were finished.
func plainStore(t testing.TB) *whole {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir})
	check(t, err)
	var names, deleted []string
	rng := rand.New(rand.NewPCG(3, 8))
	for i := range 120 {
		id := fmt.Sprintf("resp_%03d", i)
		check(t, s.Create(t.Context(), New{ID: id, Owner: ownerOf(id), Object: text(id, rng.IntN(2000)*(1+i%20)), Items: []Item{{"in", text(id, rng.IntN(900))}}, Refs: []string{"m" + id}, Done: true}))
		if names = append(names, id); i%6 == 5 {
			at := rng.IntN(len(names))
			check(t, s.Delete(t.Context(), ownerOf(names[at]), names[at]))
			deleted = append(deleted, names[at])
			names = slices.Delete(names, at, at+1)
		}
	}
	check(t, s.Close())
	return takeWhole(t, dir, names, deleted)
}

// freeStore makes a store that held a lot once.
func freeStore(t testing.TB) *whole {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir})
	check(t, err)
	ctx := t.Context()
	for i := range 40 {
		check(t, s.Create(ctx, New{ID: fmt.Sprint("filler", i), Owner: "o", Object: text("x", 30_000), Done: true}))
	}
	var names, deleted []string
	for i := range 80 {
		id := fmt.Sprintf("resp_%03d", i)
		names = append(names, id)
		check(t, s.Create(ctx, New{ID: id, Owner: ownerOf(id), Background: true, Object: text(id+" queued", 300), Items: []Item{{"in", text(id, 200)}}, Events: events(id, 0, 1)}))
		if i < 40 {
			check(t, s.Delete(ctx, "o", fmt.Sprint("filler", i)))
		}
	}
	for i, id := range slices.Clone(names) {
		check(t, s.Update(ctx, ownerOf(id), id, Update{Object: text(id+" done", 300), Refs: []string{"m" + id}, Done: true}))
		if i%4 == 3 {
			check(t, s.Delete(ctx, ownerOf(id), id))
			names, deleted = slices.DeleteFunc(names, func(name string) bool { return name == id }), append(deleted, id)
		}
	}
	check(t, s.Close())
	return takeWhole(t, dir, names, deleted)
}

// takeWhole reads a store that is in order.
func takeWhole(t testing.TB, dir string, names, deleted []string) *whole {
	t.Helper()
	w := &whole{names: names, deleted: deleted, want: map[string]string{}}
	s, err := Open(Config{Dir: dir}) // finishes what runs
	check(t, err)
	for _, id := range names {
		w.want[id], err = content(s, id)
		check(t, err)
	}
	check(t, s.Close())
	w.file, err = os.ReadFile(filepath.Join(dir, databaseName))
	check(t, err)
	w.format, err = os.ReadFile(filepath.Join(dir, formatName))
	check(t, err)
	m, err := newestMeta(w.file)
	check(t, err)
	w.used = int(m.high) * pageSize
	parsed, err := parseFormat(string(w.format))
	check(t, err)
	w.ends = extents(t, w.file, parsed.salt)
	return w
}

// extents returns for each record of a sound database file the first byte behind all that
// the file holds of it, by id.
func extents(t testing.TB, file []byte, of salt) map[string]int {
	t.Helper()
	im, err := openImage(bytes.NewReader(file), int64(len(file)), of)
	check(t, err)
	ends, names := map[uint64]int{}, map[uint64]string{}
	check(t, im.inspect(func(found *element) error {
		value, err := found.value()
		check(t, err)
		payload, ok := of.open(found.bucket, found.key, value)
		switch {
		case found.bucket == ids && ok:
			names[binary.BigEndian.Uint64(payload)] = string(found.key)
		case found.bucket == data:
			num := binary.BigEndian.Uint64(found.key)
			ends[num] = max(ends[num], int(found.run.base+found.off+found.size))
		}
		return nil
	}))
	out := map[string]int{}
	for num, name := range names {
		out[name] = ends[num]
	}
	return out
}

// put makes a directory with this format and file.
func (w *whole) put(t testing.TB, file []byte) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, databaseName), file, 0o600))
	check(t, os.WriteFile(filepath.Join(dir, formatName), w.format, 0o600))
	return dir
}

// reopened is what became of a damaged store.
type reopened struct {
	before   Report
	log      string
	stats    Stats
	right    map[string]bool // records that are as they were
	returned []string        // deleted ones that are there again
}

// reopen checks and opens a store whose file is damaged, and compares what is there with
// what was: what is told is right, what is lost was named, the damaged file is kept, and
// the new one is sound.
func (w *whole) reopen(t *testing.T, file []byte) reopened {
	t.Helper()
	dir := w.put(t, file)
	out := reopened{right: map[string]bool{}}
	var err error
	untouched := dirBytes(t, dir)
	out.before, err = Check(dir)
	check(t, err)
	if dirBytes(t, dir) != untouched {
		t.Error("Check changed the directory")
	}
	var log bytes.Buffer
	s, err := Open(Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	check(t, err)
	out.log = log.String()
	damaged := map[string]bool{}
	for _, damage := range out.before.Damaged {
		damaged[damage.ID] = true
	}
	for _, id := range w.names {
		got, err := content(s, id)
		damage, isDamage := errors.AsType[*DamageError](err)
		switch {
		case err == nil && got == w.want[id]:
			out.right[id] = true
		case err == nil:
			t.Errorf("%s is not what was stored, and nothing says so", id)
		case isDamage && damage.ID != id:
			t.Errorf("%s: %v", id, err)
		case isDamage && !damaged[id]:
			t.Errorf("%s is damaged (%v) and was not listed", id, err)
		case !isDamage && !errors.Is(err, ErrNotFound):
			t.Errorf("%s: %v", id, err)
		case !isDamage && len(out.before.Ranges) == 0:
			t.Errorf("%s is gone, and no bytes were", id)
		}
		if damaged[id] && out.right[id] {
			t.Errorf("%s is listed as damaged and as it was", id)
		}
	}
	for _, id := range out.before.Lost {
		if !slices.Contains(w.names, id) || out.right[id] {
			t.Errorf("%s is listed as lost: there %v", id, out.right[id])
		}
	}
	for _, id := range w.deleted {
		if _, err := s.Get(ownerOf(id), id); !errors.Is(err, ErrNotFound) {
			out.returned = append(out.returned, id)
		}
	}
	out.stats = s.Stats()
	check(t, s.Close())
	w.compareFiles(t, dir, file, &out)
	return out
}

// compareFiles looks at what a start left in dir.
func (w *whole) compareFiles(t *testing.T, dir string, file []byte, out *reopened) {
	t.Helper()
	before, kept := out.before, filepath.Join(dir, damagedName+"1")
	content, err := os.ReadFile(kept)
	if before.Rebuild != (err == nil) || (err == nil && !bytes.Equal(content, file)) {
		t.Errorf("rebuild %v, the damaged file is kept: %v, %d of %d bytes", before.Rebuild, err, len(content), len(file))
	}
	if before.Rebuild {
		again, err := Check(kept)
		if again.File = before.File; err != nil || fmt.Sprint(again) != fmt.Sprint(before) {
			t.Errorf("check of the kept file: %+v, %v; before %+v", again, err, before)
		}
		if !strings.Contains(out.log, "kept="+kept) || !strings.Contains(out.log, fmt.Sprintf("damaged=%d ", len(before.Damaged))) {
			t.Errorf("the log says %q", out.log)
		}
	}
	if st := out.stats; st.Records != before.Records || st.Rebuilt != before.Rebuild || st.Lost != len(before.Lost)+before.Nameless ||
		(before.Rebuild && (st.Damaged < len(before.Damaged) || st.LostBytes != before.LostBytes || st.Kept != 1)) {
		t.Errorf("figures %+v, the report said %d records, %d damaged, %d and %d lost, %d bytes", st, before.Records, len(before.Damaged), len(before.Lost), before.Nameless, before.LostBytes)
	}
	after, err := Check(dir)
	if err != nil || after.Rebuild || after.Records != before.Records || len(after.Damaged) != len(before.Damaged) || len(after.Lost)+after.Nameless+len(after.Structure) > 0 {
		t.Errorf("check behind the start: %+v, %v; before: %d records, %d damaged", after, err, before.Records, len(before.Damaged))
	}
}

// DUR-4: a file that ends anywhere. Every record whose bytes are all there is there, no
// other is told, and what is cut off is said. Where the list of free pages is cut off, a
// job whose object may be an older one is listed as damaged.
func TestDUR4Cut(t *testing.T) {
	for name, w := range wholeStores(t) {
		t.Run(name, func(t *testing.T) {
			sizes := []int{0, 1, pageSize - 1, pageSize, pageSize + 100, 2*pageSize - 1, 2 * pageSize, w.used - 1}
			for count, i := soak.Cases(t, 24, 2_000), 0; i < count; i++ {
				sizes = append(sizes, 2*pageSize+(w.used-2*pageSize)*i/count)
			}
			unsure, held, doubted, returned := 0, 0, 0, 0
			for _, size := range sizes {
				got := w.reopen(t, w.file[:size])
				again := strings.Contains(strings.Join(got.before.Structure, " "), "may be there again")
				if len(got.returned) > 0 && !again {
					t.Errorf("records are there again that were deleted: %v", got.returned)
				}
				if returned += len(got.returned); again {
					unsure++
				}
				if size >= 2*pageSize && (len(got.before.Ranges) == 0 || got.before.Ranges[len(got.before.Ranges)-1].End < int64(w.used)) {
					t.Errorf("the report does not say that the file lost its end: %v", got.before.Ranges)
				}
				for id, end := range w.ends {
					listed := slices.ContainsFunc(got.before.Damaged, func(d *DamageError) bool { return d.ID == id })
					switch {
					case end > size:
					case got.right[id]:
						held++
					case again && listed:
						doubted++
					default:
						t.Errorf("%s ends before the cut and is not there", id)
					}
				}
				if t.Failed() {
					t.Fatalf("cut at %d of %d, said before: %+v", size, w.used, got.before)
				}
			}
			t.Logf("%d cuts, %d of them without a list of free pages; of what was before a cut %d records are there, %d are listed as damaged; %d deleted ones are there again",
				len(sizes), unsure, held, doubted, returned)
			if unsure == 0 || held < len(sizes) || doubted > held/2 || (name == "plain" && doubted > 0) {
				t.Error("the cuts show little")
			}
		})
	}
}

// DUR-4: bytes that are overwritten, one or many, anywhere.
func TestDUR4Overwritten(t *testing.T) {
	for name, w := range wholeStores(t) {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(6, 2))
			for range soak.Cases(t, 60, 5_000) {
				file := bytes.Clone(w.file)
				at, size := rng.IntN(w.used), 1+rng.IntN(1<<rng.IntN(14))
				if rng.IntN(3) == 0 {
					at = rng.IntN(w.used/pageSize) * pageSize
				}
				end := min(at+size, w.used)
				for i := at; i < end; i++ {
					file[i] ^= byte(1 + rng.IntN(255))
				}
				got := w.reopen(t, file)
				if len(got.returned) > 0 && !strings.Contains(strings.Join(got.before.Structure, " "), "may be") {
					t.Errorf("records are there again that were deleted: %v", got.returned)
				}
				missing := 0
				for _, id := range w.names {
					if !got.right[id] {
						missing++
					}
				}
				// A page holds 40 heads or entries at most.
				if most := 40 * (2 + size/pageSize); missing > most {
					t.Errorf("%d records are lost, want %d at most", missing, most)
				}
				if t.Failed() {
					t.Fatalf("%d bytes from %d on, page %d, said before: %+v", size, at, at/pageSize, got.before)
				}
			}
		})
	}
}
