package wire

import (
	"encoding/json"
	"testing"
)

// TestUsage: usage has the members of OpenAI, and those of steps where there were some.
func TestUsage(t *testing.T) {
	usage := NewUsage(30, 16, 9, 4)
	want := `{"prompt_tokens":30,"completion_tokens":9,"total_tokens":39,"prompt_tokens_details":{"cached_tokens":16,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`
	if got := string(appendUsage(nil, &usage)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	usage.Tools = &ToolUsage{Prompt: []int{10, 20}, Cached: []int{0, 16}, Completion: []int{5, 4}, Results: 3}
	want = `{"prompt_tokens":30,"completion_tokens":9,"total_tokens":39,"prompt_tokens_details":{"cached_tokens":16,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0,"tool_output_tokens":3},"input_tokens_per_turn":[10,20],"cached_tokens_per_turn":[0,16],"output_tokens_per_turn":[5,4]}`
	got := appendUsage(nil, &usage)
	if string(got) != want || !json.Valid(got) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
