package cuda

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ossian/internal/cuda/emu"
	"ossian/internal/cuda/kernels"
	"ossian/internal/soak"
)

// Mutants: one place of the PTX that ships is changed, and the tests of its kernels run again, in a
// process of their own. A change that no test notices shows a hole in the tests, in the emulator, or
// something the kernel does not need. What orders warps and copies, and what places things in shared
// memory, has to be noticed everywhere: testdata/mutants.txt names those places where it need not be,
// with reasons. Of shifts, constants, comparisons and offsets a part is changed, and counted.

// mutantEnv names a mutant to the process that runs it: "module offset length replacement".
const mutantEnv = "OSSIAN_MUTANT"

// TestMain plants the mutant that the environment asks for.
func TestMain(m *testing.M) {
	if err := plant(os.Getenv(mutantEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// planted is the kernel that the mutant of this process is in, "" without one.
var planted string

// kernelAt returns the name of the kernel that has the place in a module's PTX.
func kernelAt(ptx []byte, place int) string {
	entry := []byte(".entry ")
	at := bytes.LastIndex(ptx[:place], entry)
	if at < 0 {
		return ""
	}
	name, _, _ := bytes.Cut(ptx[at+len(entry):], []byte("("))
	return string(name)
}

// plant changes a module of this process.
func plant(mutant string) error {
	if mutant == "" {
		return nil
	}
	parts := strings.SplitN(mutant, " ", 4)
	if len(parts) == 4 {
		from, err := strconv.Atoi(parts[1])
		length, err2 := strconv.Atoi(parts[2])
		for i := range kernels.Modules() {
			m := &kernels.Modules()[i]
			if moduleName(m) == parts[0] && errors.Join(err, err2) == nil && from >= 0 && length >= 0 && from+length <= len(m.PTX) {
				planted = kernelAt(m.PTX, from)
				m.PTX = slices.Concat(m.PTX[:from], []byte(parts[3]), m.PTX[from+length:])
				return nil
			}
		}
	}
	return fmt.Errorf("%s=%q: not a module, an offset, a length and a replacement", mutantEnv, mutant)
}

func moduleName(m *kernels.Module) string { return m.Name + ".sm_" + m.Arch }

// limited makes a kernel that hangs end soon where there is a mutant.
func limited(card emu.Card) emu.Card {
	if os.Getenv(mutantEnv) != "" && card.Limit == 0 {
		card.Limit = 10_000_000
	}
	return card
}

// mutantTests are the tests that mutants of a module are held against: small ones that reach all its
// kernels and borders.
var mutantTests = map[string]string{
	"allreduce.sm_80":            "TestAllReduce$",
	"attend.sm_80":               "TestAttendNaN|TestAttend$/4x2x6/./window=(0|300)",
	"attend64.sm_80":             "TestStore|TestAttendNaN|TestAttend$/(4x2x6|8x1x64)",
	"attend128.sm_80":            "TestStore|TestAttendNaN|TestAttend$/6x2x128",
	"attend256.sm_80":            "TestStore|TestAttendNaN|TestAttend$/2x1x250",
	"conformance.sm_80":          "TestConformance$",
	"conformance90.sm_90a":       "TestConformance$",
	"embed.sm_80":                "TestEmbed",
	"experts.sm_80":              "TestExpertsPlan|TestExpertsCombine",
	"experts_bf16.sm_80":         "TestExperts$/(BF16|F32|F16)",
	"experts_mxfp4.sm_80":        "TestExperts$/MXFP4",
	"experts_q8.sm_80":           "TestExperts$/Q8_0",
	"gather.sm_80":               "TestExpertsByWarpgroups$",
	"join.sm_80":                 "TestJoinRows$",
	"measure.sm_80":              "TestMeasureMemory|TestMeasureMMA",
	"measure90.sm_90a":           "TestMeasureHopper",
	"product_bf16.sm_80":         "TestLinear$/BF16/./(1x32|40x96|48x160|24x480|72x544)|TestLinearWithoutBias",
	"product_mxfp4.sm_80":        "TestLinear$/MXFP4/./(1x32|40x96|48x160|24x480|72x544)|TestLinearLargeExponents|TestLinearWithoutBias",
	"product_q8.sm_80":           "TestLinear$/Q8_0/./(1x32|40x96|48x160|24x480|72x544)|TestLinearWithoutBias",
	"experts_wgmma_bf16.sm_90a":  "TestExpertsByWarpgroups$/BF16",
	"experts_wgmma_mxfp4.sm_90a": "TestExpertsByWarpgroups$/MXFP4",
	"product_wgmma_bf16.sm_90a":  "TestWarpgroups$/BF16",
	"product_wgmma_mxfp4.sm_90a": "TestWarpgroups$/MXFP4",
	"rotate.sm_80":               "TestRotate|TestStore|TestRotateAndStore",
	"route.sm_80":                "TestRoute$|TestRoutePlan",
	"rows.sm_80":                 "TestNarrow|TestAddNorm|TestSelectRows|TestGLU",
	"sample.sm_80":               "TestSample(Borders|Weights|TopP|Runs|Draw|Pending|Short)|TestSampleAsDefined",
}

// A mutation is a kind of change. Those of order and place have to be noticed everywhere.
type mutation struct {
	name    string
	matters bool
	place   *regexp.Regexp
	to      func(groups []string) []string // what the whole match becomes, in one or several ways
	where   func(rest string) bool         // only where the text from the match on is so; nil: everywhere
}

// remove takes the match away.
func remove([]string) []string { return []string{""} }

// increment returns how the number in the last group grows.
func increment(by int) func(groups []string) []string {
	return func(groups []string) []string {
		last := groups[len(groups)-1]
		n, err := strconv.Atoi(last)
		if err != nil {
			return nil
		}
		whole := groups[0]
		at := strings.LastIndex(whole, last)
		return []string{whole[:at] + strconv.Itoa(n+by) + whole[at+len(last):]}
	}
}

var mutations = []mutation{
	{"barrier removed", true, regexp.MustCompile(`(?:@!?%p\d+ )?\bbar(?:rier)?\.(?:warp\.sync|sync|arrive)[^;]*;`), remove, nil},
	{"wait for copies weakened", true, regexp.MustCompile(`cp\.async\.wait_group (\d+);`), increment(1), nil},
	{"group of copies not closed", true, regexp.MustCompile(`cp\.async\.commit_group;`), remove, nil},
	{"wait for an mbarrier removed", true, regexp.MustCompile(`@!done bra WAIT;`), remove, nil},
	{"parity fixed", true, regexp.MustCompile(`(mbarrier\.try_wait\.parity[^;]*, )%r\d+;`), func(groups []string) []string {
		return []string{groups[1] + "0;", groups[1] + "1;"}
	}, nil},
	{"arrival removed", true, regexp.MustCompile(`mbarrier\.arrive[^;]*;`), remove, nil},
	{"fence removed", true, regexp.MustCompile(`\b(?:fence|membar)\.[^;]*;`), remove, nil},
	{"product not waited for", true, regexp.MustCompile(`wgmma\.(?:wait_group|commit_group|fence)[^;]*;`), remove, nil},
	{"order of memory weakened", true, regexp.MustCompile(`\b(ld|st|red|atom)\.(?:acquire|release|acq_rel|relaxed|volatile)((?:\.cta|\.gpu|\.sys)?)\.`), func(groups []string) []string {
		return []string{groups[1] + "."}
	}, nil},
	{"xor by or", true, regexp.MustCompile(`\bxor\.b32\b`), func([]string) []string { return []string{"or.b32"} }, func(rest string) bool { return !fillsZeros(rest) }},
	{"zeros not filled", false, regexp.MustCompile(`\bxor\.b32\b`), func([]string) []string { return []string{"or.b32"} }, fillsZeros},
	{"shift + 1", false, regexp.MustCompile(`\bsh[lr]\.[bsu](?:32|64)\s+%r?d?\d+, %r?d?\d+, (\d+);`), increment(1), nil},
	{"constant + 1", false, regexp.MustCompile(`\b(?:add|and)\.[sb](?:32|64)\s+%r?d?\d+, %r?d?\d+, (-?\d+);`), increment(1), nil},
	{"other comparison", false, regexp.MustCompile(`\bsetp\.(lt|le|gt|ge)\.([suf]\d\d)`), func(groups []string) []string {
		return []string{"setp." + map[string]string{"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}[groups[1]] + "." + groups[2]}
	}, nil},
	{"offset + 16", false, regexp.MustCompile(`\[%rd?\d+\+(\d+)\]`), increment(16), nil},
}

// fillsZeros says whether text begins with the instruction that makes the size of a copy 0 or 16.
func fillsZeros(text string) bool {
	size := regexp.MustCompile(`^xor\.b32\s+(%r\d+), %r\d+, 16;\s+cp\.async[^;]*, (%r\d+);`).FindStringSubmatch(text)
	return size != nil && size[1] == size[2]
}

// A mutant is one of them.
type mutant struct {
	module      string
	kind        *mutation
	from, to    int // in the PTX
	replacement string
	line        int
	start       int    // of the line
	text        string // of it
	excuse      excuse // why it was not noticed
}

// An excuse is what is found out about mutants that were not noticed.
type excuse string

const (
	none      excuse = "reached, unnoticed"
	same      excuse = "the same" // on all values that the tests produce
	unreached excuse = "never reached"
	named     excuse = "named in testdata/mutants.txt"
)

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d\t%s\t%s → %s", m.module, m.line, m.kind.name, m.text, m.replacement)
}

// mutantsOf finds all mutants of a kind, in the order of their places.
func mutantsOf(module string, ptx []byte, kind *mutation) (all []*mutant) {
	for _, place := range kind.place.FindAllSubmatchIndex(ptx, -1) {
		if kind.where != nil && !kind.where(string(ptx[place[0]:min(place[0]+200, len(ptx))])) {
			continue
		}
		var groups []string
		for i := 0; i < len(place); i += 2 {
			groups = append(groups, string(ptx[place[i]:place[i+1]]))
		}
		start, end := bytes.LastIndexByte(ptx[:place[0]], '\n')+1, place[0]+bytes.IndexByte(ptx[place[0]:], '\n')
		for _, replacement := range kind.to(groups) {
			all = append(all, &mutant{module: module, kind: kind, from: place[0], to: place[1], replacement: replacement,
				line: bytes.Count(ptx[:place[0]], []byte("\n")) + 1, start: start, text: strings.Join(strings.Fields(string(ptx[start:end])), " ")})
		}
	}
	return all
}

// spread takes at most count of all, evenly.
func spread(all []*mutant, count int) (some []*mutant) {
	for i := range min(count, len(all)) {
		some = append(some, all[i*len(all)/min(count, len(all))])
	}
	return some
}

// A verdict says how a mutant was noticed.
type verdict uint8

const (
	survived verdict = iota
	refused          // by ModuleLoad
	faulted          // a launch was at fault
	wrong            // a result was
)

// try runs the tests of a module with a mutant, or with none.
func try(t *testing.T, module, mutant string) (verdict, string) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "-test.failfast", "-test.run", mutantTests[module])
	command.Env = append(slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, soak.Env+"=") || strings.HasPrefix(entry, "OSSIAN_DIGESTS=")
	}), mutantEnv+"="+mutant, "GOMAXPROCS=1")
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	switch text := string(out); {
	case err == nil && strings.Contains(text, "no tests to run"):
		t.Fatalf("%s: no tests are called %s", module, mutantTests[module])
	case err == nil:
		return survived, ""
	case !errors.As(err, &exit) || exit.ExitCode() == 3:
		t.Fatalf("%s: %v\n%s", module, err, text)
	case strings.Contains(text, "CUDA_ERROR_INVALID_PTX"):
		return refused, text
	case strings.Contains(text, "CUDA_ERROR"):
		return faulted, text
	default:
		return wrong, text
	}
	return survived, ""
}

// accepted reads the mutants of order and place that need not be noticed: lines of module:line, kind,
// the line's text, and a reason, with tabs between them. Several lines of a module are 12,34; a text
// that ends with … begins theirs. It returns the texts by place.
func accepted(t *testing.T) map[string]string {
	data, err := os.ReadFile("testdata/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 4 || fields[3] == "" {
			t.Fatalf("testdata/mutants.txt: %q: not a place, a kind, a text and a reason", line)
		}
		module, lines, _ := strings.Cut(fields[0], ":")
		for line := range strings.SplitSeq(lines, ",") {
			known[module+":"+line+"\t"+fields[1]] = fields[2]
		}
	}
	return known
}

// place is how testdata/mutants.txt names a mutant.
func (m *mutant) place() string { return fmt.Sprintf("%s:%d\t%s", m.module, m.line, m.kind.name) }

// accepted says whether known has the mutant, with its text.
func (m *mutant) accepted(known map[string]string) bool {
	text, ok := known[m.place()]
	begin, several := strings.CutSuffix(text, "…")
	return ok && (m.text == text || several && strings.HasPrefix(m.text, begin))
}

var (
	xorParts    = regexp.MustCompile(`^xor\.b32 (%r\d+), (%r\d+), ([^;]+);$`)
	parityParts = regexp.MustCompile(`mbarrier\.try_wait\.parity[^;]*, (%r\d+);`)
)

// explain finds out why a mutant was not noticed: a trap in its place is not sprung, or one that waits for
// values of which the mutant makes something else.
func (m *mutant) explain(t *testing.T, known map[string]string) excuse {
	if m.accepted(known) {
		return named
	}
	sprung := func(trap string) bool {
		v, _ := try(t, m.module, fmt.Sprintf("%s %d 0 %s", m.module, m.start, trap))
		return v != survived
	}
	if !sprung("trap; ") {
		return unreached
	}
	if trap := m.differs(); trap != "" && !sprung(trap) {
		return same
	}
	return none
}

// differs returns a trap for what a mutant changes: operands of xor that share a bit, a parity that is
// not the fixed one. It is "" for other kinds.
func (m *mutant) differs() string {
	if parts := xorParts.FindStringSubmatch(m.text); parts != nil && m.replacement == "or.b32" {
		return fmt.Sprintf("{ .reg .pred shared; .reg .b32 bits; and.b32 bits, %s, %s; setp.ne.u32 shared, bits, 0; @shared trap; } ", parts[2], parts[3])
	}
	if parts := parityParts.FindStringSubmatch(m.text); parts != nil && m.kind.name == "parity fixed" {
		fixed := strings.TrimSuffix(m.replacement[len(m.replacement)-2:], ";")
		return fmt.Sprintf("{ .reg .pred other; setp.ne.u32 other, %s, %s; @other trap; } ", parts[1], fixed)
	}
	return ""
}

// A tally counts mutants.
type tally struct {
	all, refused, faulted, wrong, survived int
	excused                                map[excuse]int
}

// TestMutations counts how many changes of the PTX the tests notice.
func TestMutations(t *testing.T) {
	if os.Getenv("OSSIAN_CARD") != "" || os.Getenv(mutantEnv) != "" {
		t.Skip("mutants are held against tests on the emulator")
	}
	known, chosen := accepted(t), []*mutant(nil)
	only := os.Getenv("OSSIAN_MUTATIONS") // where "module/change" matches
	for _, m := range kernels.Modules() {
		name := moduleName(&m)
		if mutantTests[name] == "" {
			t.Errorf("mutantTests names no tests of %s, which mutants of it are held against", name)
		}
		for i := range mutations {
			if only != "" && !regexp.MustCompile(only).MatchString(name+"/"+mutations[i].name) {
				continue
			}
			all := mutantsOf(name, m.PTX, &mutations[i])
			count := soak.Cases(t, 0, 30)
			if mutations[i].matters {
				count = soak.Cases(t, 0, 1000)
			}
			chosen = append(chosen, spread(all, count)...)
		}
	}
	checkAccepted(t, known)
	if len(chosen) == 0 { // with every change: a few of those that are noticed at once
		chosen = someMutants()
	}
	report(t, judge(t, chosen, known))
}

// checkAccepted holds what testdata/mutants.txt says to name places that are there.
func checkAccepted(t *testing.T, known map[string]string) {
	there := map[string]bool{}
	for _, m := range kernels.Modules() {
		for i := range mutations {
			for _, one := range mutantsOf(moduleName(&m), m.PTX, &mutations[i]) {
				if one.accepted(known) {
					there[one.place()] = true
				}
			}
		}
	}
	for place, text := range known {
		if !there[place] {
			t.Errorf("testdata/mutants.txt names what is not in the PTX any more: %s\t%s", place, text)
		}
	}
}

// someMutants are one of each kind, from modules whose tests are quick.
func someMutants() (some []*mutant) {
	for i := range mutations {
		for _, name := range []string{"conformance90.sm_90a", "allreduce.sm_80", "product_bf16.sm_80"} {
			at := slices.IndexFunc(kernels.Modules(), func(m kernels.Module) bool { return moduleName(&m) == name })
			if all := mutantsOf(name, kernels.Modules()[at].PTX, &mutations[i]); len(all) > 0 {
				some = append(some, all[len(all)/2])
				break
			}
		}
	}
	return some
}

// judge tries mutants, several at a time, and counts them by module and kind.
func judge(t *testing.T, chosen []*mutant, known map[string]string) map[[2]string]*tally {
	count, survivors := map[[2]string]*tally{}, []*mutant(nil)
	for _, module := range slices.Sorted(maps.Keys(mutantTests)) {
		if slices.ContainsFunc(chosen, func(m *mutant) bool { return m.module == module }) {
			if v, text := try(t, module, ""); v != survived {
				t.Fatalf("%s: its tests fail without a mutant:\n%s", module, text)
			}
		}
	}
	var mu sync.Mutex // guards count and survivors
	work := make(chan *mutant)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for m := range work {
				v, _ := try(t, m.module, fmt.Sprintf("%s %d %d %s", m.module, m.from, m.to-m.from, m.replacement))
				if v == survived {
					m.excuse = m.explain(t, known)
				}
				mu.Lock()
				c := count[[2]string{m.module, m.kind.name}]
				if c == nil {
					c = &tally{excused: map[excuse]int{}}
					count[[2]string{m.module, m.kind.name}] = c
				}
				c.all++
				*[]*int{&c.survived, &c.refused, &c.faulted, &c.wrong}[v]++
				if v == survived {
					c.excused[m.excuse]++
					survivors = append(survivors, m)
					t.Logf("not noticed, %s: %v", m.excuse, m)
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range chosen {
		work <- m
	}
	close(work)
	group.Wait()
	slices.SortFunc(survivors, func(a, b *mutant) int {
		return cmp.Or(cmp.Compare(a.module, b.module), cmp.Compare(a.kind.name, b.kind.name), cmp.Compare(a.line, b.line))
	})
	for _, m := range survivors {
		if m.kind.matters && m.excuse != named && m.excuse != same {
			t.Errorf("not noticed (%s), and not named in testdata/mutants.txt: %v", m.excuse, m)
		}
	}
	return count
}

// report logs the table.
func report(t *testing.T, count map[[2]string]*tally) {
	var table strings.Builder
	fmt.Fprintf(&table, "%-22s %-30s %5s %8s %7s %7s %6s %6s %6s %10s %8s\n", "module", "change", "all", "noticed", "refused", "faults", "wrong", "same", "named", "unreached", "others")
	total := map[bool]*tally{true: {excused: map[excuse]int{}}, false: {excused: map[excuse]int{}}}
	keys := slices.SortedFunc(maps.Keys(count), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	line := func(module, kind string, c *tally) {
		fmt.Fprintf(&table, "%-22s %-30s %5d %8d %7d %7d %6d %6d %6d %10d %8d\n", module, kind, c.all, c.all-c.survived, c.refused, c.faulted, c.wrong, c.excused[same], c.excused[named], c.excused[unreached], c.excused[none])
	}
	for _, key := range keys {
		c := count[key]
		line(key[0], key[1], c)
		kind := slices.IndexFunc(mutations, func(m mutation) bool { return m.name == key[1] })
		sum := total[mutations[kind].matters]
		sum.all, sum.refused, sum.faulted, sum.wrong, sum.survived = sum.all+c.all, sum.refused+c.refused, sum.faulted+c.faulted, sum.wrong+c.wrong, sum.survived+c.survived
		for why, n := range c.excused {
			sum.excused[why] += n
		}
	}
	line("all", "order and place", total[true])
	line("all", "numbers", total[false])
	t.Logf("mutants:\n%s", &table)
	c := total[true]
	if least := c.all - c.excused[same] - c.excused[named]; 100*(c.all-c.survived) < 98*least {
		t.Errorf("%d of %d changes of order and place were noticed: 98 %% are wanted", c.all-c.survived, least)
	}
}
