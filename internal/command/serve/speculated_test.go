package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ossian/internal/ckpt/eagle/eagletest"
	"ossian/internal/command/commandtest"
)

// TestSPC5RepliesAreTheSame asks a server that guesses and one that does not the same. Replies have
// to be equal to the byte, but for what tells one reply from another: temperatures, seeds, choices,
// penalties, stop strings, forms, tools, log probabilities, streams; eight at a time, with clients
// that leave, and blocks for too few of them.
func TestSPC5RepliesAreTheSame(t *testing.T) {
	requests, methods := 40, []string{
		`{"method":"suffix","num_speculative_tokens":7,"adaptive":false}`,
		`{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_min":2,"prompt_lookup_max":4,"adaptive":false}`,
		`{"method":"draft_model","model":"ossian-tiny","num_speculative_tokens":4,"adaptive":false}`,
		fmt.Sprintf(`{"method":"eagle3","model":%q,"num_speculative_tokens":3,"adaptive":false}`, eagletest.Trained(t)),
		`{"method":"suffix","num_speculative_tokens":31}`,
		`{"method":"draft_model","model":"ossian-tiny","num_speculative_tokens":31,"max_model_len":300,"adaptive":false}`,
	}
	if commandtest.Soaking() {
		requests = 1000
	} else {
		methods = methods[:4]
	}
	sameReplies(t, nil, methods, requests, requests)
}

// The same of a real model, where `make smollm2` has brought it: it guesses for itself, and its text is
// not that of the embedded one.
func TestSPC5RealModel(t *testing.T) {
	model, err := filepath.Abs("../../../models/SmolLM2-135M-Instruct.Q4_1.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(model); err != nil {
		t.Skip("make smollm2 brings a real model to compare with")
	}
	if !commandtest.Soaking() {
		t.Skip("takes minutes; OSSIAN_SOAK=1 runs it")
	}
	sameReplies(t, []string{model}, []string{
		`{"method":"suffix","num_speculative_tokens":7,"adaptive":false}`,
		`{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_min":2,"prompt_lookup_max":4,"adaptive":false}`,
		`{"method":"suffix","num_speculative_tokens":7}`,
		fmt.Sprintf(`{"method":"draft_model","model":%q,"num_speculative_tokens":4,"adaptive":false}`, model),
	}, 200, 20) // how many pay is a matter of time
}

// sameReplies asks servers of a model, nil = the embedded one, as many requests with each method and
// without any. What fails is a reply that differs, and a method of which fewer guesses than least hold:
// too few to show anything.
func sameReplies(t *testing.T, model, methods []string, requests, least int) {
	t.Helper()
	args := append(model, "--max-num-seqs", "8", "--max-model-len", "512", "--num-gpu-blocks-override", "36")
	rng := rand.New(rand.NewPCG(5, 5))
	var asked []question
	for len(asked) < requests {
		question := ask(rng)
		if model != nil && strings.Contains(question.body, `"tool_choice":"auto"`) {
			continue // the template of SmolLM2 has no tools, which is refused; calls can be forced
		}
		asked = append(asked, question)
	}
	want := answers(t, commandtest.Serve(t, root(), args...), asked)
	for _, method := range methods {
		guessing := commandtest.Serve(t, root(), append(args, "--speculative-config", method)...)
		for i, got := range answers(t, guessing, asked) {
			if !asked[i].leaves && got != want[i] {
				t.Errorf("%s: request %d, %s %s\nwith guesses: %s\nwithout:      %s", method, i, asked[i].path, asked[i].body, got, want[i])
			}
		}
		held := series(t, guessing, "vllm:spec_decode_num_accepted_tokens_total")
		t.Logf("%s: %d requests, %.0f guesses, %.0f of them held, %.0f preemptions", method, len(asked), series(t, guessing, "vllm:spec_decode_num_draft_tokens_total"),
			held, series(t, guessing, "vllm:num_preemptions_total"))
		if held < float64(least) {
			t.Errorf("%s: %.0f guesses held in %d requests: too few to show anything", method, held, requests)
		}
	}
}

// A question is a request.
type question struct {
	path, body string
	leaves     bool // the client goes before the end
}

// ask makes a request of any kind, whose answer is likely to repeat what it has seen.
func ask(rng *rand.Rand) question {
	pick := func(texts ...string) string { return texts[rng.IntN(len(texts))] }
	text := pick("the cat sat on the mat. the cat sat on the mat. the cat", "one two three one two three one two", "say a b c a b c a b c", "Hello",
		"func add(a, b int) int { return a + b }\nfunc sub(a, b int) int { return a - b }\nfunc mul(a")
	body := map[string]any{"max_tokens": 1 + rng.IntN(70), "seed": rng.IntN(1000), "temperature": []float64{0, 0.8, 1}[rng.IntN(3)]}
	some := func(chance int, name string, value any) {
		if rng.IntN(chance) == 0 {
			body[name] = value
		}
	}
	some(4, "top_p", 0.9)
	some(4, "frequency_penalty", 0.5)
	some(5, "presence_penalty", 0.3)
	some(6, "repetition_penalty", 1.1)
	some(6, "logit_bias", map[string]int{"5": 3, "40": -100})
	some(4, "stop", []string{pick(" the", "c", " two", "\n"), "mat. the"})
	some(5, "n", 2)
	some(4, "stream", true)
	some(6, "ignore_eos", true)
	some(6, "min_tokens", min(1+rng.IntN(10), body["max_tokens"].(int)))
	some(8, "cache_salt", pick("x", "y"))
	asked := question{leaves: body["stream"] == true && rng.IntN(5) == 0}
	if rng.IntN(2) == 0 {
		asked.path, body["prompt"] = "/v1/completions", text
		some(3, "logprobs", rng.IntN(4))
		some(6, "echo", true)
		some(6, "structured_outputs", map[string]string{"regex": "(the (cat|mat) ){3,12}\\."})
	} else {
		asked.path, body["messages"] = "/v1/chat/completions", []any{map[string]string{"role": "user", "content": text}}
		switch rng.IntN(4) {
		case 0:
			body["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "list", "schema": json.RawMessage(
				`{"type":"object","properties":{"names":{"type":"array","items":{"type":"string","enum":["the cat","the mat"]},"minItems":2,"maxItems":6},"count":{"type":"integer"}},"required":["names","count"],"additionalProperties":false}`)}}
			body["max_tokens"] = 100
		case 1:
			body["tools"] = json.RawMessage(`[{"type":"function","function":{"name":"move","description":"moves","parameters":{"type":"object","properties":{"from":{"type":"string","enum":["here","there"]},"to":{"type":"string","enum":["here","there"]}},"required":["from","to"]}}}]`)
			body["tool_choice"], body["max_tokens"] = pick("required", "auto"), 80
		default:
			if rng.IntN(3) == 0 {
				body["logprobs"], body["top_logprobs"] = true, rng.IntN(4)
			}
		}
	}
	if body["stream"] == true {
		body["stream_options"] = map[string]bool{"include_usage": true}
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	asked.body = string(encoded)
	return asked
}

// answers asks them all, eight at a time, and returns what came back.
func answers(t *testing.T, url string, asked []question) []string {
	got := make([]string, len(asked))
	var group sync.WaitGroup
	next := make(chan int)
	for range 8 {
		group.Go(func() {
			for i := range next {
				var err error
				if got[i], err = answer(t.Context(), url, &asked[i]); err != nil {
					t.Errorf("request %d, %s: %v", i, asked[i].body, err)
				}
			}
		})
	}
	for i := range asked {
		next <- i
	}
	close(next)
	group.Wait()
	return got
}

// toldApart is what tells replies apart, calls, too: names, times, and what has happened to be in the
// prefix cache.
var toldApart = regexp.MustCompile(`"(id|created|cached_tokens)":("[^"]*"|\d+)`)

// answer returns a reply without what tells it from others; of a stream its choices put together,
// as its pieces are cut by time.
func answer(ctx context.Context, url string, asked *question) (string, error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+asked.path, strings.NewReader(asked.body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	if asked.leaves {
		_, err := reply.Body.Read(make([]byte, 1))
		return "", err
	}
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		return "", err
	}
	if reply.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d: %s", reply.StatusCode, body)
	}
	if strings.HasPrefix(reply.Header.Get("Content-Type"), "text/event-stream") {
		return inOne(body)
	}
	return string(toldApart.ReplaceAll(body, nil)), nil
}

// inOne puts the events of a stream together: texts of the same name of a choice become one,
// lists one list, other values stay if there is no later one.
func inOne(events []byte) (string, error) {
	choices, usage := map[string]any{}, any(nil)
	scanner := bufio.NewScanner(bytes.NewReader(events))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		data, is := strings.CutPrefix(scanner.Text(), "data: ")
		if !is || data == "[DONE]" {
			continue
		}
		var event struct {
			Choices []map[string]any `json:"choices"`
			Usage   any              `json:"usage"`
			Error   any              `json:"error"`
		}
		if err := json.Unmarshal(toldApart.ReplaceAll([]byte(data), []byte(`"id":0`)), &event); err != nil {
			return "", fmt.Errorf("%w: %s", err, data)
		}
		if event.Error != nil {
			return "", fmt.Errorf("event %s", data)
		}
		if event.Usage != nil {
			usage = event.Usage
		}
		for _, choice := range event.Choices {
			number := fmt.Sprint(choice["index"])
			choices[number] = join(choices[number], choice)
		}
	}
	text, err := json.Marshal(map[string]any{"choices": choices, "usage": usage})
	return string(text), err
}

// join is what two pieces of a choice say together.
func join(before, piece any) any {
	switch piece := piece.(type) {
	case string:
		if text, is := before.(string); is {
			return text + piece
		}
	case []any:
		if list, is := before.([]any); is {
			return append(list, piece...)
		}
	case map[string]any:
		all, is := before.(map[string]any)
		if !is {
			all = map[string]any{}
		}
		for name, value := range piece {
			all[name] = join(all[name], value)
		}
		return all
	case nil:
		return before
	}
	return piece
}

// series returns the value of a metric without labels of its own.
func series(t *testing.T, url, name string) float64 {
	t.Helper()
	reply, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	for scanner := bufio.NewScanner(reply.Body); scanner.Scan(); {
		if labelled, value, found := strings.Cut(scanner.Text(), "} "); found && strings.HasPrefix(labelled, name+"{") {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return number
		}
	}
	t.Fatalf("no series %s", name)
	return 0
}
