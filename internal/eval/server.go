package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ossian/internal/lab/check/exposition"
	"ossian/internal/nearest"
)

// A Server is what a server says of itself.
type Server struct {
	URL     string            `json:"url"`
	Version string            `json:"version,omitempty"` // of /version
	Models  []string          `json:"models,omitempty"`  // of /v1/models
	Engine  map[string]string `json:"engine,omitempty"`  // of Ossian's /metrics: device, kv_dtype, isa

	engines map[string]map[string]string // Engine of each model that is in memory
}

// engineLabels are the settings of Ossian's that can change a score.
var engineLabels = []string{"device", "kv_dtype", "isa", "activation_bits", "max_model_len"}

// maxTold is how many bytes of such an answer are read.
const maxTold = 8 << 20

// Look asks the server at base what it is. It must have /v1/models, or the error says so.
func Look(ctx context.Context, base, key string, client *http.Client) (server Server, err error) {
	server.URL = withoutUser(base)
	var list struct{ Data []struct{ ID string } }
	status, body, err := get(ctx, base+"/models", key, client)
	if err != nil {
		return server, fmt.Errorf("%s: %w; is the server running, and is this its address? --base-url names it", server.URL, err)
	}
	// Every server of this API has models to list; what it says beyond that is asked in ways of its
	// own.
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return server, fmt.Errorf("%s/models: %d %s; OPENAI_API_KEY has the key", server.URL, status, http.StatusText(status))
	case status != http.StatusOK:
		return server, &noModelsError{fmt.Sprintf("%s/models: %d %s", server.URL, status, http.StatusText(status))}
	case json.Unmarshal(body, &list) != nil || len(list.Data) == 0:
		return server, &noModelsError{server.URL + "/models: no list of models"}
	}
	for _, model := range list.Data {
		server.Models = append(server.Models, model.ID)
	}
	server.lookFurther(ctx, strings.TrimSuffix(base, "/v1"), key, client)
	return server, nil
}

// A noModelsError: the server does not say which models it has.
type noModelsError struct{ text string }

// Error implements error.
func (e *noModelsError) Error() string {
	return e.text + ", which an OpenAI-compatible server has; --base-url names another server"
}

// lookFurther asks what not every server tells: nothing of it is needed.
func (s *Server) lookFurther(ctx context.Context, root, key string, client *http.Client) {
	var version struct{ Version string }
	if status, body, err := get(ctx, root+"/version", key, client); err == nil && status == http.StatusOK && json.Unmarshal(body, &version) == nil {
		s.Version = version.Version
	}
	status, body, err := get(ctx, root+"/metrics", key, client)
	if err != nil || status != http.StatusOK {
		return
	}
	s.engines = map[string]map[string]string{}
	for _, labels := range exposition.Read(body).Series("ossian_config_info") {
		engine := map[string]string{}
		for _, name := range engineLabels {
			if value := labels[name]; value != "" {
				engine[name] = value
			}
		}
		s.engines[labels["model_name"]], s.Engine = engine, engine
	}
	if len(s.engines) > 1 { // whose it is, the answers will tell
		s.Engine = nil
	}
}

// get asks for an address.
func get(ctx context.Context, address, key string, client *http.Client) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, errors.New("not an address")
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	reply, err := client.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		return 0, nil, err
	}
	defer reply.Body.Close()
	body, err = io.ReadAll(io.LimitReader(reply.Body, maxTold))
	return reply.StatusCode, body, err
}

// withoutUser is an address as it may be shown.
func withoutUser(address string) string {
	at, err := url.Parse(address)
	if err != nil {
		return "the server"
	}
	return at.Redacted()
}

// Serves says which of the models asked for a server has not; nil = all are there. Without a name
// it must have one model alone, which is meant.
func (s *Server) Serves(models []string) ([]string, error) {
	if len(models) == 0 && len(s.Models) != 1 {
		return nil, fmt.Errorf("%s serves %d models: --model names one of %s", s.URL, len(s.Models), strings.Join(s.Models, ", "))
	}
	if len(models) == 0 {
		return s.Models, nil
	}
	for _, model := range models {
		if !slices.Contains(s.Models, model) {
			hint := ""
			if meant := nearest.Fold(model, s.Models, len(model)/2); meant != "" {
				hint = ", did you mean " + meant + "?"
			}
			return nil, fmt.Errorf("--model %.100s is not served at %s%s It has %s", model, s.URL, orDot(hint), strings.Join(s.Models[:min(len(s.Models), 20)], ", "))
		}
	}
	return models, nil
}

func orDot(hint string) string {
	if hint == "" {
		return "."
	}
	return hint
}

// changes says what a server says otherwise than before.
func (s *Server) changes(now *Server) (all []string) {
	if s.Version != now.Version {
		all = append(all, fmt.Sprintf("its version was %q and became %q", s.Version, now.Version))
	}
	if !slices.Equal(s.Models, now.Models) {
		all = append(all, fmt.Sprintf("its models were %s and became %s", strings.Join(s.Models, ", "), strings.Join(now.Models, ", ")))
	}
	// Of several models those are compared that were in memory both times: others come and go.
	for _, model := range slices.Sorted(maps.Keys(s.engines)) {
		before, after := s.engines[model], now.engines[model]
		for _, name := range engineLabels {
			if after != nil && before[name] != after[name] {
				all = append(all, fmt.Sprintf("%s of %s was %q and became %q", name, model, before[name], after[name]))
			}
		}
	}
	return all
}
