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

// A chat that was deleted does not come back by what another tab tells of it late, and the tab that
// was answering in it deletes what it has written since.
func TestDeletedStaysAway(t *testing.T) {
	s := newScript(t)
	s.answers(func(_ int, _ object, e *events) {
		e.write(e.open(), "output_text", "The beginning")
		e.hold()
	})
	b := open(t, s.URL, "")
	b.has("example")
	b.run(evaluate(`globalThis.told = []; globalThis.channel = new BroadcastChannel("ossian"); channel.onmessage = (e) => told.push(e.data)`))
	b.ask("Hello")
	b.says("answer .prose", "The beginning")
	b.until(`told.some((what) => what.message)`)
	b.run(evaluate(`channel.postMessage({kind: "removed", id: told[0].conversation.id})`))
	b.until(`document.querySelectorAll("[data-testid=conversation]").length === 0`)
	const left = `new Promise((resolve, reject) => {
		const opening = indexedDB.open("ossian");
		opening.onerror = () => reject(opening.error);
		opening.onsuccess = () => {
			const reading = opening.result.transaction(["conversations", "messages"]), all = ["conversations", "messages"].map((name) => reading.objectStore(name).count());
			reading.oncomplete = () => { opening.result.close(); resolve(all[0].result + all[1].result); };
		};
	})`
	for get[int](b, left) != 0 {
		if b.late() {
			t.Fatal("a deleted chat is still in the database")
		}
	}
	b.run(evaluate(`for (const what of told) channel.postMessage(what);
		channel.postMessage({kind: "changed", conversation: {...told[0].conversation, id: "later", title: "Later"}})`))
	b.until(titles + `.includes("Later")`)
	if got := get[string](b, titles); got != "Today|Later" {
		t.Errorf("the list has %s", got)
	}
}

// halfway opens a tab in which an answer has begun, which ends behind next.
func halfway(t *testing.T) (s *script, b *tab, next chan bool) {
	t.Helper()
	s, next = newScript(t), make(chan bool)
	s.answers(func(_ int, _ object, e *events) {
		at := e.open()
		e.write(at, "output_text", "The beginning")
		<-next
		e.output = nil
		e.message("The beginning and the end.")
		e.end("completed", nil)
	})
	b = open(t, s.URL, "")
	b.ask("Hello")
	b.says("answer .prose", "The beginning")
	return s, b, next
}

// An answer that has ended meanwhile is not marked as one whose tab is gone, by a tab that has not
// been told.
func TestEndedElsewhere(t *testing.T) {
	s, b, next := halfway(t)
	ctx, end := chromedp.NewContext(b.ctx)
	t.Cleanup(end)
	second := blank(t, ctx, s.URL)
	second.before(`delete globalThis.BroadcastChannel; const real = setTimeout; globalThis.setTimeout = (f, ms, ...of) => ms === 4000 ? (globalThis.look = f, 0) : real(f, ms, ...of)`)
	second.run(chromedp.Navigate(b.origin + "/" + fragmentOf(b)))
	second.state("running")
	second.until(`globalThis.look`)
	next <- true
	b.state("completed")
	second.run(evaluate(`look()`))
	second.until(`document.querySelector("[data-testid=answer]").dataset.state !== "running"`)
	second.state("completed")
	second.says("answer .prose", "and the end.")
	second.until(`!document.querySelector("[data-testid=edit]").disabled`)
}
