package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"ossian/internal/tools"
	"ossian/internal/tools/mcp"
)

// A Trial is what came of trying a server.
type Trial struct {
	tools.Status
	Detail string `json:"detail,omitempty"` // what it gave, in one line; "" = it does not work
}

// Try uses each server once: the browser searches, Python computes, servers of MCP list their
// tools. It takes as long as the slowest of them.
func (r *Registry) Try(ctx context.Context) []Trial {
	all := make([]Trial, len(r.entries))
	details := make([]string, len(r.entries))
	problems := make([]string, len(r.entries))
	var trying sync.WaitGroup
	for i, e := range r.entries {
		trying.Go(func() { details[i], problems[i] = e.try(ctx) })
	}
	trying.Wait()
	for i, status := range r.Status() {
		if problems[i] != "" && status.Works {
			status.Works, status.Problem = false, problems[i]
		}
		if all[i].Status = status; status.Works {
			all[i].Detail = details[i]
		}
	}
	return all
}

// try uses the server once and says what came of it.
func (e *entry) try(ctx context.Context) (detail, problem string) {
	if !e.made(ctx) {
		return "", pending
	}
	if e.server == nil {
		return "", e.problem
	}
	// A server that was never reached is tried now, whatever its pause.
	if server, ok := e.server.(*mcp.Server); ok {
		server.Attempted(ctx)
	}
	space, err := e.server.Namespace(ctx)
	if err != nil {
		return "", err.Error()
	}
	switch {
	case e.kind == tools.Browser:
		return e.search(ctx)
	case e.kind == tools.Python:
		return e.call(ctx, tools.Call{ID: "try", Arguments: "print(6*7)"}, "42", "print(6*7) gave 42")
	}
	var names []string
	for i := range space.Tools {
		names = append(names, space.Tools[i].Name)
	}
	return fmt.Sprintf("%d tools: %s", len(names), strings.Join(names, ", ")), ""
}

// search has the browser search, and says what it lacks.
func (e *entry) search(ctx context.Context) (detail, problem string) {
	detail, problem = e.call(ctx, tools.Call{ID: "try", Tool: "search", Arguments: `{"query":"ossian"}`}, "", "searched")
	if known, ok := e.server.(interface{ Empty() bool }); ok && known.Empty() && problem == "" {
		detail += "; its folder holds no files that it reads: HTML, Markdown or text"
	}
	if strings.Contains(problem, "no search endpoint") {
		problem += "; --browser-search-url names one"
	}
	return detail, problem
}

// call runs a call that has to give a text, "" = any.
func (e *entry) call(ctx context.Context, call tools.Call, want, told string) (detail, problem string) {
	session := e.server.Open(tools.Chain{ID: "try"})
	defer session.Close()
	began := time.Now()
	gave := session.Call(ctx, call)
	line, _ := json.Marshal(strings.TrimSpace(gave.Text)) // of a string
	if gave.Outcome != tools.Done || (want != "" && strings.TrimSpace(gave.Text) != want) {
		return "", fmt.Sprintf("a trial gave %.300s", line)
	}
	return fmt.Sprintf("%s in %.1f s", told, time.Since(began).Seconds()), ""
}
