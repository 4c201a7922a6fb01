package kernels

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const toolchain = "../../../_tools/cuda/"

// words returns the lines of a text file that are no comments, split at blanks.
func words(t *testing.T, name string) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 && !strings.HasPrefix(line, "#") {
			lines = append(lines, fields)
		}
	}
	return lines
}

var include = regexp.MustCompile(`(?m)^#include "([^"]+)"`)

// parts returns the files of this folder that a source is compiled from, itself first, as build.sh
// finds them.
func parts(t *testing.T, source string) []string {
	t.Helper()
	files := []string{source}
	for i := 0; i < len(files); i++ {
		text, err := os.ReadFile(files[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range include.FindAllSubmatch(text, -1) {
			if name := string(found[1]); !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	return files
}

// TestManifest holds every committed product to the sources it was made of, without a compiler: a
// source that was changed and not compiled is found, as is a product that was edited.
func TestManifest(t *testing.T) {
	var with, products []string
	versions, entries := map[string]string{}, map[string][]string{}
	for _, line := range words(t, "MANIFEST") {
		switch line[0] {
		case "with":
			with = append(with, line[1])
		case "flags":
			if !slices.Contains(line, "-fmad=false") {
				t.Errorf("flags %v: without -fmad=false the bits of a kernel depend on its assembler", line[1:])
			}
		case "version":
			versions[line[1]] = line[2]
		default:
			entries[line[0]] = line[1:]
		}
	}
	for _, line := range words(t, toolchain+"requirements.txt") {
		if !slices.Contains(with, line[0]) {
			t.Errorf("MANIFEST was made without %s, which _tools/cuda/requirements.txt asks for", line[0])
		}
	}
	for _, line := range words(t, toolchain+"sources.txt") {
		product := fmt.Sprintf("%s.sm_%s.ptx", line[0], line[1])
		products = append(products, product)
		if !checkEntry(t, product, parts(t, line[0]+".cu"), entries[product]) {
			continue
		}
		ptx, _ := os.ReadFile(product)
		if head := fmt.Sprintf(".version %s\n.target sm_%s\n", versions[line[1]], line[1]); !bytes.HasPrefix(ptx, []byte(head)) {
			t.Errorf("%s does not begin with %q", product, head)
		}
	}
	for product := range entries {
		if !slices.Contains(products, product) {
			t.Errorf("MANIFEST has %s, which nothing in _tools/cuda/sources.txt makes: %s", product, remedy)
		}
	}
	for _, file := range folder(t) {
		source := strings.HasSuffix(file, ".cu") && !slices.ContainsFunc(products, func(p string) bool {
			return strings.HasPrefix(p, strings.TrimSuffix(file, "cu")+"sm_")
		})
		if source || (strings.HasSuffix(file, ".ptx") && !slices.Contains(products, file)) {
			t.Errorf("%s: nothing in _tools/cuda/sources.txt makes it, or is made of it", file)
		}
	}
}

// folder returns the names of all files beside this one.
func folder(t *testing.T) (names []string) {
	t.Helper()
	all, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		names = append(names, file.Name())
	}
	return names
}

const remedy = "run _tools/cuda/build.sh and commit what it writes"

// checkEntry compares a line of MANIFEST, a digest and then pairs of file and digest, with the
// files. It returns whether there is a product.
func checkEntry(t *testing.T, product string, parts, entry []string) bool {
	t.Helper()
	if _, err := os.Stat(product); err != nil || entry == nil {
		t.Errorf("%s was never made, or MANIFEST does not have it: %s", product, remedy)
		return false
	}
	if len(entry) != 1+2*len(parts) {
		t.Errorf("%s was made of %d files, now it consists of %v: %s", product, len(entry)/2, parts, remedy)
		return true
	}
	if digest(t, product) != entry[0] {
		t.Errorf("%s is not what MANIFEST says: %s", product, remedy)
	}
	for i, part := range parts {
		if name, want := entry[1+2*i], entry[2+2*i]; name != part || digest(t, part) != want {
			t.Errorf("%s was made of another %s than there is: %s", product, part, remedy)
		}
	}
	return true
}

func digest(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// atomic finds sums of floats in memory, in whatever order threads come.
var atomic = regexp.MustCompile(`(?m)^.*\b(atom|red)\.\S*add\S*\.(f16|bf16|f32|f64)\S*\b.*$`)

// loose finds operations of floats that an assembler may fuse with others.
var loose = regexp.MustCompile(`(?m)^.*\b(add|sub|mul)\.(ftz\.|sat\.)*f(32|64)\b.*$`)

// shared finds static arrays in shared memory.
var shared = regexp.MustCompile(`(?m)^\s*\.shared \.align \d+ \.b8 \S+\[(\d+)\];`)

// TestProducts holds the PTX to the rules of cuda.md 2.
func TestProducts(t *testing.T) {
	if len(Modules()) == 0 {
		t.Fatal("there are no modules")
	}
	owner := map[string]string{}
	for _, module := range Modules() {
		if at := atomic.Find(module.PTX); at != nil {
			t.Errorf("%s for sm_%s: %q: atomic sums of floats depend on the order of threads", module.Name, module.Arch, bytes.TrimSpace(at))
		} else if at := loose.Find(module.PTX); at != nil {
			t.Errorf("%s for sm_%s: %q has no rounding mode: an assembler may fuse it", module.Name, module.Arch, bytes.TrimSpace(at))
		}
		for _, name := range module.Entries {
			key := name + " sm_" + module.Arch
			if other, ok := owner[key]; ok {
				t.Errorf("kernel %s is in %s and in %s", key, other, module.Name)
			}
			owner[key] = module.Name
		}
		if bytes := staticShared(t, module.PTX); bytes > 32<<10 {
			t.Errorf("%s for sm_%s: %d bytes of static shared memory; more than 32 KiB is extern __shared__", module.Name, module.Arch, bytes)
		}
	}
	if len(archive) > 3<<20 {
		t.Errorf("all PTX takes %d bytes compressed, the budget is 3 MiB", len(archive))
	}
	t.Logf("%d modules, %d bytes compressed", len(Modules()), len(archive))
}

// TestArchive fails where the program embeds other PTX than lies in this folder.
func TestArchive(t *testing.T) {
	embedded := map[string][]byte{}
	for _, module := range Modules() {
		embedded[module.Name+".sm_"+module.Arch+".ptx"] = module.PTX
	}
	for _, file := range folder(t) {
		if !strings.HasSuffix(file, ".ptx") {
			continue
		}
		ptx, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(embedded[file], ptx) {
			t.Errorf("ptx.zip does not hold %s as it is; run `go run ./_tools/cuda/archive internal/cuda/kernels` and commit ptx.zip", file)
		}
		delete(embedded, file)
	}
	for file := range embedded {
		t.Errorf("ptx.zip holds %s, which is not in the folder; run `go run ./_tools/cuda/archive internal/cuda/kernels` and commit ptx.zip", file)
	}
}

// staticShared returns the most shared memory that a kernel of a module declares.
func staticShared(t *testing.T, ptx []byte) (most int) {
	t.Helper()
	for _, body := range bytes.Split(ptx, []byte(".visible .entry ")) {
		sum := 0
		for _, found := range shared.FindAllSubmatch(body, -1) {
			size, err := strconv.Atoi(string(found[1]))
			if err != nil {
				t.Fatal(err)
			}
			sum += size
		}
		most = max(most, sum)
	}
	return most
}

// TestRules plants a breach of each rule.
func TestRules(t *testing.T) {
	for line, want := range map[string]bool{"\tred.global.add.f32 [%rd1], %f1;": true, "\t@%p1 atom.shared.add.noftz.bf16x2 %r1, [%r2], %r3;": true,
		"\tatom.global.add.u32 %r1, [%rd1], 1;": false, "\tadd.rn.f32 %f1, %f2, %f3;": false} {
		if atomic.MatchString(line) != want {
			t.Errorf("%q is an atomic sum of floats: %v, want %v", line, !want, want)
		}
	}
	for _, line := range []string{"\tadd.f32 %f1, %f2, %f3;", "\t@%p1 mul.ftz.f32 %f1, %f2, %f3;", "sub.f64 %fd1, %fd2, %fd3;"} {
		if !loose.MatchString(line) {
			t.Errorf("%q passes", line)
		}
	}
	for _, line := range []string{"\tadd.rn.f32 %f1, %f2, %f3;", "\tadd.s32 %r1, %r2, %r3;", "\tfma.rn.f32 %f1, %f2, %f3, %f4;"} {
		if loose.MatchString(line) {
			t.Errorf("%q is refused", line)
		}
	}
	if got := staticShared(t, []byte(".visible .entry a(\n{\n\t.shared .align 16 .b8 tile[100];\n\t.shared .align 4 .b8 sums[28];\n}\n.visible .entry b(\n{\n}\n")); got != 128 {
		t.Errorf("128 bytes of shared memory were counted as %d", got)
	}
}

// TestFind asks for each kernel by name.
func TestFind(t *testing.T) {
	for _, module := range Modules() {
		for _, name := range module.Entries {
			if found, err := Find(name); module.Arch == "80" && (err != nil || found.Name != module.Name) {
				t.Errorf("%s: found in %q, %v", name, found.Name, err)
			}
		}
	}
	if _, err := Find("nothing"); err == nil {
		t.Error("a kernel that does not exist was found")
	}
	if _, err := os.Stat(path.Join(toolchain, "build.sh")); err != nil {
		t.Error(err)
	}
}
