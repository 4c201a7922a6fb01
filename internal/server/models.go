package server

import (
	"net/http"
	"strings"

	"ossian/internal/api"
	"ossian/internal/host"
	"ossian/internal/wire"
	"ossian/internal/wire/messages"
)

// models answers GET /v1/models, also while weights are loading: clients ask for
// the list when they start.
func (s *Server) models(reply *api.Reply, r *http.Request) error {
	if ofMessages(r) {
		var all []messages.Model
		for _, model := range s.host.Models() {
			for _, name := range model.Names {
				all = append(all, messages.NewModel(name, model.Created))
			}
		}
		return reply.Send(messages.NewModelList(all))
	}
	list := wire.ModelList{Object: "list"}
	for _, model := range s.host.Models() {
		for _, name := range model.Names {
			list.Data = append(list.Data, card(name, &model))
		}
	}
	return reply.Send(list)
}

// model answers GET /v1/models/{id}.
func (s *Server) model(reply *api.Reply, r *http.Request) error {
	name := strings.TrimPrefix(r.URL.Path, "/v1/models/")
	model, ok := s.host.Model(name)
	if !ok {
		return s.service.NotFound(name)
	}
	if ofMessages(r) {
		return reply.Send(messages.NewModel(name, model.Created))
	}
	return reply.Send(card(name, &model))
}

// card returns what the list says of a model under one of its names.
func card(name string, model *host.Info) wire.Model {
	card := wire.Model{ID: name, Object: "model", Created: model.Created.Unix(), OwnedBy: "ossian", Root: model.Root, MaxModelLen: model.MaxLen, ContextWindow: model.MaxLen,
		Capabilities: []string{"completion"}, Permission: []string{}, Status: wire.ModelStatus{Value: model.State.String(), Failed: model.Failed}}
	if model.Chat {
		card.Capabilities = append(card.Capabilities, "chat")
	}
	if model.Tools {
		card.Capabilities = append(card.Capabilities, "tools")
	}
	return card
}
