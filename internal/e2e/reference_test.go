package e2e_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ossian/internal/ckpt"
	"ossian/internal/cpu"
	"ossian/internal/cpu/kern"
	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/soak"
	"ossian/internal/synth"
	"ossian/internal/tensor"
)

// A golden is what _tools/reference/reference.py wrote: logits of transformers in
// float32 at some positions of a prompt.
type golden struct {
	name     string // file name without extension: a preset, perhaps with a type
	logits   [][]float64
	Preset   string
	Seed     uint64
	Weights  string `json:"weights_sha256"`
	Vocab    int
	Pos      []int `json:"positions"`
	IDs      []int32
	BFloat16 *distance // of the transformers bfloat16 run, whole prompt
}

// A distance compares distributions position by position.
type distance struct {
	L2     float64 `json:"relative_l2"` // of logits without their mean, all positions together
	KL     float64 `json:"mean_kl"`     // from the first to the second, nats
	Argmax float64 `json:"argmax"`      // share of positions with the same most likely id
}

func goldens(t *testing.T) []golden {
	t.Helper()
	const dir = "../ckpt/testdata/reference"
	files, err := filepath.Glob(dir + "/*.json")
	if err != nil || len(files) != 14 {
		t.Fatalf("%d golden files in %s, 14 expected (%v)", len(files), dir, err)
	}
	var out []golden
	for _, file := range files {
		g := golden{name: strings.TrimSuffix(filepath.Base(file), ".json")}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &g)
		}
		if err != nil {
			t.Fatal(err)
		}
		g.read(t, strings.TrimSuffix(file, ".json")+".f32")
		out = append(out, g)
	}
	return out
}

// read reads the logits of g.
func (g *golden) read(t *testing.T, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil || len(raw) != 4*g.Vocab*len(g.Pos) {
		t.Fatalf("%s: %d bytes of logits for %d positions (%v)", file, len(raw), len(g.Pos), err)
	}
	for range g.Pos {
		row := make([]float64, g.Vocab)
		for i := range row {
			row[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			raw = raw[4:]
		}
		g.logits = append(g.logits, row)
	}
}

// write makes the checkpoint of g and proves that it is the one of the reference.
func (g *golden) write(t *testing.T, format synth.Format) string {
	t.Helper()
	m, err := synth.Preset(g.Preset)
	if err != nil {
		t.Fatal(err)
	}
	o := synth.Options{Model: m, Seed: g.Seed, Format: format}
	_, typ, typed := strings.Cut(g.name, ".")
	for d := tensor.F32; d <= tensor.Q6_K && typed; d++ {
		if strings.EqualFold(d.String(), typ) {
			o.Type = d
			break
		}
	}
	path := filepath.Join(t.TempDir(), "model")
	if format == synth.GGUF {
		path += ".gguf"
	}
	if err := synth.Write(t.Context(), path, o, nil); err != nil {
		t.Fatal(err)
	}
	weights := path
	switch {
	case format == synth.HuggingFace:
		weights += "/model.safetensors"
	case !typed:
		return path // the reference read the other container
	}
	data, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != g.Weights {
		t.Fatalf("%s: package synth writes other weights than the golden logits were made from; run _tools/reference/reference.py", g.name)
	}
	return path
}

func (g *golden) typed() bool { return strings.Contains(g.name, ".") }

// first returns g with the first n tokens of its prompt.
func (g golden) first(n int) *golden {
	k := 0
	for k < len(g.Pos) && g.Pos[k] < n {
		k++
	}
	g.IDs, g.Pos, g.logits = g.IDs[:n], g.Pos[:k], g.logits[:k]
	return &g
}

// on returns g as long as a level has time for: the plain Go kernels are slow, and emulated ones.
func (g *golden) on(t *testing.T, isa string) *golden {
	switch slow := isa == kern.Go.String() || os.Getenv("EMULATED") != ""; {
	case slow && g.typed():
		return g.first(160)
	case slow: // past the windows and a split of 256 keys
		return g.first(soak.Cases(t, min(300, len(g.IDs)), len(g.IDs)))
	}
	return g
}

const blockSize = 16

// open returns a runner for the checkpoint at path.
func open(t *testing.T, path string, tokens int, cfg cpu.Config) (*model.Spec, runner.Runner) {
	t.Helper()
	m, err := ckpt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m.Spec, load(t, m, tokens, cfg)
}

// load returns a runner for m.
func load(t *testing.T, m *ckpt.Model, tokens int, cfg cpu.Config) runner.Runner {
	t.Helper()
	lim := model.Limits{MaxSeqs: 64, MaxTokens: 128, MaxLen: tokens, BlockSize: blockSize}
	windows, _ := m.Spec.Groups()
	for range windows {
		lim.Blocks = append(lim.Blocks, (tokens+blockSize-1)/blockSize)
	}
	cfg.Threads = 2
	d, err := cpu.New(m.Spec, lim, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.NewDecoder(m.Spec, m.Params, d, lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// step runs rows of one sequence, which may share blocks: a layer stores the keys
// and values of the whole step before any row attends.
func step(t *testing.T, r runner.Runner, ids []int32, rows []runner.Row) [][]float64 {
	t.Helper()
	info := r.Info()
	blocks := make([]runner.BlockID, (info.MaxLen+blockSize-1)/blockSize)
	for i := range blocks {
		blocks[i] = runner.BlockID(len(blocks) - 1 - i) // not in order
	}
	params := &sample.Params{Logprobs: true, TopLogprobs: info.Vocab}
	for i := range rows {
		rows[i].Slot, rows[i].Params = i, params
		for range info.Groups {
			rows[i].Tables = append(rows[i].Tables, blocks)
		}
	}
	b := &runner.Batch{Tokens: ids, Rows: rows}
	if err := runner.Check(b, info); err != nil {
		t.Fatal(err)
	}
	if err := r.Launch(b); err != nil {
		t.Fatal(err)
	}
	res, err := r.Collect()
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float64
	for i := range rows {
		if !rows[i].Sample {
			continue
		}
		x := make([]float64, info.Vocab)
		for _, p := range res.Logprobs[i][1:] {
			x[p.ID] = float64(p.Logprob)
		}
		out = append(out, x)
	}
	return out
}

// atPositions feeds ids in chunks that end at each position and returns the
// log probabilities there.
func atPositions(t *testing.T, r runner.Runner, ids []int32, positions []int) [][]float64 {
	t.Helper()
	var out [][]float64
	from := 0
	for _, p := range positions {
		for from <= p {
			n := min(p+1-from, r.Info().MaxTokens)
			out = append(out, step(t, r, ids[from:from+n], []runner.Row{{Start: from, Len: n, Sample: from+n == p+1}})...)
			from += n
		}
	}
	return out
}

// rowsAt is atPositions with as many rows in a step as there is room for; the positions are not far
// from each other.
func rowsAt(t *testing.T, r runner.Runner, ids []int32, positions []int) [][]float64 {
	t.Helper()
	var out [][]float64
	var rows []runner.Row
	first, from := 0, 0 // tokens before this step, and before the next row
	run := func() {
		out = append(out, step(t, r, ids[first:from], rows)...)
		rows, first = nil, from
	}
	for _, p := range positions {
		if p+1-first > r.Info().MaxTokens || len(rows) == r.Info().MaxSeqs {
			run()
		}
		rows = append(rows, runner.Row{Start: from, Len: p + 1 - from, Sample: true})
		from = p + 1
	}
	run()
	return out
}

// everywhere returns the log probabilities at all positions.
func everywhere(t *testing.T, r runner.Runner, ids []int32) [][]float64 {
	t.Helper()
	var out [][]float64
	for from := 0; from < len(ids); {
		n := min(len(ids)-from, r.Info().MaxSeqs)
		rows := make([]runner.Row, n)
		for i := range rows {
			rows[i] = runner.Row{Start: from + i, Len: 1, Sample: true}
		}
		out = append(out, step(t, r, ids[from:from+n], rows)...)
		from += n
	}
	return out
}

// compare takes logits or log probabilities, which differ by a constant.
func compare(truth, got [][]float64) distance {
	var d distance
	var diff, norm float64
	for i := range truth {
		a, b := logSoftmax(truth[i]), logSoftmax(got[i])
		ma, mb := mean(a), mean(b)
		for k := range a {
			diff += (a[k] - ma - b[k] + mb) * (a[k] - ma - b[k] + mb)
			norm += (a[k] - ma) * (a[k] - ma)
			d.KL += math.Exp(a[k]) * (a[k] - b[k])
		}
		if argmax(a) == argmax(b) {
			d.Argmax++
		}
	}
	d.L2 = math.Sqrt(diff / norm)
	d.KL /= float64(len(truth))
	d.Argmax /= float64(len(truth))
	return d
}

func logSoftmax(x []float64) []float64 {
	best, sum := slices.Max(x), 0.0
	for _, v := range x {
		sum += math.Exp(v - best)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v - best - math.Log(sum)
	}
	return out
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func argmax(x []float64) int { return slices.Index(x, slices.Max(x)) }

func levels() []string {
	var out []string
	for _, l := range kern.Levels() {
		out = append(out, l.String())
	}
	return out
}

// someLevels are plain Go and the best; for a release all. Those above plain Go give the same bits:
// TestTinyLevels, and cpu's TestSameOnVectorLevels.
func someLevels(t *testing.T) []string {
	all := levels()
	if soak.Cases(t, 0, 1) > 0 || len(all) < 2 {
		return all
	}
	return []string{all[0], all[len(all)-1]}
}

var exact = cpu.Config{Exact: true, KV: tensor.F32}

// TestReference compares with transformers: models.md 5.2, second and fourth row.
func TestReference(t *testing.T) {
	all := someLevels(t)
	best := all[len(all)-1:]
	if testing.Short() {
		all = best
	}
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) {
			format, isas := synth.HuggingFace, all
			if g.typed() {
				format = synth.GGUF
			}
			path := g.write(t, format)
			for _, isa := range isas {
				t.Run(isa, func(t *testing.T) { testReference(t, &g, path, isa) })
			}
			if !g.typed() { // TestContainersAgree shows that the weights are the same; this, that the numbers around them are
				t.Run("gguf", func(t *testing.T) {
					cfg := exact
					cfg.ISA = best[0]
					path, g := g.write(t, synth.GGUF), g.on(t, best[0])
					_, r := open(t, path, len(g.IDs), cfg)
					g.compare(t, atPositions(t, r, g.IDs, g.Pos))
				})
			}
		})
	}
}

func testReference(t *testing.T, g *golden, path, isa string) {
	g = g.on(t, isa)
	cfg := exact
	cfg.ISA = isa
	spec, r := open(t, path, len(g.IDs), cfg)
	truth := atPositions(t, r, g.IDs, g.Pos)
	g.compare(t, truth)
	all := everywhere(t, r, g.IDs)
	for i, p := range g.Pos {
		if !slices.Equal(all[p], truth[i]) {
			t.Errorf("position %d: other bits in batches of single tokens than in chunks", p)
		}
	}
	_, fast := open(t, path, len(g.IDs), cpu.Config{ISA: isa})
	d := compare(all, everywhere(t, fast, g.IDs))
	t.Logf("figures | %s | default against own float32 | L2 %.2g | KL %.2g | argmax %.1f %% |", t.Name(), d.L2, d.KL, 100*d.Argmax)
	if d.KL > 1e-2 || d.Argmax < 0.97 {
		t.Errorf("%s: the default path is %+v from the float32 path: mean KL of at most 1e-2 and 97 %% of the same argmax expected", spec.Family, d)
	}
}

// compare holds log probabilities at the positions of g to its logits.
func (g *golden) compare(t *testing.T, got [][]float64) {
	t.Helper()
	d := compare(g.logits, got)
	t.Logf("figures | %s | float32 against transformers float32 | L2 %.2g | KL %.2g | argmax %.1f %% |", t.Name(), d.L2, d.KL, 100*d.Argmax)
	if d.L2 > 1e-4 || d.Argmax < 1 {
		t.Errorf("distance to the reference is %+v: relative L2 of at most 1e-4 and the same argmax everywhere expected", d)
	}
	if g.BFloat16 != nil && d.L2 > g.BFloat16.L2 {
		t.Errorf("L2 distance %v to the reference exceeds that of its own bfloat16 run, %v", d.L2, g.BFloat16.L2)
	}
}

// TestContainersAgree: both forms of a checkpoint hold the same values bit for bit.
func TestContainersAgree(t *testing.T) {
	for _, g := range goldens(t) {
		if g.typed() {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			var models []*ckpt.Model
			for _, format := range []synth.Format{synth.HuggingFace, synth.GGUF} {
				m, err := ckpt.Open(g.write(t, format))
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				models = append(models, m)
			}
			a, b := models[0], models[1]
			for _, p := range model.Params(a.Spec) {
				x, y := a.Params[p.Name], b.Params[p.Name]
				if x.Rows() != y.Rows() || x.Cols() != y.Cols() {
					t.Fatalf("%s: shapes %v and %v", p.Name, x.Shape, y.Shape)
				}
				for i := range x.Rows() {
					if !slices.Equal(decode(&x, i), decode(&y, i)) {
						t.Fatalf("%s: row %d differs", p.Name, i)
					}
				}
			}
			for id := range int32(a.Spec.Vocab) {
				if x, y := a.Tokenizer.Text(id), b.Tokenizer.Text(id); x != y && !slices.Contains(a.Unused, id) {
					t.Errorf("id %d is %q and %q", id, x, y)
				}
			}
			const text = "Hello the world, it's 1234\n\tnaïve\n\n  日本"
			if x, y := a.Tokenizer.Encode(nil, text), b.Tokenizer.Encode(nil, text); !slices.Equal(x, y) {
				t.Errorf("encodings %v and %v", x, y)
			}
			if x, y := fmt.Sprint(a.Stops, a.BOS, a.Template), fmt.Sprint(b.Stops, b.BOS, b.Template); x != y {
				t.Errorf("stops, BOS and template: %s and %s", x, y)
			}
		})
	}
}

func decode(t *tensor.Tensor, row int) []float32 {
	out := make([]float32, t.Cols())
	t.Row(row).Floats(out)
	return out
}
