package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ossian/internal/chat/declare"
	"ossian/internal/limits"
	"ossian/internal/tools"
)

// pythonName is that of servers, and of their one tool, that are called with code alone, as models
// were trained to.
const pythonName = "python"

// maxPages is how many pages a list of tools may have.
const maxPages = 1000

// A listing is what a server says that it offers. Nobody changes it.
type listing struct {
	name    string // by which requests ask for it
	space   tools.Namespace
	all     []tools.Tool // as listed, but for cleanup_session
	cleans  bool         // it lists a tool that is to be called behind a conversation
	backend string       // transport and version
	fresh   time.Duration
}

// list reads all pages of the tools of a server.
func (c *connection) list(ctx context.Context, name string) (*listing, error) {
	hello := c.session.InitializeResult()
	if name == "" && hello.ServerInfo != nil {
		name = hello.ServerInfo.Name
	}
	listed := &listing{name: name, backend: c.way.transport.String() + " " + c.version(), fresh: freshness}
	size, cursor := len(hello.Instructions), ""
	for range maxPages {
		page, length, err := c.page(ctx, cursor)
		if err != nil {
			return nil, err
		}
		// The instructions count too: models read both.
		if size += length; int64(size) > c.limits[limits.ToolBytes] {
			return nil, fmt.Errorf("it lists more than %s of tools: the limit is tool-bytes", limits.Format(limits.Bytes, c.limits[limits.ToolBytes]))
		}
		listed.add(page)
		if page.NextCursor == "" {
			return listed, listed.finish(name, hello.Instructions)
		}
		// A server that gives a page's own cursor back would be read without end.
		if page.NextCursor == cursor {
			break
		}
		cursor = page.NextCursor
	}
	return nil, errors.New("its list of tools has no end")
}

// A page of tools, as the server sends it.
type page struct {
	Tools      []listedTool `json:"tools"`
	NextCursor string       `json:"nextCursor"`
	TTL        *float64     `json:"ttlMs"`
}

// A listedTool is one of them.
type listedTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations json.RawMessage `json:"annotations"`
}

// page reads one page. The SDK drops tools that it must not call, and may answer from its cache.
func (c *connection) page(ctx context.Context, cursor string) (*page, int, error) {
	ctx, exchange := newExchange(ctx)
	callable, err := c.session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
	if err != nil {
		return nil, 0, c.fault(ctx, exchange, err)
	}
	// The SDK keeps less of tools than models are told: the message itself is read. Where it
	// answers from its cache there was none, and the last one counts.
	raw := exchange.seen().raw
	if raw == nil {
		raw = c.pages[cursor]
	}
	var read page
	if err := json.Unmarshal(raw, &read); err != nil {
		return nil, 0, &fault{kind: nonsense, text: "its list of tools is no message of the protocol"}
	}
	c.pages[cursor] = raw
	known := map[string]bool{}
	for _, tool := range callable.Tools {
		known[tool.Name] = true
	}
	kept := read.Tools[:0]
	for _, tool := range read.Tools {
		if known[tool.Name] {
			kept = append(kept, tool)
		}
	}
	read.Tools = kept
	return &read, len(raw), nil
}

// add appends the tools of a page.
func (l *listing) add(page *page) {
	if page.TTL != nil {
		l.fresh = min(l.fresh, max(time.Duration(*page.TTL)*time.Millisecond, slowest/2))
	}
	for i := range page.Tools {
		tool := &page.Tools[i]
		if tool.Name == cleanup {
			l.cleans = true
			continue
		}
		l.all = append(l.all, tool.tool())
	}
}

// tool is the tool as models and clients are told of it.
func (t *listedTool) tool() tools.Tool {
	var marks struct {
		Include  *bool `json:"include_in_prompt"`
		ReadOnly *bool `json:"readOnlyHint"`
	}
	_ = json.Unmarshal(t.Annotations, &marks) // what else is in them does not matter here
	tool := tools.Tool{Name: t.Name, Description: t.Description}
	if schema := bytes.TrimSpace(t.InputSchema); len(schema) > 0 && schema[0] == '{' {
		tool.Listed, tool.Parameters = t.InputSchema, trim(t.InputSchema)
	}
	if marked := bytes.TrimSpace(t.Annotations); len(marked) > 0 && marked[0] == '{' {
		tool.Annotations = t.Annotations
	}
	tool.Unshown = marks.Include != nil && !*marks.Include
	tool.ReadOnly = marks.ReadOnly != nil && *marks.ReadOnly
	return tool
}

// finish makes a namespace of what was listed, or says why it cannot be one.
func (l *listing) finish(name, instructions string) error {
	if len(l.all) == 0 {
		return errors.New("it lists no tools")
	}
	space := identifier(name)
	if space == "functions" {
		return errors.New("it is called functions, as the tools of clients are: give it another name")
	}
	// Two names that become one for models could not be told apart in calls.
	shown := map[string]string{}
	for i := range l.all {
		declared := l.all[i].Name
		if len(declared) > maxName {
			return fmt.Errorf("the name of its tool %.40q… has more than %d bytes", declared, maxName)
		}
		if other, taken := shown[identifier(declared)]; taken {
			return fmt.Errorf("its tools %q and %q have the same name for models, %q", short(other), short(declared), short(identifier(declared)))
		}
		shown[identifier(declared)] = declared
	}
	l.space = tools.Namespace{Name: space, Description: instructions, Tools: l.all}
	// gpt-oss knows python as a namespace without tools, called with code.
	if space == pythonName && len(l.all) == 1 && l.all[0].Name == pythonName && (l.all[0].Unshown || takesCode(l.all[0].Listed)) {
		l.all[0].Unshown = true
		l.space.Tools = nil
	}
	return nil
}

// maxName is how long the name of a tool may be, in bytes.
const maxName = 1024

// short is a name as an error shows it.
func short(name string) string {
	if len(name) > 64 {
		return fmt.Sprintf("%.60s…", name)
	}
	return name
}

// identifier is a name as a namespace of a prompt has it (harmony.md 5.3).
func identifier(name string) string { return declare.NewNames([]string{name}).ByTool[0] }

// takesCode reports whether the one thing that a schema requires is a string, code.
func takesCode(schema json.RawMessage) bool {
	var object struct {
		Required   []string `json:"required"`
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &object) != nil || len(object.Required) != 1 || object.Required[0] != "code" {
		return false
	}
	return object.Properties["code"].Type == "string"
}
