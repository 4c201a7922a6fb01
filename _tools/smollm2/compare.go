// Command smollm2 compares the engine with llama.cpp and transformers on a real
// model: perplexity of text.txt and 32 greedy tokens of five prompts. It fails when
// perplexity is more than 0.5 % from llama.cpp's, or when at the first difference
// either side's token is not among the other's five most likely (models.md 5.2).
//
//	go run ./_tools/smollm2 [MODEL]
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"ossian/internal/ckpt"
	"ossian/internal/cpu"
	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/tensor"
)

// A golden is what llama_cpp_golden.py or transformers_golden.py wrote.
type golden struct {
	Model      string  `json:"model_sha256"`
	Tokens     []int32 `json:"text_tokens"`
	Perplexity float64
	Prompts    []prompt
}

type prompt struct {
	Name   string
	Prompt []int32
	Greedy []int32
	Top5   [][]int32 // [step] ids, most likely first
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "smollm2:", err)
		os.Exit(1)
	}
}

func run() error {
	const dir = "_tools/smollm2"
	path := "models/SmolLM2-135M-Instruct.Q4_1.gguf"
	if len(os.Args) > 1 {
		path = os.Args[1]
	}
	var llama, hf golden
	for name, g := range map[string]*golden{"llama_cpp.json": &llama, "transformers.json": &hf} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(text, g)
		}
		if err != nil {
			return err
		}
	}
	if err := checkSum(path, llama.Model); err != nil {
		return err
	}
	m, err := ckpt.Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := checkTokens(m, dir, &llama); err != nil {
		return err
	}
	fmt.Printf("perplexity of %d tokens: llama.cpp %.4f, transformers float32 %.4f\n", len(llama.Tokens), llama.Perplexity, hf.Perplexity)
	report(m, "transformers float32 against llama.cpp", hf.Prompts, llama.Prompts)
	bad := 0
	for _, c := range []struct {
		name string
		cfg  cpu.Config
	}{{"default", cpu.Config{}}, {"float32", cpu.Config{Exact: true, KV: tensor.F32}}} {
		n, err := compare(m, c.name, c.cfg, &llama, &hf)
		if err != nil {
			return err
		}
		bad += n
	}
	if bad > 0 {
		return fmt.Errorf("%d figures outside the tolerances", bad)
	}
	return nil
}

func checkSum(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w (_tools/smollm2/fetch.sh fetches it)", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%s: SHA-256 is %s, the goldens were made from %s", path, got, want)
	}
	return nil
}

// checkTokens compares the encodings of the text and of the prompts.
func checkTokens(m *ckpt.Model, dir string, g *golden) error {
	text, err := os.ReadFile(filepath.Join(dir, "text.txt"))
	if err != nil {
		return err
	}
	if !slices.Equal(m.Tokenizer.Encode(nil, string(text)), g.Tokens) {
		return fmt.Errorf("text.txt is encoded in another way than llama.cpp encodes it")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "prompts.json"))
	if err != nil {
		return err
	}
	var prompts map[string]string
	if err := json.Unmarshal(raw, &prompts); err != nil {
		return err
	}
	for _, p := range g.Prompts {
		b := m.Tokenizer.Prompt()
		b.Markup(prompts[p.Name])
		if !slices.Equal(b.IDs(), p.Prompt) {
			return fmt.Errorf("prompt %q is encoded in another way than llama.cpp encodes it", p.Name)
		}
	}
	return nil
}

// compare runs one configuration and returns how many figures are out of bounds.
func compare(m *ckpt.Model, name string, cfg cpu.Config, llama, hf *golden) (bad int, err error) {
	s, err := newSession(m, cfg, len(llama.Tokens)+1)
	if err != nil {
		return 0, err
	}
	defer s.run.Close()
	loss, err := s.loss(llama.Tokens)
	if err != nil {
		return 0, err
	}
	ppl := math.Exp(loss / float64(len(llama.Tokens)-1))
	off := 100 * (ppl/llama.Perplexity - 1)
	fmt.Printf("\n%s (%s): perplexity %.4f, %+.3f %% from llama.cpp, %+.3f %% from transformers\n",
		name, s.run.Info().Name, ppl, off, 100*(ppl/hf.Perplexity-1))
	if math.Abs(off) > 0.5 {
		bad++
	}
	var own []prompt
	for _, p := range llama.Prompts {
		q := prompt{Name: p.Name}
		if q.Greedy, q.Top5, err = s.greedy(p.Prompt, len(p.Greedy)); err != nil {
			return bad, err
		}
		own = append(own, q)
		fmt.Printf("  %-13s %q\n", p.Name, m.Tokenizer.Decode(q.Greedy))
	}
	bad += report(m, name+" against llama.cpp", own, llama.Prompts)
	bad += report(m, name+" against transformers float32", own, hf.Prompts)
	return bad, nil
}

// report prints the first difference of each prompt and counts those where a token
// is not in the other side's five.
func report(m *ckpt.Model, title string, a, b []prompt) (bad int) {
	fmt.Println(" ", title)
	for i := range a {
		n := 0
		for n < len(a[i].Greedy) && a[i].Greedy[n] == b[i].Greedy[n] {
			n++
		}
		if n == len(a[i].Greedy) {
			fmt.Printf("    %-13s all %d tokens equal\n", a[i].Name, n)
			continue
		}
		x, y := a[i].Greedy[n], b[i].Greedy[n]
		inB, inA := slices.Index(b[i].Top5[n], x), slices.Index(a[i].Top5[n], y)
		verdict := fmt.Sprintf("each is the other's number %d and %d", inB+1, inA+1)
		if inA < 0 || inB < 0 {
			verdict = "NOT in the other's first five"
			bad++
		}
		fmt.Printf("    %-13s %d equal, then %q and %q: %s\n", a[i].Name, n, m.Tokenizer.Text(x), m.Tokenizer.Text(y), verdict)
	}
	return bad
}

// A session runs one sequence at a time.
type session struct {
	run    runner.Runner
	tables [][]runner.BlockID
}

func newSession(m *ckpt.Model, cfg cpu.Config, tokens int) (*session, error) {
	const blockSize = 32
	blocks := (tokens + blockSize - 1) / blockSize
	lim := model.Limits{MaxSeqs: 64, MaxTokens: 128, MaxLen: tokens, BlockSize: blockSize, Blocks: []int{blocks}}
	d, err := cpu.New(m.Spec, lim, cfg)
	if err != nil {
		return nil, err
	}
	r, err := model.NewDecoder(m.Spec, m.Params, d, lim, nil)
	if err != nil {
		return nil, err
	}
	table := make([]runner.BlockID, blocks)
	for i := range table {
		table[i] = runner.BlockID(i)
	}
	return &session{run: r, tables: [][]runner.BlockID{table}}, nil
}

func (s *session) step(ids []int32, rows []runner.Row) (*runner.Result, error) {
	for i := range rows {
		rows[i].Slot, rows[i].Tables = i, s.tables
	}
	if err := s.run.Launch(&runner.Batch{Tokens: ids, Rows: rows}); err != nil {
		return nil, err
	}
	return s.run.Collect()
}

// loss returns -Σ ln p(ids[i] | ids[:i]) for i >= 1. Every position is a row of its
// own; rows of one step may share blocks, because a layer stores the keys and values
// of the whole step before any row attends. A mask of one id makes the sampler report
// the log probability of that id, which it takes before the mask.
func (s *session) loss(ids []int32) (sum float64, err error) {
	info := s.run.Info()
	p := &sample.Params{Logprobs: true}
	for from := 0; from < len(ids)-1; {
		n := min(len(ids)-1-from, info.MaxSeqs)
		rows := make([]runner.Row, n)
		for i := range rows {
			mask := make([]uint64, (info.Vocab+63)/64)
			next := ids[from+i+1]
			mask[next/64] |= 1 << (next % 64)
			rows[i] = runner.Row{Start: from + i, Len: 1, Sample: true, Params: p, Mask: mask}
		}
		res, err := s.step(ids[from:from+n], rows)
		if err != nil {
			return 0, err
		}
		for i := range rows {
			sum -= float64(res.Logprobs[i][0].Logprob)
		}
		from += n
	}
	return sum, nil
}

// greedy returns n ids after the prompt and the five most likely ids at each step.
func (s *session) greedy(ids []int32, n int) (out []int32, top [][]int32, err error) {
	p := &sample.Params{Logprobs: true, TopLogprobs: 5}
	next, start := ids, 0
	for len(out) < n {
		res, err := s.step(next, []runner.Row{{Start: start, Len: len(next), Sample: true, Params: p}})
		if err != nil {
			return nil, nil, err
		}
		start += len(next)
		next = res.Tokens[0]
		out = append(out, next[0])
		var best []int32
		for _, l := range res.Logprobs[0][1:] {
			best = append(best, l.ID)
		}
		top = append(top, best)
	}
	return out, top, nil
}
