package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
)

// A link may fill the box. It never sends, whatever is in it.
func TestLinkFillsOnly(t *testing.T) {
	s := tiny(t)
	for _, form := range []string{"#q=", "#?q=", "#/?q="} {
		b := open(t, s.url, form+"What+is%201%2B1%3F%0D%0A%0Asecond%20line")
		b.until(`document.querySelector("[data-testid=box]")?.value.startsWith("What is 1+1?")`)
		b.until(`document.querySelector("[data-testid=context]")`) // the page has counted its tokens, so all effects are over
		if b.sent("/v1/responses") != 0 {
			t.Errorf("%s: the page sends what a link says", form)
		}
		if get[int](b, `document.querySelectorAll("article").length`) != 0 {
			t.Errorf("%s: the link began a chat", form)
		}
		b.click("send")
		b.state("completed")
	}
}

// Another page can neither show this one in a frame nor have it or its server do something.
func TestForeignPage(t *testing.T) {
	s := tiny(t)
	const page = `<!doctype html><title>foreign</title><iframe src="%[1]s/"></iframe>
<form id="f" method="post" enctype="text/plain" action="%[1]s/v1/responses"><input name='{"input":"12+30","a":"' value='"}'></form>`
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, page, s.url)
	}))
	t.Cleanup(evil.Close)
	before := metric(t, s, "generation_tokens_total")
	b := blank(t, newContext(t), evil.URL)
	b.foreign = []string{s.url}
	b.allow("frame-ancestors", "403", "CORS", "favicon", "policy violated", "Failed to load resource", "chrome-error:")
	b.run(chromedp.Navigate(evil.URL + "/"))
	b.until(`document.querySelector("iframe")`)
	// A frame of another origin, refused, is one whose document nobody may look at.
	outcome := get[[]string](b, fmt.Sprintf(`(async () => {
		const tries = {
			simple: () => fetch(%[1]q + "/v1/responses", {method: "POST", body: '{"input":"12+30"}'}),
			json: () => fetch(%[1]q + "/v1/responses", {method: "POST", headers: {"Content-Type": "application/json"}, body: '{"input":"12+30"}'}),
			blind: () => fetch(%[1]q + "/v1/responses", {method: "POST", mode: "no-cors", body: '{"input":"12+30"}'}),
			info: () => fetch(%[1]q + "/info"),
			requests: () => fetch(%[1]q + "/requests"),
		};
		const got = [];
		for (const [name, ask] of Object.entries(tries)) await ask().then((r) => { if (r.type !== "opaque") got.push(name + " " + r.status); }, () => {});
		return got;
	})()`, s.url))
	if len(outcome) != 0 {
		t.Errorf("a foreign page can read %v", outcome)
	}
	if after := metric(t, s, "generation_tokens_total"); after != before {
		t.Errorf("a foreign page had %v tokens generated", after-before)
	}
	frames := get[int](b, "frames.length")
	for i := range frames {
		if get[bool](b, fmt.Sprintf(`(() => { try { return !!frames[%d].document.querySelector("#page"); } catch { return false; } })()`, i)) {
			t.Error("the page is shown in a foreign frame")
		}
	}
	for !b.heard("frame-ancestors") { // which is told by another way than what the page has
		if b.late() {
			t.Fatal("no browser said that the frame was refused")
		}
	}
	// A form leaves the page and is refused.
	b.run(chromedp.Evaluate(`document.querySelector("#f").submit()`, nil))
	b.until(fmt.Sprintf(`location.href.startsWith(%q) && document.readyState === "complete"`, s.url))
	if after := metric(t, s, "generation_tokens_total"); after != before {
		t.Error("a foreign form had an answer generated")
	}
}
