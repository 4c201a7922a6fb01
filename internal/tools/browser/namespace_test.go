package browser

import (
	"os"
	"strings"
	"testing"

	"ossian/internal/chat"
)

// TestNamespace: gpt-oss is told of the browser in the words that openai-harmony 0.0.8 has for it;
// the prompt is among the test data of package chat.
func TestNamespace(t *testing.T) {
	format, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: harmony()})
	if err != nil {
		t.Fatal(err)
	}
	space, err := New(newSite(t), Options{}).Namespace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shown := chat.Namespace{Name: space.Name, Description: space.Description}
	for _, tool := range space.Tools {
		shown.Tools = append(shown.Tools, chat.Tool{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters})
	}
	prompt := harmony().Prompt()
	if err := format.Render(prompt, &chat.Conversation{Builtins: []chat.Namespace{shown}}); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, id := range prompt.IDs() {
		got.WriteString(harmony().Text(id))
	}
	published, err := os.ReadFile("../../chat/testdata/harmony/builtins.prompt")
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "# Tools\n\n## browser\n", "} // namespace browser\n\n"
	_, want, ok := strings.Cut(string(published), begin)
	want, _, ends := strings.Cut(want, end)
	if !ok || !ends || !strings.Contains(got.String(), begin+want+end) {
		t.Errorf("the prompt is\n%s\nwant in it\n%s", got.String(), begin+want+end)
	}
}
