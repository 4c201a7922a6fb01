// Command speculation measures how much faster text is written with guesses than without, with a
// real model and texts that were written: go run ./_tools/speculation --model FILE.
//
// Its texts are the repository's own: files rewritten with an edit, the edits as patches, records of
// a table as JSON, source text and prose. A model is not asked what it would write. Each step
// computes what it would for any text, guesses that do not hold included, but the ids that it gives
// are those of the recorded text, so that a model with random weights measures the same. The time of a
// step goes from the end of the one before it, so that what looks for guesses and chooses is in it. Times
// with guesses and without are taken in turns, each first in every other; ratios are medians over the turns.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"ossian/internal/draft"
	"ossian/internal/engine"
	"ossian/internal/load"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/token"
)

// An item is a prompt and the text that was written behind it.
type item struct{ prompt, output []int32 }

// options are the flags.
type options struct {
	model            string
	threads, guesses int
	turns, items     int
	tokens, context  int
	streams, kinds   string
	method           string
	adaptive         bool
}

func main() {
	var o options
	flag.StringVar(&o.model, "model", "", "model to measure; empty = the built-in one")
	flag.IntVar(&o.threads, "threads", 1, "threads that compute; with 1 times are of the processor, else of a clock")
	flag.IntVar(&o.guesses, "guesses", 7, "guesses of a row")
	flag.IntVar(&o.turns, "turns", 3, "times that each is measured")
	flag.IntVar(&o.items, "items", 8, "texts of each kind")
	flag.IntVar(&o.tokens, "tokens", 300, "tokens of a text that are written, at most")
	flag.IntVar(&o.context, "context", 1500, "tokens of a prompt, at most")
	flag.StringVar(&o.streams, "streams", "1,4,8", "texts written at a time")
	flag.StringVar(&o.kinds, "kinds", "edit,patch,json,code,prose", "kinds of texts")
	flag.StringVar(&o.method, "method", draft.Suffix, "suffix or ngram")
	flag.BoolVar(&o.adaptive, "adaptive", true, "as many guesses as pay; otherwise all")
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "speculation:", err)
		os.Exit(1)
	}
}

// run measures every kind with every number of streams.
func run(o *options) error {
	checkpoint, err := load.OpenModel(o.model)
	if err != nil {
		return err
	}
	defer checkpoint.Close()
	var streams []int
	for text := range strings.SplitSeq(o.streams, ",") {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
			return fmt.Errorf("--streams %q: numbers such as 1,4,8 expected", o.streams)
		}
		streams = append(streams, n)
	}
	loading := &load.Options{Device: "cpu", Threads: o.threads, MaxLen: o.context + o.tokens + 8, MaxTokens: 256, KV: "auto", Weights: "auto", Packed: "off",
		NoVerify: true, Seqs: slices.Max(streams), Lookahead: o.guesses}
	device, err := loading.Runner(context.Background(), checkpoint, nil)
	if err != nil {
		return err
	}
	replayed := &replay{Runner: device}
	fmt.Printf("%s, %s, %d threads, %s with %d guesses\n\n", checkpoint.Spec.Name, device.Info().Name, o.threads, o.method, o.guesses)
	fmt.Printf("| text | streams | tokens | tokens a step | tokens/s without | with | times as fast |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for kind := range strings.SplitSeq(o.kinds, ",") {
		items, err := texts(kind, o, checkpoint.Tokenizer)
		if err != nil {
			return err
		}
		for _, n := range streams {
			if err := measure(o, kind, replayed, items, n); err != nil {
				return err
			}
		}
	}
	return device.Close()
}

// measure writes the texts of a kind in turns, with guesses and without, and prints a row.
func measure(o *options, kind string, replayed *replay, items []item, streams int) error {
	replayed.items = items
	var ratios, without, with []float64
	var tokens int
	var perStep float64
	settings := &draft.Settings{Method: o.method, Tokens: o.guesses, Shortest: 2, Factor: 1, MinTokenProb: 0.1, CachedRequests: 10_000, Adaptive: o.adaptive}
	if o.method == draft.NGram {
		settings.Shortest, settings.Longest, settings.Factor, settings.MinTokenProb, settings.CachedRequests = 5, 5, 0, 0, 0
	}
	for turn := range 2 * o.turns {
		guesses := settings
		if turn%4 == 0 || turn%4 == 3 {
			guesses = nil
		}
		result, err := write(guesses, replayed, streams, o.threads)
		if err != nil {
			return err
		}
		if guesses == nil {
			without = append(without, result.rate())
		} else {
			tokens, perStep = result.tokens, float64(result.tokens)/float64(max(result.rows, 1))
			with = append(with, result.rate())
		}
		if turn%2 == 1 {
			ratios = append(ratios, with[turn/2]/without[turn/2])
		}
	}
	slices.Sort(ratios)
	slices.Sort(without)
	slices.Sort(with)
	middle := o.turns / 2
	fmt.Printf("| %s | %d | %d | %.2f | %.1f | %.1f | %.2f (%.2f–%.2f) |\n", kind, streams, tokens, perStep, without[middle], with[middle], ratios[middle], ratios[0], ratios[len(ratios)-1])
	return nil
}

// A written text took so long, the steps that read prompts left out.
type written struct {
	tokens, rows int
	took         time.Duration
}

func (w *written) rate() float64 { return float64(w.tokens) / w.took.Seconds() }

// write has an engine write the items, so many at a time. Prompts are in the prefix cache of nobody.
func write(settings *draft.Settings, replayed *replay, streams, threads int) (*written, error) {
	replayed.written = written{}
	clock := time.Now
	if threads == 1 {
		clock = processor
	}
	replayed.clock = clock
	running, err := engine.New(keep{replayed}, engine.Config{Guesses: settings, Restarts: -1, Clock: clock}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	for from := 0; from < len(replayed.items); from += streams {
		var group []*engine.Stream
		for i := from; i < min(from+streams, len(replayed.items)); i++ {
			of := &replayed.items[i]
			stream, err := running.Submit(ctx, engine.Request{Tokens: of.prompt, MaxTokens: len(of.output), Params: sample.Params{Seed: uint64(i)}})
			if err != nil {
				end()
				return nil, errors.Join(err, <-ended)
			}
			group = append(group, stream)
		}
		for _, stream := range group {
			for err == nil {
				_, err = stream.Recv(ctx)
			}
			if err != io.EOF {
				end()
				return nil, errors.Join(err, <-ended)
			}
			err = nil
		}
	}
	end()
	result := replayed.written
	return &result, <-ended
}

// processor is a clock of what the process has computed: one that other processes do not move.
func processor() time.Time {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return time.Now()
	}
	return time.Unix(1, 0).Add(time.Duration(used.Utime.Nano() + used.Stime.Nano()))
}

// A keep is a runner that outlives its engine.
type keep struct{ runner.Runner }

func (keep) Close() error { return nil }

// A replay gives the ids of recorded texts instead of those that were drawn. What it computes is what
// it would for any text.
type replay struct {
	runner.Runner
	items []item
	clock func() time.Time
	ended time.Time // of the last step
	batch *runner.Batch
	written
	out [][]int32
}

// Launch implements runner.Runner.
func (r *replay) Launch(batch *runner.Batch) error {
	r.batch = batch
	return r.Runner.Launch(batch)
}

// Collect implements runner.Runner.
func (r *replay) Collect() (*runner.Result, error) {
	result, err := r.Runner.Collect()
	if err != nil {
		return nil, err
	}
	prompts, end := false, 0
	r.out = r.out[:0]
	for i := range r.batch.Rows {
		row := &r.batch.Rows[i]
		end += row.Len
		prompts = prompts || row.Len-row.Guessed > 1
		if !row.Sample {
			r.out = append(r.out, nil)
			continue
		}
		recorded := r.items[row.Params.Seed].output[row.OutputIndex:]
		guesses := r.batch.Tokens[end-row.Guessed : end]
		r.out = append(r.out, recorded[:runner.Held(recorded, guesses)])
	}
	if !prompts {
		r.took += r.clock().Sub(r.ended)
		for i := range r.out {
			r.tokens += len(r.out[i])
			r.rows++
		}
	}
	result.Tokens, r.ended = r.out, r.clock()
	return result, nil
}

// texts returns the items of a kind.
func texts(kind string, o *options, tokenizer *token.BPE) ([]item, error) {
	make := map[string]func(*options) ([][2]string, error){"edit": edits(false), "patch": edits(true), "json": records, "code": sources, "prose": prose}[kind]
	if make == nil {
		return nil, fmt.Errorf("--kinds: %q: edit, patch, json, code or prose expected", kind)
	}
	pairs, err := make(o)
	if err != nil {
		return nil, err
	}
	var items []item
	for _, pair := range pairs {
		prompt, output := tokenizer.Encode(nil, pair[0]), tokenizer.Encode(nil, pair[1])
		if len(prompt) == 0 || len(prompt) > o.context || len(output) < 30 {
			continue
		}
		if items = append(items, item{prompt, output[:min(len(output), o.tokens)]}); len(items) == o.items {
			return items, nil
		}
	}
	return nil, fmt.Errorf("%s: %d texts with prompts of at most %d tokens, %d expected: raise --context or lower --items", kind, len(items), o.context, o.items)
}

// git returns what a command of git says.
func git(arguments ...string) (string, error) {
	out, err := exec.Command("git", arguments...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(arguments, " "), err)
	}
	return string(out), nil
}

// edits are files before a commit, and after it; or the commit.
func edits(patch bool) func(*options) ([][2]string, error) {
	return func(o *options) (pairs [][2]string, err error) {
		log, err := git("log", "--no-merges", "--diff-filter=M", "-400", "--format=%H", "--", "internal/*.go")
		if err != nil {
			return nil, err
		}
		for commit := range strings.FieldsSeq(log) {
			names, err := git("diff-tree", "--no-commit-id", "--name-only", "--diff-filter=M", "-r", commit, "--", "internal/*.go")
			if err != nil {
				return nil, err
			}
			name, _, _ := strings.Cut(names, "\n")
			before, err := git("show", commit+"~:"+name)
			if err != nil || len(before) > 3*o.context { // three bytes a token, about
				continue
			}
			after, err := git("show", commit+":"+name)
			if err != nil {
				continue
			}
			if patch {
				if after, err = git("diff", commit+"~", commit, "--", name); err != nil {
					continue
				}
			}
			if len(pairs) == 3*o.items {
				return pairs, nil
			}
			pairs = append(pairs, [2]string{"Edit this file.\n\n" + before + "\n\nThe answer:\n\n", after})
		}
		return pairs, nil
	}
}

// records are rows of the table of packages, and the same as JSON.
func records(*options) (pairs [][2]string, err error) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		return nil, err
	}
	var rows []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `") && strings.Count(line, "|") == 4 {
			rows = append(rows, line)
		}
	}
	for part := range slices.Chunk(rows, 8) {
		var out strings.Builder
		out.WriteString("[\n")
		for _, row := range part {
			cells := strings.Split(row, "|")
			fmt.Fprintf(&out, "  {\n    \"package\": %q,\n    \"hides\": %q,\n    \"imports\": %q\n  },\n", strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3]))
		}
		pairs = append(pairs, [2]string{"Write these rows as JSON.\n\n" + strings.Join(part, "") + "\n", out.String() + "]\n"})
	}
	return pairs, nil
}

// sources are files of the program, and what was asked for.
func sources(*options) (pairs [][2]string, err error) {
	names, err := git("ls-files", "internal/sched/*.go", "internal/engine/*.go", "internal/kv/*.go", "internal/draft/*.go")
	if err != nil {
		return nil, err
	}
	for name := range strings.FieldsSeq(names) {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, [2]string{"Write the Go file " + name + " of a scheduler.\n\n", string(text)})
	}
	return pairs, nil
}

// prose are sections of documents, and their headings.
func prose(*options) (pairs [][2]string, err error) {
	for _, name := range []string{"RATIONALE.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for section := range strings.SplitSeq(string(text), "\n## ") {
			heading, body, _ := strings.Cut(section, "\n")
			pairs = append(pairs, [2]string{"Write about this: " + heading + "\n\n", body})
		}
	}
	return pairs, nil
}
