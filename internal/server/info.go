package server

// What GET /info tells: what a page or a client has to know before it asks for anything. It says
// nothing that requests and their errors would not tell the same caller.

import (
	"net/http"
	"time"

	"ossian/internal/api"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/wire"
)

// An information is the reply of GET /info.
type information struct {
	Version string               `json:"version"`
	Uptime  float64              `json:"uptime"` // seconds
	Models  []modelInfo          `json:"models"`
	Device  *string              `json:"device"` // null = not known before a model is loaded
	Limits  map[string]limitInfo `json:"limits"` // by which requests can be refused
	Tools   []toolInfo           `json:"tools"`
	Auth    authInfo             `json:"auth"`
}

// A modelInfo is a model under one of its names. What is not known before it was loaded once is null.
type modelInfo struct {
	ID            string           `json:"id"`
	Status        wire.ModelStatus `json:"status"` // as in the list of models
	Family        *string          `json:"family"`
	Parameters    *int64           `json:"parameters"`
	Quantization  *string          `json:"quantization"`
	MaxModelLen   int              `json:"max_model_len"`
	ContextWindow int              `json:"context_window"`
	Efforts       []string         `json:"efforts"` // that make a difference; none = it knows no effort
	Capabilities  []string         `json:"capabilities"`
	Memory        *memoryInfo      `json:"memory"`
}

// A memoryInfo is the memory that was planned for a model, in bytes. Keys and values are not there
// at the start: they come with requests, and stay as prefix cache.
type memoryInfo struct {
	Planned int64 `json:"planned"`
	Weights int64 `json:"weights"`
	KVCache int64 `json:"kv_cache"`
}

// A limitInfo is a limit in force.
type limitInfo struct {
	Value int64  `json:"value"`
	Unit  string `json:"unit"` // bytes, milliseconds or number
}

// A toolInfo is a tool that the server runs for models, or would.
type toolInfo struct {
	Type      string `json:"type"`  // as requests name it
	Label     string `json:"label"` // server_label of mcp, the tool's name otherwise
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"` // why it is not
}

type authInfo struct {
	Required bool `json:"required"`
}

// info answers GET /info, also while weights are loading.
func (s *Server) info(reply *api.Reply, _ *http.Request) error {
	told := information{Version: s.cfg.Version, Uptime: seconds(time.Since(s.began)), Limits: limitsOfRequests(s.lim()),
		Tools: s.toolInfos(), Auth: authInfo{Required: len(s.live.Load().keys) > 0}}
	for _, model := range s.host.Models() {
		for _, name := range model.Names {
			told.Models = append(told.Models, infoOf(name, &model))
		}
		if model.Loaded && told.Device == nil { // one is for all of them
			told.Device = &model.Facts.Device
		}
	}
	return reply.Send(told)
}

// infoOf returns what is told of a model under one of its names.
func infoOf(name string, model *host.Info) modelInfo {
	card := card(name, model)
	told := modelInfo{ID: card.ID, Status: card.Status, MaxModelLen: card.MaxModelLen, ContextWindow: card.ContextWindow, Efforts: []string{}, Capabilities: card.Capabilities}
	if model.Loaded {
		told.Family, told.Parameters, told.Quantization = &model.Facts.Family, &model.Facts.Parameters, &model.Facts.Quantization
		told.Efforts = append(told.Efforts, model.Facts.Efforts...)
		memory := &model.Facts.Memory
		told.Memory = &memoryInfo{Planned: memory.Planned, Weights: memory.Weights, KVCache: memory.KV}
	}
	return told
}

// limitsOfRequests are those by which a request can be refused.
func limitsOfRequests(in *limits.Set) map[string]limitInfo {
	told := map[string]limitInfo{}
	units := map[limits.Unit]string{limits.Bytes: "bytes", limits.Duration: "milliseconds", limits.Count: "number"}
	for _, id := range limits.All() {
		if id.Info().Metric == limits.Refusals {
			told[id.String()] = limitInfo{in[id], units[id.Info().Unit]}
		}
	}
	return told
}

// toolTypes are the types by which requests ask for the kinds of tools.
var toolTypes = map[string]string{"browser": "web_search", "python": "code_interpreter", "mcp": "mcp"}

// toolInfos says of each tool how it is, where whoever offers them knows.
func (s *Server) toolInfos() []toolInfo {
	all := []toolInfo{}
	for _, status := range s.front.ToolStatus() {
		told := toolInfo{Type: toolTypes[status.Kind], Label: status.Name, Available: status.Works}
		if !status.Works {
			told.Reason = status.Problem
		}
		all = append(all, told)
	}
	return all
}
