package shown

import (
	"encoding/json"
	"testing"
)

// TestArguments keeps what is there, and objects objects.
func TestArguments(t *testing.T) {
	for given, want := range map[string]string{
		`{}`: `{"m":"m"}`, "{\n}": "{\"m\":\"m\"\n}", ` {"a": {}}`: `{"m":"m","a": {}}`, `{"a": 1} `: `{"m":"m","a": 1} `, "text": "textm", "": "m",
	} {
		got := Arguments(given, "m")
		if got != want || (json.Valid([]byte(given)) && !json.Valid([]byte(got))) {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

// TestNamed finds names however they are written.
func TestNamed(t *testing.T) {
	for name, want := range map[string]bool{"get_weather": true, "say \"hi\"": true, "get_news": false} {
		if Named(`[{"name": "get_weather"}, {"name": "say \"hi\""}]`, name) != want {
			t.Errorf("%q: found %t", name, !want)
		}
	}
	if Mark(1) == Mark(11)[:len(Mark(1))] {
		t.Error("marks are part of others")
	}
}
