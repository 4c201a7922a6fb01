package serve

import (
	"net"
	"strings"
	"testing"

	"ossian/internal/command/commandtest"
)

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
	several := []string{"serve", "--port", "0", "--store", "memory", "--log-level", "error", "--model", "a=ossian-tiny", "--model", "b=ossian-tiny"}
	_, log, err := commandtest.Run(t, root(), append(several, "--kv-events-config", `{"enable_kv_cache_events":true,"endpoint":"tcp://127.0.0.1:9"}`)...)
	if err == nil || !strings.Contains(err.Error(), "--kv-events-config is for one model, and there are 2") {
		t.Errorf("several models: %v\n%s", err, log)
	}
}
