package responses

import (
	"errors"
	"ossian/internal/chat"
	"ossian/internal/limits"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
	"testing"
)

// What a format cannot write is named with the words of this API, not those of chat.
func TestResponseErrorPaths(t *testing.T) {
	t.Parallel()
	q, err := response.Decode([]byte(`{"input":"x","tools":[{"type":"file_search"},{"type":"function","name":"f"}]}`), limits.Defaults(), false)
	if err != nil {
		t.Fatal(err)
	}
	h := &history{from: []int{-1, 3}}
	for _, tt := range []struct {
		turn, tool int
		want       string
	}{{1, -1, "input[3]"}, {0, -1, "input"}, {-1, 0, "tools[1]"}, {-1, -1, "input"}} {
		got, ok := errors.AsType[*wire.Error](inputError(&chat.Error{Turn: tt.turn, Tool: tt.tool, Problem: "p"}, h, q))
		if !ok || got.Param != tt.want || got.Message != "p" {
			t.Errorf("turn %d, tool %d: %+v, want %s", tt.turn, tt.tool, got, tt.want)
		}
	}
}
