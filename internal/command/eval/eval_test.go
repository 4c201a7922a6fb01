package eval

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/command"
	"ossian/internal/command/commandtest"
	"ossian/internal/eval"
	"ossian/internal/soak"
	"ossian/internal/synth"
)

// quick makes tries follow each other at once, for the time of a test.
func quick(t *testing.T) (waits *[]time.Duration) {
	waits = &[]time.Duration{}
	old := sleep
	sleep = func(_ context.Context, d time.Duration) error { *waits = append(*waits, d); return nil }
	t.Cleanup(func() { sleep = old })
	return waits
}

// TestCounts: of a server that prescribes right, wrong, empty, silent, truncated, refused, failing,
// busy, slow and severed answers every count is exact, by both APIs, and nothing is asked twice.
func TestCounts(t *testing.T) {
	quick(t)
	data := writeData(t, "right", 11, "wrong", 7, "empty", 2, "silent", 3, "truncated", 4, "refused", 5, "failing", 1, "busy", 2, "nothing", 2, "severed", 2, "slow", 1)
	for _, api := range []string{"responses", "chat"} {
		s := newScript(t)
		dir := t.TempDir()
		_, _, err := evaluate(t, "aime25", "--base-url", s.URL, "--dataset", "aime25="+data, "--any-data", "--count-refused", "--api", api, "--repeats", "3",
			"--reasoning-effort", "low,high", "--seed", "1", "--max-retries", "2", "--out", dir, "--concurrency", "1")
		if command.Status(err) != 2 || !strings.Contains(err.Error(), "not valid") { // one of 40 failed
			t.Errorf("%s: %v", api, err)
		}
		out := result(t, dir)
		if len(out.Runs) != 2 || out.Valid || !out.Complete {
			t.Fatalf("%s: %+v", api, out)
		}
		for _, run := range out.Runs {
			want := map[eval.Outcome]int{eval.Right: 54, eval.Wrong: 21, eval.NoAnswer: 15, eval.Truncated: 12, eval.Refused: 15, eval.Failed: 3}
			if !maps.Equal(run.Outcomes, want) {
				t.Errorf("%s, %s: %v, want %v", api, run.Effort, run.Outcomes, want)
			}
			if run.Strict.Answers != 117 || run.Strict.Questions != 39 || run.Output != 7*(54+21+15+12) || run.Input != 2*(54+21+15+12) {
				t.Errorf("%s, %s: %+v, %d tokens", api, run.Effort, run.Strict, run.Output)
			}
			if want := 54.0 / 117; run.Strict.Mean < want-1e-9 || run.Strict.Mean > want+1e-9 {
				t.Errorf("%s: %v right, want %v", api, run.Strict.Mean, want)
			}
		}
		if len(s.answered) != 39*3*2 {
			t.Errorf("%s: %d entries were answered, want %d", api, len(s.answered), 39*3*2)
		}
		for key, n := range s.answered {
			if n != 1 {
				t.Errorf("%s: %s was answered %d times", api, key, n)
			}
		}
	}
}

// TestRefused: the first request that the server refuses ends a run, and says how to go on.
func TestRefused(t *testing.T) {
	s := newScript(t)
	_, _, err := evaluate(t, "aime25", "--base-url", s.URL, "--dataset", "aime25="+writeData(t, "right", 1, "refused", 100), "--any-data", "--repeats", "1", "--concurrency", "1", "--out", t.TempDir())
	if command.Status(err) != 2 || !strings.Contains(err.Error(), "--count-refused") || strings.Contains(err.Error(), canary) {
		t.Errorf("%v", err)
	}
	if len(s.requests) != 2 {
		t.Errorf("%d requests, want 2", len(s.requests))
	}
}

// timeless is a result without what differs from one run to the next.
func timeless(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`"(began|seconds|ttft)": [^,\n]+`).ReplaceAllString(string(text), `"$1": 0`)
}

// TestKilled: a run that is killed at random moments and goes on each time gives the result of one
// that was left alone, and asks nothing again that it has an answer to.
func TestKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no kill there")
	}
	const kills = 20
	s := newScript(t)
	s.slow = time.Millisecond
	args := []string{"eval", "aime25", "--base-url", s.URL, "--dataset", "aime25=" + writeData(t, "right", 30, "wrong", 10), "--any-data", "--repeats", "4",
		"--reasoning-effort", "low", "--seed", "3", "--concurrency", "3"}
	dir := filepath.Join(t.TempDir(), "run")
	for kill := range kills {
		c := commandtest.Program(t, append(slices.Clone(args), "--out", dir)...)
		if kill > 0 {
			c = commandtest.Program(t, append(slices.Clone(args), "--out", dir, "--resume")...)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		for range 1 + rand.IntN(max(160/kills/2, 2)) { // all kills together stay below all answers
			select {
			case <-s.began:
			case err := <-ended:
				t.Fatalf("it ended by itself: %v", err)
			}
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		_ = c.Process.Kill()
		<-ended
		for len(s.began) > 0 {
			<-s.began
		}
		kept := keptKeys(t, dir)
		s.mu.Lock()
		before := maps.Clone(s.requests)
		s.mu.Unlock()
		t.Cleanup(func() {
			for _, key := range kept {
				if s.requests[key] != before[key] {
					t.Errorf("%s was asked again though its answer was kept", key)
				}
			}
		})
	}
	c := commandtest.Program(t, append(slices.Clone(args), "--out", dir, "--resume")...)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	alone := filepath.Join(t.TempDir(), "alone")
	if text, err := commandtest.Program(t, append(slices.Clone(args), "--out", alone)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if a, b := timeless(t, dir), timeless(t, alone); a != b {
		t.Errorf("the results differ:\n%s\n%s", a, b)
	}
}

// keptKeys are the entries that a log has, as the script counts them.
func keptKeys(t *testing.T, dir string) (keys []string) {
	file, err := os.Open(filepath.Join(dir, "answers.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	set := map[string]bool{}
	for lines.Scan() {
		var line struct {
			Item *struct{ Question, Repeat int }
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Item != nil {
			key := fmt.Sprintf("%d %v", line.Item.Question+1, line.Item.Repeat)
			if set[key] {
				t.Errorf("question %s is kept twice", key)
			}
			set[key] = true
		}
	}
	return slices.Collect(maps.Keys(set))
}

// TestResume: what there is counts, failed answers are asked again, and another question, option or
// data set is refused.
func TestResume(t *testing.T) {
	quick(t)
	s := newScript(t)
	data := writeData(t, "right", 5, "wrong", 1)
	dir := t.TempDir()
	args := []string{"aime25", "--base-url", s.URL, "--dataset", "aime25=" + data, "--any-data", "--repeats", "2", "--reasoning-effort", "low", "--seed", "1", "--out", dir}
	if _, _, err := evaluate(t, append(args, "--resume")...); err == nil || !strings.Contains(err.Error(), "no run to go on with") {
		t.Errorf("nothing to go on with: %v", err)
	}
	if _, _, err := evaluate(t, args...); err != nil {
		t.Fatal(err)
	}
	whole := timeless(t, dir)
	asked := len(s.bodies)
	if _, _, err := evaluate(t, args...); err == nil || !strings.Contains(err.Error(), "has 12 answers") || !strings.Contains(err.Error(), "--resume goes on") {
		t.Errorf("a folder with a run: %v", err)
	}
	if _, _, err := evaluate(t, append(args, "--resume")...); err != nil || len(s.bodies) != asked || timeless(t, dir) != whole {
		t.Errorf("a complete run: %v, %d requests more", err, len(s.bodies)-asked)
	}
	other := writeData(t, "right", 6)
	for _, c := range [][2]string{{"--temperature=0.5", "temperature 1, now 0.5"}, {"--repeats=3", "repeats 2, now 3"}, {"--reasoning-effort=high", `efforts ["low"], now ["high"]`},
		{"--seed=2", "seed 1, now 2"}, {"--api=chat", `api "responses", now "chat"`}, {"--max-tokens=7", "max_tokens 131072, now 7"}, {"--tools=web_search", `tools`}} {
		_, _, err := evaluate(t, append(slices.Clone(args), "--resume", c[0])...)
		if command.Status(err) != 2 || err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v", c[0], err)
		}
	}
	changed := slices.Clone(args)
	changed[4] = "aime25=" + other
	if _, _, err := evaluate(t, append(changed, "--resume")...); err == nil || !strings.Contains(err.Error(), "sha256") {
		t.Errorf("other data: %v", err)
	}
	s.models = []string{"other"}
	if _, _, err := evaluate(t, append(args, "--resume")...); err == nil || !strings.Contains(err.Error(), `models ["scripted"], now ["other"]`) {
		t.Errorf("another model: %v", err)
	}
	if len(s.bodies) != asked {
		t.Errorf("%d requests were sent by runs that were refused", len(s.bodies)-asked)
	}
}

// TestFailedAgain: answers that failed are asked again by --resume.
func TestFailedAgain(t *testing.T) {
	quick(t)
	s := newScript(t)
	dir := t.TempDir()
	args := []string{"aime25", "--base-url", s.URL, "--dataset", "aime25=" + writeData(t, "right", 5, "busy", 1), "--any-data", "--repeats", "1", "--reasoning-effort", "low", "--max-retries", "0", "--out", dir}
	if _, _, err := evaluate(t, args...); command.Status(err) != 2 {
		t.Fatalf("a failed answer: %v", err)
	}
	stdout, _, err := evaluate(t, append(args, "--resume")...)
	if out := result(t, dir); err != nil || out.Runs[0].Outcomes[eval.Right] != 6 || out.Runs[0].Outcomes[eval.Failed] != 0 || !out.Valid {
		t.Errorf("%v\n%s", err, stdout)
	}
}

// TestInterrupted: Ctrl-C leaves tables and files of what there is.
func TestInterrupted(t *testing.T) {
	s := newScript(t)
	s.slow = 5 * time.Millisecond
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range 12 {
			<-s.began
		}
		cancel()
	}()
	c := root()
	var out strings.Builder
	c.SetOut(&out)
	c.SetErr(&commandtest.Console{})
	c.SetArgs([]string{"eval", "aime25", "--base-url", s.URL, "--dataset", "aime25=" + writeData(t, "right", 100), "--any-data", "--repeats", "1", "--reasoning-effort", "low", "--concurrency", "2", "--out", dir})
	err := c.ExecuteContext(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(out.String(), "the run was interrupted") || !strings.Contains(out.String(), "100.0") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if r := result(t, dir); r.Complete || len(r.Runs[0].Items) < 9 || len(r.Runs[0].Items) > 20 {
		t.Errorf("%d items, complete %v", len(r.Runs[0].Items), r.Complete)
	}
}

// TestBuiltIn: without arguments ossian-tiny has the known score. The negative control is one, and
// wrong weights are told.
func TestBuiltIn(t *testing.T) {
	whole := []string{"--reasoning-effort", "low", "--examples", "60"}
	if commandtest.Soaking() {
		whole = nil // as it is typed
	}
	stdout, stderr, err := evaluate(t, whole...)
	if err != nil || !strings.Contains(stdout, "100.0") {
		t.Errorf("%v\n%s\n%s", err, stdout, stderr)
	}
	if strings.Contains(stderr, "listening") || !strings.Contains(stderr, "until the run ends; live view: http://127.0.0.1:") {
		t.Errorf("of its server it says\n%s", stderr)
	}
	stdout, _, err = evaluate(t, "arith5", "--reasoning-effort", "low", "--examples", fmt.Sprint(soak.Cases(t, 60, 200)))
	if err != nil || !regexp.MustCompile(`strict +[0-5]\.\d`).MatchString(stdout) {
		t.Errorf("arith5: %v\n%s", err, stdout)
	}
	dir := t.TempDir()
	commandtest.WriteModel(t, "gpt-oss-tiny", filepath.Join(dir, "wrong"), synth.Options{Seed: 1})
	stdout, _, err = evaluate(t, "--model", filepath.Join(dir, "wrong"), "--reasoning-effort", "low", "--examples", "8", "--max-tokens", "16")
	if command.Status(err) != 1 || err == nil || !strings.Contains(err.Error(), "the weights or the computation are wrong") {
		t.Errorf("wrong weights: %v\n%s", err, stdout)
	}
}

// TestPlaceFirst: no server is started for a run that cannot be kept where it should.
func TestPlaceFirst(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := evaluate(t, "arith", "--reasoning-effort", "low", "--examples", "2", "--out", dir); err != nil {
		t.Fatal(err)
	}
	for place, want := range map[string]string{
		dir:                                     "answers.jsonl has 2 answers of a run begun",
		filepath.Join(dir, "result.json", "in"): "result.json is a file, where a folder is needed",
	} {
		_, stderr, err := evaluate(t, "arith", "--reasoning-effort", "low", "--examples", "2", "--out", place)
		if command.Status(err) != 2 || !strings.Contains(err.Error(), want) || strings.Contains(stderr, "until the run ends") {
			t.Errorf("--out %s: %v, want %q before a server is started:\n%s", place, err, want, stderr)
		}
	}
}

// TestBothAPIs: at temperature 0 both APIs of a server give the same answers.
func TestBothAPIs(t *testing.T) {
	url := commandtest.Serve(t, root())
	var items [2][]string
	for i, api := range []string{"responses", "chat"} {
		dir := t.TempDir()
		stdout, stderr, err := evaluate(t, "arith", "--base-url", url+"/v1/", "--api", api, "--examples", fmt.Sprint(soak.Cases(t, 20, 200)), "--reasoning-effort", "medium", "--out", dir)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, stdout, stderr)
		}
		out := result(t, dir)
		if out.Server.Engine["kv_dtype"] == "" || out.Server.Engine["device"] == "" || out.Server.Version == "" {
			t.Errorf("the server is not told: %+v", out.Server)
		}
		for _, item := range out.Runs[0].Items {
			items[i] = append(items[i], fmt.Sprintf("%s %s %s %d", item.ID, item.Outcome, item.Strict, item.Output))
		}
	}
	if !slices.Equal(items[0], items[1]) {
		t.Errorf("the answers differ:\n%v\n%v", items[0], items[1])
	}
}

// TestBadInput: each is one line that says what, where and what to do, with status 2, and nothing
// is asked.
func TestBadInput(t *testing.T) {
	s := newScript(t)
	two := newScript(t)
	two.models = []string{"a", "b"}
	bare := httptest.NewServer(http.NotFoundHandler())
	defer bare.Close()
	gated := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Error-Code", "GatedRepo")
		w.WriteHeader(401)
	}))
	defer gated.Close()
	t.Setenv("HF_ENDPOINT", gated.URL)
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_TOKEN", "")
	good := "aime25=" + writeData(t, "right", 30)
	full := filepath.Join(t.TempDir(), "full")
	os.Mkdir(full, 0o755)
	if err := os.Symlink("/dev/full", filepath.Join(full, "answers.jsonl")); err != nil {
		t.Log(err)
	}
	for _, c := range []struct {
		name, url string
		args      []string
		want      string
	}{
		{"unknown task", s.URL, []string{"gqpa"}, "did you mean gpqa?"},
		{"no data", s.URL, []string{"gpqa"}, "--dataset gpqa=FILE"},
		{"no such file", s.URL, []string{"gpqa", "--dataset", "gpqa=none.csv"}, "none.csv: no such file"},
		{"directory", s.URL, []string{"gpqa", "--dataset", "gpqa=."}, "is a directory"},
		{"wrong rows", s.URL, []string{"aime25", "--dataset", "aime25=" + writeData(t, "right", 29)}, "29 rows; aime25 has 30; --any-data"},
		{"gated", s.URL, []string{"gpqa", "--dataset", "gpqa=hf:Idavidrein/gpqa"}, "accept the terms at " + gated.URL + "/datasets/Idavidrein/gpqa and set HF_TOKEN"},
		{"bad hub name", s.URL, []string{"gpqa", "--dataset", "gpqa=hf:gpqa"}, "expected ORG/NAME"},
		{"http", s.URL, []string{"gpqa", "--dataset", "gpqa=http://example.com/x.csv"}, "expected https"},
		{"data of no task", s.URL, []string{"aime25", "--dataset", good, "--dataset", "gpqa=x"}, "the task is not asked for"},
		{"dataset without task", s.URL, []string{"aime25", "--dataset", "x.csv"}, "expected TASK=FILE"},
		{"effort", s.URL, []string{"aime25", "--dataset", good, "--reasoning-effort", "low,huge"}, `"huge": expected some of`},
		{"model", s.URL, []string{"aime25", "--dataset", good, "--model", "script"}, "did you mean scripted?"},
		{"two models", two.URL, []string{"aime25", "--dataset", good}, "serves 2 models: --model names one of a, b"},
		{"no list of models", bare.URL, []string{"aime25", "--dataset", good}, "/models: 404 Not Found"},
		{"no server", "http://127.0.0.1:1", []string{"aime25", "--dataset", good}, "is the server running"},
		{"bad address", "127.0.0.1:8000", []string{"aime25", "--dataset", good}, "expected http://HOST:PORT"},
		{"api", s.URL, []string{"aime25", "--dataset", good, "--api", "completions"}, "expected responses or chat"},
		{"tool", s.URL, []string{"aime25", "--dataset", good, "--tools", "browser"}, "expected web_search"},
		{"tools by chat", s.URL, []string{"aime25", "--dataset", good, "--tools", "web_search", "--api", "chat"}, "--api responses"},
		{"NaN", s.URL, []string{"aime25", "--dataset", good, "--temperature", "NaN"}, "expected 0 to 2"},
		{"too many examples", s.URL, []string{"aime25", "--dataset", good, "--examples", "31"}, "has 30 questions"},
		{"twice", s.URL, []string{"aime25", "aime25", "--dataset", good}, "named twice"},
		{"disk full", s.URL, []string{"aime25", "--dataset", good, "--out", full}, "no space left"},
		{"out is a file", s.URL, []string{"aime25", "--dataset", good, "--out", os.Args[0]}, "--out " + os.Args[0] + ": " + os.Args[0] + " is a file, where a folder is needed; name a folder"},
		{"out is a file, and no data", s.URL, []string{"gpqa", "--out", os.Args[0]}, "where a folder is needed"},
		{"reference", s.URL, []string{"aime25", "--dataset", good, "--reference", "none"}, "no such file"},
		{"mistyped flag", s.URL, []string{"--efort", "low"}, "unknown flag"},
		{"task file", s.URL, []string{"--task", "none.yaml"}, "no such file"},
	} {
		if c.name == "disk full" && runtime.GOOS != "linux" {
			continue
		}
		dir := t.TempDir()
		t.Chdir(dir)
		_, stderr, err := evaluate(t, append(c.args, "--base-url", c.url)...)
		if command.Status(err) != 2 || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: status %d, %v; want %q", c.name, command.Status(err), err, c.want)
		}
		if err != nil && strings.Contains(err.Error()+stderr, canary) {
			t.Errorf("%s: shows a question", c.name)
		}
	}
	if len(s.requests)+len(two.requests) > 0 {
		t.Errorf("%d questions were asked", len(s.requests)+len(two.requests))
	}
}

// TestNoText: no text of a question or an answer is in any output, unless it is asked for. Then it
// is in files for their owner alone, with a notice.
func TestNoText(t *testing.T) {
	quick(t)
	s := newScript(t)
	data := writeData(t, "right", 4, "wrong", 1, "failing", 1, "refused", 1, "silent", 1, "truncated", 1)
	own := filepath.Join(t.TempDir(), "own.yaml")
	os.WriteFile(own, []byte("name: own\nkind: exact\nprompt: '{question}'\nanswer: question\n"), 0o644)
	for _, keep := range []bool{false, true} {
		dir := t.TempDir()
		args := []string{"aime25", "--task", own, "--base-url", s.URL, "--dataset", "aime25=" + data, "--dataset", "own=" + data, "--any-data", "--count-refused", "--repeats", "2", "--reasoning-effort", "low",
			"--max-retries", "0", "--out", dir, "--compat", "gpt-oss"}
		if keep {
			args = append(args, "--keep-text")
		}
		stdout, stderr, err := evaluate(t, args...)
		if command.Status(err) != 2 { // failures
			t.Fatalf("%v", err)
		}
		if strings.Contains(stdout+stderr+err.Error(), "CANARY") || strings.Contains(stdout+stderr+err.Error(), "cannot say") {
			t.Errorf("the console shows a text:\n%s%s%v", stdout, stderr, err)
		}
		names, _ := os.ReadDir(dir)
		shown := 0
		for _, entry := range names {
			text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "CANARY") && !strings.Contains(string(text), "cannot say") {
				continue
			}
			shown++
			info, _ := entry.Info()
			if !keep || (runtime.GOOS != "windows" && info.Mode().Perm() != 0o600) || !(entry.Name() == "texts.jsonl" || strings.HasSuffix(entry.Name(), "_allresults.json")) {
				t.Errorf("%s (%v) has a text", entry.Name(), info.Mode())
			}
			if entry.Name() == "texts.jsonl" && !strings.HasPrefix(string(text), `{"notice":"Questions of published data sets: please do not publish`) {
				t.Errorf("no notice: %.100s", text)
			}
		}
		if len(names) != 4+4+map[bool]int{true: 1}[keep] || (shown > 0) != keep {
			t.Errorf("%d files, %d of them with texts", len(names), shown)
		}
	}
}

// TestTools: a run with tools is a column of its own, its calls are counted, and it is compared with
// no run without.
func TestTools(t *testing.T) {
	data := "aime25=" + writeData(t, "right", 10)
	plain, with := newScript(t), newScript(t)
	with.tools = []string{"web_search_call", "code_interpreter_call", "code_interpreter_call"}
	var dirs []string
	for _, c := range []struct {
		s    *script
		args []string
	}{{plain, nil}, {with, []string{"--tools", "web_search,code_interpreter"}}} {
		dir := t.TempDir()
		dirs = append(dirs, filepath.Join(dir, "result.json"))
		args := append([]string{"aime25", "--base-url", c.s.URL, "--dataset", data, "--any-data", "--repeats", "2", "--reasoning-effort", "low", "--out", dir}, c.args...)
		stdout, _, err := evaluate(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		if c.args != nil && (!strings.Contains(stdout, "aime25 with web_search, code_interpreter") || !strings.Contains(stdout, "code_interpreter_call 2.00, web_search_call 1.00")) {
			t.Errorf("%s", stdout)
		}
		if c.args != nil {
			out := result(t, dir)
			if calls := out.Runs[0].Items[0].Calls; calls["web_search_call"] != 1 || calls["code_interpreter_call"] != 2 || out.Runs[0].Calls["code_interpreter_call"] != 40 {
				t.Errorf("calls %v, %v", calls, out.Runs[0].Calls)
			}
		}
	}
	if tools, _ := json.Marshal(with.bodies[0]["tools"]); string(tools) != `[{"type":"web_search"},{"container":{"type":"auto"},"type":"code_interpreter"}]` {
		t.Errorf("tools %s", tools)
	}
	if _, ok := plain.bodies[0]["tools"]; ok {
		t.Error("tools without --tools")
	}
	if _, _, err := evaluate(t, "compare", dirs[0], dirs[1]); command.Status(err) != 2 {
		t.Errorf("compared with and without tools: %v", err)
	}
}

// TestCompare: two results are compared, and what cannot be is told.
func TestCompare(t *testing.T) {
	run := func(behaviours ...any) string {
		s, dir := newScript(t), t.TempDir()
		if _, _, err := evaluate(t, "aime25", "--base-url", s.URL, "--dataset", "aime25="+writeData(t, behaviours...), "--any-data", "--repeats", "2", "--reasoning-effort", "low,high", "--out", dir); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "result.json")
	}
	a := run("right", 20, "wrong", 20)
	stdout, _, err := evaluate(t, "compare", a, a)
	if err != nil || strings.Count(stdout, "no difference shown") != 4 || strings.Contains(stdout, "they differ") {
		t.Errorf("the same: %v\n%s", err, stdout)
	}
	if _, _, err := evaluate(t, "compare", a, run("right", 39, "wrong", 1)); command.Status(err) != 2 || !strings.Contains(err.Error(), "the data differ") {
		t.Errorf("other data: %v", err)
	}
	text, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	better := filepath.Join(t.TempDir(), "better.json")
	changed := strings.ReplaceAll(strings.ReplaceAll(string(text), `"outcome": "wrong"`, `"outcome": "right"`), `"reference_right": false`, `"reference_right": true`)
	if err := os.WriteFile(better, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	stdout, _, err = evaluate(t, "compare", a, better)
	if err != nil || strings.Count(stdout, "they differ") != 4 || !strings.Contains(stdout, "+50.0") {
		t.Errorf("better: %v\n%s", err, stdout)
	}
	stdout, _, err = evaluate(t, "compare", filepath.Dir(a), filepath.Dir(a))
	if err != nil || strings.Count(stdout, "no difference shown") != 4 {
		t.Errorf("the folders of --out: %v\n%s", err, stdout)
	}
	if _, _, err := evaluate(t, "compare", a, t.TempDir()); command.Status(err) != 2 || !strings.Contains(err.Error(), "no such file or directory; expected a result.json of ossian eval") {
		t.Errorf("an empty folder: %v", err)
	}
	for _, bad := range []string{"", "{}", "[", `{"schema":1,"runs":[null]}`, `{"schema":1,"runs":[{"items":[{"question":-1}]}]}`} {
		path := filepath.Join(t.TempDir(), "x.json")
		os.WriteFile(path, []byte(bad), 0o644)
		if _, _, err := evaluate(t, "compare", path, a); command.Status(err) != 2 || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestPublished: scores are set beside published ones, by what the same questions may give again.
func TestPublished(t *testing.T) {
	s, dir := newScript(t), t.TempDir()
	file := filepath.Join(dir, "published.yaml")
	os.WriteFile(file, []byte("source: a guide\nrepeats: 8\naime25: {low: 50, high: 99}\n"), 0o644)
	stdout, _, err := evaluate(t, "aime25", "--base-url", s.URL, "--dataset", "aime25="+writeData(t, "right", 20, "wrong", 20), "--any-data", "--repeats", "2", "--reasoning-effort", "low,high", "--reference", file, "--out", filepath.Join(dir, "out"))
	if err != nil || !strings.Contains(stdout, "published 99.0 %, more than 3 standard errors") || strings.Contains(stdout, "published 50.0 %") {
		t.Errorf("%v\n%s", err, stdout)
	}
}

// TestChanged: a server that is not the same at the end is a finding.
func TestChanged(t *testing.T) {
	s, dir := newScript(t), t.TempDir()
	go func() {
		<-s.began
		s.mu.Lock()
		s.version = "2"
		s.mu.Unlock()
	}()
	s.slow = 2 * time.Millisecond
	stdout, _, err := evaluate(t, "aime25", "--base-url", s.URL, "--dataset", "aime25="+writeData(t, "right", 40), "--any-data", "--repeats", "1", "--reasoning-effort", "low", "--concurrency", "1", "--out", dir)
	if err != nil || !strings.Contains(stdout, `the server changed in mid-run: its version was "1" and became "2"`) {
		t.Errorf("%v\n%s", err, stdout)
	}
}
