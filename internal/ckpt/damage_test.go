package ckpt

import (
	"errors"
	"strings"
	"testing"
)

// wantError opens path and checks the diagnosis.
func wantError(t testing.TB, path string, kind Kind, words ...string) {
	t.Helper()
	m, err := Open(path)
	if err == nil {
		m.Close()
		t.Fatalf("opened, want %v with %q", kind, words)
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error %v of type %T, want *Error", err, err)
	}
	if e.Kind != kind {
		t.Errorf("%v: want kind %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v: want the words %q", err, w)
		}
	}
}
