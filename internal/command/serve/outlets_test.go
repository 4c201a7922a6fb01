package serve

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"ossian/internal/command/commandtest"
)

// before is the port below.
func before(port string) string {
	number, _ := strconv.Atoi(port)
	return strconv.Itoa(number - 1)
}

// What cannot be told to anybody ends the start, and the line names the flag, the variable or the
// address.
func TestServeOutlets(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	inUse := "tcp://*:" + port
	for _, c := range []struct{ flag, variable, want string }{
		{`{"enable_kv_cache_event":true}`, "", `"enable_kv_cache_event"`}, {`{"enable_kv_cache_events":true,"topic":"${NO_SUCH_VARIABLE}"}`, "", "NO_SUCH_VARIABLE"},
		{`{"enable_kv_cache_events":true,"endpoint":"` + inUse + `"}`, "", inUse}, {`{"enable_kv_cache_events":true,"endpoint":"tcp://127.0.0.1:9","replay_endpoint":"` + inUse + `"}`, "", inUse},
		{"{}", "collector:4317", "OTEL_EXPORTER_OTLP_ENDPOINT"},
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.variable)
		_, log, err := commandtest.Run(t, root(), "serve", "--port", "0", "--store", "memory", "--log-level", "error", "--kv-events-config", c.flag)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %s\n%s", c.flag, c.variable, err, c.want, log)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	several := []string{"serve", "--port", "0", "--store", "memory", "--log-level", "error", "--model", "a=ossian-tiny", "--model", "b=ossian-tiny"}
	of := func(endpoint string) string {
		return `{"enable_kv_cache_events":true,"endpoint":"` + endpoint + `","topic":"kv@${MODEL}"}`
	}
	for _, c := range []struct{ flag, want string }{
		{`{"enable_kv_cache_events":true,"endpoint":"tcp://127.0.0.1:9","topic":"kv@pod@a"}`, "put ${MODEL} into it"},
		{of("tcp://*:65535"), "endpoint tcp://*:65535"},
	} {
		_, log, err := commandtest.Run(t, root(), append(several, "--kv-events-config", c.flag)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("several models, %s: %v, want %s\n%s", c.flag, err, c.want, log)
		}
	}
	// The second model's endpoint is in use, and not the first one's, unless another program has that.
	for {
		second, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(second.Addr().String())
		first := "tcp://*:" + before(port)
		_, log, err := commandtest.Run(t, root(), append(several, "--kv-events-config", of(first))...)
		_ = second.Close()
		if err != nil && strings.Contains(err.Error(), "endpoint "+first+": ") {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "endpoint tcp://*:"+port+": ") {
			t.Errorf("several models at %s: %v, want the one behind\n%s", first, err, log)
		}
		break
	}
}

// A server that is told to tells of the blocks of a prompt.
func TestServeKVEvents(t *testing.T) {
	url := commandtest.Serve(t, root(), "--store", "memory", "--kv-events-config", `{"enable_kv_cache_events":true,"endpoint":"ipc://`+t.TempDir()+`/events","topic":"${MODEL}"}`)
	commandtest.Post(t, url+"/v1/completions", `{"prompt":"`+strings.Repeat("a prompt of several blocks ", 8)+`","max_tokens":2}`)
	r, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(text), "\nossian_kv_events_published_total ") || strings.Contains(string(text), "\nossian_kv_events_published_total 0\n") {
		t.Errorf("%v; nothing was told", err)
	}
}
