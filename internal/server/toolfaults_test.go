package server

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"ossian/internal/limits"
	"ossian/internal/tools/registry"
)

// What ends an answer while one of the server's tools runs (tools.md 10), with tools as they ship:
// Python that computes for ever, and a server of MCP that does not answer.

// children returns the processes that this one has started and that have not ended.
func children(t *testing.T) map[int]bool {
	t.Helper()
	all := map[int]bool{}
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[0] != "Z" && f[1] == strconv.Itoa(os.Getpid()) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			all[pid] = true
		}
	}
	return all
}

// begins waits for a process that computes for a call, and returns it.
func begins(t *testing.T) (pid int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for pid := range children(t) {
			return pid
		}
	}
	t.Fatal("no interpreter was started within a minute")
	return 0
}

// leaves waits until a process has ended.
func leaves(t *testing.T, what string, pid int) {
	t.Helper()
	began := time.Now()
	for children(t)[pid] {
		if time.Since(began) > time.Minute {
			t.Fatalf("%s: the interpreter still runs", what)
		}
		time.Sleep(time.Millisecond)
	}
	within(t, what+": the interpreter's end", time.Since(began), time.Second, time.Minute)
}

// endless starts a server whose model calls Python that does not end. It has no children yet.
func endless(t *testing.T, more func(u *setup)) (g *rig, box *registry.Registry, forever string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the sandbox is one of Linux")
	}
	var played stage
	u := inMemory(t, setup{next: played.next(call("browser.search", `{"query":"harp"}`), call("python", "while True: pass"), "<|channel|>final<|message|>Done.<|return|>")})
	if more != nil {
		more(&u)
	}
	box = runs(t, u.limits, registry.Config{Servers: []string{"demo"}, Demo: registry.Demo{Browser: "corpus", Corpus: site(t)}})
	for end := time.Now().Add(time.Minute); len(children(t)) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // those of the self-test end
	}
	u.cfg.Toolbox = box
	return start(t, u), box, `"tools":[{"type":"web_search"},{"type":"code_interpreter","container":{"type":"auto"}}]`
}

// TestToolClientGone: a client that leaves while a tool runs ends it, whatever it has asked for.
func TestToolClientGone(t *testing.T) {
	g, _, tools := endless(t, nil)
	for path, body := range map[string]string{
		"/v1/responses": `{"input":"Go on.",` + tools, chatsPath: `{"messages":[{"role":"user","content":"Go on."}],` + tools,
	} {
		for _, more := range []string{`}`, `,"stream":true}`} {
			ctx, leave := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, "POST", g.url+path, strings.NewReader(body+more))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			left := make(chan struct{})
			go func() {
				defer close(left)
				if res, err := g.client.Do(req); err == nil {
					for lines := bufio.NewScanner(res.Body); lines.Scan(); {
					}
					res.Body.Close()
				}
			}()
			pid := begins(t)
			leave()
			<-left
			leaves(t, path+more, pid)
			g.agree()
		}
	}
}

// TestToolCancelled: what is made in the background and cancelled ends its tool; what had ended is
// kept.
func TestToolCancelled(t *testing.T) {
	g, _, tools := endless(t, nil)
	id := responded(t, g.post("/v1/responses", `{"input":"Go on.","background":true,`+tools+`}`))["id"].(string)
	pid := begins(t)
	made := responded(t, g.post("/v1/responses/"+id+"/cancel", ""))
	leaves(t, "cancel", pid)
	if made["status"] != "cancelled" {
		t.Errorf("%v", made)
	}
	wantItems(t, made, "web_search_call search harp", "code_interpreter_call incomplete while True: pass")
	if of := fold(t, streamed(t, g.do("GET", "/v1/responses/"+id+"?stream=true", ""))); !reflect.DeepEqual(of, made) {
		t.Errorf("followed %v\nwant %v", of, made)
	}
	g.agree()
}

// TestToolDeadline: the time that a request may take ends its tool, with an answer that says so or
// an error.
func TestToolDeadline(t *testing.T) {
	g, _, tools := endless(t, func(u *setup) { u.limits = map[limits.ID]int64{limits.RequestTime: 2000} })
	for _, more := range []string{``, `,"stream":true`} {
		got := g.post("/v1/responses", `{"input":"Go on.",`+tools+more+`}`)
		if more == "" && got.status == http.StatusOK || more != "" && !strings.Contains(got.body, "event: response.failed") {
			t.Errorf("%s: %d %s", more, got.status, got.body)
		}
		for pid := range children(t) {
			leaves(t, "deadline", pid)
		}
		g.agree()
	}
}

// TestToolShutdown: a server that is told to end waits for its drain time, ends tools that still
// run, says that the answers have failed, and leaves no process.
func TestToolShutdown(t *testing.T) {
	g, box, tools := endless(t, func(u *setup) { u.cfg.DrainTimeout = 300 * time.Millisecond })
	later := responded(t, g.post("/v1/responses", `{"input":"Go on.","background":true,`+tools+`}`))["id"].(string)
	begins(t)
	read := make(chan got, 2)
	go func() { read <- g.post("/v1/responses", `{"input":"Go on.","stream":true,`+tools+`}`) }()
	go func() {
		read <- g.post(chatsPath, `{"messages":[{"role":"user","content":"Go on."}],"stream":true,`+tools+`}`)
	}()
	for end := time.Now().Add(time.Minute); len(children(t)) < 3 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	g.stop()
	for range 2 {
		if body := (<-read).body; !strings.Contains(body, "event: response.failed") && !strings.Contains(body, `data: {"error":`) {
			t.Errorf("a stream ends with\n%s", body)
		}
	}
	g.served <- <-g.served // it has ended
	rec, err := g.s.cfg.Archive.Get("local", later)
	if err != nil || !strings.Contains(objectOf(rec), `"status":"failed"`) || !strings.Contains(objectOf(rec), `"query":"harp"`) {
		t.Errorf("%v, %s", err, objectOf(rec))
	}
	box.Close()
	for pid := range children(t) {
		leaves(t, "shutdown", pid)
	}
}

// TestToolCrash: a server that dies while a tool of a background response runs says after the next
// start that the response has failed, and keeps the items that had ended.
func TestToolCrash(t *testing.T) {
	dir, after := t.TempDir(), t.TempDir()
	s := openStore(t, dir)
	g, _, tools := endless(t, func(u *setup) { u.cfg.Archive = s })
	t.Cleanup(func() { // before the server's, which is harmless
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	id := responded(t, g.post("/v1/responses", `{"input":"Go on.","background":true,`+tools+`}`))["id"].(string)
	pid := begins(t)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if r := responded(t, g.do("GET", "/v1/responses/"+id, "")); strings.Contains(fmt.Sprint(itemsOf(r)), "web_search_call search harp") {
			break
		}
	}
	if err := os.CopyFS(after, os.DirFS(dir)); err != nil { // what a crash leaves
		t.Fatal(err)
	}
	responded(t, g.post("/v1/responses/"+id+"/cancel", ""))
	leaves(t, "cancel", pid)
	other := openStore(t, after)
	g = start(t, setup{reply: hello, cfg: Config{Archive: other}})
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	made := responded(t, g.do("GET", "/v1/responses/"+id, ""))
	if items := itemsOf(made); made["status"] != "failed" || len(items) == 0 || items[0] != "web_search_call search harp" || at(made, "error", "code") != "server_error" {
		t.Errorf("after the crash: %v", made)
	}
	if of := fold(t, streamed(t, g.do("GET", "/v1/responses/"+id+"?stream=true", ""))); !reflect.DeepEqual(of, made) {
		t.Errorf("followed %v\nwant %v", of, made)
	}
}

// TestToolHangs: a server of MCP that does not answer costs a call its time, and the model says so.
// A client that leaves before ends the call.
func TestToolHangs(t *testing.T) {
	t.Parallel() // it waits
	wait := newBarrier()
	defer wait.lift()
	set := map[limits.ID]int64{limits.ToolTime: 1000}
	box := runs(t, set, registry.Config{Servers: []string{weatherPeer(t, wait.pass).Address}})
	var played stage
	u := inMemory(t, setup{next: played.next(call("weather.now", "{}"), "<|channel|>final<|message|>No news.<|return|>"), limits: set})
	u.cfg.Toolbox = box
	g := start(t, u)
	for _, form := range deliveries {
		made := g.deliver(form, `"input":"Go on.","tools":[{"type":"mcp","server_label":"weather"}]`)
		<-wait.entered
		wantItems(t, made, "mcp_list_tools weather later now", "mcp_call failed weather.now {}", "message No news.")
	}
	id := responded(t, g.post("/v1/responses", `{"input":"Go on.","background":true,"tools":[{"type":"mcp","server_label":"weather"}]}`))["id"].(string)
	<-wait.entered
	if made := responded(t, g.post("/v1/responses/"+id+"/cancel", "")); made["status"] != "cancelled" {
		t.Errorf("%v", made)
	}
	g.idle()
}
