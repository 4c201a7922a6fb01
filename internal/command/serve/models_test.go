package serve

import (
	"bufio"
	"bytes"
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
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/command/commandtest"
	"ossian/internal/soak"
	"ossian/internal/synth"
)

// send returns the reply to a request, its status and a header.
func send(t testing.TB, url, body string) (status int, reply, retry string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, "", ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return r.StatusCode, string(text), r.Header.Get("Retry-After")
}

// made are what changes from reply to reply: ids, times, and what a prompt found in the cache, of
// which input_tokens is the rest in one of the APIs.
var made = regexp.MustCompile(`"(id|item_id|call_id)":"[^"]*"|"(created|created_at|completed_at|cached_tokens|cache_read_input_tokens|input_tokens)":\d+`)

// TestOPS6Mixed: requests for two models, of all APIs, streamed and with a form, while these
// change places. Each gets the reply that it gets alone, byte for byte, so none is lost and none
// is answered by the other model; and the metrics count all of them.
func TestOPS6Mixed(t *testing.T) {
	kinds := []struct{ route, body string }{
		{"/v1/completions", `{"model":%q,"prompt":%q,"max_tokens":8,"temperature":0,"request_id":"same"}`},
		{"/v1/completions", `{"model":%q,"prompt":%q,"max_tokens":8,"temperature":0,"structured_outputs":{"choice":["yes","no","perhaps"]}}`},
		{"/v1/chat/completions", `{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":12,"temperature":0,"stream":true}`},
		{"/v1/messages", `{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":6,"temperature":0}`},
		{"/v1/responses", `{"model":%q,"input":%q,"max_output_tokens":6,"temperature":0,"store":false}`},
		{"/v1/chat/completions/render", `{"model":%q,"messages":[{"role":"user","content":%q}]}`},
		{"/tokenize", `{"model":%q,"prompt":%q}`},
	}
	const chosen = 1 // of kinds
	generates := func(kind int) bool {
		return kinds[kind].route != "/tokenize" && !strings.HasSuffix(kinds[kind].route, "/render")
	}
	for _, resident := range []int{1, 2} {
		t.Run(strconv.Itoa(resident), func(t *testing.T) {
			t.Chdir(t.TempDir())
			commandtest.WriteModel(t, "qwen3-tiny", "other", synth.Options{})
			url := commandtest.Serve(t, root(), "--model", "org/tiny=ossian-tiny", "--model", "other=./other", "--models-resident", strconv.Itoa(resident), "--limit", "model-turn=20ms", "--no-access-log", "--log-level", "warn")
			type request struct{ kind, model, prompt int }
			models, prompts := []string{"org/tiny", "other"}, []string{"12+30", "hello", "one two three", "Wörter", "7"}
			ask := func(r request) (int, string) {
				kind := kinds[r.kind]
				status, reply, _ := send(t, url+kind.route, fmt.Sprintf(kind.body, models[r.model], prompts[r.prompt]))
				return status, made.ReplaceAllString(reply, "")
			}
			alone, counted := map[request]string{}, [2]int64{}
			for model := range models {
				for kind := range kinds {
					for prompt := range prompts {
						r := request{kind, model, prompt}
						status, reply := ask(r)
						if status != http.StatusOK || (generates(kind) && !strings.Contains(reply, `"model":"`+models[model]+`"`)) {
							t.Fatalf("%+v: %d %s", r, status, reply)
						}
						if kind == chosen && !regexp.MustCompile(`"text":"(yes|no|perhaps)"`).MatchString(reply) {
							t.Errorf("%+v: %s: none of the choices, as with a form of the other model", r, reply)
						}
						alone[r] = reply
						if generates(kind) {
							counted[model]++
						}
					}
				}
			}
			for r, reply := range alone {
				if other := (request{r.kind, 1 - r.model, r.prompt}); reply == alone[other] {
					t.Fatalf("both models reply alike to %+v: %s", r, reply)
				}
			}
			before := counters(t, url, "ossian_model_loads_total")
			var done atomic.Int64
			var mu sync.Mutex // guards counted
			var clients sync.WaitGroup
			cases := int64(soak.Cases(t, 300, 10_000))
			for client := range 12 {
				rng := rand.New(rand.NewPCG(uint64(client), uint64(resident)))
				clients.Go(func() {
					for done.Add(1) <= cases {
						r := request{rng.IntN(len(kinds)), rng.IntN(2), rng.IntN(len(prompts))}
						if status, reply := ask(r); status != http.StatusOK || reply != alone[r] {
							t.Errorf("%+v: %d %s\nalone %s", r, status, reply, alone[r])
						}
						if generates(r.kind) {
							mu.Lock()
							counted[r.model]++
							mu.Unlock()
						}
					}
				})
			}
			clients.Wait()
			after := counters(t, url, "ossian_model_loads_total")
			for i, model := range models {
				switches := after[model] - before[model]
				t.Logf("%s: loaded %v times, %d requests", model, switches, counted[i])
				if (switches > 0) != (resident == 1) {
					t.Errorf("%s was loaded %v times", model, switches)
				}
				ended := 0.0
				for deadline := time.Now().Add(time.Minute); ended != float64(counted[i]) && time.Now().Before(deadline); time.Sleep(metricsAge) { // requests are counted when their reply has left
					ended = counters(t, url, `vllm:request_success_total{engine="0",finished_reason="stop"`)[model] + counters(t, url, `vllm:request_success_total{engine="0",finished_reason="length"`)[model]
				}
				if ended != float64(counted[i]) {
					t.Errorf("%s: the metrics have %v requests that ended, %d were sent", model, ended, counted[i])
				}
			}
		})
	}
}

// counters returns the value of a metric for each model.
func counters(t testing.TB, url, begins string) map[string]float64 {
	t.Helper()
	r, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, begins) {
			continue
		}
		_, rest, _ := strings.Cut(line, `model_name="`)
		name, rest, _ := strings.Cut(rest, `"`)
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			t.Fatal(err)
		}
		found[name] += value
	}
	return found
}

// TestCapabilities: the list says the same of what a model can do whether it is in memory or not:
// clients that choose one by it need not have it loaded before.
func TestCapabilities(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "qwen3-tiny", "other", synth.Options{})
	commandtest.WriteModel(t, "llama-tiny", "plain", synth.Options{})
	url := commandtest.Serve(t, root(), "./other", "--model", "tiny=ossian-tiny", "--model", "plain=./plain", "--limit", "model-turn=20ms")
	list := func() (all string) {
		reply, err := http.Get(url + "/v1/models")
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		var got struct {
			Data []struct {
				ID           string
				Capabilities []string
			}
		}
		if err := json.NewDecoder(reply.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		for _, model := range got.Data {
			all += fmt.Sprint(model.ID, model.Capabilities)
		}
		return all
	}
	const want = "other[completion chat]./other[completion chat]tiny[completion chat tools]plain[completion chat]"
	if got := list(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, model := range []string{"tiny", "plain", "other"} {
		if status, reply, _ := send(t, url+"/v1/completions", `{"model":"`+model+`","prompt":"x","max_tokens":1}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, reply)
		}
		if got := list(); got != want {
			t.Errorf("%s was loaded: %s, want %s", model, got, want)
		}
	}
}

// TestSeveralModels: what clients see of models that are in memory or not, of one that cannot be
// loaded, and a conversation that goes on with another model.
func TestSeveralModels(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "qwen3-tiny", "other", synth.Options{})
	commandtest.WriteModel(t, "llama-tiny", "broken", synth.Options{})
	url := commandtest.Serve(t, root(), "./other", "--model", "tiny=ossian-tiny", "--model", "broken=./broken", "--served-model-name", "first", "alias", "--store", "memory")
	list := func() (all string) {
		r, err := http.Get(url + "/v1/models")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		var got struct {
			Data []struct {
				ID     string
				MaxLen int `json:"max_model_len"`
				Status struct {
					Value  string
					Failed bool
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		for _, model := range got.Data {
			all += fmt.Sprint(model.ID, " ", model.Status.Value, " ", model.Status.Failed, " ", model.MaxLen > 0, "; ")
		}
		return all
	}
	if got, want := list(), "first loaded false true; alias loaded false true; tiny unloaded false true; broken unloaded false true; "; got != want {
		t.Errorf("models %q, want %q", got, want)
	}
	// Its file goes after the start: only its requests fail, in words without a path.
	if err := os.WriteFile(filepath.Join("broken", "model.safetensors"), []byte("none"), 0o644); err != nil {
		t.Fatal(err)
	}
	status, reply, retry := send(t, url+"/v1/completions", `{"model":"broken","prompt":"x","max_tokens":1}`)
	if status != http.StatusServiceUnavailable || retry != "1" || !strings.Contains(reply, "model_load_failed") || strings.Contains(reply, "safetensors") {
		t.Errorf("%d, Retry-After %q: %s", status, retry, reply)
	}
	if got, want := list(), "first loaded false true; alias loaded false true; tiny unloaded false true; broken unloaded true true; "; got != want {
		t.Errorf("models %q, want %q: a model that cannot be loaded made another one go", got, want)
	}
	if status, reply, _ := send(t, url+"/v1/completions", `{"model":"none","prompt":"x","max_tokens":1}`); status != http.StatusNotFound || !strings.Contains(reply, `\"first\", \"tiny\", \"broken\" do`) {
		t.Errorf("%d %s", status, reply)
	}
	// Without a name it is the first model; what it said goes on with another one.
	var one struct{ ID, Model string }
	status, reply, _ = send(t, url+"/v1/responses", `{"input":"hello","max_output_tokens":4,"ignore_eos":true}`)
	if err := json.Unmarshal([]byte(reply), &one); err != nil || status != http.StatusOK || one.Model != "first" {
		t.Fatalf("%d %s: %v", status, reply, err)
	}
	status, reply, _ = send(t, url+"/v1/responses", `{"model":"tiny","previous_response_id":"`+one.ID+`","input":"12+30","max_output_tokens":400,"temperature":0}`)
	if status != http.StatusOK || !strings.Contains(reply, `"model":"tiny"`) {
		t.Errorf("%d %s", status, reply)
	}
	// In the background, too, its model stays until it has ended.
	status, reply, _ = send(t, url+"/v1/responses", `{"model":"alias","background":true,"input":"hello","max_output_tokens":200,"ignore_eos":true}`)
	if err := json.Unmarshal([]byte(reply), &one); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, reply, err)
	}
	if status, reply, _ := send(t, url+"/v1/completions", `{"model":"tiny","prompt":"x","max_tokens":1}`); status != http.StatusOK {
		t.Errorf("%d %s", status, reply)
	}
	r, err := http.Get(url + "/v1/responses/" + one.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var ended bytes.Buffer
	if _, err := ended.ReadFrom(r.Body); err != nil || !strings.Contains(ended.String(), `"output_tokens":200`) {
		t.Errorf("%s: %v", ended.String(), err)
	}
}

// TestSeveralModelsTold: GET /info has the facts of each model that was loaded once, and where it
// stands; GET /requests names the model of each request; a message has the name that was asked for.
func TestSeveralModelsTold(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "qwen3-tiny", "other", synth.Options{})
	url := commandtest.Serve(t, root(), "--model", "tiny=ossian-tiny", "--model", "other=./other")
	if got, want := told(t, url), "tiny loaded gpt-oss; other unloaded ; "; got != want {
		t.Errorf("before a request: %q, want %q", got, want)
	}
	for _, name := range []string{"tiny", "other"} {
		status, reply, _ := send(t, url+"/v1/messages", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hello"}],"max_tokens":3}`, name))
		if status != http.StatusOK || !strings.Contains(reply, `"model":"`+name+`"`) {
			t.Errorf("%d %s", status, reply)
		}
	}
	if got, want := told(t, url), "tiny unloaded gpt-oss; other loaded qwen3; "; got != want {
		t.Errorf("after a request for each: %q, want %q", got, want)
	}
	r, err := http.Get(url + "/requests")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	event, err := bufio.NewReader(r.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, found := range regexp.MustCompile(`"route":"/v1/messages","model":"([^"]*)"`).FindAllStringSubmatch(event, -1) {
		rows = append(rows, found[1])
	}
	if got := fmt.Sprint(rows); got != "[other tiny]" {
		t.Errorf("models of the requests, the latest first: %s in %s", got, event)
	}
}

// told returns what GET /info says of each model: name, state, family.
func told(t *testing.T, url string) (all string) {
	t.Helper()
	r, err := http.Get(url + "/info")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var got struct {
		Models []struct {
			ID, Family string
			Status     struct{ Value string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	for _, model := range got.Models {
		all += fmt.Sprint(model.ID, " ", model.Status.Value, " ", model.Family, "; ")
	}
	return all
}

// Several models are explained, and what one of them cannot be is told before a port is open or a
// weight is read.
func TestSeveralModelsExplained(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "qwen3-tiny", "other", synth.Options{})
	out, _, err := commandtest.Run(t, root(), "serve", "--explain", "--model", "a=ossian-tiny", "--model", "b=./other", "--models-resident", "2")
	if err != nil || !strings.Contains(out, "MODEL a: max-model-len 4096, ") || !strings.Contains(out, "MODEL b: max-model-len 40960, ") || strings.Count(out, "MEMORY") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		args []string
		err  string
	}{
		{[]string{"--model", "a=ossian-tiny", "--model", "b=/nonexist"}, "no such file or directory"},
		{[]string{"--model", "a=ossian-tiny", "--model", "b=./other", "--max-model-len", "5000"}, `model "a": `},
		{[]string{"./other", "--model", "other=ossian-tiny"}, `two models are named "other"`},
	} {
		if _, _, err := commandtest.Run(t, root(), append([]string{"serve", "--port", "0"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: got %v, expected %q", c.args, err, c.err)
		}
	}
}
