package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ossian/internal/limits"
	"ossian/internal/tools/registry"
)

// openTools returns the tools that the server runs: servers of MCP, or, with a folder, those of the
// program, and the weather.
func openTools(servers []string, log *slog.Logger) (*registry.Registry, error) {
	lim := limits.Defaults()
	cfg := registry.Config{Servers: servers, Version: name, Limits: func() *limits.Set { return lim }, Log: log}
	if !strings.Contains(servers[0], ":") {
		address, err := serveWeather()
		if err != nil {
			return nil, err
		}
		cfg.Servers, cfg.Demo = []string{"demo", address}, registry.Demo{Browser: "corpus", Corpus: servers[0]}
	}
	return registry.New(cfg)
}

// serveWeather serves a server of MCP with a tool that works and one that fails, for as long as
// the process lives.
func serveWeather() (address string, err error) {
	s := sdk.NewServer(&sdk.Implementation{Name: "weather", Version: "1"}, &sdk.ServerOptions{Instructions: "The weather."})
	add := func(tool, parameter, text string, fails bool) {
		schema := `{"type":"object","properties":{"` + parameter + `":{"type":"string"}},"required":["` + parameter + `"]}`
		s.AddTool(&sdk.Tool{Name: tool, InputSchema: json.RawMessage(schema)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: fails}, nil
		})
	}
	add("now", "city", "rain", false)
	add("later", "day", "no such day", true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	go func() { _ = http.Serve(l, mux) }()
	return l.Addr().String(), nil
}
