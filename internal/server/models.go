package server

import (
	"encoding/json"
	"net/http"
	"strings"

	"ossian/internal/wire"
)

// models answers GET /v1/models, also while weights are loading: clients ask for
// the list when they start.
func (s *Server) models(w *reply, _ *http.Request) error {
	list := wire.ModelList{Object: "list"}
	for _, name := range s.host.Names {
		list.Data = append(list.Data, s.card(name))
	}
	return sendJSON(w, list)
}

// model answers GET /v1/models/{id}.
func (s *Server) model(w *reply, r *http.Request) error {
	name := strings.TrimPrefix(r.URL.Path, "/v1/models/")
	if !s.host.Knows(name) {
		_, err := s.find(name)
		return err
	}
	return sendJSON(w, s.card(name))
}

func (s *Server) card(name string) wire.Model {
	c := wire.Model{ID: name, Object: "model", Created: s.host.Created.Unix(), OwnedBy: "ossian", Root: s.host.Root, MaxModelLen: s.host.MaxLen,
		Capabilities: []string{"completion"}, Permission: []string{}}
	if m, err := s.host.Find(name); err == nil {
		c.MaxModelLen = m.Engine.Capacity()
		if m.Format != nil {
			c.Capabilities = append(c.Capabilities, "chat", "tools")
		}
	}
	c.ContextWindow = c.MaxModelLen
	return c
}

func sendJSON(w *reply, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.json(http.StatusOK, body)
	return nil
}
