package eval

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestChanges compares what a server says of itself before and after: of several models, those alone
// that were in memory both times.
func TestChanges(t *testing.T) {
	const small, other, larger = `ossian_config_info{kv_dtype="bf16",max_model_len="4096",model_name="tiny"} 1` + "\n",
		`ossian_config_info{kv_dtype="bf16",max_model_len="40960",model_name="other"} 1` + "\n",
		`ossian_config_info{kv_dtype="bf16",max_model_len="8192",model_name="tiny"} 1` + "\n"
	for name, test := range map[string]struct{ before, after, want string }{
		"nothing":                   {small, small, ""},
		"another came to memory":    {other, other + small, ""},
		"one took another's place":  {other, small, ""},
		"a setting":                 {small, larger, `max_model_len of tiny was "4096" and became "8192"`},
		"a setting of one of two":   {other + small, larger + other, `max_model_len of tiny was "4096" and became "8192"`},
		"a server without settings": {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := seen(t, test.before), seen(t, test.after)
			if got := strings.Join(before.changes(&after), "; "); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// seen is what Look tells of a server of two models with such metrics.
func seen(t *testing.T, metrics string) Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data": [{"id": "tiny"}, {"id": "other"}]}`))
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(metrics)) })
	server := httptest.NewServer(mux)
	defer server.Close()
	looked, err := Look(t.Context(), server.URL+"/v1", "", server.Client())
	if err != nil {
		t.Fatal(err)
	}
	looked.URL = "" // each has its own
	return looked
}
