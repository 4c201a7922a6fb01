package server

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/store"
)

// Every way to a stored response that is damaged on the disk says so (DUR-4), with its id and
// a code of its own: what the store knows is not an internal error whose cause only the log has.
func TestDUR4DamagedResponse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	g := start(t, setup{reply: hello, cfg: Config{Archive: s}})
	ids := map[string]string{}
	for _, word := range []string{"sound", "object", "items", "events"} {
		// What is looked for in the file is not what a neighbour holds.
		extra := ""
		if word == "events" {
			extra = `,"background":true`
		}
		request := fmt.Sprintf(`{"input":[{"role":"user","content":"%s-%s"}],"metadata":{"mark":"mark-%s"}%s}`, strings.Repeat("i", 5000), word, word, extra)
		ids[word] = responded(t, g.post("/v1/responses", request))["id"].(string)
		if extra != "" {
			g.await(ids[word], "completed")
		}
	}
	later := responded(t, g.post("/v1/responses", fmt.Sprintf(`{"input":"on","previous_response_id":%q}`, ids["items"])))["id"].(string)
	g.idle()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	spoil(t, filepath.Join(dir, "responses.db"), `mark-object`, `i-items"`, `"mark":"mark-events"`)

	s = openStore(t, dir)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	g = start(t, setup{reply: hello, cfg: Config{Archive: s}})
	defer g.idle()
	damaged := func(what string, r got, id string) {
		t.Helper()
		wantError(t, r, http.StatusInternalServerError, "server_error", "response_damaged", "")
		if !strings.Contains(r.body, id) || !strings.Contains(r.body, "is damaged") || r.header.Get("x-should-retry") != "false" {
			t.Errorf("%s: %s, x-should-retry %q", what, r.body, r.header.Get("x-should-retry"))
		}
	}
	at := func(id, behind string) string { return "/v1/responses/" + id + behind }
	for _, word := range []string{"object", "events"} {
		damaged(word, g.do(http.MethodGet, at(ids[word], ""), ""), ids[word])
		damaged(word+" streamed", g.do(http.MethodGet, at(ids[word], "?stream=true"), ""), ids[word])
		damaged(word+" items", g.do(http.MethodGet, at(ids[word], "/input_items"), ""), ids[word])
		damaged(word+" cancelled", g.post(at(ids[word], "/cancel"), ""), ids[word])
		damaged(word+" continued", g.post("/v1/responses", fmt.Sprintf(`{"input":"on","previous_response_id":%q}`, ids[word])), ids[word])
	}
	damaged("items", g.do(http.MethodGet, at(ids["items"], "/input_items"), ""), ids["items"])
	damaged("behind the damaged", g.post("/v1/responses", fmt.Sprintf(`{"input":"on","previous_response_id":%q}`, later)), ids["items"])
	responded(t, g.do(http.MethodGet, at(ids["sound"], ""), ""))
	responded(t, g.do(http.MethodGet, at(ids["items"], ""), "")) // its object is whole

	// As the error says, it can be deleted.
	if r := g.do(http.MethodDelete, at(ids["object"], ""), ""); r.status != http.StatusOK {
		t.Errorf("deletion: %d %s", r.status, r.body)
	}
	wantError(t, g.do(http.MethodGet, at(ids["object"], ""), ""), http.StatusNotFound, "invalid_request_error", "response_not_found", "response_id")
	if e := g.s.front.Explain("abc", &store.DamageError{Problem: "secret"}); e == nil || e.Code != "response_damaged" || strings.Contains(e.Message, "secret") {
		t.Errorf("of an unknown record: %v", e)
	}
}

// spoil flips a bit in each place of a file that holds one of texts.
func spoil(t *testing.T, path string, texts ...string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		n := 0
		for from := 0; ; n++ {
			at := bytes.Index(content[from:], []byte(text))
			if at < 0 {
				break
			}
			content[from+at] ^= 1
			from += at + 1
		}
		if n == 0 {
			t.Fatalf("%s holds no %q", path, text)
		}
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
