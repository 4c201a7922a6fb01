package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ossian/internal/command"
	"ossian/internal/command/commandtest"
	"ossian/internal/command/eval"
	"ossian/internal/tools/python"
)

func TestMain(m *testing.M) {
	python.Helper(os.Args[1:]) // the interpreter's helper is this program
	os.Exit(m.Run())
}

// serve serves the questions of tools.txt with their tools, and returns where.
func serve(t *testing.T) string {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	said, status := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "tools.txt", []string{"site"}, status) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("server: %v", err)
		}
		status.Close()
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			tried(t, url)
			return url
		}
	}
	t.Fatal("the server does not listen")
	return ""
}

// tried waits until Python has been tried, and skips the test where there is none.
func tried(t *testing.T, url string) {
	t.Helper()
	for {
		r, err := http.Post(url+"/v1/responses", "application/json", strings.NewReader(`{"input":"What is six times seven?","tools":[{"type":"code_interpreter"}],"max_output_tokens":1,"store":false}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		switch {
		case err != nil:
			t.Fatal(err)
		case r.StatusCode == http.StatusOK:
			return
		case !strings.Contains(string(text), "still being tried"):
			t.Skipf("Python cannot be run here: %s", text)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestEvalTools: an evaluation with tools that really run, the browser on a folder and Python in its
// sandbox: their calls are counted for each question, the scores are a column of their own, and
// are compared with none without tools.
func TestEvalTools(t *testing.T) {
	url, dir := serve(t), t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	task := write("own.yaml", "name: own\nkind: regex\nprompt: '{question}'\nanswer: right\npattern: '(willow|42)'\n")
	data := write("own.csv", "question,right\nOf what is the frame of a harp?,willow\nWhat is six times seven?,42\n")
	root := func() []string {
		return []string{"eval", "--task", task, "--dataset", "own=" + data, "--base-url", url, "--repeats", "3", "--reasoning-effort", "low", "--temperature", "0"}
	}
	evaluate := func(args ...string) (string, error) {
		stdout, stderr, err := commandtest.Run(t, command.Root(eval.Command(nil)), args...)
		t.Log(stdout, stderr)
		return stdout, err
	}
	with := filepath.Join(dir, "with")
	stdout, err := evaluate(append(root(), "--tools", "web_search,code_interpreter", "--out", with)...)
	if err != nil || !strings.Contains(stdout, "own with web_search, code_interpreter") || !strings.Contains(stdout, "code_interpreter_call 1.00, web_search_call 1.50") {
		t.Errorf("%v", err)
	}
	text, err := os.ReadFile(filepath.Join(with, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Runs []struct {
			Items []struct {
				Question int
				Outcome  string
				Calls    map[string]int
			}
			Calls map[string]int
		}
	}
	if err := json.Unmarshal(text, &got); err != nil || len(got.Runs) != 1 || len(got.Runs[0].Items) != 6 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, item := range got.Runs[0].Items {
		want := map[string]int{"web_search_call": 3}
		if item.Question == 1 {
			want = map[string]int{"code_interpreter_call": 2}
		}
		if item.Outcome != "right" || len(item.Calls) != 1 || item.Calls["web_search_call"] != want["web_search_call"] || item.Calls["code_interpreter_call"] != want["code_interpreter_call"] {
			t.Errorf("question %d: %s, calls %v, want %v", item.Question, item.Outcome, item.Calls, want)
		}
	}
	if calls := got.Runs[0].Calls; calls["web_search_call"] != 9 || calls["code_interpreter_call"] != 6 {
		t.Errorf("calls %v", calls)
	}
	without := filepath.Join(dir, "without")
	if stdout, err := evaluate(append(root(), "--max-tokens", "64", "--out", without)...); err != nil || strings.Contains(stdout, "with web_search") {
		t.Errorf("without tools: %v", err)
	}
	if _, err := evaluate("eval", "compare", filepath.Join(with, "result.json"), filepath.Join(without, "result.json")); command.Status(err) != 2 {
		t.Errorf("compared with and without tools: %v", err)
	}
}
