package chat_test

import (
	"strings"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/token"
)

// TestEfforts: a model that has three levels and can do without has four, one with a switch has
// two, one that always or never reasons has none to choose from.
func TestEfforts(t *testing.T) {
	harmony, err := token.Harmony()
	if err != nil {
		t.Fatal(err)
	}
	for family, want := range map[string]string{"gpt-oss": "none low medium high", "qwen3": "none medium", "qwen3-thinking-2507": "", "llama3": ""} {
		facts := chat.Facts{Family: "gpt-oss", Tokenizer: harmony, Stops: []int32{200_002, 200_012}}
		if family != "gpt-oss" {
			facts = chat.Facts{Family: "llama", Tokenizer: harmony, Template: string(readFile(t, "../jinja/testdata/templates/"+family+".jinja"))}
		}
		if got := strings.Join(chat.Efforts(newFormat(t, facts), harmony), " "); got != want {
			t.Errorf("%s: %q, want %q", family, got, want)
		}
	}
}
