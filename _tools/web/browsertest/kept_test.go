package browsertest

import (
	"fmt"
	"testing"
)

// titles are those of the list, with the headings among them.
const titles = `[...document.querySelectorAll(".list h2, .list .title")].map((e) => e.textContent).join("|")`

// TestPins: a pinned chat stands above newer ones, in all tabs and after a reload, until it is no
// longer pinned.
func TestPins(t *testing.T) {
	b := open(t, tiny(t).url, "")
	for _, question := range []string{"1+1", "2+2", "3+3"} {
		b.run(evaluate(`location.hash = "#/"`))
		b.has("example")
		b.ask(question)
		b.state("completed")
	}
	b.until(titles + ` === "Today|3+3|2+2|1+1"`)
	b.run(evaluate(`[...document.querySelectorAll("[data-testid=conversation]")].at(-1).focus()`)) // its buttons are there with the focus
	b.click("pin")
	b.until(titles + ` === "Pinned|1+1|Today|3+3|2+2"`)
	second := b.another("")
	second.until(titles + ` === "Pinned|1+1|Today|3+3|2+2"`)
	b.run(reload())
	b.until(titles + ` === "Pinned|1+1|Today|3+3|2+2"`)
	b.state("completed")
	b.until(`document.activeElement?.dataset.testid === "box"`)
	b.run(evaluate(`document.querySelector("[data-testid=conversation]").focus()`))
	b.clickOn(".row:focus-within [data-testid=pin]")
	b.until(titles + ` === "Today|3+3|2+2|1+1"`)
	second.until(titles + ` === "Today|3+3|2+2|1+1"`)
}

// TestPrompts: what is in the box can be kept, comes back into boxes, and can be forgotten; what was
// kept by something else than this page harms nothing.
func TestPrompts(t *testing.T) {
	b := open(t, tiny(t).url, "")
	b.click("prompts")
	b.until(`document.querySelector("[data-testid=prompt-keep]")?.disabled`) // there is nothing to keep
	b.press("\x1b")
	for _, prompt := range []string{"12+30", "<img src=x onerror=canary('prompt')>\nof two lines"} {
		b.fill("box", prompt)
		b.click("prompts")
		b.click("prompt-keep")
		b.says("prompts-dialog", "12+30")
		b.until(`document.querySelector("[data-testid=prompt-keep]").disabled`) // it is kept
		b.press("\x1b")
		b.until(`!document.querySelector("dialog[open]")`)
	}
	b.run(reload())
	b.fill("box", "")
	b.click("prompts")
	b.until(`document.querySelectorAll("[data-testid=prompt]").length === 2`)
	b.click("prompt") // the one that was kept first is the last
	b.until(`document.querySelector("[data-testid=box]").value === "12+30" && document.activeElement?.dataset.testid === "box"`)
	b.press("\r")
	b.state("completed")
	b.says("answer .prose", "42")
	b.click("prompts")
	b.click("prompt-forget")
	b.until(`document.querySelectorAll("[data-testid=prompt]").length === 1`)
	for _, kept := range []string{`{`, `{"a":1}`, `[1,null,["x"],""]`} {
		b.run(evaluate(fmt.Sprintf(`localStorage.setItem("ossian.prompts", %q)`, kept)), reload())
		b.state("completed") // the chat and its box are there
		b.click("prompts")
		b.says("prompts-dialog", "None yet")
	}
}
