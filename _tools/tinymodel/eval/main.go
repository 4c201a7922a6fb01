// Command eval measures ossian-tiny with this project's own engine: greedy answers
// to held-out items, judged exactly, or, with -logits, the distance of its logits
// to those of the training framework. It exits with 1 when a bar is missed.
//
//	go run ./_tools/tinymodel/eval -model DIR -items heldout.jsonl
//	go run ./_tools/tinymodel/eval -model DIR -logits DIR.logits
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"ossian/internal/ckpt"
	"ossian/internal/cpu"
)

// An item is a line that data.py wrote.
type item struct {
	Ability, Detail string
	Prompt          string // harmony text up to the point where the model takes over
	Channel, To     string // of the last message of the turn; To is "" unless it is a call
	Want            string // its text
	End             string // the control token that ends it
	JSON            bool   // compare as JSON values
}

// bars are the required shares of right answers; other abilities are only reported.
var bars = map[string]float64{"arithmetic": 0.97, "tools": 0.95, "results": 0.95, "json": 0.95, "recall": 0.95}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(1)
	}
}

func run() error {
	path := flag.String("model", "", "checkpoint `DIR`")
	items := flag.String("items", "", "held-out items, JSON lines")
	golden := flag.String("logits", "", "compare with the logits in `FILE`, which export.py --check wrote")
	threads := flag.Int("threads", 0, "0 = all")
	bits := flag.Int("activation-bits", 0, "8 or 16; 0 = the default")
	seqs := flag.Int("seqs", 32, "answers at a time")
	failures := flag.Int("failures", 0, "show the first `N` wrong answers of each ability, and all that do not end properly")
	flag.Parse()
	m, err := ckpt.Open(*path)
	if err != nil {
		return err
	}
	defer m.Close()
	if *golden != "" {
		return compareLogits(m, *golden, cpu.Config{Threads: *threads, Activations: *bits})
	}
	list, err := readItems(*items)
	if err != nil {
		return err
	}
	began := time.Now()
	e, err := newEngine(m, cpu.Config{Threads: *threads, Activations: *bits}, *seqs)
	if err != nil {
		return err
	}
	defer e.run.Close()
	s := newScore(*failures)
	for i, ids := range e.answers(list) {
		s.add(&list[i], parse(m.Tokenizer, ids))
	}
	if e.err != nil {
		return e.err
	}
	err = s.report()
	fmt.Printf("%d items, %d prompt and %d answer tokens in %.0f s\n", len(list), e.prompt, e.output, time.Since(began).Seconds())
	return err
}

func readItems(path string) ([]item, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []item
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var it item
		if err := json.Unmarshal(s.Bytes(), &it); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(out)+1, err)
		}
		out = append(out, it)
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no items", path)
	}
	return out, nil
}

// A score counts by ability and within it by detail.
type score struct {
	show         int
	right, total map[[2]string]int // {ability, detail}; detail "" = all
	ended, all   int
	shown        map[string]int
}

func newScore(show int) *score {
	return &score{show: show, right: map[[2]string]int{}, total: map[[2]string]int{}, shown: map[string]int{}}
}

func (s *score) add(it *item, t turn) {
	ok := t.right(it)
	s.all++
	if t.proper {
		s.ended++
	}
	keys := [][2]string{{it.Ability, ""}}
	if it.Detail != "" {
		keys = append(keys, [2]string{it.Ability, it.Detail})
	}
	for _, k := range keys {
		s.total[k]++
		if ok {
			s.right[k]++
		}
	}
	if !ok && s.show > 0 && (s.shown[it.Ability] < s.show || !t.proper) {
		s.shown[it.Ability]++
		what := it.Ability
		if !t.proper {
			what += ", no proper ending"
		}
		fmt.Printf("--- %s\nprompt %s\nanswer %s\nwanted %s to=%s: %s\n", what, it.Prompt, t.text, it.Channel, it.To, it.Want)
	}
}

// report prints the table and returns an error that names every bar missed.
func (s *score) report() error {
	var missed []error
	fmt.Println("| ability | items | right | bar |\n|---|---:|---:|---:|")
	for _, k := range slices.SortedFunc(maps.Keys(s.total), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		share := float64(s.right[k]) / float64(s.total[k])
		name, bar := k[0], ""
		if k[1] != "" {
			name = "– " + k[1]
		} else if want, ok := bars[k[0]]; ok {
			bar = fmt.Sprintf("%.0f %%", 100*want)
			if share < want {
				missed = append(missed, fmt.Errorf("%s: %.2f %% right, %s wanted", k[0], 100*share, bar))
			}
		}
		fmt.Printf("| %s | %d | %.2f %% | %s |\n", name, s.total[k], 100*share, bar)
	}
	fmt.Printf("| proper ending | %d | %.2f %% | 100 %% |\n", s.all, 100*float64(s.ended)/float64(s.all))
	if s.ended < s.all {
		missed = append(missed, fmt.Errorf("%d of %d turns do not end properly", s.all-s.ended, s.all))
	}
	return errors.Join(missed...)
}
