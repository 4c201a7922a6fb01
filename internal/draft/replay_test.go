package draft

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ossian/internal/token"
)

var update = flag.Bool("update", false, "rewrite the golden file, and the recorded ids where the history of the repository is there")

// An item is an output with what came before it, as ids of gpt-oss's vocabulary. The outputs are
// real texts: those of a model that would have written them. What guesses of ids get accepted is a
// function of the output, so it can be replayed without any model.
type item struct {
	kind           string
	prompt, output []int32
}

const (
	recordedFile = "testdata/replay.ids"
	replayHeader = "# Texts of this repository's history as ids of o200k, an item in three lines: what it is, its prompt, its\n" +
		"# output. Made by: go test ./internal/draft -run TestReplay -update\n"
)

// recorded reads the items.
func recorded(t testing.TB) (items []item) {
	t.Helper()
	data, err := os.ReadFile(recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimPrefix(strings.TrimSpace(string(data)), replayHeader), "\n")
	ids := func(line string) (out []int32) {
		for _, word := range strings.Fields(line) {
			id, err := strconv.ParseInt(word, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, int32(id))
		}
		return out
	}
	for i := 0; i+2 < len(lines); i += 3 {
		items = append(items, item{lines[i], ids(lines[i+1]), ids(lines[i+2])})
	}
	return items
}

// record makes the items from the repository's history.
func record(t *testing.T) {
	tok, err := token.Harmony()
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) string {
		out, err := exec.Command("git", args...).Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	var b bytes.Buffer
	b.WriteString(replayHeader)
	add := func(kind, prompt, output string) {
		line := func(text string) string { return strings.Trim(fmt.Sprint(tok.Encode(nil, text)), "[]") }
		fmt.Fprintf(&b, "%s\n%s\n%s\n", kind, line(prompt), line(output))
	}
	for _, change := range [][2]string{{"a4efaa2f", "internal/wire/encode.go"}, {"b65e9b76", "internal/chat/declare/names.go"}, {"664e6bce", "internal/lab/engines/failure.go"}, {"aee676e3", "internal/lab/predict/local/record.go"}} {
		commit, file := change[0], change[1]
		before, after := git("show", commit+"^:"+file), git("show", commit+":"+file)
		diff, message := git("show", "--format=", commit, "--", ":/"+file), git("show", "--no-patch", "--format=%B", commit)
		add("rewrite", "Rewrite the file: "+message+"\n"+before, after)
		add("patch", "Make a patch: "+message+"\n"+before, diff)
		add("message", "Describe the change:\n"+diff, message)
		add("new", "Write "+file+".", after)
	}
	rationale := git("show", "a4efaa2f:RATIONALE.md")
	for _, section := range strings.Split(rationale, "\n## ")[3:6] {
		title, text, _ := strings.Cut(section, "\n")
		add("prose", "Explain: "+title, strings.TrimSpace(text))
	}
	table := strings.Split(git("show", "a4efaa2f:docs/use/configuration.md"), "\n")
	first := slices.IndexFunc(table, func(line string) bool { return strings.HasPrefix(line, "| `--host`") })
	rows := table[first : first+14]
	var records []map[string]string
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		records = append(records, map[string]string{"flag": strings.Trim(cells[0], "`"), "takes": cells[1], "default": cells[2], "meaning": cells[3]})
	}
	text, _ := json.MarshalIndent(records, "", "  ")
	add("records", "As JSON:\n"+strings.Join(rows, "\n"), string(text))
	if err := os.WriteFile(recordedFile, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// A tally is what became of a replay.
type tally struct {
	ids, steps, guessed, accepted int
	cost                          float64 // in steps of one token
}

// replay goes through an output in steps of a world with these costs; nil = of no cost.
func replay(it item, settings *Settings, store *Store, chooser *Chooser, world []float64) (out tally) {
	index := settings.NewIndex()
	index.Add(it.prompt...)
	all := slices.Clone(it.prompt)
	counts := make([]int, 1)
	var guesses, other []int32
	for left := it.output; len(left) > 0; {
		proposal := Proposal{Source: FromIndex}
		guesses, proposal.Match = index.Draft(guesses[:0], settings.Tokens)
		if store != nil {
			match := 0
			if other, match = store.Draft(1, all, other[:0], settings.Tokens); match > proposal.Match {
				guesses, proposal.Match, proposal.Source = append(guesses[:0], other...), match, FromStore
			}
		}
		proposal.Len = min(len(guesses), len(left)-1)
		chooser.Choose(counts, 1, []Proposal{proposal})
		accepted := 0
		for accepted < counts[0] && guesses[accepted] == left[accepted] {
			accepted++
		}
		if counts[0] > 0 {
			chooser.Outcome(proposal, counts[0], accepted)
		}
		if world != nil {
			chooser.Observe(1+counts[0], time.Duration(price(world, 1+counts[0])*50e6))
			out.cost += price(world, 1+counts[0])
		}
		out.ids, out.steps, out.guessed, out.accepted = out.ids+1+accepted, out.steps+1, out.guessed+counts[0], out.accepted+accepted
		index.Add(left[:1+accepted]...)
		all, left = append(all, left[:1+accepted]...), left[1+accepted:]
	}
	if store != nil {
		store.Add(1, it.output)
	}
	return out
}

func (a tally) plus(b tally) tally {
	return tally{a.ids + b.ids, a.steps + b.steps, a.guessed + b.guessed, a.accepted + b.accepted, a.cost + b.cost}
}

// SPC-6: what is accepted of recorded texts is fixed: a change of what is guessed shows here.
func TestReplay(t *testing.T) {
	if *update && exec.Command("git", "cat-file", "-e", "a4efaa2f").Run() == nil {
		record(t)
	}
	items := recorded(t)
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(a.kind, b.kind) })
	suffix := Settings{Method: Suffix, Tokens: 7, Shortest: 2, Factor: 1, MinTokenProb: 0.1, CachedRequests: 10}
	ngram := Settings{Method: NGram, Tokens: 3, Shortest: 5, Longest: 5}
	var b strings.Builder
	b.WriteString("# What is guessed and accepted of recorded texts, and how many times as fast they come by the costs of two models.\n" +
		"# Made by: go test ./internal/draft -run TestReplay -update\n" +
		fmt.Sprintf("%-32s %-8s %6s %6s %8s %9s %8s %6s\n", "method", "text", "ids", "steps", "guessed", "accepted", "ids/step", "faster"))
	for _, method := range []struct {
		name     string
		settings Settings
		adaptive bool
		world    string
		store    bool
	}{
		{"suffix, all guesses", suffix, false, "dense", false},
		{"suffix, dense", suffix, true, "dense", false},
		{"suffix, mixture", suffix, true, "mixture", false},
		{"suffix, mixture, second time", suffix, true, "mixture", true},
		{"ngram, all guesses", ngram, false, "dense", false},
	} {
		method.settings.Adaptive = method.adaptive
		chooser, store, sums := method.settings.NewChooser(), (*Store)(nil), map[string]tally{}
		if method.store {
			store = method.settings.NewStore()
			for _, it := range items {
				store.Add(1, it.output)
			}
		}
		for _, it := range items {
			sums[it.kind] = sums[it.kind].plus(replay(it, &method.settings, store, chooser, worlds[method.world]))
		}
		for _, kind := range []string{"rewrite", "records", "patch", "new", "message", "prose"} {
			sum := sums[kind]
			fmt.Fprintf(&b, "%-32s %-8s %6d %6d %8d %9d %8.2f %6.2f\n", method.name, kind, sum.ids, sum.steps, sum.guessed, sum.accepted, float64(sum.ids)/float64(sum.steps), float64(sum.ids)/sum.cost)
		}
	}
	const file = "testdata/replay.golden"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s differs; got:\n%s", file, b.String())
	}
}

// Where several write text that repeats little, guessing loses next to nothing, what it takes to find
// that out included: a step tries something for each of them, and has little to gain.
func TestReplayTogether(t *testing.T) {
	settings := Settings{Method: Suffix, Tokens: 7, Shortest: 2, Factor: 1, MinTokenProb: 0.1, Adaptive: true}
	parts := map[string][]item{}
	for _, it := range recorded(t) {
		for output := range slices.Chunk(it.output, 100) {
			parts[it.kind] = append(parts[it.kind], item{it.kind, it.prompt, output})
		}
	}
	for _, kind := range []string{"prose", "new"} {
		for name, world := range worlds {
			for _, rows := range []int{4, 8, 32} {
				chooser, out, without := settings.NewChooser(), tally{}, 0.0
				for together := range slices.Chunk(parts[kind], rows) {
					sum, alone := replayTogether(together, &settings, chooser, world)
					out, without = out.plus(sum), without+alone
				}
				if speed := without / out.cost; speed < 0.98 {
					t.Errorf("%s, %s, %d at a time: %.3f times as fast, %d of %d guesses accepted", kind, name, rows, speed, out.accepted, out.guessed)
				}
			}
		}
	}
}

// replayTogether is replay of several outputs at a time; without is the cost without guesses.
func replayTogether(items []item, settings *Settings, chooser *Chooser, world []float64) (out tally, without float64) {
	type writer struct {
		index   *Index
		left    []int32
		guesses []int32
	}
	writers, longest := make([]*writer, len(items)), 0
	for i, it := range items {
		writers[i], longest = &writer{index: settings.NewIndex(), left: it.output}, max(longest, len(it.output))
		writers[i].index.Add(it.prompt...)
	}
	for at := range longest {
		rows := 0
		for _, it := range items {
			rows += min(max(len(it.output)-at, 0), 1)
		}
		without += price(world, rows)
	}
	for {
		writers = slices.DeleteFunc(writers, func(w *writer) bool { return len(w.left) == 0 })
		if len(writers) == 0 {
			return out, without
		}
		proposals, counts, tokens := make([]Proposal, len(writers)), make([]int, len(writers)), len(writers)
		for i, w := range writers {
			proposals[i] = Proposal{Source: FromIndex}
			w.guesses, proposals[i].Match = w.index.Draft(w.guesses[:0], settings.Tokens)
			proposals[i].Len = min(len(w.guesses), len(w.left)-1)
		}
		chooser.Choose(counts, len(writers), proposals)
		for i, w := range writers {
			accepted := 0
			for accepted < counts[i] && w.guesses[accepted] == w.left[accepted] {
				accepted++
			}
			if counts[i] > 0 {
				chooser.Outcome(proposals[i], counts[i], accepted)
			}
			w.index.Add(w.left[:1+accepted]...)
			w.left, tokens = w.left[1+accepted:], tokens+counts[i]
			out = out.plus(tally{ids: 1 + accepted, guessed: counts[i], accepted: accepted})
		}
		cost := price(world, tokens)
		chooser.Observe(tokens, time.Duration(cost*50e6))
		out.cost, out.steps = out.cost+cost, out.steps+1
	}
}

// A draft behind a prompt of 4,000 ids, and a store that is full.
func BenchmarkDraft(b *testing.B) {
	var text []int32
	for _, it := range recorded(b) {
		text = append(append(text, it.prompt...), it.output...)
	}
	settings := Settings{Method: Suffix, Tokens: 7, Shortest: 2, Factor: 1, MinTokenProb: 0.1, CachedRequests: 10_000}
	b.Run("index", func(b *testing.B) {
		index, dst := settings.NewIndex(), make([]int32, 0, 16)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i%4000 == 0 {
				index = settings.NewIndex()
			}
			index.Add(text[i%len(text)])
			dst, _ = index.Draft(dst[:0], settings.Tokens)
		}
	})
	b.Run("store", func(b *testing.B) {
		store, dst := settings.NewStore(), make([]int32, 0, 16)
		for i := range 3000 {
			at := i * 37 % (len(text) - 500)
			store.Add(uint64(i%4), text[at:at+500])
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			at := i%(len(text)-100) + 100
			dst, _ = store.Draft(uint64(i%4), text[:at], dst[:0], settings.Tokens)
		}
	})
	b.Run("index of 100,000 ids", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			index := settings.NewIndex()
			for index.Len() < 100_000 {
				index.Add(text[:min(len(text), 100_000-index.Len())]...)
			}
		}
	})
}
