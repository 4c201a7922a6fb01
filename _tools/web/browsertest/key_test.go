package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const secret = "sk-browsertest-6c1f0a"

// kept is all that a page can keep, as text. The database is read whole.
const kept = `(async () => {
	const all = [JSON.stringify({...localStorage}), JSON.stringify({...sessionStorage}), document.cookie, location.href, JSON.stringify(history.state), document.documentElement.outerHTML];
	const db = await new Promise((resolve, reject) => { const r = indexedDB.open("ossian"); r.onsuccess = () => resolve(r.result); r.onerror = () => reject(r.error); });
	for (const name of db.objectStoreNames) all.push(JSON.stringify(await new Promise((resolve) => { const r = db.transaction(name).objectStore(name).getAll(); r.onsuccess = () => resolve(r.result); })));
	db.close();
	for (const name of await caches.keys()) all.push(name);
	return all.join("\n");
})()`

// exported is the file that a button saves.
func exported(b *tab, button string) string {
	b.t.Helper()
	b.has(button)
	return get[string](b, `(async () => {
		const made = URL.createObjectURL;
		const blob = new Promise((resolve) => { URL.createObjectURL = (blob) => { resolve(blob); return made.call(URL, blob); }; });
		const pressed = HTMLAnchorElement.prototype.click;
		HTMLAnchorElement.prototype.click = function () {};
		document.querySelector('`+mark(button)+`').click();
		const text = await (await blob).text();
		URL.createObjectURL = made; HTMLAnchorElement.prototype.click = pressed;
		return text;
	})()`)
}

func TestKey(t *testing.T) {
	s := serve(t, "--api-key", secret)
	b := open(t, s.url, "")
	b.allow("401")
	b.has("key-dialog")
	b.until(`document.activeElement?.dataset.testid === "key-input"`)
	b.fill("key-input", "wrong-key")
	b.click("key-save")
	b.says("key-wrong", "not one of the server's keys")
	b.fill("key-input", secret)
	b.press("\r")
	b.until(`!document.querySelector("dialog[open]")`)
	b.ask("12+30")
	b.state("completed")
	inSession := get[bool](b, `Object.values(sessionStorage).includes("`+secret+`")`)
	if !inSession || get[bool](b, `JSON.stringify({...localStorage}).includes("`+secret+`")`) {
		t.Error("the key of a session is not in sessionStorage alone")
	}
	// It goes nowhere else.
	b.click("developer")
	b.has("developer-view")
	if strings.Contains(get[string](b, "document.documentElement.outerHTML"), secret) {
		t.Error("the developer view shows the key")
	}
	b.click("settings")
	if strings.Contains(exported(b, "export"), secret) {
		t.Error("the key is in an export")
	}
	b.click("key-forget")
	b.until(`!document.querySelector("[data-testid=key-forget]")`)
	if strings.Contains(get[string](b, kept), secret) {
		t.Error("a forgotten key is still there")
	}
	// Another one, that is remembered: a new tab has it.
	// The settings ask the server again, which wants one.
	b.has("key-input")
	b.fill("key-input", secret)
	b.click("key-remember")
	b.click("key-save")
	b.until(`!document.querySelector("dialog[open]")`)
	second := b.another("")
	second.allow("401")
	second.ask("7*6")
	second.state("completed")
	second.press(kb.Escape)
	second.click("settings")
	second.click("key-forget")
	second.until(`!document.querySelector("[data-testid=key-forget]")`)
	if strings.Contains(get[string](second, kept), secret) {
		t.Error("a remembered key is still there after it was forgotten")
	}
	for _, tab := range []*tab{b, second} {
		for _, r := range tab.requests() {
			if strings.Contains(r.URL, secret) || strings.Contains(r.URL, "wrong-key") {
				t.Errorf("the key is in the address %s", r.URL)
			}
		}
	}
}

// What was refused before there was a key says nothing of the key that came since, however late the
// browser hears of it: it is asked again, and the dialog stays away.
func TestLateRefusals(t *testing.T) {
	s := serve(t, "--api-key", secret)
	b := blank(t, newContext(t), s.url)
	b.allow("401")
	b.before(`const real = fetch, late = []; let refused = 0;
		globalThis.goOn = () => late.splice(0).map((go) => go()).length;
		globalThis.fetch = async (...of) => {
			const answer = await real(...of);
			if (answer.status === 401 && refused++ > 0) await new Promise((go) => late.push(go));
			return answer;
		};
		globalThis.refusals = () => late.length;`)
	b.run(chromedp.Navigate(b.origin + "/"))
	b.fill("key-input", secret)
	b.until(`refusals() > 0`)
	b.press("\r")
	b.until(`!document.querySelector("dialog[open]")`)
	sent := len(b.requests())
	if get[int](b, `goOn()`) == 0 {
		t.Fatal("no refusal was held back")
	}
	b.ask("12+30")
	b.state("completed")
	if get[bool](b, `!!document.querySelector("dialog")`) {
		t.Error("a late refusal asks for another key")
	}
	b.until(`refusals() === 0`)
	if len(b.requests()) <= sent {
		t.Error("what was refused late was not asked again")
	}
}

// A dialog gives the focus back to what had it, in whichever way it is closed, and a key that is
// refused does not take the place of the one that is kept.
func TestKeyIsTriedFirst(t *testing.T) {
	s := serve(t, "--api-key", secret)
	b := open(t, s.url, "#/settings")
	b.allow("401")
	b.fill("key-input", secret)
	b.click("key-save")
	b.has("key-forget")
	for _, closed := range []string{"\x1b", "\r"} {
		b.click("key-change")
		b.fill("key-input", "wrong-key")
		b.press("\r")
		b.says("key-wrong", "not one of the server's keys")
		if get[bool](b, `!Object.values(sessionStorage).includes("`+secret+`")`) {
			t.Error("a key that is refused took the place of the one that is kept")
		}
		b.fill("key-input", secret)
		b.press(closed)
		b.until(`!document.querySelector("dialog[open]") && document.activeElement?.dataset.testid === "key-change"`)
	}
	b.click("key-change")
	b.has("key-input")
	if get[bool](b, `!!document.querySelector("[data-testid=key-wrong]")`) {
		t.Error("a dialog that is opened anew says what was wrong the last time")
	}
}

// The dialog can be dismissed: it stays away until somebody asks for it. A try that was dismissed
// has no effect, whatever the server says of it later.
func TestKeyDialogDismissed(t *testing.T) {
	s := serve(t, "--api-key", secret)
	b := blank(t, newContext(t), s.url)
	b.allow("401")
	b.before(`const real = fetch, late = [];
		globalThis.goOn = () => late.splice(0).map((go) => go()).length;
		globalThis.waiting = () => late.length;
		globalThis.fetch = async (...of) => {
			const answer = await real(...of);
			if (globalThis.slow) await new Promise((go) => late.push(go));
			return answer;
		};`)
	b.run(chromedp.Navigate(b.origin + "/"))
	b.has("key-input")
	b.press("\x1b")
	b.until(`!document.querySelector("dialog")`)
	b.ask("12+30")
	b.state("failed")
	if get[bool](b, `!!document.querySelector("dialog")`) {
		t.Fatal("a dialog that was dismissed is back")
	}
	const enter = `[...document.querySelectorAll("[data-testid=error] button")].find((e) => e.textContent === "Enter a key").click()`
	b.run(evaluate(enter))
	b.fill("key-input", secret)
	b.run(evaluate(`slow = true`))
	b.press("\r")
	b.until(`waiting() > 0`)
	b.press("\x1b")
	b.until(`!document.querySelector("dialog")`)
	b.run(evaluate(`slow = false; goOn()`))
	b.click("retry")
	b.until(`document.querySelector("[data-testid=branch-count]")?.textContent === "2/2"`)
	b.until(`["failed", "completed"].includes(document.querySelector("[data-testid=answer]")?.dataset.state)`)
	b.state("failed")
	b.until(`sessionStorage.length === 0`)
	b.run(evaluate(enter))
	b.fill("key-input", secret)
	b.press("\r")
	b.until(`!document.querySelector("dialog")`)
	b.click("retry")
	b.state("completed")
}
