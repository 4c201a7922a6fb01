package server

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// canary listens and counts who comes.
func canary(t *testing.T) (address string, visits *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	visits = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			visits.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String(), visits
}

// TestSEC8Content: whatever addresses a request holds, wherever it holds them, the server
// connects to none.
func TestSEC8Content(t *testing.T) {
	address, visits := canary(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, inMemory(t, setup{reply: hello}))
	var urls []string
	for _, scheme := range []string{"http", "https", "ws", "ftp", "gopher", "file", "data", "jar:http", "HTTP"} {
		for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f000001", "127.1", "a@127.0.0.1", "127.0.0.1#@evil.example", "169.254.169.254"} {
			urls = append(urls, scheme+"://"+host+":"+port+"/latest")
		}
	}
	places := []struct{ path, body string }{
		{"/v1/chat/completions", `{"max_tokens":2,"messages":[{"role":"user","content":%s}]}`},
		{"/v1/chat/completions", `{"max_tokens":2,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":%s}}]}]}`},
		{"/v1/chat/completions", `{"max_tokens":2,"messages":[{"role":"user","content":[{"type":"text","text":"a"}],"audio":%[1]s}],"metadata":{"url":%[1]s},"user":%[1]s,"cache_salt":%[1]s}`},
		{"/v1/chat/completions", `{"max_tokens":2,"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"$schema":%[1]s,"$id":%[1]s,"$ref":%[1]s}}}}`},
		{"/v1/chat/completions", `{"max_tokens":2,"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"$ref":%s}}}]}`},
		{"/v1/chat/completions", `{"max_tokens":2,"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"url":%[1]s},"web_search_options":null,"chat_template":%[1]s}`},
		{"/v1/completions", `{"max_tokens":2,"prompt":%[1]s,"model":"test-model","kv_transfer_params":{"remote_host":%[1]s},"lora":%[1]s}`},
		{"/v1/completions", `{"max_tokens":2,"prompt":"a","model":%s}`},
		{"/v1/responses", `{"max_output_tokens":2,"input":[{"role":"user","content":[{"type":"input_image","image_url":%[1]s},{"type":"input_file","file_url":%[1]s}]}]}`},
		{"/v1/responses", `{"max_output_tokens":2,"input":"a","tools":[{"type":"mcp","server_label":"m","server_url":%[1]s}],"prompt_cache_key":%[1]s}`},
		{"/tokenize", `{"prompt":%s}`},
	}
	n := 0
	for _, url := range urls {
		for _, place := range places {
			r := g.post(place.path, fmt.Sprintf(place.body, strconv.Quote(url)), "Referer", url, "X-Forwarded-Host", url, "X-Callback-Url", url)
			if n++; r.status >= 500 {
				t.Errorf("%s in %s: %d %s", url, place.body, r.status, r.body)
			}
		}
	}
	if visits.Load() != 0 {
		t.Errorf("%d connections because of %d requests", visits.Load(), n)
	}
	t.Logf("SEC-8: %d requests with %d addresses in %d places: %d connections", n, len(urls), len(places), visits.Load())
}

// served calls f with every file, tests aside, of the packages that answer requests: those
// that package server is made of.
func served(t *testing.T, f func(name string, file *ast.File)) (packages int) {
	t.Helper()
	queue, seen := []string{"server"}, map[string]bool{}
	files := token.NewFileSet()
	for len(queue) > 0 {
		dir := queue[0]
		queue = queue[1:]
		if seen[dir] {
			continue
		}
		seen[dir] = true
		names, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(dir), "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(files, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			f(name, file)
			for _, spec := range file.Imports {
				if path, _ := strconv.Unquote(spec.Path.Value); strings.HasPrefix(path, "ossian/internal/") {
					queue = append(queue, strings.TrimPrefix(path, "ossian/internal/"))
				}
			}
		}
	}
	return len(seen)
}

// TestSEC8SEC10SEC11Static: nothing that answers requests can connect, run a program, load
// code, or decode what builds types of its own.
func TestSEC8SEC10SEC11Static(t *testing.T) {
	imports := []string{"os/exec", "plugin", "net/rpc", "net/rpc/jsonrpc", "encoding/gob", "encoding/xml", "text/template", "html/template", "net/http/pprof", "expvar", "net/smtp", "net/http/httputil"}
	calls := []string{"net.Dial", "net.DialTimeout", "net.DialTCP", "net.DialUDP", "net.DialUnix", "net.Dialer", "net.Resolver", "net.LookupHost", "net.LookupIP", "net.LookupAddr", "tls.Dial", "tls.Dialer",
		"http.Get", "http.Post", "http.PostForm", "http.Head", "http.Client", "http.DefaultClient", "http.Transport", "http.DefaultTransport", "http.NewRequest", "http.NewRequestWithContext",
		"os.StartProcess", "syscall.Exec", "syscall.ForkExec", "unix.Exec", "unix.Connect"}
	n := served(t, func(name string, file *ast.File) {
		for _, spec := range file.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); slices.Contains(imports, path) {
				t.Errorf("%s imports %s", name, path)
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if use, ok := node.(*ast.SelectorExpr); ok {
				if of, ok := use.X.(*ast.Ident); ok && slices.Contains(calls, of.Name+"."+use.Sel.Name) {
					t.Errorf("%s uses %s.%s", name, of.Name, use.Sel.Name)
				}
			}
			return true
		})
	})
	if n < 20 {
		t.Errorf("%d packages answer requests, more than 20 expected", n)
	}
	t.Logf("SEC-8, SEC-10, SEC-11: %d packages", n)
}
