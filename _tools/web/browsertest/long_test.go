package browsertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// blocked has a document keep how long its longest task took, in ms.
const blocked = `globalThis.longest = 0; new PerformanceObserver((list) => { for (const e of list.getEntries()) longest = Math.max(longest, e.duration); }).observe({type: "longtask", buffered: true});`

// A stream of 500 tokens a second for 20 s is shown whole. How long the page was deaf is logged.
func TestStreamWhole(t *testing.T) {
	const rate, bundle, tokens = 500, 10, 10_000
	s := newScript(t)
	s.answers(func(_ int, _ object, e *events) {
		at := e.open()
		var whole strings.Builder
		for i, tick := 0, time.Tick(time.Second*bundle/rate); i < tokens; i += bundle {
			<-tick
			var pieces []string
			for n := i; n < i+bundle; n++ {
				piece := fmt.Sprintf("w%d ", n)
				switch {
				case n%400 == 399:
					piece += "\n\n```go\nfor range n {\n"
				case n%400 == 60 && n > 400:
					piece += "\n}\n```\n\n| a | b |\n|---|---|\n"
				case n%40 == 39:
					piece += "**bold** and `code`.\n\n"
				}
				whole.WriteString(piece)
				pieces = append(pieces, piece)
			}
			e.write(at, "output_text", pieces...)
		}
		e.done(at, object{"type": "message", "id": "msg_0", "role": "assistant", "status": "completed", "content": []any{object{"type": "output_text", "text": whole.String(), "annotations": []any{}}}})
		e.end("completed", nil)
	})
	b := blank(t, newContext(t), s.URL)
	b.before(blocked)
	b.run(chromedp.Navigate(s.URL + "/"))
	b.ask("Tell me all")
	b.until(growing)
	half := get[string](b, `[...document.querySelectorAll("[data-testid=answer] .prose")].at(-1).textContent`)
	b.state("completed")
	const numbers = `[...document.querySelectorAll("[data-testid=answer] .prose")].at(-1).textContent.match(/w\d+/g).map((w) => +w.slice(1))`
	if wrong := get[int](b, `(() => { const all = `+numbers+`; return all.length !== 10000 ? all.length : all.findIndex((n, i) => n !== i); })()`); wrong != -1 {
		t.Errorf("of %d words the page shows others, %d", tokens, wrong)
	}
	if strings.Contains(half, fmt.Sprint("w", tokens-1)) {
		t.Error("the answer was not shown before it was complete")
	}
	t.Logf("the longest task of the page took %.0f ms (budget 200 ms)", get[float64](b, "longest"))
	t.Logf("below the answer: %s", b.text("tokens"))
}

// loops are what models write that have lost their way.
var loops = map[string]func(e *events) string{
	"tokens": func(e *events) string { // 10⁵ of them, each an event
		at := e.open()
		for range 1000 {
			e.write(at, "output_text", strings.SplitAfter(strings.Repeat("and ", 100), " ")...)
		}
		return strings.Repeat("and ", 100_000)
	},
	"line":  func(*events) string { return strings.Repeat("na ", 350_000) },
	"table": func(*events) string { return "| a | b |\n|---|---|\n" + strings.Repeat("| cell | other |\n", 10_000) },
	"depth": func(*events) string {
		return strings.Repeat("> ", 500) + "deep\n\n" + strings.Repeat("- ", 500) + "deep\n\n" + strings.Repeat("*_", 500) + "deep"
	},
}

// Whatever a model writes, the page stays one that can be used: the next question is typed and
// answered.
func TestLoops(t *testing.T) {
	for name, loop := range loops {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.answers(func(turn int, _ object, e *events) {
				if turn > 0 {
					e.message("Fine now.")
					e.end("completed", nil)
					return
				}
				text := loop(e)
				if len(e.output) == 0 {
					e.write(e.open(), "output_text", text)
				}
				e.done(0, object{"type": "message", "id": "msg_0", "role": "assistant", "status": "completed", "content": []any{object{"type": "output_text", "text": text, "annotations": []any{}}}})
				e.end("completed", nil)
			})
			b := blank(t, newContext(t), s.URL)
			b.before(blocked)
			b.run(chromedp.Navigate(s.URL + "/"))
			b.allow("/v1/responses/input_tokens") // the built-in model's context does not hold these chats
			b.ask("Go on for ever")
			b.state("completed")
			b.says("answer .prose", map[string]string{"tokens": "and and", "line": "na na", "table": "cell", "depth": "deep"}[name])
			b.harmless("behind a loop")
			if deepest := get[int](b, `(() => { let most = 0; for (const e of document.querySelectorAll(".prose *")) { let n = 0; for (let up = e; !up.matches(".prose"); up = up.parentElement) n++; most = Math.max(most, n); if (most > 300) break; } return most; })()`); deepest > 150 {
				t.Errorf("elements are nested %d deep", deepest)
			}
			begun := time.Now()
			b.ask("Are you there?")
			b.until(`document.querySelectorAll("[data-testid=answer]").length === 2`)
			b.state("completed")
			b.says("answer .prose", "Fine now.")
			t.Logf("the next answer is there %v after its question; the longest task took %.0f ms", time.Since(begun).Round(time.Millisecond), get[float64](b, "longest"))
		})
	}
}
