package host_test

import (
	"context"
	"errors"
	"testing"

	"ossian/internal/host"
)

func TestHostRefuses(t *testing.T) {
	if _, err := host.New(host.Card{}); err == nil {
		t.Error("a host without names")
	}
	h, err := host.New(host.Card{Names: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	want := errors.New("no weights")
	if err := h.Run(t.Context(), func(context.Context) (*host.Model, error) { return nil, want }); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	if _, err := h.Find("a"); !errors.Is(err, host.ErrLoading) {
		t.Errorf("got %v", err)
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}
