package browsertest

import (
	"strings"
	"testing"

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
