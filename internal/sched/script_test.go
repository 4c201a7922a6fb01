package sched

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ossian/internal/draft"
	"ossian/internal/runner"
)

var update = flag.Bool("update", false, "rewrite what the scripts in testdata expect")

// TestScripts plays testdata/*.txt. Each line is a command; what follows the arrow
// is what happened when the file was written, and must happen again. Every pool
// ends by running what is left and comparing all output with the reference.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{t: t}
			var b strings.Builder
			for n, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
				command, want, _ := strings.Cut(line, "→")
				command, want = strings.TrimSpace(command), strings.TrimSpace(want)
				b.WriteString(command)
				if command != "" && command[0] != '#' {
					got := s.do(strings.Fields(command))
					if got != want && !*update {
						t.Errorf("%s:%d: %s\n got: %s\nwant: %s", file, n+1, command, got, want)
					}
					if got != "" {
						fmt.Fprintf(&b, " → %s", got)
					}
				}
				b.WriteByte('\n')
			}
			s.w.finish()
			if *update {
				if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

type script struct {
	t         *testing.T
	w         *world
	names     []string // [id]
	ids       map[string]int
	preempted map[string]int
}

func (s *script) do(words []string) string {
	args := make(map[string]string)
	for _, a := range words[1:] {
		k, v, _ := strings.Cut(a, "=")
		args[k] = v
	}
	switch words[0] {
	case "pool":
		s.pool(args)
	case "add":
		return s.add(words[1], args)
	case "beside":
		n, err := strconv.Atoi(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.w.s.LimitPrompts(n)
	case "unanswered":
		return strconv.Itoa(s.w.s.Unanswered())
	case "abort":
		s.w.abort(s.ids[words[1]])
		return s.preemptions()
	case "wait":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.w.now = s.w.now.Add(d)
	case "plan":
		return s.plan()
	case "commit":
		return s.ends(s.w.commit())
	case "step":
		got := s.plan()
		if len(s.w.flight) == 0 {
			return got
		}
		if end := s.ends(s.w.commit()); end != "" {
			got += "; " + end
		}
		return got
	case "stats":
		st := s.w.s.Stats()
		return fmt.Sprintf("running %d, waiting %d, blocks %d of %d, preemptions %d, cached %d of %d", st.Running, st.Waiting, st.KV.Held, st.KV.Blocks,
			st.Preemptions, st.CacheHits, st.CacheQueries)
	default:
		s.t.Fatalf("unknown command %q", words[0])
	}
	return ""
}

func (s *script) number(args map[string]string, name string, otherwise int) int {
	v, ok := args[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) pool(args map[string]string) {
	if s.w != nil {
		s.w.finish()
	}
	s.names, s.ids, s.preempted = nil, make(map[string]int), make(map[string]int)
	n := func(name string, otherwise int) int { return s.number(args, name, otherwise) }
	info := runner.Info{Name: "fake", Vocab: 1000, BlockSize: n("block", 16), MaxSeqs: n("seqs", 8), MaxTokens: n("tokens", 64), Depth: n("depth", 1), Lookahead: n("lookahead", 0)}
	info.Groups = []runner.Group{{Blocks: n("blocks", 0)}}
	if w := n("window", 0); w > 0 {
		info.Groups = append(info.Groups, runner.Group{Blocks: n("wblocks", n("blocks", 0)), Window: w})
	}
	info.MaxLen = n("len", info.Groups[0].Blocks*info.BlockSize)
	_, off := args["nocache"]
	s.w = newWorld(s.t, Config{ChunkLimit: n("chunk", 0), MaxQueue: n("queue", 0), NoPrefixCache: off, Guesses: guesses(draft.MostTokens, false)}, info)
	s.w.guess(func(right []int32, most int) []int32 { // so many that hold, and one that does not
		right = right[:min(n("right", 0), len(right))]
		return append(slices.Clone(right), 999)
	}, func(int) int { return 0 })
}

func (s *script) add(name string, args map[string]string) string {
	n := func(name string, otherwise int) int { return s.number(args, name, otherwise) }
	r := &request{tenant: uint32(n("tenant", 0)), priority: n("priority", 0), salt: uint64(n("salt", 0)), output: n("max", 1), atLeast: n("min", 0)}
	for part := range strings.SplitSeq(args["prompt"], ",") {
		var from, to int
		if _, err := fmt.Sscanf(part, "%d..%d", &from, &to); err != nil {
			s.t.Fatalf("prompt %q: %v", args["prompt"], err)
		}
		for id := from; id <= to; id++ {
			r.prompt = append(r.prompt, int32(id))
		}
	}
	if _, ok := args["stop"]; ok {
		r.stops = []int32{int32(n("stop", 0))}
	}
	if _, ok := args["anystop"]; ok { // every id but 0
		for id := int32(1); id < 1000; id++ {
			r.stops = append(r.stops, id)
		}
	}
	_, r.rhymes = args["rhymes"]
	_, r.params.PromptLogprobs = args["scored"]
	if d := n("deadline", 0); d > 0 {
		r.deadline = s.w.now.Add(time.Duration(d) * time.Second)
	}
	if d := n("startby", 0); d > 0 {
		r.startBy = s.w.now.Add(time.Duration(d) * time.Second)
	}
	if err := s.w.add(r); err != nil {
		return err.Error()
	}
	s.ids[name] = len(s.names)
	s.names = append(s.names, name)
	return ""
}

func (s *script) plan() string {
	fresh := make(map[uint64]bool)
	for id, tr := range s.w.traces {
		fresh[uint64(id)] = tr.q.Started.IsZero()
	}
	b := s.w.launch()
	var rows, cached []string
	if b == nil {
		rows = append(rows, "none")
	} else {
		l := &s.w.s.steps[(s.w.s.planned-1)%uint64(len(s.w.s.steps))]
		next := 0
		for i, q := range l.seqs {
			r := &b.Rows[i]
			row := fmt.Sprintf("%s:%d+%d", s.names[q.ID], r.Start, r.Len-r.Guessed)
			if next += r.Len; r.Guessed == 0 && b.Tokens[next-1] == runner.Pending {
				row += " pending"
			}
			if len(r.Targets) > 0 {
				row += fmt.Sprintf(" targets %d..%d", r.Targets[0], r.Targets[len(r.Targets)-1])
			}
			if r.Sample {
				row += " sample"
			}
			if r.Guessed > 0 {
				row += fmt.Sprintf(" %d guessed", r.Guessed)
			}
			rows = append(rows, row)
			if fresh[q.ID] && q.Cached > 0 {
				cached = append(cached, fmt.Sprintf("%s=%d", s.names[q.ID], q.Cached))
			}
		}
	}
	got := "rows " + strings.Join(rows, ", ")
	if len(cached) > 0 {
		got += "; cached " + strings.Join(cached, ", ")
	}
	if p := s.preemptions(); p != "" {
		got += "; " + p
	}
	return got
}

// preemptions names those that were preempted since it was last called.
func (s *script) preemptions() string {
	var list []string
	for id, name := range s.names {
		if n := s.w.traces[id].q.Preemptions; n > s.preempted[name] {
			s.preempted[name] = n
			list = append(list, name)
		}
	}
	if list == nil {
		return ""
	}
	return "preempted " + strings.Join(list, ", ")
}

func (s *script) ends(out []Output) string {
	var list []string
	for _, o := range out {
		if o.Finish != FinishNone {
			list = append(list, fmt.Sprintf("%s %v after %d", s.names[o.ID], o.Finish, len(s.w.traces[o.ID].ids)))
		}
	}
	if list == nil {
		return ""
	}
	return "end " + strings.Join(list, ", ")
}
