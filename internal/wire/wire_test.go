package wire

import (
	"testing"

	"ossian/internal/limits"
)

func TestDecodeSmoke(t *testing.T) {
	r, err := DecodeChat([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],"stop":"x","foo":{"a":[1,2]},"temperature":null}`), limits.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(limits.Defaults()); err != nil {
		t.Fatal(err)
	}
	if r.Model != "m" || len(r.Messages) != 1 || r.Messages[0].Content[0] != "hi" || r.Stop[0] != "x" || len(r.Ignored) != 1 || r.Temperature != nil {
		t.Errorf("%+v", r)
	}
}
