package server

import (
	"net/http"
	"strings"

	"ossian/internal/api"
	"ossian/internal/wire"
	"ossian/internal/wire/messages"
)

// models answers GET /v1/models, also while weights are loading: clients ask for
// the list when they start.
func (s *Server) models(w *api.Reply, r *http.Request) error {
	if ofMessages(r) {
		return w.Send(messages.NewModelList(s.host.Names, s.host.Created))
	}
	list := wire.ModelList{Object: "list"}
	for _, name := range s.host.Names {
		list.Data = append(list.Data, s.card(name))
	}
	return w.Send(list)
}

// model answers GET /v1/models/{id}.
func (s *Server) model(w *api.Reply, r *http.Request) error {
	name := strings.TrimPrefix(r.URL.Path, "/v1/models/")
	if !s.host.Knows(name) {
		_, err := s.service.Find(name)
		return err
	}
	if ofMessages(r) {
		return w.Send(messages.NewModel(name, s.host.Created))
	}
	return w.Send(s.card(name))
}

func (s *Server) card(name string) wire.Model {
	card := wire.Model{ID: name, Object: "model", Created: s.host.Created.Unix(), OwnedBy: "ossian", Root: s.host.Root, MaxModelLen: s.host.MaxLen,
		Capabilities: []string{"completion"}, Permission: []string{}}
	if m, err := s.host.Find(name); err == nil {
		card.MaxModelLen = m.Engine.Capacity()
		if m.Format != nil {
			card.Capabilities = append(card.Capabilities, "chat")
			if m.Format.Tools() {
				card.Capabilities = append(card.Capabilities, "tools")
			}
		}
	}
	card.ContextWindow = card.MaxModelLen
	return card
}
