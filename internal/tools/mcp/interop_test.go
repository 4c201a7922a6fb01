package mcp

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ossian/internal/tools"
)

// each runs a test against servers of every transport and version that the SDK has.
func each(t *testing.T, test func(t *testing.T, p *peer, s *Server, how, version string)) {
	for _, version := range sdk.SupportedProtocolVersions() {
		ways := []string{"sse", "stream", "json", "stateless", "stdio"}
		if version >= stateless { // which the SDK's servers speak without sessions only
			ways = []string{"stateless", "stateless json", "stdio"}
		}
		for _, how := range ways {
			t.Run(version+" "+how, func(t *testing.T) {
				t.Parallel()
				p := newPeer(version)
				p.hung = filepath.Join(t.TempDir(), "hung")
				opts := Options{Stdio: true, Address: "stdio:" + os.Args[0] + " " + asServer + " speaks " + version + " " + p.hung}
				if how != "stdio" {
					opts.Address = p.serve(t, how)
				}
				test(t, p, start(t, opts), how, version)
			})
		}
	}
}

// TestEveryTransportAndVersion: lists in pages, calls, failures and questions are the same everywhere.
func TestEveryTransportAndVersion(t *testing.T) {
	each(t, func(t *testing.T, p *peer, s *Server, how, version string) {
		space := listedBy(t, s)
		want := map[string]string{"sse": "HTTP+SSE ", "stdio": "stdio "}[how]
		if want == "" {
			want = "streamable HTTP "
		}
		status := s.Status()
		if status.Backend != want+version || !status.Works || status.Tools != 7 || status.Name != "demo things" {
			t.Errorf("status %+v, want %s%s", status, want, version)
		}
		var names []string
		for _, tool := range space.Tools {
			names = append(names, tool.Name)
		}
		if space.Name != "demo_things" || space.Description != "Try things." || strings.Join(names, " ") != "asks count echo fail hang mixed slow" {
			t.Errorf("namespace %s %q: %v", space.Name, space.Description, names)
		}
		if got := string(space.Tools[2].Parameters); got != `{"properties":{"text":{"type":["string"]}},"type":"object"}` && got != `{"type":"object","properties":{"text":{"type":["string"]}}}` {
			t.Errorf("parameters %s", got)
		}
		for _, c := range []struct {
			tool, arguments, want string
			outcome               tools.Outcome
		}{
			{"echo", `{"text": "<ä>", "n": 12345678901234567890.0}`, `{"text":"<ä>","n":12345678901234567890.0}`, tools.Done},
			{"fail", "", "no such city", tools.Failed},
			{"mixed", "{}", "one\n[image image/png, 10 bytes]\nA file (file:///a)\ntwo", tools.Done},
			{"gone", "{}", `Error calling tool gone: unknown tool "gone"`, tools.Misused},
			{"echo", "{", "Invalid JSON arguments: unexpected end of JSON input. Send the call again with valid JSON.", tools.Misused},
			{"echo", "[1]", "Invalid JSON arguments: they are a JSON array and should be an object. Send the call again with valid JSON.", tools.Misused},
		} {
			got := do(t, s, c.tool, c.arguments)
			if got.Text != c.want || got.Outcome != c.outcome || (got.Failure != nil) != (c.outcome != tools.Done) {
				t.Errorf("%s %s: %q %v %+v, want %q %v", c.tool, c.arguments, got.Text, got.Outcome, got.Failure, c.want, c.outcome)
			}
		}
		if got := do(t, s, "asks", "{}"); got.Outcome != tools.Done || !strings.Contains(got.Text, "decline") && got.Text != "true true" {
			t.Errorf("asked: %+v", got)
		}
	})
}

// TestProgressExtends: a call may take longer than its limit while it says that it goes on.
func TestProgressExtends(t *testing.T) {
	for _, how := range []string{"sse", "stream"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := start(t, Options{Address: newPeer("").serve(t, how), Limits: within(200 * time.Millisecond)})
			listedBy(t, s)
			eventually(t, "a call with progress", func() bool { return do(t, s, "slow", "{}").Text == "at last" })
			if got := do(t, s, "hang", "{}"); got.Outcome != tools.TimedOut || got.Text != "Error calling tool hang: it said nothing for 200ms" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestCancel: a call ends with its context, the server is told, and the connection can still be used.
func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, p *peer, s *Server, how, version string) {
		listedBy(t, s)
		session := s.Open(tools.Chain{ID: "c"})
		defer session.Close()
		if got := session.Call(t.Context(), tools.Call{Tool: "count"}); got.Text != "1" {
			t.Fatalf("%+v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { // once the call is there
			defer cancel()
			for ctx.Err() == nil {
				if _, err := os.Stat(p.hung); err == nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		if got := session.Call(ctx, tools.Call{Tool: "hang"}); got.Outcome != tools.Cancelled {
			t.Errorf("%+v", got)
		}
		if how != "stdio" && (how != "stateless" || version >= stateless) { // the last has no way to be told
			eventually(t, "the server is told", p.saw(&p.cancelled))
		}
		if got := session.Call(t.Context(), tools.Call{Tool: "count"}); got.Text != "2" && got.Text != "1" || got.Outcome != tools.Done {
			t.Errorf("behind it: %+v", got)
		}
	})
}
