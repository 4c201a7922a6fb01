package serve

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/ckpt"
	"ossian/internal/command"
	"ossian/internal/command/commandtest"
	"ossian/internal/config"
	"ossian/internal/cpu/kern"
	"ossian/internal/plan"
	"ossian/internal/synth"
)

// A server on the loopback of a container says that nobody outside reaches it.
func TestAnnounce(t *testing.T) {
	loopback, all := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000}, &net.TCPAddr{IP: net.IPv4zero, Port: 8000}
	for _, test := range []struct {
		address  net.Addr
		variable string
		warned   bool
	}{{loopback, "", false}, {loopback, "container", true}, {loopback, "KUBERNETES_SERVICE_HOST", true}, {all, "container", false}} {
		var log strings.Builder
		announce(&log, "http", test.address, func(name string) string {
			if name == test.variable {
				return "set"
			}
			return ""
		})
		if told := log.String(); !strings.HasPrefix(told, "listening on http://"+test.address.String()+"\n") || strings.Contains(told, "nobody outside") != test.warned {
			t.Errorf("%s with %q: %q", test.address, test.variable, told)
		}
	}
}

// The curl of the README.
func TestServe(t *testing.T) {
	t.Chdir(t.TempDir())
	url := commandtest.Serve(t, root())
	r := commandtest.Post(t, url+"/v1/chat/completions", `{"model": "ossian-tiny", "messages": [{"role": "user", "content": "12+30"}], "stream": true}`)
	content := ""
	lines := bufio.NewScanner(r.Body)
	last := ""
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		last = data
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if data != "[DONE]" && json.Unmarshal([]byte(data), &chunk) == nil && len(chunk.Choices) == 1 {
			content += chunk.Choices[0].Delta.Content
		}
	}
	if content != "42" || last != "[DONE]" {
		t.Errorf("streamed %q, last event %q", content, last)
	}
	m, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Body.Close()
	if all, err := io.ReadAll(m.Body); err != nil || !strings.Contains(string(all), `isa="`+kern.Detect().String()+`",model_name="ossian-tiny",threads="1"} 1`) {
		t.Errorf("the metrics do not tell what computes (%v):\n%s", err, all)
	}
	var models struct{ Data []struct{ ID string } }
	g, err := http.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Body.Close()
	if err := json.NewDecoder(g.Body).Decode(&models); err != nil || len(models.Data) != 1 || models.Data[0].ID != "ossian-tiny" {
		t.Errorf("models %+v, %v", models, err)
	}
}

// A real model that has to call a tool that takes text: the text has its form.
func TestServeCustomTool(t *testing.T) {
	t.Chdir(t.TempDir())
	url := commandtest.Serve(t, root())
	for syntax, definition := range map[string]string{"regex": `[A-Z][a-z]{2,9}, [1-9] days?`, "lark": `start: CITY \", \" /[1-9]/ \" day\" \"s\"?\nCITY: /[A-Z][a-z]{2,9}/`} {
		r := commandtest.Post(t, url+"/v1/responses", `{"input": "What is the weather in Bern?", "store": false, "temperature": 0, "tool_choice": {"type": "custom", "name": "get.weather"},
			"tools": [{"type": "custom", "name": "get.weather", "description": "Get the weather in a city.", "format": {"type": "grammar", "syntax": "`+syntax+`", "definition": "`+definition+`"}}]}`)
		var reply struct {
			Output []struct{ Type, Name, Input, Status string }
		}
		if err := json.NewDecoder(r.Body).Decode(&reply); err != nil || len(reply.Output) == 0 {
			t.Fatalf("%s: %+v, %v", syntax, reply, err)
		}
		call := reply.Output[len(reply.Output)-1]
		if call.Type != "custom_tool_call" || call.Name != "get.weather" || call.Status != "completed" || !regexp.MustCompile(`^[A-Z][a-z]{2,9}, [1-9] days?$`).MatchString(call.Input) {
			t.Errorf("%s: %+v", syntax, reply.Output)
		}
	}
}

// Less reasoning than the model would do, and none.
func TestServeBudget(t *testing.T) {
	t.Chdir(t.TempDir())
	url := commandtest.Serve(t, root())
	ask := func(more string) (content, reasoning string, reasoned int) {
		var got struct {
			Choices []struct {
				Message struct{ Content, Reasoning string }
			}
			Usage struct {
				Details struct {
					Reasoning int `json:"reasoning_tokens"`
				} `json:"completion_tokens_details"`
			}
		}
		r := commandtest.Post(t, url+"/v1/chat/completions", `{"messages": [{"role": "user", "content": "What is 12+30?"}], "temperature": 0, "max_tokens": 200`+more+`}`)
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		return got.Choices[0].Message.Content, got.Choices[0].Message.Reasoning, got.Usage.Details.Reasoning
	}
	_, free, n := ask("")
	content, cut, m := ask(`, "thinking_token_budget": 2`)
	if content == "" || cut == "" || cut == free || !strings.HasPrefix(free, cut) || m != 3+2+1 || n <= m {
		t.Errorf("with a budget of 2 %d of %d tokens of reasoning, %q of %q, content %q", m, n, cut, free, content)
	}
	for _, more := range []string{`, "thinking_token_budget": 0`, `, "reasoning_effort": "none"`} {
		if content, reasoning, n := ask(more); content == "" || reasoning != "" || n != 0 {
			t.Errorf("%s: %d tokens of reasoning, %q, content %q", more, n, reasoning, content)
		}
	}
}

// The same with checkpoints of one's own: of a family that thinks, and of one that has
// nothing but a template. What is streamed is what is not.
func TestServeSynthetic(t *testing.T) {
	const ask = `{"model": "mine", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 20, "ignore_eos": true, "temperature": 0`
	type message struct{ Content, Reasoning string }
	for _, preset := range []string{"qwen3-tiny", "llama-tiny"} {
		t.Run(preset, func(t *testing.T) {
			t.Chdir(t.TempDir())
			commandtest.WriteModel(t, preset, "mine", synth.Options{})
			chat := commandtest.Serve(t, root(), "./mine") + "/v1/chat/completions"
			var whole struct {
				Choices []struct {
					Message message
					Finish  string `json:"finish_reason"`
				}
				Usage struct {
					Completion int `json:"completion_tokens"`
				}
			}
			if err := json.NewDecoder(commandtest.Post(t, chat, ask+"}").Body).Decode(&whole); err != nil || len(whole.Choices) != 1 || whole.Usage.Completion != 20 || whole.Choices[0].Finish != "length" {
				t.Fatalf("%+v: %v", whole, err)
			}
			var said message
			for lines := bufio.NewScanner(commandtest.Post(t, chat, ask+`, "stream": true}`).Body); lines.Scan(); {
				var chunk struct{ Choices []struct{ Delta message } }
				data, ok := strings.CutPrefix(lines.Text(), "data: ")
				if ok && json.Unmarshal([]byte(data), &chunk) == nil && len(chunk.Choices) == 1 {
					said.Content += chunk.Choices[0].Delta.Content
					said.Reasoning += chunk.Choices[0].Delta.Reasoning
				}
			}
			if want := whole.Choices[0].Message; said != want || want == (message{}) {
				t.Errorf("streamed %+v, at once %+v", said, want)
			}
		})
	}
}

// A step takes no more of a prompt than it may.
func TestServeLongPrompt(t *testing.T) {
	t.Chdir(t.TempDir())
	url := commandtest.Serve(t, root(), "--long-prefill-token-threshold", "8", "--no-enable-prefix-caching")
	measured := func() (steps, tokens int) {
		r, err := http.Get(url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), "{")
			_, value, _ = strings.Cut(value, "} ")
			switch name {
			case "vllm:iteration_tokens_total_count":
				steps, err = strconv.Atoi(value)
			case "vllm:iteration_tokens_total_sum":
				tokens, err = strconv.Atoi(value)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return steps, tokens
	}
	ask := func(ids int) int {
		before, had := measured()
		commandtest.Post(t, url+"/v1/completions", `{"prompt":[`+strings.TrimSuffix(strings.Repeat("20,", ids), ",")+`],"max_tokens":1,"ignore_eos":true}`)
		steps, has := measured()
		for deadline := time.Now().Add(time.Minute); has != had+ids && time.Now().Before(deadline); { // a step is counted behind its reply
			time.Sleep(10 * time.Millisecond)
			steps, has = measured()
		}
		if has != had+ids {
			t.Errorf("%d ids: %d tokens computed", ids, has-had)
		}
		return steps - before
	}
	if short, long := ask(8), ask(37); short != 1 || long != 5 { // 8, and 8 8 8 8 5
		t.Errorf("%d steps for 8 ids, %d for 37", short, long)
	}
}

func TestServeErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "gpt-oss-tiny", "cut", synth.Options{})
	if err := os.WriteFile(filepath.Join("cut", "tokenizer.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	commandtest.WriteModel(t, "qwen3-tiny", "whole", synth.Options{})
	for _, c := range []struct {
		args []string
		err  string
	}{
		{[]string{"none/here"}, "ossian pull none/here"},
		{[]string{"/nonexist"}, "no such file or directory; a model directory, a GGUF file or ORG/NAME"},
		{[]string{"--max-model-lenn", "5"}, "max-model-len"},
		{[]string{"--host", "0.0.0.0"}, "--insecure"},
		{[]string{"--max-model-len", "5000"}, "outside [1, 4096]"},
		{[]string{"cut"}, "tokenizer.json: damaged"},
		{[]string{"cut", "--max-model-len", "99999999"}, "tokenizer.json: damaged"}, // first of two
		{[]string{"whole", "--chat-template", "{%", "--max-model-len", "99999999"}, "--chat-template"},
		{[]string{"whole", "--max-model-len", "99999999"}, "outside [1, "},
		{[]string{"--ssl-certfile", "none.pem"}, "--ssl-certfile: open none.pem"},
		{[]string{"--ssl-keyfile", "none.pem", "--explain"}, "there is no --ssl-certfile"},
	} {
		_, _, err := commandtest.Run(t, root(), append([]string{"serve", "--port", "0"}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: got %v, expected %q", c.args, err, c.err)
		}
	}
}

func TestServeExplain(t *testing.T) {
	t.Chdir(t.TempDir())
	out, _, err := commandtest.Run(t, root(), "serve", "--explain", "--max-num-seqs", "3", "--long-prefill-token-threshold", "64", "--limit", "stop-strings=16")
	if err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{"model": "ossian-tiny", "max-num-seqs": "command line", "long-prefill-token-threshold": "64", "max-model-len": "4096",
		"limit bodies-in-flight": "automatic", "limit connections": "automatic", "limit stop-strings": "given", "limit messages": "default",
		"connections": "pending-output of 262144 for each of 3 sequences", "limit replies-in-flight": "automatic", "replies": "replies-in-flight of", "limit grammar-cache": "automatic", "grammars": "grammar-cache of", "all": "planned for"} {
		found := false
		for line := range strings.Lines(out) {
			found = found || (strings.HasPrefix(line, setting+" ") && strings.Contains(line, want))
		}
		if !found {
			t.Errorf("%s is not explained with %q:\n%s", setting, want, out)
		}
	}
}

func TestThreadsReason(t *testing.T) {
	for _, c := range []struct {
		p    plan.Processors
		want string
	}{
		{plan.Processors{Threads: 1, Cores: 1}, "all that this process may use"},
		{plan.Processors{Threads: 8, Cores: 4, Quota: 20}, "all that this process may use; the start of a large model measures whether 4 or 2 would be faster"},
		{plan.Processors{Threads: 1, Cores: 4, Quota: 0.5}, "the control group grants the time of 0.5 processors"},
		{plan.Processors{Threads: 2, Cores: 4, Quota: 1.5}, "the control group grants the time of 1.5 processors; the start of a large model measures whether 1 would be faster"},
	} {
		if got := threadsReason(c.p); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
}

func TestServeLogSeconds(t *testing.T) {
	var out strings.Builder
	cfg := &config.Config{}
	cfg.LogFormat = "json"
	logger(cfg, new(slog.LevelVar), &out, false).Info("x", "took", 1500*time.Millisecond)
	if !strings.Contains(out.String(), `"took_seconds":1.5`) {
		t.Errorf("logged %s", &out)
	}
}

// A checkpoint whose advice is top_k -1, as vLLM spells all tokens, is served with all.
func TestTopKOfAll(t *testing.T) {
	all := -1
	p := samplingDefaults(&config.Config{Settings: config.Settings{CheckpointSampler: true}}, ckpt.Generation{TopK: &all})
	if err := p.Validate(100); err != nil || p.TopK != 0 {
		t.Errorf("top_k %d, %v", p.TopK, err)
	}
}

func root() *cobra.Command { return command.Root(Command()) }
