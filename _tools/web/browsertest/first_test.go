package browsertest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
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

// TestPeek: the end of a reasoning is seen while it is written, and gives way to what is said then.
func TestPeek(t *testing.T) {
	s := newScript(t)
	on := make(chan bool)
	s.answers(func(_ int, _ object, e *events) {
		at := e.begin(object{"type": "reasoning", "id": "rs_0", "status": "in_progress", "summary": []any{}, "content": []any{}})
		e.write(at, "reasoning_text", strings.Repeat("A long thought. ", 100), "The last one <b>\u202e.")
		<-on
		e.message("Said.")
		e.end("completed", nil)
	})
	b := open(t, s.URL, "")
	b.ask("Hello")
	b.says("peek", "The last one <b>")
	if text := b.text("peek"); len(text) > 500 || strings.Contains(text, "\u202e") {
		t.Errorf("%d bytes of the reasoning are seen, %q", len(text), text)
	}
	b.until(`document.querySelector("[data-testid=peek]").getBoundingClientRect().height < 80`)
	b.click("work-line") // who reads the whole does not need its end
	b.until(`!document.querySelector("[data-testid=peek]")`)
	b.click("work-line")
	b.has("peek")
	on <- true
	b.state("completed")
	b.until(`!document.querySelector("[data-testid=peek]")`)
}

// TestEffort: the effort beside the box is that of the chat, in its requests and its settings.
func TestEffort(t *testing.T) {
	s := newScript(t)
	s.answers(func(_ int, _ object, e *events) {
		e.message("Well.")
		e.end("completed", nil)
	})
	b := open(t, s.URL, "")
	choose := func(effort string) {
		b.has("effort-menu")
		b.run(evaluate(`(() => { const menu = document.querySelector("[data-testid=effort-menu]"); menu.value = ` + quoted(effort) + `; menu.dispatchEvent(new Event("change", {bubbles: true})); })()`))
	}
	for i, effort := range []string{"", "low", "high", ""} {
		choose(effort)
		b.ask("Hello")
		b.until(`document.querySelectorAll("article.question").length === ` + strconv.Itoa(i+1))
		b.state("completed")
		reasoning, _ := s.asked()[i]["reasoning"].(object)
		if sent, _ := reasoning["effort"].(string); sent != effort {
			t.Errorf("effort %q is chosen, %q is sent", effort, sent)
		}
	}
	choose("low")
	b.run(evaluate(`location.hash = "#/settings"`))
	b.until(`document.querySelector("[data-testid=effort]")?.value === "low"`)
	b.run(evaluate("history.back()"))
	b.says("model-name", "ossian-tiny")
}

// TestFormulas: brackets are as high as what is between them, also where the machine has no font for
// formulas and the page's own is loaded. Which fonts the machine has does not matter: the check is
// seen to fail with a bracket that may not grow, and the browser says which font it drew.
func TestFormulas(t *testing.T) {
	s := newScript(t)
	s.answers(func(_ int, _ object, e *events) {
		e.message("$$\\left(\\frac{\\frac{a}{b}}{\\frac{c}{d}}\\right)$$")
		e.end("completed", nil)
	})
	b := open(t, s.URL, "")
	b.ask("Hello")
	b.state("completed")
	const higher = `(() => { const [bracket, fraction] = ["mo", "mfrac"].map((n) => document.querySelector(".math " + n)?.getBoundingClientRect().height); return bracket >= 0.8 * fraction; })()`
	b.until(higher)
	b.run(evaluate(`document.querySelector(".math mo").setAttribute("stretchy", "false")`))
	b.until("!" + higher)
	b.run(evaluate(`document.querySelector(".math mo").removeAttribute("stretchy")`),
		evaluate(`document.querySelector(".math math").style.fontFamily = '"Ossian Formulas"'`))
	b.until(`document.fonts.check('1em "Ossian Formulas"', "(")`)
	b.until(higher)
	if fonts := b.fonts(".math mo"); len(fonts) != 1 || !fonts[0].IsCustomFont {
		t.Errorf("the bracket is drawn with %+v, not with the page's font", fonts)
	}
	if !slices.ContainsFunc(b.requests(), func(r *network.Request) bool { return strings.Contains(r.URL, "/ui/formulas-") }) {
		t.Error("the page's font was not loaded")
	}
}
