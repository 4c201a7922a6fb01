package hub

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseData(t *testing.T) {
	for _, c := range []struct {
		text string
		want Name
		bad  string
	}{
		{"opencompass/AIME2025", Name{Repo: "opencompass/AIME2025", Data: true}, ""},
		{"org/set/a/b.jsonl", Name{Repo: "org/set", File: "a/b.jsonl", Data: true}, ""},
		{"org/set@v1/b.csv", Name{Repo: "org/set", Revision: "v1", File: "b.csv", Data: true}, ""},
		{"set", Name{}, "expected ORG/NAME"},
		{"org/set/../x", Name{}, "not the path"},
		{"org/set@..", Name{}, "not a branch"},
		{"org/set:Q8_0/x", Name{}, "no quantisation"},
		{"-/set", Name{}, "letters, digits"},
	} {
		got, err := ParseData(c.text)
		if c.bad == "" && (err != nil || got != c.want) {
			t.Errorf("%s: %+v, %v", c.text, got, err)
		}
		if c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)) {
			t.Errorf("%s: %v; want %q", c.text, err, c.bad)
		}
	}
}

// dataHub is an endpoint with the data set org/set, which has a file in two folders; gated without
// the token.
func dataHub(t *testing.T) string {
	content := []byte("question,answer\nx,1\n")
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/datasets/org/set/revision/main":
			json.NewEncoder(w).Encode(map[string]any{"sha": commitA})
		case "/api/datasets/org/set/tree/" + commitA:
			json.NewEncoder(w).Encode([]map[string]any{{"type": "file", "path": "a/x.csv", "size": len(content), "oid": gitID(content)}})
		case "/datasets/org/set/resolve/" + commitA + "/a/x.csv":
			if r.Header.Get("Authorization") != "Bearer right" {
				w.Header().Set("X-Error-Code", "GatedRepo")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.Write(content)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(h.Close)
	return h.URL
}

func TestPullData(t *testing.T) {
	cfg := Config{Endpoint: dataHub(t), Token: "right", Cache: t.TempDir()}
	name, err := ParseData("org/set")
	if err != nil {
		t.Fatal(err)
	}
	gated := cfg
	gated.Token = ""
	if _, _, err := PullData(t.Context(), gated, name, []string{"a/x.csv"}); err == nil || !strings.Contains(err.Error(), "accept the terms at "+cfg.Endpoint+"/datasets/org/set and set HF_TOKEN") {
		t.Errorf("gated: %v", err)
	}
	offline := cfg
	offline.Offline = true
	if _, _, err := PullData(t.Context(), offline, name, []string{"a/x.csv"}); !errors.Is(err, ErrOffline) || !strings.Contains(err.Error(), "a/x.csv is not in the cache "+cfg.Cache+"; unset HF_HUB_OFFLINE to fetch it, or name a file") {
		t.Errorf("nothing there, offline: %v", err)
	}
	offline.Cache = filepath.Join(cfg.Cache, "none")
	if _, _, err := PullData(t.Context(), offline, name, []string{"a/x.csv"}); !errors.Is(err, ErrOffline) || !strings.Contains(err.Error(), "; unset HF_HUB_OFFLINE") {
		t.Errorf("no cache, offline: %v", err)
	}
	offline.Cache = cfg.Cache
	for _, cfg := range []Config{cfg, offline} {
		paths, commit, err := PullData(context.Background(), cfg, name, []string{"a/x.csv"})
		if err != nil || commit != commitA || len(paths) != 1 {
			t.Fatalf("%v, %s, %v", paths, commit, err)
		}
		if text, err := os.ReadFile(paths[0]); err != nil || string(text) != "question,answer\nx,1\n" || !strings.Contains(paths[0], filepath.Join("datasets--org--set", "snapshots")) {
			t.Errorf("%s: %q, %v", paths[0], text, err)
		}
	}
	if _, _, err := PullData(t.Context(), cfg, name, []string{"y.csv"}); err == nil || !strings.Contains(err.Error(), `holds no file "y.csv"; it has a/x.csv`) {
		t.Errorf("another file: %v", err)
	}
}
