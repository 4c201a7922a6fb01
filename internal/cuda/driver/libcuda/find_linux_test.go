package libcuda

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// makeCache returns a cache of the loader with pairs of names and paths; old puts the older list
// before it, as ldconfig did until version 2.31.
func makeCache(old bool, pairs ...string) []byte {
	var before []byte
	if old {
		before = append([]byte(oldCacheMagic), 0, 0, 0, 0)[:12]
		before = binary.LittleEndian.AppendUint32(before, 1)
		before = append(before, make([]byte, oldEntry)...)
		before = append(before, make([]byte, -len(before)&7)...)
	}
	texts := cacheHeader + len(pairs)/2*cacheEntry
	var names []byte
	data := append([]byte(cacheMagic), make([]byte, cacheHeader-len(cacheMagic))...)
	binary.LittleEndian.PutUint32(data[len(cacheMagic):], uint32(len(pairs)/2))
	for i := 0; i < len(pairs); i += 2 {
		data = binary.LittleEndian.AppendUint32(data, 0x303)
		for _, text := range pairs[i:][:2] {
			data = binary.LittleEndian.AppendUint32(data, uint32(texts+len(names)))
			names = append(append(names, text...), 0)
		}
		data = append(data, make([]byte, cacheEntry-12)...)
	}
	return append(before, append(data, names...)...)
}

func TestCache(t *testing.T) {
	pairs := []string{"libz.so.1", "/lib/libz.so.1", Soname, "/32/" + Soname, "libcuda.so", "/x/libcuda.so", Soname, "/64/" + Soname}
	for _, old := range []bool{false, true} {
		paths, err := lookCache(makeCache(old, pairs...), Soname)
		if want := []string{"/32/" + Soname, "/64/" + Soname}; err != nil || !slices.Equal(paths, want) {
			t.Errorf("old %v: %v, %v; want %v", old, paths, err, want)
		}
	}
	whole := makeCache(true, pairs...)
	for length := range whole {
		if _, err := lookCache(whole[:length], Soname); err == nil {
			t.Errorf("cut to %d of %d bytes: no error", length, len(whole))
		}
	}
}

// The machine's own cache says of the C library what ldconfig reads in it.
func TestCacheOfThisMachine(t *testing.T) {
	data, err := os.ReadFile(cacheFile)
	if err != nil {
		t.Skipf("this system has no cache of the loader: %v", err)
	}
	program, err := exec.LookPath("ldconfig")
	if err != nil {
		if program, err = exec.LookPath("/sbin/ldconfig"); err != nil {
			t.Skip("ldconfig is not there to compare with")
		}
	}
	text, err := exec.Command(program, "-p").Output()
	if err != nil {
		t.Skipf("ldconfig -p: %v", err)
	}
	compared := 0
	for line := range strings.Lines(string(text)) { // "	libc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6"
		left, path, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(left, " (")
		paths, err := lookCache(data, name)
		if err != nil || !slices.Contains(paths, path) {
			t.Fatalf("%s: %v, %v; ldconfig has %s", name, paths, err, path)
		}
		compared++
	}
	if compared == 0 {
		t.Error("ldconfig -p lists no library")
	}
}

func FuzzCache(f *testing.F) {
	f.Add(makeCache(false, Soname, "/a"), Soname)
	f.Add(makeCache(true, Soname, "/a", "b", "/b"), "b")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		paths, err := lookCache(data, name)
		if err != nil && len(paths) > 0 {
			t.Errorf("paths %q beside an error", paths)
		}
		for _, path := range paths {
			if !strings.Contains(string(data), path+"\x00") {
				t.Errorf("path %q is not in the data", path)
			}
		}
	})
}

// writeLibrary writes the head of a shared library for a processor.
func writeLibrary(t *testing.T, path string, class elf.Class, machine elf.Machine) {
	t.Helper()
	head := make([]byte, 64)
	copy(head, elf.ELFMAG)
	head[elf.EI_CLASS] = byte(class)
	binary.LittleEndian.PutUint16(head[18:], uint16(machine))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, head, 0o666); err != nil {
		t.Fatal(err)
	}
}

// The first library for this processor wins; without one the error lists every place.
func TestFind(t *testing.T) {
	if machines[runtime.GOARCH] == 0 {
		t.Skip("there is no driver for " + runtime.GOARCH)
	}
	const name = "libossian-test.so.1" // a name that no system has
	dir := t.TempDir()
	path := filepath.Join(dir, "path")
	t.Setenv("LD_LIBRARY_PATH", ":"+path)
	listed := filepath.Join(dir, "listed", name)
	cache := filepath.Join(dir, "cache")
	if err := os.WriteFile(cache, makeCache(false, name, filepath.Join(dir, "32", name), name, listed), 0o666); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "known")

	_, err := find(name, cache, []string{folder})
	missing := new(NotFoundError)
	if !errors.As(err, &missing) {
		t.Fatalf("error %v, want a NotFoundError", err)
	}
	for _, place := range []string{path + " (LD_LIBRARY_PATH)", cache, folder, "/usr/lib64"} {
		if !strings.Contains(err.Error(), place) {
			t.Errorf("%v: %s is missing", err, place)
		}
	}
	// From the last place to the first: each is preferred to those before.
	for _, place := range []string{filepath.Join(folder, name), listed, filepath.Join(path, name)} {
		writeLibrary(t, filepath.Join(dir, "32", name), elf.ELFCLASS32, elf.EM_386)
		writeLibrary(t, place, elf.ELFCLASS64, machines[runtime.GOARCH])
		if found, err := find(name, cache, []string{folder}); err != nil || found != place {
			t.Errorf("found %s, %v; want %s", found, err, place)
		}
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{listed, filepath.Join(folder, name)} {
		if err := os.WriteFile(file, []byte("no library"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	_, err = find(name, filepath.Join(dir, "none"), []string{folder})
	if err == nil || !strings.Contains(err.Error(), "no ELF file") || !strings.Contains(err.Error(), "none (not there)") {
		t.Errorf("a file that is no library, no cache: %v", err)
	}
	_, err = find(name, cache, nil)
	if err == nil || !strings.Contains(err.Error(), "EM_386") {
		t.Errorf("a library for 32 bits: %v", err)
	}
}
