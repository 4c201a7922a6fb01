package browsertest

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func number(t testing.TB, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The built-in model adds two numbers. Requests, console and policy are checked as for every tab.
func TestFirstAnswer(t *testing.T) {
	s := tiny(t)
	b := open(t, s.url, "")
	b.ask("12+30")
	b.state("completed")
	b.until(`document.querySelector("[data-testid=answer] .prose")?.textContent.trim() === "42"`)
	if get[bool](b, `document.querySelector("[data-testid=work]").open`) {
		t.Error("the fold of reasoning is open")
	}
	if n := get[int](b, `document.querySelectorAll("[data-testid=reasoning]").length`); n != 0 {
		t.Error("the reasoning is drawn though its fold is closed")
	}
	b.click("work-line")
	b.says("reasoning", "ones 2+0+0")
	figures := b.text("tokens")
	for _, wanted := range []string{`\d+ tokens`, `[\d.,]+ tokens/s`, `TTFT [\d.]+ s`, `complete`} {
		if !regexp.MustCompile(wanted).MatchString(figures) {
			t.Errorf("%q below the answer: %s expected", figures, wanted)
		}
	}
	b.says("said", "Done, 1 words")
	for _, r := range b.requests() {
		if r.Method == "POST" && !strings.HasPrefix(strings.TrimPrefix(r.URL, s.url), "/v1/responses") {
			t.Errorf("the page posted to %s", r.URL)
		}
	}
	if left := get[string](b, `document.querySelector("[data-testid=box]").value`); left != "" {
		t.Errorf("the box has %q when its text was sent", left)
	}
	b.has("conversation")
	b.says("conversation", "12+30")
}
