package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A ToolServer is how a server of tools is.
type ToolServer struct {
	Name  string // UTF-8, or where it is; "" = not known yet
	Kind  string // browser, python or mcp
	Works bool
}

// ToolCall counts a call of a tool. tool is a label: never what a model or a request made up.
func (s *Server) ToolCall(tool, outcome string, took time.Duration) {
	s.toolCalls.WithLabelValues(tool, outcome).Inc()
	s.toolSeconds.WithLabelValues(tool).Observe(took.Seconds())
}

// ToolResultCut counts a result that was longer than a model may read.
func (s *Server) ToolResultCut() { s.toolCut.Inc() }

// ToolServers adds the metrics of the servers of tools; all is asked at each scrape.
func (s *Server) ToolServers(all func() []ToolServer) {
	s.registry.MustRegister(&toolServers{all: all,
		up: prometheus.NewDesc("ossian_tool_server_up", "1 while a server of tools works, else 0.", []string{"server", "kind"}, nil)})
}

// toolServers are collected when somebody asks: a server of MCP says its name when it is reached.
type toolServers struct {
	all func() []ToolServer
	up  *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *toolServers) Describe(out chan<- *prometheus.Desc) { out <- c.up }

// Collect implements prometheus.Collector. A name is told once, that of nobody not at all.
func (c *toolServers) Collect(out chan<- prometheus.Metric) {
	told := map[string]bool{"": true}
	for _, server := range c.all() {
		if told[server.Name] {
			continue
		}
		told[server.Name] = true
		works := 0.0
		if server.Works {
			works = 1
		}
		out <- prometheus.MustNewConstMetric(c.up, gauge, works, server.Name, server.Kind)
	}
}
