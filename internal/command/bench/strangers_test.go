package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"ossian/internal/bench"
	"ossian/internal/command/commandtest"
)

// steering is what moves the cursor, rings the bell and sets the title.
const steering = "\x1b[2J\x1b]0;title\x07\u009b31m"

// sameScreen fails where a text holds what steers a terminal.
func sameScreen(t *testing.T, name, text string) {
	t.Helper()
	if at := strings.IndexFunc(text, func(char rune) bool {
		return (char < ' ' && char != '\n' && char != '\t') || (char >= 0x7f && char < 0xa0)
	}); at >= 0 {
		t.Errorf("%s prints %q", name, text[max(0, at-60):min(len(text), at+20)])
	}
}

// stranger is a server that puts what steers a terminal into everything that it says.
func stranger(t *testing.T) *httptest.Server {
	t.Helper()
	escaped := strings.NewReplacer("\x1b", `\u001b`, "\x07", `\u0007`).Replace(steering)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"data":[{"id":"gpt-oss"}]}`) })
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"version":"%s"}`, escaped)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "vllm:spec_decode_num_drafts{a=\"%s\"} 1\nvllm:prefix_cache_%s 3\n", steering, steering)
	})
	requests := 0
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, _ *http.Request) {
		switch requests++; requests % 3 {
		case 0:
			http.Error(w, steering+"overloaded", http.StatusServiceUnavailable)
		case 1:
			fmt.Fprintf(w, "data: {\"error\":\"%s\"}\n\n", escaped)
		default:
			fmt.Fprintf(w, "data: {\"choices\":[{\"text\":\"%s\",\"finish_reason\":\"%s\"}]}\n\ndata: [DONE]\n\n", escaped, escaped)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, steering, http.StatusNotFound) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// TestBenchStranger: nothing that a server says steers the terminal, be it in a name, a version,
// an error or an answer, while it is measured and when its log and its results are read.
func TestBenchStranger(t *testing.T) {
	t.Chdir(t.TempDir())
	server := stranger(t)
	for _, compat := range []string{"vllm", "vllm-rs", "sglang"} {
		args := strings.Fields("bench serve --disable-tqdm --num-prompts 6 --max-concurrency 1 --dataset-name random --random-input-len 4 --random-output-len 2 --num-warmups 0 " +
			"--save-result --save-detailed --result-filename a.json --html a.html --log a.log --compat " + compat + " --base-url " + server.URL)
		if compat == "sglang" { // which takes prompts of random from ShareGPT
			args = append(args, "--dataset-name", "random-ids")
		}
		out, status, err := commandtest.Run(t, root(), args...)
		if err == nil || !strings.Contains(err.Error(), "cannot be trusted") || !strings.Contains(out, "overloaded") && !strings.Contains(out, "HTTP 503") {
			t.Fatalf("%s: %v\n%s\n%s", compat, err, out, status)
		}
		sameScreen(t, compat, out+status)
		for _, again := range []string{"summarize a.log", "summarize a.json", "compare a.json a.log"} {
			out, status, err := commandtest.Run(t, root(), append([]string{"bench"}, strings.Fields(again)...)...)
			if err != nil {
				t.Errorf("%s: %v", again, err)
			}
			sameScreen(t, again, out+status)
		}
	}
}

// TestBenchStrangersModel: a name that cannot be printed is refused, not cleaned: requests must
// have it as it is.
func TestBenchStrangersModel(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"data":[{"id":"a\u001b[2J"}]}`)
	}))
	defer server.Close()
	out, status, err := commandtest.Run(t, root(), "bench", "serve", "--num-prompts", "1", "--base-url", server.URL)
	if err == nil || !strings.Contains(err.Error(), `is called "a\x1b[2J"`) || !strings.Contains(err.Error(), "--model") {
		t.Errorf("%v\n%s%s", err, out, status)
	}
	sameScreen(t, "refusal", out+status)
}

// TestBenchStrangersFiles: files of results are of strangers as well.
func TestBenchStrangersFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	escaped := `\u001b]0;title\u0007`
	for i, name := range []string{"a.json", "b.json"} {
		text := fmt.Sprintf(`{"backend": "%s%d", "model_id": "%s%d", "duration": 2, "completed": 4}`, escaped, i, escaped, i)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Create("c.log")
	if err != nil {
		t.Fatal(err)
	}
	recording := &bench.Recording{Setup: bench.Setup{Profile: bench.SGLang, Backend: "x" + steering, Model: steering, Tokenizer: steering, Label: steering},
		Samples: []bench.Sample{{Status: 500, Err: steering}}}
	if err := bench.WriteLog(file, recording); err != nil {
		t.Fatal(err)
	}
	file.Close()
	for _, args := range []string{"compare a.json b.json", "summarize a.json b.json c.log", "serve --compare a.json b.json"} {
		out, status, err := commandtest.Run(t, root(), append([]string{"bench"}, strings.Fields(args)...)...)
		if err != nil || !strings.Contains(out, "a.json") {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
		sameScreen(t, args, out+status)
	}
}

// TestBenchTraceGaps: what a trace leaves out is said, with what stands in for it.
func TestBenchTraceGaps(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"hashes.jsonl": "{\"timestamp\": 0, \"input_length\": 40, \"output_length\": 5}\n{\"timestamp\": 100, \"input_length\": 60, \"output_length\": 5}\n{\"timestamp\": 250, \"input_length\": 20, \"output_length\": 5}\n",
		"all.jsonl":    "{\"input_length\": 4}\n{\"input_length\": 6}\n",
		"mixed.jsonl":  "{\"input_length\": 4, \"timestamp\": 1}\n{\"input_length\": 6}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := plays(t)
	const flags = "--dataset-name timed_trace --timed-trace-sec-multiplier 0.001 --num-prompts 3 --temperature 0 --dataset-path "
	lines(t, measured(t, s, flags+"hashes.jsonl"), "\n3 of 3 rows of the trace have no hashes: their prompts share nothing.\n", "Self timing is set",
		"Total input tokens:                      120 ", "Successful requests:                     3 ")
	lines(t, measured(t, s, flags+"all.jsonl --request-rate 100 --output-len 3"), "\n2 of 2 rows of the trace have no output length: they ask for 3 tokens (--output-len).\n",
		"\nThe trace has no times: requests are sent at --request-rate.\n", "\nTraffic request rate: 100.0\n", "Total generated tokens:                  6 ")
	lines(t, measured(t, s, flags+"mixed.jsonl --no-self-timed"), "they ask for 128 tokens", "Successful requests:                     2 ")
	_, _, err := commandtest.Run(t, root(), append(strings.Fields("bench serve --dry-run "+flags), "mixed.jsonl")...)
	if err == nil || !strings.Contains(err.Error(), `mixed.jsonl: line 2: field "timestamp" is missing, and other rows have it; --no-self-timed`) {
		t.Errorf("times of some: %v", err)
	}
}
