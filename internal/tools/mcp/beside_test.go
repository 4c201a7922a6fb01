package mcp

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"ossian/internal/tools"
	"ossian/internal/tools/mcp/mcptest"
)

// TestBeside: calls of one session run at the same time, on one connection, each with its own
// result. The server answers none before all have come.
func TestBeside(t *testing.T) {
	const calls = 6
	for _, how := range []string{"sse", "stream"} {
		for _, version := range []string{"2025-06-18", handshakes} {
			t.Run(how+" "+version, func(t *testing.T) {
				t.Parallel()
				var here sync.WaitGroup
				here.Add(calls)
				p := mcptest.Serve(t, "meets", how, version, mcptest.Tool{Name: "meet", ReadOnly: true, Call: func(arguments string) (string, bool) {
					here.Done()
					here.Wait()
					return arguments, false
				}})
				s := start(t, Options{Address: p.Address, Limits: within(time.Minute)})
				listedBy(t, s)
				session := s.Open(tools.Chain{ID: "c"})
				defer session.Close()
				if _, ok := session.(tools.Parallel); !ok {
					t.Fatal("its calls cannot run at the same time")
				}
				var running sync.WaitGroup
				for i := range calls {
					running.Go(func() {
						want := fmt.Sprintf(`{"n":%d}`, i)
						if got := session.Call(t.Context(), tools.Call{Tool: "meet", Arguments: want}); got.Text != want || got.Outcome != tools.Done {
							t.Errorf("%s gave %+v", want, got)
						}
					})
				}
				running.Wait()
			})
		}
	}
}
