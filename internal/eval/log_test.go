package eval

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ossian/internal/eval/ask"
)

func logText(t testing.TB, items int) []byte {
	t.Helper()
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	if err := lines.Encode(line{Eval: &header{Schema: schema, Began: time.Unix(5, 0).UTC(), Asked: Asked{Models: []string{"m"}}}}); err != nil {
		t.Fatal(err)
	}
	for i := range items {
		if err := lines.Encode(line{Item: &Item{Question: i, Outcome: Right, Calls: map[string]int{"x": i}}}); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// TestLogTorn: a log may end anywhere: its whole lines count, and a run goes on behind them.
func TestLogTorn(t *testing.T) {
	text := logText(t, 3)
	first := bytes.IndexByte(text, '\n') + 1
	for n := range len(text) + 1 {
		kept, err := readLog(bytes.NewReader(text[:n]))
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if n < first {
			if kept != nil {
				t.Fatalf("%d bytes: half a header was taken", n)
			}
			continue
		}
		if want := bytes.Count(text[:n], []byte("\n")) - 1; len(kept.items) != want || kept.size != int64(bytes.LastIndexByte(text[:n], '\n')+1) {
			t.Fatalf("%d bytes: %d answers of %d bytes, want %d", n, len(kept.items), kept.size, want)
		}
	}
	// What is appended to a torn log stands where the torn line stood.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, logName), text[:len(text)-5], 0o644); err != nil {
		t.Fatal(err)
	}
	j, kept, err := openJournal(dir, header{Schema: schema, Asked: Asked{Models: []string{"m"}}}, true)
	if err != nil || len(kept.items) != 2 {
		t.Fatalf("%+v, %v", kept, err)
	}
	if _, _, err := openJournal(dir, header{Schema: schema}, true); err == nil || !strings.Contains(err.Error(), "another run writes there") {
		t.Errorf("a second run: %v", err)
	}
	if err := j.append(&Item{Question: 2, Outcome: Right, Calls: map[string]int{"x": 2}}); err != nil {
		t.Fatal(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, logName)); err != nil || !bytes.Equal(now, text) {
		t.Errorf("%v\n%s", err, now)
	}
}

func TestLogBroken(t *testing.T) {
	good := string(logText(t, 2))
	for _, c := range []struct{ text, want string }{
		{"hello\n", "line 1: not JSON"},
		{"hello", "not the log of an evaluation"},
		{"{}\n", "line 1: not the log"},
		{`{"eval":{"schema":2}}` + "\n", "version 2 of the log"},
		{strings.Replace(good, `{"item"`, `x{"item"`, 1), "line 2: not JSON"},
		{good + "{}\n" + good, "line 4: expected an answer"},
		{strings.Repeat("x", 2*maxLine), "longer than any line"},
	} {
		if _, err := readLog(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v; want %q", c.text, err, c.want)
		}
	}
}

func TestRedact(t *testing.T) {
	for _, c := range []struct{ message, question, want string }{
		{"the context is too short", "How long is a context?", "the context is too short"},
		{"bad input: How long is a context? (37)", "How long is a context?", "bad input: … (37)"},
		{"", "q", ""},
		{"Wie groß ist Ä und ß?", "Wie groß ist Ä und ß?", "…"},
	} {
		if got := redact(c.message, c.question); got != c.want {
			t.Errorf("%q of %q: %q, want %q", c.message, c.question, got, c.want)
		}
	}
}

func TestPublishedBad(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "expected a mapping"}, {"[]", "expected a mapping"}, {"source: x", "no scores"}, {"gpqa: {low: 101}", "0 to 100"},
		{"gpqa: {low: .nan}", "0 to 100"}, {"gpqa: 5", "a task with scores"}, {"repeats: 0\ngpqa: {low: 1}", "repeats"},
	} {
		if _, err := parsePublished([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v; want %q", c.text, err, c.want)
		}
	}
	p, err := parsePublished([]byte(`{"model":"x","repeats":4,"gpqa":{"low":65.3}}`))
	if err != nil || p.Repeats != 4 || p.Scores["gpqa"]["low"] != 65.3 {
		t.Errorf("%+v, %v", p, err)
	}
}

var answerOf = ask.Answer{Output: 30, Total: 2 * time.Second}

// TestExpected: after eight answers it is said what the rest will take.
func TestExpected(t *testing.T) {
	live := newLive(108, 0, 10)
	for i := range enough {
		if live.State().Expected != nil {
			t.Fatalf("an estimate of %d answers", i)
		}
		live.begin()
		live.end(&answerOf, true)
	}
	s := live.State()
	if s.Expected == nil || s.Expected.Tokens != 100*30 || s.Expected.Time != 20*time.Second || s.Done != enough || s.Running != 0 {
		t.Errorf("%+v, %+v", s, s.Expected)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(logText(f, 2))
	f.Add([]byte(`{"schema":1,"runs":[{"task":"x","items":[{"question":3,"outcome":"right"}]}]}`))
	f.Add([]byte("gpqa: {low: 65.3}\nrepeats: 8\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if kept, err := readLog(bytes.NewReader(data)); err == nil && kept != nil && kept.size > int64(len(data)) {
			t.Errorf("%d whole bytes of %d", kept.size, len(data))
		}
		if out, err := ReadResult(data); err == nil && len(data) < 10_000 {
			_, _ = Compare(out, out)
			out.InBands()
		}
		if p, err := parsePublished(data); err == nil && len(p.Scores) == 0 {
			t.Error("no scores and no error")
		}
	})
}
