package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// prose is the text of the last answer.
const prose = `([...document.querySelectorAll("[data-testid=answer]")].at(-1)?.querySelector(".prose")?.textContent ?? "")`

// TestContinue: an answer of the built-in model that is cut again and again, within its reasoning
// and within its text, and each time gone on with, becomes what it is in one go. It is one answer
// all the time, here and after a reload.
func TestContinue(t *testing.T) {
	b := open(t, tiny(t).url, "#/settings")
	b.fill("setting-temperature", "0")
	b.run(evaluate(`location.hash = "#/"`))
	b.ask("What can you do?")
	b.state("completed")
	b.click("work-line")
	b.has("reasoning")
	whole, reasoning := get[string](b, prose), b.text("reasoning")
	b.run(evaluate(`location.hash = "#/"`))
	b.has("example")
	b.run(evaluate(`location.hash = "#/settings"`))
	b.fill("setting-max_output_tokens", "20")
	b.run(evaluate(`location.hash = "#/"`))
	b.ask("What can you do?")
	times := 0
	for ; ; times++ {
		b.until(`["incomplete", "completed"].includes(document.querySelector("[data-testid=answer]")?.dataset.state)`)
		if get[string](b, `document.querySelector("[data-testid=answer]").dataset.state`) == "completed" {
			break
		}
		before := b.text("tokens")
		b.click("continue")
		b.until(`document.querySelector("[data-testid=tokens]")?.textContent !== ` + quoted(before)) // its state is another one, too
	}
	if times < 3 {
		t.Errorf("gone on with %d times: more cuts expected", times)
	}
	b.click("work-line")
	b.has("reasoning")
	for range 2 {
		if got := get[string](b, prose); got != whole || b.text("reasoning") != reasoning {
			t.Errorf("%q behind %q; in one go %q behind %q", got, b.text("reasoning"), whole, reasoning)
		}
		if n := get[int](b, `document.querySelectorAll("[data-testid=answer], [data-testid=branch-count]").length`); n != 1 {
			t.Errorf("%d answers and versions", n)
		}
		b.run(reload())
		b.state("completed")
		b.click("work-line")
		b.has("reasoning")
	}
}

// TestContinueStopped: an answer that was stopped grows on from where it was.
func TestContinueStopped(t *testing.T) {
	s := newScript(t)
	endless(t, s)
	b := open(t, s.URL, "")
	b.ask("Hello!")
	b.until(growing)
	b.click("stop")
	b.state("stopped")
	stopped(t, b)
	before := strings.TrimRight(get[string](b, prose), " \n")
	b.click("continue")
	b.state("running")
	b.until(prose + `.length > ` + quoted(before) + `.length + 20`)
	b.press(kb.Escape)
	b.state("stopped")
	if after := get[string](b, prose); !strings.HasPrefix(after, before[:len(before)/2]) {
		t.Errorf("%.200q goes on as %.200q", before, after)
	}
	stopped(t, b)
}

// TestContinueRequest: what the page asks for when it goes on, how figures and citations add up, and
// that what came stays where that is refused.
func TestContinueRequest(t *testing.T) {
	s := newScript(t)
	s.answers(func(turn int, _ object, e *events) {
		switch turn {
		case 0:
			e.reasoning("Hm.")
			e.write(e.open(), "output_text", "Dürer: the begin")
			e.output[1]["content"] = []any{object{"type": "output_text", "text": "Dürer: the begin", "annotations": []any{}}}
			e.end("incomplete", object{"incomplete_details": object{"reason": "max_output_tokens"}})
		case 1:
			refuse(e.w, 503, object{"message": "the queue is full", "code": "overloaded"})
		default:
			e.message("ning of an answer.", object{"type": "url_citation", "start_index": 5, "end_index": 7, "url": "https://example.com/", "title": "A source"})
			e.end("completed", nil)
		}
	})
	b := open(t, s.URL, "")
	b.allow("503")
	b.ask("Hello")
	b.state("incomplete")
	b.click("continue")
	b.state("failed")
	b.says("answer .prose", "Dürer: the begin")
	b.click("continue")
	b.state("completed")
	b.until(prose + `.startsWith("Dürer: the beginning 1")`) // the mark stands where its words are
	b.says("sources", "A source")
	b.says("tokens", "3 tokens") // of both requests, as all figures
	b.says("tokens", "180 in (128 cached)")
	for _, body := range s.asked()[1:] {
		input := body["input"].([]any)
		last := input[len(input)-1].(object)
		content, _ := last["content"].([]any)
		if body["continue_final_message"] != true || last["role"] != "assistant" || len(content) != 1 || content[0].(object)["text"] != "Dürer: the begin" || input[len(input)-2].(object)["type"] != "reasoning" {
			t.Errorf("the page sends %v", body)
		}
	}
	// It goes into the next request whole.
	b.ask("And now?")
	b.until(`document.querySelectorAll("article.question").length === 2`)
	b.state("completed")
	input := s.asked()[3]["input"].([]any)
	said := input[len(input)-2].(object)["content"].([]any)[0].(object)["text"]
	if said != "Dürer: the beginning of an answer." || s.asked()[3]["continue_final_message"] != nil {
		t.Errorf("the next request says %q", said)
	}
}
