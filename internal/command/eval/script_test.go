package eval

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/command/commandtest"
	"ossian/internal/command/serve"
	"ossian/internal/eval"
)

func TestMain(m *testing.M) {
	commandtest.Main(m, func() { os.Exit(command.Main(root())) })
}

func root() *cobra.Command { return command.Root(serve.Command(), Command(serve.Start)) }

// A script is a server whose answers the questions prescribe: the data of a test has in each question
// what its server does, as "#17 wrong".
type script struct {
	*httptest.Server
	slow   time.Duration // that an answer takes
	models []string
	tools  []string // types of the calls that each answer has

	mu       sync.Mutex     // guards all below
	requests map[string]int // by question and seed
	answered map[string]int // of them, to the end
	began    chan struct{}  // gets something for every request, where there is room
	bodies   []map[string]any
	version  string
}

func newScript(t *testing.T) *script {
	s := &script{models: []string{"scripted"}, requests: map[string]int{}, answered: map[string]int{}, began: make(chan struct{}, 10_000), version: "1"}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP answers as the question says.
func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/models":
		list := []map[string]string{}
		for _, name := range s.models {
			list = append(list, map[string]string{"id": name})
		}
		json.NewEncoder(w).Encode(map[string]any{"data": list})
		return
	case "/version":
		s.mu.Lock()
		defer s.mu.Unlock()
		json.NewEncoder(w).Encode(map[string]string{"version": s.version})
		return
	case "/v1/responses", "/v1/chat/completions":
	default:
		http.NotFound(w, r)
		return
	}
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	chat := r.URL.Path == "/v1/chat/completions"
	list, _ := body["input"].([]any)
	if chat {
		list, _ = body["messages"].([]any)
	}
	prompt, _ := list[0].(map[string]any)["content"].(string)
	_, after, _ := strings.Cut(prompt, "#")
	words := strings.Fields(after)
	key := fmt.Sprint(words[0], " ", body["seed"], " ", effortOf(body))
	s.mu.Lock()
	s.requests[key]++
	try := s.requests[key]
	s.bodies = append(s.bodies, body)
	s.mu.Unlock()
	select {
	case s.began <- struct{}{}:
	default:
	}
	if s.play(w, prompt, words, try, chat) {
		s.mu.Lock()
		s.answered[key]++
		s.mu.Unlock()
	}
}

func effortOf(body map[string]any) any {
	if reasoning, ok := body["reasoning"].(map[string]any); ok {
		return reasoning["effort"]
	}
	return body["reasoning_effort"]
}

// play does what a question says; true = it was answered.
func (s *script) play(w http.ResponseWriter, prompt string, words []string, try int, chat bool) bool {
	number, _ := strconv.Atoi(words[0])
	text, end := fmt.Sprintf(`It is \boxed{%d}.`, number), ""
	time.Sleep(s.slow)
	switch words[1] {
	case "right":
	case "wrong":
		text = `It is \boxed{1000}, no, \boxed{5`
		if number == 5 {
			text = `\boxed{6}`
		} else {
			text = `\boxed{5}`
		}
	case "empty":
		text = ""
	case "silent":
		text = "I cannot say."
	case "truncated":
		text, end = "", "cut"
	case "refused":
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"error":{"message":"no: %s"}}`, strings.ReplaceAll(strings.ReplaceAll(prompt, "\n", " "), `\`, ""))
		return true
	case "failing":
		w.WriteHeader(500)
		fmt.Fprintf(w, `{"error":{"message":"oom at %s"}}`, strings.ReplaceAll(strings.ReplaceAll(prompt, "\n", " "), `\`, ""))
		return false
	case "busy": // at the first try
		if try == 1 {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(429)
			return false
		}
	case "nothing":
		if try == 1 {
			return false
		}
	case "severed":
		if try == 1 {
			s.stream(w, "half an ans", "none", chat)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	case "slow":
		time.Sleep(50 * time.Millisecond)
	}
	s.stream(w, text, end, chat)
	return true
}

// stream writes an answer as events.
func (s *script) stream(w io.Writer, text, end string, chat bool) {
	quoted, _ := json.Marshal(text)
	if chat {
		finish := map[string]string{"": "stop", "cut": "length"}[end]
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s}}],\"system_fingerprint\":\"fp\"}\n\n", quoted)
		if finish != "" {
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":%q}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n", finish)
		}
		return
	}
	fmt.Fprintf(w, "data: {\"type\":\"response.output_text.delta\",\"delta\":%s}\n\n", quoted)
	for _, tool := range s.tools {
		fmt.Fprintf(w, "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":%q}}\n\n", tool)
	}
	if status := map[string]string{"": "completed", "cut": "incomplete"}[end]; status != "" {
		fmt.Fprintf(w, "data: {\"type\":\"response.%s\",\"response\":{\"status\":%q,\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":%s}]}],\"usage\":{\"input_tokens\":2,\"output_tokens\":7}}}\n\n", status, status, quoted)
	}
}

// canary stands in every question of the tests' data.
const canary = "CANARY-do-not-show-this-question"

// writeData writes a data set of aime25 whose questions do what is said: of each behaviour so many.
func writeData(t *testing.T, behaviours ...any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.jsonl")
	var out strings.Builder
	number := 1
	for i := 0; i < len(behaviours); i += 2 {
		for range behaviours[i+1].(int) {
			row, _ := json.Marshal(map[string]string{"question": fmt.Sprintf("%s #%d %s", canary, number, behaviours[i]), "answer": strconv.Itoa(number)})
			out.Write(append(row, '\n'))
			number++
		}
	}
	if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// evaluate runs the command in this process.
func evaluate(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return commandtest.Run(t, root(), append([]string{"eval"}, args...)...)
}

// result reads the result of a folder.
func result(t *testing.T, dir string) *eval.Result {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := eval.ReadResult(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
