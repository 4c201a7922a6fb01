package browsertest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"
)

// endless passes questions on to the slow server and has it write on where it would end, up to its
// context, so that there is time to stop.
func endless(t testing.TB, s *script) {
	t.Helper()
	upstream := of(t, slow).url
	s.on("/v1/responses", func(w http.ResponseWriter, r *http.Request) {
		var body object
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return
		}
		body["ignore_eos"], body["min_tokens"] = true, 3900
		text, _ := json.Marshal(body)
		request, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, upstream+"/v1/responses", bytes.NewReader(text))
		request.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return
		}
		defer answer.Body.Close()
		w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(flushing{w}, answer.Body)
	})
}

type flushing struct{ http.ResponseWriter }

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}

// tree is what is shown of a conversation, for comparisons.
const tree = `JSON.stringify([...document.querySelectorAll("article")].map((a) => [a.className, a.dataset.state, a.querySelector(".said, .prose")?.textContent, a.querySelector("[data-testid=branch-count]")?.textContent]))`

// stopped waits until the server has ended what the page has stopped.
func stopped(t testing.TB, b *tab) {
	t.Helper()
	begun := time.Now()
	for metric(t, of(t, slow), "num_requests_running") > 0 {
		if b.late() {
			t.Fatal("the server goes on with an answer that was stopped")
		}
	}
	t.Logf("nothing runs %v after the answer was seen to have stopped (budget 1 s)", time.Since(begun).Round(time.Millisecond))
}

// running checks that the server works: else it were no wonder that nothing runs afterwards.
func running(t testing.TB) {
	t.Helper()
	if metric(t, of(t, slow), "num_requests_running") == 0 {
		t.Fatal("nothing runs while the answer grows")
	}
}

// BenchmarkStop is the time from the click on Stop until nothing runs in the server.
func BenchmarkStop(bench *testing.B) {
	s := newScript(bench)
	endless(bench, s)
	b := open(bench, s.URL, "")
	for bench.Loop() {
		bench.StopTimer()
		b.run(evaluate(`location.hash = "#/"`))
		b.has("example")
		b.ask("Hello!")
		b.until(growing)
		running(bench)
		bench.StartTimer()
		b.click("stop")
		stopped(bench, b)
		bench.StopTimer()
		b.state("stopped")
		bench.StartTimer()
	}
}

const growing = `document.querySelector("[data-testid=answer][data-state=running] .prose")?.textContent.length > 20`

func TestStopAndBranches(t *testing.T) {
	s := newScript(t)
	endless(t, s)
	b := open(t, s.URL, "")
	b.ask("Hello!")
	b.until(growing)
	running(t)
	b.click("stop")
	b.state("stopped")
	stopped(t, b)
	if len(b.text("answer .prose")) < 20 {
		t.Error("what came before the stop is gone")
	}
	// Regenerating makes a sibling; Esc stops, too.
	b.click("regenerate")
	b.until(growing)
	b.press(kb.Escape)
	b.state("stopped")
	stopped(t, b)
	b.says("answer [data-testid=branch-count]", "2/2")
	s.on("/v1/responses", nil)
	b.click("branch-prev")
	b.says("branch-count", "1/2")
	b.ask("12+30")
	b.until(`document.querySelectorAll("[data-testid=answer]").length === 2`)
	b.state("completed")
	// Editing the first question makes a branch beside all of it.
	b.clickOn("article.question:first-of-type [data-testid=edit]")
	b.fill("edit-box", "5+6")
	b.click("edit-send")
	b.until(`document.querySelectorAll("[data-testid=answer]").length === 1`)
	b.state("completed")
	b.says("branch-count", "2/2")
	shown := get[string](b, tree)

	b.run(reload())
	b.until(tree + " === " + quoted(shown))
	second := b.another(fragmentOf(b))
	second.until(tree + " === " + quoted(shown))
	// What is done in one tab is seen in the other.
	second.clickOn("article.question [data-testid=branch-prev]")
	second.until(`document.querySelector("article.question [data-testid=branch-count]")?.textContent.includes("1/2")`)
	b.until(tree + " === " + quoted(get[string](second, tree)))
}

// The same by keyboard alone: no mouse, focus moved by Tab.
func TestKeyboardOnly(t *testing.T) {
	s := newScript(t)
	endless(t, s)
	b := open(t, s.URL, "")
	b.until(`document.activeElement?.dataset.testid === "box"`)
	b.press("Hello!\r")
	b.until(growing)
	b.press(kb.Escape)
	b.state("stopped")
	b.tabTo("regenerate")
	b.press("\r")
	b.until(growing)
	b.press(kb.Escape)
	b.state("stopped")
	b.says("branch-count", "2/2")
	b.tabTo("branch-prev")
	b.press("\r")
	b.says("branch-count", "1/2")
	b.until(`document.activeElement?.dataset.testid === "branch-prev"`)
	s.on("/v1/responses", nil)
	b.tabTo("box")
	b.press(kb.ArrowUp)
	b.until(`document.activeElement?.dataset.testid === "edit-box"`)
	b.press("a", input.ModifierCtrl)
	b.press("12+30\r")
	b.state("completed")
	b.says("answer .prose", "42")
	b.says("branch-count", "2/2")
	// The settings, and back to a new chat.
	b.tabTo("settings")
	b.press("\r")
	b.has("settings-view")
	b.press("o", input.ModifierCtrl|input.ModifierShift)
	b.until(`location.hash === "#/" && document.querySelector("[data-testid=example]")`)
	b.press("k", input.ModifierCtrl)
	b.until(`document.activeElement?.dataset.testid === "search"`)
}
