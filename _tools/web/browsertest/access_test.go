package browsertest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// views are the nine that are looked at, each with what leads to it.
var views = []struct {
	name string
	open func(b *tab)
}{
	{"new chat", func(b *tab) { b.has("example") }},
	{"chat", func(b *tab) {
		b.ask("Show me everything")
		b.has("approval-decline")
		b.click("work-line")
	}},
	{"settings", func(b *tab) {
		b.run(chromedp.Evaluate(`location.hash = "#/settings"`, nil))
		b.has("settings-view")
		b.has("effort")
	}},
	{"live", func(b *tab) {
		b.run(chromedp.Evaluate(`location.hash = "#/live"`, nil))
		b.until(`document.querySelector("[data-testid=tallies]") && document.querySelector("[data-testid=tile]")`)
	}},
	{"model", func(b *tab) {
		b.run(chromedp.Evaluate(`location.hash = "#/model"`, nil))
		b.until(`document.querySelector("[data-testid=model-view] table")`)
	}},
	{"shortcuts", func(b *tab) {
		b.run(chromedp.Evaluate(`location.hash = "#/settings"; document.activeElement.blur()`, nil))
		b.press("?")
		b.until(`document.querySelector("dialog[open]")`)
	}},
	{"key", func(b *tab) {
		b.press("\x1b")
		b.until(`!document.querySelector("dialog[open]")`)
		b.click("key-change")
		b.has("key-dialog")
	}},
	{"prompts", func(b *tab) {
		b.press("\x1b")
		b.until(`!document.querySelector("dialog[open]")`)
		b.run(chromedp.Evaluate(`location.hash = "#/"`, nil))
		b.has("example")
		b.fill("box", strings.Repeat("A prompt that is kept. ", 40))
		b.click("prompts")
		b.click("prompt-keep")
		b.has("prompt")
	}},
	{"drawer", func(b *tab) {
		b.press("\x1b")
		b.until(`!document.querySelector("dialog[open]")`)
		b.run(chromedp.EmulateViewport(320, 640))
		b.click("menu")
		b.until(`document.querySelector(".sidebar.open")?.getBoundingClientRect().left === 0`)
	}},
}

const rich = `## Heading

Text with **bold**, ` + "`code`" + `, a [link](https://go.dev/doc), $E = mc^2$ and a very long word: ` + "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" + `.

| Operation | Average | Worst | Remarks on it |
|:--|--:|--:|---|
| insert | O(1) | O(n) | amortised over all of them |

` + "```go\nfunc get(key string) (int, bool) { return table[hash(key)%uint64(len(table))].value, true } // a long line\n```" + `

> A quotation.

1. one
   - [x] done
`

// everything answers with all kinds of items.
func everything(s *script) {
	s.answers(func(_ int, _ object, e *events) {
		e.reasoning("I look it up.")
		e.call(searched, "in_progress", "searching", "completed")
		e.call(computed)
		e.call(listed)
		e.call(called)
		e.call(failed)
		e.call(foreign)
		e.message(rich, object{"type": "url_citation", "start_index": 3, "end_index": 10, "url": "https://go.dev/blog/maps", "title": "Go maps in action"})
		e.call(wanted)
		e.end("completed", nil)
	})
}

// axe-core, of the folder that AXE names, finds nothing in any view in either theme.
func TestAxe(t *testing.T) {
	folder := os.Getenv("AXE")
	if folder == "" && os.Getenv("REQUIRE_BROWSER") == "1" {
		t.Fatal("AXE does not name a folder with axe-core's axe.min.js: run.sh needs npm to fetch it")
	}
	if folder == "" {
		t.Skip("AXE does not name a folder with axe-core's axe.min.js: make browser fetches it")
	}
	axe, err := os.ReadFile(folder + "/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, theme := range []string{"light", "dark"} {
		s := newScript(t)
		everything(s)
		b := open(t, s.URL, "")
		b.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
		for _, v := range views {
			v.open(b)
			b.until("document.documentElement.dataset.theme === " + quoted(theme))
			b.run(chromedp.Evaluate(string(axe), nil))
			const ask = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.target.join(" ") + ": " + n.failureSummary.replace(/\s+/g, " "))))`
			for _, wrong := range get[[]string](b, ask) {
				t.Errorf("%s, %s: %.400s", v.name, theme, wrong)
			}
		}
	}
}

// A window of 320 pixels, which is also one of 1280 at 400 %, needs no sideways scrolling.
func TestNarrow(t *testing.T) {
	s := newScript(t)
	everything(s)
	b := open(t, s.URL, "")
	b.run(chromedp.EmulateViewport(320, 640))
	for _, v := range views {
		v.open(b)
		wide := get[[]string](b, `(() => {
			const wide = document.documentElement.scrollWidth > innerWidth ? ["document " + document.documentElement.scrollWidth] : [];
			const scrolls = (e) => e && e !== document.documentElement && (/auto|scroll|hidden|clip/.test(getComputedStyle(e).overflowX) ? !e.matches("main, .scroller, .frame, body") : scrolls(e.parentElement));
			for (const e of document.querySelectorAll("main *, dialog *")) { const box = e.getBoundingClientRect(); if (box.width > 0 && box.right > innerWidth + 1 && !scrolls(e)) wide.push(e.outerHTML.slice(0, 150)); }
			for (const e of document.querySelectorAll("main, .scroller, .frame")) if (e.scrollWidth > e.clientWidth + 1) wide.push(e.className + " scrolls sideways");
			return wide.slice(0, 5);
		})()`)
		for _, w := range wide {
			t.Errorf("%s at 320 pixels: %s", v.name, w)
		}
	}
	// What is touched is large enough for a finger.
	b.press("\x1b")
	b.until(`!document.querySelector("dialog[open]")`)
	b.run(chromedp.Evaluate(`location.hash = "#/"`, nil), emulation.SetTouchEmulationEnabled(true).WithMaxTouchPoints(1), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "pointer", Value: "coarse"}, {Name: "hover", Value: "none"}}))
	b.has("example")
	small := get[[]string](b, `[...document.querySelectorAll("main button, header.top button")].filter((e) => { const box = e.getBoundingClientRect(); return box.width > 0 && (box.width < 44 || box.height < 44); }).map((e) => (e.ariaLabel ?? e.textContent) + " " + e.offsetWidth + "x" + e.offsetHeight)`)
	if len(small) > 0 {
		t.Errorf("smaller than 44 pixels: %s", strings.Join(small, ", "))
	}
	b.click("menu")
	b.until(`document.querySelector(".sidebar.open")?.getBoundingClientRect().left === 0`)
	if inert := get[bool](b, `document.querySelector(".frame").inert`); !inert {
		t.Error("what the drawer covers can be reached")
	}
	b.press("\x1b")
	b.until(fmt.Sprintf("document.activeElement?.matches(%q)", mark("menu")))
}
