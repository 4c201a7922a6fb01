package sweep

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// golden is testdata/vllm.json: what vLLM's own sweeps did (testdata/origin.py).
type golden struct {
	Base     []string
	Commands []struct {
		Params     string
		Command    []string
		Name, File string
		Has        bool
	}
	Serve, Rate, Concurrency experience
	Trials                   []struct {
		Name    string
		Values  []int
		Margins []float64
	}
	Split []struct {
		Text  string
		Words []string
	}
}

// An experience is a sweep: the programs that were run, what clients wrote, and the files
// there were in the end.
type experience struct {
	Commands       [][]string
	Written, Files map[string]string
}

func readGolden(t testing.TB) (g golden) {
	t.Helper()
	text, err := os.ReadFile("testdata/vllm.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Commands) == 0 || len(g.Serve.Files) == 0 || len(g.Trials) == 0 {
		t.Fatal("testdata/vllm.json is empty")
	}
	return g
}

func one(t testing.TB, text string) Object {
	t.Helper()
	o, err := parseObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Parameters become flags and names as vLLM makes them.
func TestParams(t *testing.T) {
	g := readGolden(t)
	for _, c := range g.Commands {
		o := one(t, c.Params)
		if got := o.Apply(g.Base); !slices.Equal(got, c.Command) {
			t.Errorf("%s:\ngot  %q\nwant %q", c.Params, got, c.Command)
		}
		if o.Name() != c.Name || fileName("SERVE--"+o.Name()) != c.File || o.Has("request_rate") != c.Has {
			t.Errorf("%s: name %q, file %q, request rate %v; want %q, %q, %v", c.Params, o.Name(), fileName("SERVE--"+o.Name()), o.Has("request_rate"), c.Name, c.File, c.Has)
		}
	}
	for _, c := range g.Split {
		if got, err := Split(c.Text); err != nil || !slices.Equal(got, c.Words) {
			t.Errorf("%s: got %q, %v, want %q", c.Text, got, err, c.Words)
		}
	}
}

// Where vLLM would lose a flag, or end with an exception, nothing is lost.
func TestApplyKeepsFlags(t *testing.T) {
	for _, c := range []struct{ name, command, params, want string }{
		{"flag without a value before another", "s --fast --port 1", `{"fast": 3}`, "s --fast 3 --port 1"},
		{"flag without a value at the end", "s --fast", `{"fast": 3}`, "s --fast 3"},
		{"negative value", "s --fast -2 --port 1", `{"fast": -3}`, "s --fast -3 --port 1"},
	} {
		if got := strings.Join(one(t, c.params).Apply(strings.Fields(c.command)), " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// A player writes what the clients of a sweep wrote, and keeps what was run.
type player struct {
	dir     string
	seen    *experience
	written map[string]string
	server  []string
	client  []string
	begun   bool
}

func (p *player) Measure(_ context.Context, bench Object, path string) error {
	if !p.begun {
		p.begun = true
		p.seen.Commands = append(p.seen.Commands, append([]string{"SERVER"}, p.server...))
	}
	command, err := (&Programs{Client: p.client}).command(bench, final(path))
	if err != nil {
		return err
	}
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], p.dir, "DIR")
	}
	p.seen.Commands = append(p.seen.Commands, command, []string{"RESET"})
	name, err := filepath.Rel(p.dir, final(path))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(p.written[filepath.ToSlash(name)]), 0o666)
}

func (p *player) Close() {}

// files are all files below a folder.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Sweeps run the same programs in the same order as vLLM's and leave the same files, byte
// for byte.
func TestExperiments(t *testing.T) {
	g := readGolden(t)
	for _, c := range []struct {
		name                string
		want                experience
		serve, bench, links string
		runs, warmup        int
		explore             func(e *Experiment, g Grid) error
	}{
		{"serve", g.Serve, `[{"max_num_seqs": 2}, {"max_num_seqs": 4, "config": {"a": [1]}}]`,
			`{"two": {"max_concurrency": 2}, "four": {"max_concurrency": 4.0, "eos": true}}`, "max_num_seqs=max_concurrency", 2, 3,
			func(e *Experiment, g Grid) error { return e.Serve(t.Context(), g) }},
		{"workload by rate", g.Rate, `[{}]`, `[{"random_input_len": 8}]`, "", 1, 0,
			func(e *Experiment, g Grid) error { return e.Workload(t.Context(), g, Workload{Rate, 6, 40}) }},
		{"workload by concurrency", g.Concurrency, `[{}]`, `[{"random_input_len": 8}]`, "", 1, 0,
			func(e *Experiment, g Grid) error { return e.Workload(t.Context(), g, Workload{Concurrency, 6, 40}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "e")
			seen := &experience{}
			grid := Grid{}
			var err error
			if grid.Serve, err = ParseParams([]byte(c.serve)); err != nil {
				t.Fatal(err)
			}
			if grid.Bench, err = ParseParams([]byte(c.bench)); err != nil {
				t.Fatal(err)
			}
			if grid.Links, err = ParseLinks(c.links); err != nil {
				t.Fatal(err)
			}
			grid.Open = func(serve Object) (Measurer, error) {
				return &player{dir: dir, seen: seen, written: c.want.Written, server: serve.Apply([]string{"vllm", "serve", "m"}),
					client: []string{"vllm", "bench", "serve", "--num-prompts", "40"}}, nil
			}
			e := &Experiment{Dir: dir, Runs: c.runs, Warmup: c.warmup, Out: io.Discard}
			if err := c.explore(e, grid); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(seen.Commands, c.want.Commands) {
				t.Errorf("ran\n%q\nwant\n%q", seen.Commands, c.want.Commands)
			}
			got := files(t, dir)
			for name, want := range c.want.Files {
				if got[name] != want {
					t.Errorf("%s is\n%s\nwant\n%s", name, got[name], want)
				}
			}
			if len(got) != len(c.want.Files) {
				t.Errorf("%d files, want %d", len(got), len(c.want.Files))
			}
		})
	}
}

// The search of serve_sla tries the values that scipy's interpolator leads to.
func TestTrials(t *testing.T) {
	for _, c := range readGolden(t).Trials {
		var tried []trial
		for i, want := range c.Values {
			got, more := nextTrial(tried)
			if !more || got != want {
				t.Fatalf("%s: after %v comes %d, %v; want %d", c.Name, c.Values[:i], got, more, want)
			}
			tried = append(tried, trial{got, c.Margins[i]})
		}
		if got, more := nextTrial(tried); more {
			t.Errorf("%s: after %v comes %d; want an end", c.Name, c.Values, got)
		}
	}
}

// Where margins jump or are noise, the search ends all the same.
func TestTrialsEnd(t *testing.T) {
	for _, c := range []struct {
		name   string
		margin func(v int) float64
		most   int
		want   int // the largest that passes; 0 = whatever
	}{
		{"jump", func(v int) float64 {
			if v > 777 {
				return 1000
			}
			return -1
		}, 44, 777},
		{"jump down low", func(v int) float64 {
			if v > 2 {
				return 1e9
			}
			return -1e-3
		}, 44, 2},
		{"noise", func(v int) float64 { return math.Sin(float64(v)*12.9898)*300 + float64(v) - 1000 }, 60, 0},
		{"nothing succeeds", func(v int) float64 {
			if v > 777 {
				return math.Inf(1)
			}
			return float64(v - 1000)
		}, 44, 777},
		{"equal", func(v int) float64 { return float64(v - 500) }, 10, 500},
	} {
		var tried []trial
		for {
			v, more := nextTrial(tried)
			if !more {
				break
			}
			if slices.ContainsFunc(tried, func(x trial) bool { return x.value == v }) {
				t.Fatalf("%s: %d a second time, after %v", c.name, v, tried)
			}
			if tried = append(tried, trial{v, c.margin(v)}); len(tried) > c.most {
				t.Fatalf("%s: more than %d trials: %v", c.name, c.most, tried)
			}
		}
		if pass, fail := edge(tried); c.want != 0 && (pass != c.want || fail != c.want+1) {
			t.Errorf("%s: passes at %d, fails at %d; want %d", c.name, pass, fail, c.want)
		}
	}
}

// A parameter file either is refused or keeps its members: what it says of a command can
// be found there.
func FuzzParams(f *testing.F) {
	for _, c := range readGolden(f).Commands {
		f.Add([]byte("[" + c.Params + "]"))
	}
	f.Add([]byte(`{"a": {"x": 1}, "b": {}}`))
	f.Add([]byte(`[{"a":1},{"a":1e999}]x`))
	f.Add([]byte(`[[]]`))
	f.Add([]byte(`{"a": NaN, "b": [-Infinity, "NaN\\\""]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if plain := plainJSON(text); json.Valid(text) && string(plain) != string(text) {
			t.Errorf("%s: changed to %s", text, plain)
		}
		list, err := ParseParams(text)
		if err != nil {
			return
		}
		for _, o := range list {
			command := o.Apply([]string{"serve"})
			for _, m := range o {
				if words := m.words(); len(o) == 1 && m.Key != nameKey && !slices.Contains(command, words[0]) {
					t.Errorf("%s: no %q in %q", o.append(nil), words[0], command)
				}
			}
			if name := fileName(o.Name()); strings.ContainsAny(name, "/") || name == ".." {
				t.Errorf("%s: file name %q", o.append(nil), name)
			}
			again, err := parseObject(o.append(nil))
			if err != nil || !reflect.DeepEqual(again, o) {
				t.Errorf("%s: read again as %v, %v", o.append(nil), again, err)
			}
		}
		table(list)
		_, _ = ParseSLAs(text)
	})
}

// Words that were quoted come back.
func FuzzSplit(f *testing.F) {
	for _, c := range readGolden(f).Split {
		f.Add(c.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words, err := Split(text)
		if err != nil {
			return
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		again, err := Split(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(again, words) {
			t.Errorf("%q: %q, then %q, %v", text, words, again, err)
		}
	})
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, "the JSON ends early"}, {"[\n{\"a\": 1},\n{b}]", "line 3: not JSON: invalid character 'b'"}, {`[{"a": 1}, [2]]`, "element 2: found \"[2]\", expected an object"}, {`[]`, "0 settings"}, {`{}`, "0 settings"}, {`3`, "expected a list"}, {`null`, "0 settings"},
		{`[1]`, "element 1"}, {`{"a": 1}`, `"a"`}, {`[{}] x`, "invalid character"},
		{`[{"_benchmark_name": "a"}, {"_benchmark_name": "a"}]`, "twice"},
	} {
		if _, err := ParseParams([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("params %s: %v, want %q", c.text, err, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{`[{"p99_e2el_ms": 500}]`, "expected a text"}, {`[{"p99_e2el_ms": "=500"}]`, "begins with none"},
		{`[{"p99_e2el_ms": "<=fast"}]`, "no number"}, {`[{}]`, "names no metric"}, {`[{"a": "<=nan"}]`, "no number"},
	} {
		if _, err := ParseSLAs([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("objectives %s: %v, want %q", c.text, err, c.want)
		}
	}
	for _, text := range []string{"", "a", "<=5", "a<=x", "a<=1,,b<2"} {
		if s, err := ParseSLA(text); err == nil {
			t.Errorf("objectives %q: %v", text, s)
		}
	}
	for _, text := range []string{"a", "a=", "=b", "a=b=c", "a=b,"} {
		if l, err := ParseLinks(text); err == nil {
			t.Errorf("links %q: %v", text, l)
		}
	}
	for _, text := range []string{"", "  ", "a 'b", `a "b`, `a \`} {
		if w, err := Split(text); err == nil {
			t.Errorf("command %q: %q", text, w)
		}
	}
	if _, err := ParseVariable("rate"); err == nil {
		t.Error("variable rate")
	}
}

func TestObjectives(t *testing.T) {
	s, err := ParseSLA("p99_e2el_ms<=500, request_throughput>2")
	if err != nil || s.text("-") != "p99_e2el_ms<=500.00-request_throughput>2.00" {
		t.Fatal(s.text("-"), err)
	}
	runs := []Object{one(t, `{"p99_e2el_ms": 490, "request_throughput": 2}`), one(t, `{"p99_e2el_ms": 500, "request_throughput": 2.0}`)}
	if m, err := s.margin(runs); err != nil || m <= 0 || m > 2*equality { // 2 > 2 is missed by next to nothing
		t.Error(m, err)
	}
	if m, err := s[:1].margin(runs); err != nil || m != -5 {
		t.Error(m, err)
	}
	none := append(runs, one(t, `{"completed": 0, "p99_e2el_ms": 0.0, "request_throughput": 0.0}`)) // as vLLM writes it
	if m, err := s[:1].margin(none); err != nil || !math.IsInf(m, 1) {
		t.Errorf("a run without success: %v, %v", m, err)
	}
	if _, err := s.margin([]Object{one(t, `{"p99_e2el_ms": 1, "x": 2}`)}); err == nil || !strings.Contains(err.Error(), "which have p99_e2el_ms x") {
		t.Error(err)
	}
}

// Names that no file system takes are found before anything is measured.
func TestLongNames(t *testing.T) {
	e := &Experiment{Dir: t.TempDir()}
	g := Grid{Serve: []Object{one(t, `{"a": "`+strings.Repeat("x", 220)+`"}`)}, Bench: []Object{nil}}
	name := len(filepath.Base(e.folder(g.Serve[0], nil)))
	if err := e.distinct(g, 255-name); err != nil {
		t.Error(err)
	}
	if err := e.distinct(g, 256-name); err == nil || !strings.Contains(err.Error(), "_benchmark_name") {
		t.Errorf("a name of 256 bytes: %v", err)
	}
}

// A server below one request a second has no level of 0.
func TestLevelsSend(t *testing.T) {
	if got := levels(0.3, 0.8, 5); !slices.Equal(got, []int{1}) && len(got) > 0 {
		t.Errorf("levels %v", got)
	}
	if got := levels(0.3, 3.9, 5); !slices.Equal(got, []int{2}) {
		t.Errorf("levels %v", got)
	}
}
