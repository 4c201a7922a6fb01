package browsertest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// drawn is a promise of the moment at which what has changed is drawn, and has had its effects.
const drawn = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => setTimeout(() => done(true))))))`

// slowReads has the database's answers about the messages of a chat wait for goOn, while slow is true.
const slowReads = `const real = IDBIndex.prototype.getAll, late = [];
	IDBIndex.prototype.getAll = function (...of) {
		const request = real.apply(this, of);
		if (!globalThis.slow) return request;
		return {get result() { return request.result; }, set onerror(f) {}, set onsuccess(f) { request.onsuccess = () => late.push(f); }};
	};
	globalThis.goOn = () => late.splice(0).map((go) => go()).length;
	globalThis.waiting = () => late.length;`

// What is read of a chat that has been left meanwhile does not come in place of the one that is
// shown, and a chat that is shown late takes the focus from no text field.
func TestLateChat(t *testing.T) {
	b := blank(t, newContext(t), tiny(t).url)
	b.before(slowReads)
	b.run(chromedp.Navigate(b.origin + "/"))
	b.ask("1+1")
	b.state("completed")
	b.run(evaluate(`location.hash = "#/"`))
	b.has("example")
	b.run(reload())
	b.has("example")
	b.run(evaluate(`slow = true`))
	b.click("conversation")
	b.until(`waiting() === 1`)
	b.click("new-chat")
	b.until(`location.hash === "#/"`)
	get[bool](b, drawn)
	if get[int](b, `goOn()`) != 1 {
		t.Fatal("nothing was read")
	}
	b.ask("2+2")
	b.until(titles + ` === "Today|2+2|1+1"`)
	b.state("completed")

	b.run(reload())
	b.state("completed")
	b.run(evaluate(`slow = true; document.querySelector("[data-testid=conversation][title='1+1']").click()`))
	b.until(`waiting() === 1`)
	b.fill("search", "1")
	get[int](b, `goOn()`)
	b.until(`document.querySelector("article")?.textContent.includes("1+1")`)
	get[bool](b, drawn)
	b.press("+")
	b.until(`document.querySelector("[data-testid=search]").value === "1+"`)
}

// parts are the addresses of the parts of the page that a tab has asked for.
func (b *tab) parts() map[string]bool {
	parts := map[string]bool{}
	for _, r := range b.requests() {
		if path := strings.TrimPrefix(r.URL, b.origin); strings.HasPrefix(path, "/ui/part-") {
			parts[path] = true
		}
	}
	return parts
}

// A view that comes late does not take the place of the one that was opened since.
func TestLateView(t *testing.T) {
	s := newScript(t)
	model := open(t, s.URL, "#/model")
	model.has("model-view")
	live := open(t, s.URL, "#/live")
	live.has("tile")
	release := make(chan bool)
	var late []string
	for path := range live.parts() {
		if model.parts()[path] {
			continue
		}
		late = append(late, path)
		s.on(path, func(w http.ResponseWriter, _ *http.Request) {
			<-release
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, fetch(t, tiny(t).url+path))
		})
	}
	if len(late) == 0 {
		t.Fatal("the view has no part of its own")
	}
	b := open(t, s.URL, "")
	b.has("example")
	b.click("live-link")
	b.until(`document.querySelector("[aria-busy=true]")`)
	b.click("model-link")
	b.has("model-view")
	close(release)
	for _, path := range late {
		get[bool](b, `import("`+path+`").then(() => true)`)
	}
	get[bool](b, drawn)
	if !get[bool](b, `!!document.querySelector("[data-testid=model-view]")`) {
		t.Error("a view that came late stands in for the one that is open")
	}
}
