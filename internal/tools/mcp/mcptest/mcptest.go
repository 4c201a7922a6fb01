// Package mcptest has servers of tools for tests of other packages: real ones, of the protocol's
// official SDK, over each of its transports.
package mcptest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A Tool is one that a server has.
type Tool struct {
	Name, Description string
	Schema            string // JSON; "" = an object without properties
	ReadOnly          bool
	Call              func(arguments string) (text string, failed bool)
}

// A Peer is a server that runs until the test ends.
type Peer struct {
	Address string // host:port
	web     *httptest.Server

	mu      sync.Mutex // guards headers
	headers []http.Header
}

// Serve runs a server of a name. over is sse, or anything else for streamable HTTP; version is the
// only one of the protocol that it speaks, "" = all.
func Serve(t testing.TB, name, over, version string, tools ...Tool) *Peer {
	opts := &sdk.ServerOptions{Instructions: "The server " + name + "."}
	if version != "" {
		opts.SupportedProtocolVersions = []string{version}
	}
	server := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, opts)
	for _, tool := range tools {
		server.AddTool(declared(&tool), func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			text, failed := tool.Call(string(req.Params.Arguments))
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: failed}, nil
		})
	}
	peer := &Peer{}
	get := func(req *http.Request) *sdk.Server {
		peer.mu.Lock()
		defer peer.mu.Unlock()
		peer.headers = append(peer.headers, req.Header.Clone())
		return server
	}
	mux := http.NewServeMux()
	if over == "sse" {
		mux.Handle("/sse", sdk.NewSSEHandler(get, nil))
	} else {
		mux.Handle("/mcp", sdk.NewStreamableHTTPHandler(get, nil))
	}
	peer.web = httptest.NewServer(mux)
	peer.Address = strings.TrimPrefix(peer.web.URL, "http://")
	t.Cleanup(func() {
		for session := range server.Sessions() {
			_ = session.Close() // its client has left
		}
		peer.Stop()
	})
	return peer
}

func declared(tool *Tool) *sdk.Tool {
	schema := tool.Schema
	if schema == "" {
		schema = `{"type":"object"}`
	}
	return &sdk.Tool{Name: tool.Name, Description: tool.Description, InputSchema: json.RawMessage(schema), Annotations: &sdk.ToolAnnotations{ReadOnlyHint: tool.ReadOnly}}
}

// Stop ends the server: nobody listens at its address any more.
func (p *Peer) Stop() {
	p.web.CloseClientConnections()
	p.web.Close()
}

// Saw reports whether a request had a header of a value.
func (p *Peer) Saw(name, value string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, header := range p.headers {
		if header.Get(name) == value {
			return true
		}
	}
	return false
}
