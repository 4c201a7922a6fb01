package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ossian/internal/command"
	"ossian/internal/command/commandtest"
	"ossian/internal/tools/mcp/mcptest"
	"ossian/internal/tools/python"
)

// TestMain: as an interpreter's helper this program does not get further.
func TestMain(m *testing.M) {
	python.Helper(os.Args[1:])
	os.Exit(m.Run())
}

// shop is a server of MCP that knows prices.
func shop(t *testing.T, name string) *mcptest.Peer {
	return mcptest.Serve(t, name, "http", "", mcptest.Tool{Name: "price", Description: "The price of an instrument.", ReadOnly: true,
		Schema: `{"type":"object","properties":{"item":{"type":"string","enum":["harp","flute"]}},"required":["item"]}`,
		Call: func(arguments string) (string, bool) {
			if strings.Contains(arguments, "harp") {
				return "120", false
			}
			return "15", false
		}})
}

// TestTools: the built-in model asks a server of MCP, and says what that said. What does not
// work is told, and stops nothing.
func TestTools(t *testing.T) {
	url := commandtest.Serve(t, command.Root(Command()), "--store", "memory", "--tool-server", shop(t, "shop").Address, "gone=127.0.0.1:1", "127.0.0.1:2", "demo", "--browser-corpus", t.TempDir(), "--python-backend", "off")
	r := commandtest.Post(t, url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"What is the price of a harp?"}],"tools":[{"type":"mcp","server_label":"shop"}],"temperature":0}`)
	var reply struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&reply); err != nil || len(reply.Choices) != 1 || !strings.Contains(reply.Choices[0].Message.Content, "120") {
		t.Errorf("%+v, %v", reply, err)
	}
	get := func(path string) string {
		r, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	told := get("/metrics")
	for _, want := range []string{`ossian_tool_server_up{kind="mcp",server="shop"} 1`, `ossian_tool_server_up{kind="mcp",server="gone"} 0`, `ossian_tool_server_up{kind="mcp",server="127.0.0.1:2"} 0`, `ossian_tool_server_up{kind="browser",server="browser"} 1`,
		`ossian_tool_server_up{kind="python",server="python"} 0`, `ossian_tool_calls_total{outcome="ok",tool="shop"} 1`} {
		if !strings.Contains(told, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
}

// TestToolsTold: the log of a start has a line for each tool: that it works, or why it does not.
func TestToolsTold(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	log := &commandtest.Console{}
	_, ended, err := Start(ctx, []string{"--port", "0", "--threads", "1", "--store", "memory", "--tool-server", shop(t, "shop").Address, "gone=127.0.0.1:1", "demo", "--python-backend", "off"}, log)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for strings.Count(log.String(), `"tool`) < 8 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, want := range []string{`"msg":"tool works","tool":"shop"`, `"msg":"tool is off","tool":"gone"`, `"msg":"tool is off","tool":"browser"`, "YDC_API_KEY", "--browser-corpus DIR", `"msg":"tool is off","tool":"python"`, "switched off"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, log)
		}
	}
}

// TestToolsRefused: settings that nothing can be made of end a start, with the part named.
func TestToolsRefused(t *testing.T) {
	first, second := shop(t, "shop"), shop(t, "shop")
	for want, args := range map[string][]string{
		"part 2":                      {"--tool-server", "demo,"},
		"port is missing":             {"--tool-server", "localhost"},
		"is named twice":              {"--tool-server", "demo,demo"},
		second.Address:                {"--tool-server", first.Address, second.Address},
		"needs --tool-server":         {"--tools-default", "web_search"},
		`--mcp-allow "https://a/mcp"`: {"--mcp-allow", "https://a/mcp"},
		"youcom, exa, http or corpus": {"--tool-server", "demo", "--browser-backend", "bing"},
	} {
		_, _, err := commandtest.Run(t, root(), append([]string{"serve", "--port", "0", "--threads", "1", "--store", "memory"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// TestToolsOfTiny: the built-in model with the program's own tools, as a fresh machine has them:
// whatever it makes of them, answers are whole in every form, and only who asks gets tools.
func TestToolsOfTiny(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bard.html"), []byte("<title>Ossian</title><p>Ossian is a bard of Gaelic legend."), 0o600); err != nil {
		t.Fatal(err)
	}
	url := commandtest.Serve(t, command.Root(Command()), "--store", "memory", "--tool-server", "demo", "--browser-corpus", dir)
	post := func(path, body string) string {
		reply := commandtest.Post(t, url+path, body)
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		if err != nil || reply.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", body, reply.StatusCode, text, err)
		}
		return string(text)
	}
	for _, question := range []string{"Who is Ossian?", "12+30"} {
		const tools = `"tools":[{"type":"web_search"}],"temperature":0`
		response := fmt.Sprintf(`{"input":%q,"max_output_tokens":200,%s`, question, tools)
		chat := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"max_tokens":200,%s`, question, tools)
		for _, tt := range []struct{ path, body, want string }{
			{"/v1/responses", response + "}", `"usage":{"input_tokens":`},
			{"/v1/responses", response + `,"tool_choice":{"type":"web_search_preview"}}`, `"type":"web_search_call"`},
			{"/v1/responses", response + `,"stream":true}`, `"usage":{"input_tokens":`},
			{"/v1/responses", response + `,"background":true}`, `"status":"queued"`},
			{"/v1/chat/completions", chat + "}", `"usage":{"prompt_tokens":`},
			{"/v1/chat/completions", chat + `,"stream":true}`, "data: [DONE]"},
		} {
			if got := post(tt.path, tt.body); !strings.Contains(got, tt.want) || strings.Contains(got, `"tool_calls"`) {
				t.Errorf("%s: %s", tt.body, got)
			}
		}
		var plain, asked struct {
			Tokens int `json:"input_tokens"`
		}
		for body, into := range map[string]any{fmt.Sprintf(`{"input":%q}`, question): &plain, fmt.Sprintf(`{"input":%q,%s}`, question, tools): &asked} {
			if err := json.Unmarshal([]byte(post("/v1/responses/input_tokens", body)), into); err != nil {
				t.Fatal(err)
			}
		}
		if asked.Tokens <= plain.Tokens {
			t.Errorf("%s: a prompt of %d tokens with the browser, of %d without", question, asked.Tokens, plain.Tokens)
		}
	}
}
