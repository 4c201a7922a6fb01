package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// What a server refuses is said in words, and what was asked can be asked again.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		fields object
		says   []string
	}{
		{"400", 400, object{"message": "temperature: 0 to 2 expected", "param": "temperature", "code": "invalid_value"}, []string{"emperature: 0 to 2 expected", "Change the temperature"}},
		{"400 without param", 400, object{"message": "input: something is wrong"}, []string{"Input: something is wrong", "Retry"}},
		{"403", 403, object{"message": "this key may not do that"}, []string{"does not allow", "This key may not do that"}},
		{"404", 404, object{"message": "the model x does not exist"}, []string{"The model x does not exist", "Choose another model"}},
		{"413", 413, object{"message": "the body is larger than 32 MiB (--limit request-body)"}, []string{"Too large", "32 MiB"}},
		{"500", 500, object{"message": "the engine was restarted"}, []string{"The engine was restarted", "Retry"}},
		{"context", 400, object{"message": "the prompt has 5210 tokens, 1114 more than fit", "code": "context_length_exceeded", "param": "input"}, []string{"The context is full", "1114 more", "Drop the oldest turns"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.answers(func(turn int, body object, e *events) {
				if turn == 0 {
					refuse(e.w, c.status, c.fields)
					return
				}
				e.message("Fine now.")
				e.end("completed", nil)
			})
			b := open(t, s.URL, "")
			b.allow(fmt.Sprint(c.status))
			b.ask("What is this?")
			b.state("failed")
			for _, text := range c.says {
				b.says("error", text)
			}
			b.click("retry")
			b.state("completed")
			if c.name == "context" && s.asked()[1]["truncation"] != "auto" {
				t.Error("the retry does not have the server drop turns")
			}
			b.says("branch-count", "2/2")
		})
	}
}

// A full context offers a new chat that begins with the last answer.
func TestContextFull(t *testing.T) {
	s := newScript(t)
	s.answers(func(turn int, _ object, e *events) {
		if turn == 1 {
			refuse(e.w, 400, object{"message": "the prompt has 5210 tokens, 1114 more than fit", "code": "context_length_exceeded", "param": "input"})
			return
		}
		e.message("What was found so far.")
		e.end("completed", nil)
	})
	b := open(t, s.URL, "")
	b.allow("400")
	b.ask("What is this?")
	b.state("completed")
	b.ask("And this?")
	b.state("failed")
	b.clickOn("[data-testid=error] [data-testid=retry] ~ button")
	b.until(`location.hash === "#/" && document.querySelector("[data-testid=box]")?.value === "What was found so far."`)
	if n := len(s.asked()); n != 2 {
		t.Errorf("%d requests were sent, 2 expected", n)
	}
}

// An older browser is told which ones work; one without MathML shows formulas as TeX.
func TestOlderBrowsers(t *testing.T) {
	s := newScript(t)
	s.answers(func(_ int, _ object, e *events) {
		e.message("It is $x^2$.")
		e.end("completed", nil)
	})
	b := blank(t, newContext(t), s.URL)
	b.before("delete globalThis.MathMLElement;")
	b.run(chromedp.Navigate(b.origin + "/"))
	b.ask("What is it?")
	b.state("completed")
	b.until(`document.querySelector("[data-testid=answer] code.tex")?.textContent === "$x^2$" && !document.querySelector("math")`)

	old := blank(t, newContext(t), s.URL)
	old.run(emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(s.URL+"/"))
	if text := get[string](old, "document.body.innerText"); !strings.Contains(text, "Chrome or Edge 111") {
		t.Errorf("a browser that cannot run the page shows %q", text)
	}
}

// The fault stands beside the setting that it names.
func TestFaultOfSetting(t *testing.T) {
	s := newScript(t)
	s.answers(func(_ int, _ object, e *events) {
		refuse(e.w, 400, object{"message": "top_k: at most 7 here", "param": "top_k"})
	})
	b := open(t, s.URL, "")
	b.allow("400")
	b.ask("x")
	b.state("failed")
	b.click("settings")
	b.until(`document.querySelector("label:has([data-testid=setting-top_k])")?.textContent.includes("at most 7 here")`)
}

// Where the server says when to come back, the page counts down and asks once more.
func TestRetryAfter(t *testing.T) {
	for _, status := range []int{429, 503} {
		s := newScript(t)
		s.answers(func(turn int, _ object, e *events) {
			switch turn {
			case 0, 2, 3:
				e.w.Header().Set("Retry-After", "1")
				refuse(e.w, status, object{"message": "the queue is full"})
			case 4:
				e.w.Header().Set("Retry-After", "600")
				refuse(e.w, status, object{"message": "the queue is full"})
			default:
				e.message("At last.")
				e.end("completed", nil)
			}
		})
		b := open(t, s.URL, "")
		b.allow(fmt.Sprint(status))
		b.recall()
		b.ask("Hello")
		b.state("completed")
		b.until(`recalled.includes("Trying again in")`) // it stood there for a second
		b.ask("Once more")                              // refused twice: it is not asked a third time
		b.until(`document.querySelectorAll("[data-testid=answer]").length === 2`)
		b.state("failed")
		if n := len(s.asked()); n != 4 {
			t.Errorf("%d requests were sent, 4 expected", n)
		}
		b.ask("A third")
		b.says("error", "Trying again in")
		b.clickOn("[data-testid=error] button")
		b.state("stopped")
	}
}

// Streams that break off, or are none, leave what came and say so.
func TestBrokenStreams(t *testing.T) {
	seen := make(chan bool) // the beginning is on the screen
	for name, play := range map[string]func(e *events){
		"cut":     func(*events) { <-seen; panic(http.ErrAbortHandler) },
		"no end":  func(e *events) {},
		"no JSON": func(e *events) { e.raw("data: {\"type\": \"response.output_text.del\n\n") },
		"failed": func(e *events) {
			e.end("failed", object{"error": object{"code": "server_error", "message": "the step took too long"}})
		},
		"error": func(e *events) { e.send("error", object{"code": "server_error", "message": "the step took too long"}) },
		"incomplete": func(e *events) {
			e.end("incomplete", object{"incomplete_details": object{"reason": "max_output_tokens"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.answers(func(turn int, _ object, e *events) {
				if turn > 0 {
					e.message("Fine now.")
					e.end("completed", nil)
					return
				}
				at := e.open()
				e.write(at, "output_text", "The beginning ", "of an answer")
				e.output[at]["content"] = []any{object{"type": "output_text", "text": "The beginning of an answer", "annotations": []any{}}}
				play(e)
			})
			b := open(t, s.URL, "")
			b.allow("ERR_INCOMPLETE_CHUNKED_ENCODING", "net::ERR")
			b.ask("Hello")
			if name == "cut" { // a browser drops what it has not handed on when a connection breaks
				b.says("answer .prose", "The beginning of an answer")
				seen <- true
			}
			state := "failed"
			if name == "incomplete" {
				state = "incomplete"
			}
			b.state(state)
			b.says("answer .prose", "The beginning of an answer")
			b.has("error")
			if name == "no JSON" {
				b.click("developer")
				b.says("developer-view", "response.output_text.del")
			}
			if n := len(s.asked()); n != 1 {
				t.Errorf("the page asked %d times by itself", n)
			}
			b.click("retry")
			b.state("completed")
			b.says("answer .prose", "Fine now.")
		})
	}
}

// What the page does not know is not drawn and is in the developer view.
func TestUnknownEvents(t *testing.T) {
	s := newScript(t)
	s.answers(func(_ int, _ object, e *events) {
		e.send("response.telepathy.delta", object{"output_index": 0, "delta": "strange one"})
		e.call(object{"type": "hologram_call", "id": "h_1", "status": "completed", "picture": "strange two"})
		e.raw(": a comment\n\nevent: ping\ndata: 7\n\ndata: null\n\n")
		e.send("response.output_text.delta", object{"output_index": 9999999, "content_index": -1, "delta": "nowhere"})
		e.message("Known.")
		e.end("completed", nil)
	})
	b := open(t, s.URL, "")
	b.ask("Hello")
	b.state("completed")
	if text := b.text("answer"); !strings.Contains(text, "Known.") || strings.Contains(text, "strange") || strings.Contains(text, "nowhere") {
		t.Errorf("the answer is drawn as %q", text)
	}
	b.click("developer")
	for _, text := range []string{"strange one", "strange two", "nowhere"} {
		b.says("developer-view", text)
	}
}

// A model that is loading: the page is there, and the question is sent when it is ready.
func TestLoading(t *testing.T) {
	s := newScript(t)
	var ready atomic.Bool
	s.on("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	s.answers(func(_ int, _ object, e *events) {
		e.message("Here.")
		e.end("completed", nil)
	})
	b := open(t, s.URL, "")
	b.allow("503")
	b.says("banner", "loading")
	b.ask("Are you there?")
	b.says("waiting", "sent when it is ready")
	if len(s.asked()) != 0 {
		t.Error("the question was sent while the model was loading")
	}
	ready.Store(true)
	b.state("completed")
	b.until(`!document.querySelector("[data-testid=banner]")`)
	if len(s.asked()) != 1 {
		t.Errorf("the question was sent %d times", len(s.asked()))
	}
}

// The server is gone, comes back, and nothing that was typed or answered is lost.
func TestServerGone(t *testing.T) {
	s := serve(t)
	b := open(t, s.url, "")
	b.allow("ERR_", "Failed to load resource")
	b.ask("12+30")
	b.state("completed")
	b.fill("box", "a draft")
	s.kill()
	b.press("\r")
	b.state("failed")
	b.says("error", "Connection lost")
	b.says("banner", "does not answer")
	b.fill("box", "a second draft")
	port := s.url[strings.LastIndex(s.url, ":")+1:]
	again := serve(t, "--port", port)
	b.until(`!document.querySelector("[data-testid=banner]")`)
	if got := get[string](b, `document.querySelector("[data-testid=box]").value`); got != "a second draft" {
		t.Errorf("the box has %q", got)
	}
	if n := metric(t, again, "request_success_total"); n != 0 {
		t.Errorf("%v requests were sent by themselves", n)
	}
	b.click("retry")
	b.state("completed")
	b.run(chromedp.Reload())
	b.until(`document.querySelector("[data-testid=box]")?.value === "a second draft"`)
}

// databases that fail, each by what is run before the page.
var databases = map[string]struct{ before, says string }{
	"none":    {`Object.defineProperty(globalThis, "indexedDB", {value: undefined});`, "keeps no conversations"},
	"full":    {`const put = IDBObjectStore.prototype.put; IDBObjectStore.prototype.put = function () { throw new DOMException("full", "QuotaExceededError"); };`, "no more room"},
	"damaged": {`const open = IDBFactory.prototype.open; IDBFactory.prototype.open = function (...of) { const r = open.apply(this, of); Object.defineProperty(r, "onsuccess", {set() {}}); r.addEventListener("success", () => r.onerror?.()); Object.defineProperty(r, "error", {get: () => new DOMException("Internal error opening backing store", "UnknownError")}); return r; };`, "Internal error"},
}

// Where nothing can be kept the page works in memory, says so and offers what there is.
func TestDatabase(t *testing.T) {
	for name, c := range databases {
		t.Run(name, func(t *testing.T) {
			b := blank(t, newContext(t), tiny(t).url)
			b.before(c.before)
			b.run(chromedp.Navigate(b.origin + "/"))
			b.ask("12+30")
			b.state("completed")
			b.says("banner", c.says)
			if name != "damaged" && !strings.Contains(exported(b, "banner button"), "12+30") {
				t.Error("the export has not what was asked")
			}
		})
	}
}

// A database of a newer page is left alone; what can be read of it can be exported.
func TestNewerDatabase(t *testing.T) {
	b := open(t, tiny(t).url, "")
	b.ask("12+30")
	b.state("completed")
	b.run(chromedp.Navigate(b.origin + "/health"))
	get[bool](b, `new Promise((resolve, reject) => { const r = indexedDB.open("ossian", 99); r.onsuccess = () => { r.result.close(); resolve(true); }; r.onerror = () => reject(r.error); })`)
	b.run(chromedp.Navigate(b.origin + "/"))
	b.says("banner", "newer version")
	if !strings.Contains(exported(b, "banner button"), "12+30") {
		t.Error("the export has not what the database has")
	}
	b.ask("7*6")
	b.state("completed")
	if n := get[int](b, `new Promise((resolve) => { const r = indexedDB.open("ossian"); r.onsuccess = () => { const all = r.result.transaction("conversations").objectStore("conversations").count(); all.onsuccess = () => { resolve(all.result); r.result.close(); }; }; })`); n != 1 {
		t.Errorf("the newer database has %d conversations, 1 expected", n)
	}
}

// before has a script run before those of each document.
func (b *tab) before(script string) {
	b.t.Helper()
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument("{" + script + "}").Do(ctx)
		return err
	}))
}

// A question that is asked before the database has answered is kept and answered.
func TestSlowDatabase(t *testing.T) {
	b := blank(t, newContext(t), tiny(t).url)
	b.before(`const open = IDBFactory.prototype.open; IDBFactory.prototype.open = function (...of) {
		const waits = new Promise((go) => (globalThis.goOn = go)), fake = {};
		void waits.then(() => { const r = open.apply(this, of); for (const on of ["onsuccess", "onerror", "onupgradeneeded", "onblocked"]) r[on] = (e) => fake[on]?.(e); Object.defineProperty(fake, "result", {get: () => r.result}); Object.defineProperty(fake, "error", {get: () => r.error}); });
		return fake;
	};`)
	b.run(chromedp.Navigate(b.origin + "/"))
	b.ask("12+30")
	b.until("globalThis.goOn")
	b.run(chromedp.Evaluate("goOn()", nil))
	b.state("completed")
	b.says("answer .prose", "42")
}

// Files that are no export of chats are refused whole, with the place of the first fault.
func TestImportRefused(t *testing.T) {
	b := open(t, tiny(t).url, "#/settings")
	b.has("import-file")
	good := `{"format":"ossian-chats","version":1,"conversations":[{"id":"a","title":"T","created":1,"changed":1,"leaf":"q"}],"messages":[{"id":"q","conversation":"a","parent":"","created":1,"role":"question","text":"hi"}]}`
	for _, c := range []struct{ from, to, says string }{
		{`{"format"`, `{"format`, "not JSON"},
		{"ossian-chats", "other", "format"},
		{`"version":1`, `"version":2`, "version"},
		{`"title":"T"`, `"title":7`, "conversations[0].title"},
		{`"parent":""`, `"parent":"q"`, "messages[0].parent"},
		{`"id":"q"`, `"id":"<img>"`, "messages[0].id"},
		{`"parent":""`, `"parent":"x"`, "messages[0].parent"},
		{`"role":"question"`, `"role":"god"`, "messages[0].role"},
		{`"leaf":"q"`, `"leaf":"z"`, "conversations[0].leaf"},
		{`"text":"hi"`, `"text":["hi"]`, "messages[0].text"},
	} {
		b.importing(t, strings.Replace(good, c.from, c.to, 1))
		b.says("import-result", "Nothing was imported")
		b.says("import-result", c.says)
		if n := get[int](b, `document.querySelectorAll("[data-testid=conversation]").length`); n != 0 {
			t.Errorf("%s: %d chats were imported", c.to, n)
		}
	}
	b.importing(t, good)
	b.says("import-result", "1 chat imported")
	b.has("conversation")
}

// importing gives the page a file to import.
func (b *tab) importing(t *testing.T, content string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chats.json")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	b.run(chromedp.SetUploadFiles(mark("import-file"), []string{file}, chromedp.ByQuery))
}

// Two tabs show one answer; the one that did not begin it leaves it alone.
func TestTwoTabs(t *testing.T) {
	s, b, next := halfway(t)
	second := b.another(fragmentOf(b))
	second.says("answer .prose", "The beginning")
	second.until(`document.querySelector("[data-testid=edit]")?.disabled`)
	second.fill("box", "me too")
	second.until(`document.querySelector("[data-testid=send]")?.disabled`)
	second.press("\r")
	next <- true
	b.state("completed")
	second.state("completed")
	second.says("answer .prose", "and the end.")
	second.until(`!document.querySelector("[data-testid=edit]").disabled && !document.querySelector("[data-testid=send]").disabled`)
	if n := len(s.asked()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// A database that a newer page has closed in this tab is told of, as one that fails is.
func TestDatabaseClosed(t *testing.T) {
	b := open(t, tiny(t).url, "#/settings")
	b.has("effort")
	get[bool](b, `new Promise((resolve, reject) => {
		const request = indexedDB.open("ossian", 2);
		request.onerror = () => reject(request.error);
		request.onsuccess = () => { request.result.close(); resolve(true); };
	})`)
	b.fill("setting-seed", "7")
	b.says("banner", "The settings could not be kept.")
}

// A chat for which there was no room is there until its tab is closed, whatever else is opened.
func TestNoRoom(t *testing.T) {
	b := blank(t, newContext(t), tiny(t).url)
	b.before(`const real = IDBObjectStore.prototype.put;
		IDBObjectStore.prototype.put = function (...of) { if (globalThis.full) throw new DOMException("full", "QuotaExceededError"); return real.apply(this, of); }`)
	b.run(chromedp.Navigate(b.origin + "/"))
	b.ask("1+1")
	b.state("completed")
	b.run(evaluate(`location.hash = "#/"`))
	b.has("example")
	b.run(reload())
	b.has("example")
	b.run(evaluate(`full = true`))
	b.ask("2+2")
	b.state("completed")
	b.says("banner", "no more room")
	for _, title := range []string{"1+1", "2+2"} {
		b.clickOn("[data-testid=conversation][title='" + title + "']")
		b.until(`document.querySelector("article.question")?.textContent.includes("` + title + `")`)
		b.state("completed")
	}
}
