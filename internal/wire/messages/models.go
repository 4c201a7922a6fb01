package messages

import "time"

// A Model is one model in a list.
type Model struct {
	Type        string    `json:"type"` // model
	ID          string    `json:"id"`
	DisplayName string    `json:"display_name"`
	CreatedAt   time.Time `json:"created_at"`
}

// NewModel returns the entry of the model of that name.
func NewModel(name string, created time.Time) Model {
	return Model{Type: "model", ID: name, DisplayName: name, CreatedAt: created.UTC().Truncate(time.Second)}
}

// A ModelList is the reply of /v1/models to clients of this API.
type ModelList struct {
	Data    []Model `json:"data"`
	HasMore bool    `json:"has_more"`
	FirstID string  `json:"first_id"`
	LastID  string  `json:"last_id"`
}

// NewModelList returns the list of models, of which there is at least one.
func NewModelList(models []Model) ModelList {
	return ModelList{Data: models, FirstID: models[0].ID, LastID: models[len(models)-1].ID}
}
