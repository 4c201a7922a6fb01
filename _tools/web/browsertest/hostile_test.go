package browsertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// scripts are what would run canary, each in a form that browsers run somewhere. X is where the
// number of the case stands.
var scripts = []string{
	`<script>canary(X)</script>`, `<img src=x onerror=canary(X)>`, `<svg onload=canary(X)>`, `<svg><script>canary(X)</script></svg>`, `<body onload=canary(X)>`,
	`<iframe src="javascript:parent.canary(X)"></iframe>`, `<iframe srcdoc="<script>parent.canary(X)</script>"></iframe>`, `<object data="javascript:canary(X)">`, `<embed src="javascript:canary(X)">`,
	`<details open ontoggle=canary(X)>`, `<input autofocus onfocus=canary(X)>`, `<math><mtext></mtext><mglyph><style><img src=x onerror=canary(X)></style></mglyph></math>`,
	`<a href="javascript:canary(X)">a</a>`, `<form action="javascript:canary(X)"><button autofocus>b</button></form>`, `<base href="https://evil.example/">`, `<link rel=stylesheet href="https://evil.example/X.css">`,
	`<meta http-equiv=refresh content="0;url=https://evil.example/X">`, `<style>@import "https://evil.example/X.css";*{display:none}</style>`, `<video src=x onerror=canary(X)>`, `<audio src=x onerror=canary(X)>`,
	`<img src="https://evil.example/X.png">`, `<img srcset="https://evil.example/X.png 1x">`, `<picture><source srcset="https://evil.example/X.png"></picture>`, `<table background="https://evil.example/X.png">`,
	`<template shadowrootmode=open><script>canary(X)</script></template>`, `<noscript><p title="</noscript><img src=x onerror=canary(X)>">`, `<!--><img src=x onerror=canary(X)>-->`, `<![CDATA[><img src=x onerror=canary(X)>]]>`,
	`"><script>canary(X)</script>`, `' onmouseover='canary(X)`, `</textarea><script>canary(X)</script>`, `</title><script>canary(X)</script>`, `</style><script>canary(X)</script>`,
	`[a](javascript:canary(X))`, `[a](JaVaScRiPt:canary(X))`, `[a](java&#x73;cript:canary(X))`, "[a](java\tscript:canary(X))", `[a](&#106;avascript:canary(X))`, `[a](data:text/html,<script>canary(X)</script>)`, `[a](vbscript:canary(X))`,
	`[a](//evil.example/X)`, `[a](file:///etc/passwd?X)`, `[a](blob:https://evil.example/X)`, `[a](https://a@evil.example/X)`, `![a](https://evil.example/X.png)`, `![a](data:image/svg+xml,<svg onload=canary(X)>)`, `![a](javascript:canary(X))`,
	"[a]: javascript:canary(X)\n\n[a]", `<javascript:canary(X)>`, `<https://evil.example/X">`, `[a](<javascript:canary(X)> "t")`, `[![a](https://evil.example/X.png)](javascript:canary(X))`, `[a](https://evil.example/"onmouseover=canary(X))`,
	"```html\n<script>canary(X)</script>\n```", "```\"><img src=x onerror=canary(X)>\ncode\n```", "`<img src=x onerror=canary(X)>`", "    <script>canary(X)</script>", "| <img src=x onerror=canary(X)> | b |\n|---|---|\n| <script>canary(X)</script> | d |",
	"- <img src=x onerror=canary(X)>\n  - [a](javascript:canary(X))", "> <svg onload=canary(X)>", "# <img src=x onerror=canary(X)>", `$$\href{javascript:canary(X)}{x}$$`, `$$\url{javascript:canary(X)}$$`, `$$\class{a" onclick="canary(X)}{x}$$`,
	`$$\includegraphics{https://evil.example/X.png}$$`, `$$\text{<img src=x onerror=canary(X)>}$$`, `\(\htmlData{a=1}{x} \unicode{<script>canary(X)</script>}\)`, `$$\style{background:url(https://evil.example/X)}{x}$$`, `$$\def\a{\a\a}\a X$$`,
	`${canary(X)}`, `{{constructor.constructor('canary(X)')()}}`, `{{= canary(X) }}`, `<%= canary(X) %>`, `#{canary(X)}`, `javascript:canary(X)`, `');canary(X);//`, `";canary(X);//`, "\\u003cscript\\u003ecanary(X)\\u003c/script\\u003e",
	`{"__proto__":{"canary":X}}`, `__proto__`, `constructor`, `&lt;script&gt;canary(X)&lt;/script&gt;`, `%3Cscript%3Ecanary(X)%3C/script%3E`, `<scr<script>ipt>canary(X)</scr</script>ipt>`, "<img src=x one\x00rror=canary(X)>", "<\x00script>canary(X)</script>",
	"\u202e)X(yranac\u202c<tpircs>", "\u2066\u2067 X \u2069", "a\u200bb\u200e X", "\u0007\u001b[31mX\u001b[0m", "\ufeffX\ufff9", "\U000e0041\U000e0042 X", "e\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301 X", "\u3164\u115f X",
}

// hostile are at least 200 texts: each script as it is and in surroundings, and such as are huge.
func hostile() []string {
	var all []string
	add := func(text string) { all = append(all, strings.ReplaceAll(text, "X", fmt.Sprint(len(all)))) }
	for _, script := range scripts {
		add(script)
		add("**" + script + "** and *" + script)
	}
	for _, part := range []string{"W", "\u202eW", "<b>", "<img src=x onerror=canary(X)>", "[", "**", "$", "`", "|a", "&amp;"} {
		add(strings.Repeat(part, 3000))
	}
	for _, deep := range []string{"> ", "- ", "1. ", "<div>", "[a](", "![", "*_"} {
		add(strings.Repeat(deep, 400) + "end")
	}
	return all
}

// shown is a text as the page has to show it: what hides or reorders it as symbols.
func shownText(text string) string {
	var made strings.Builder
	for _, c := range text {
		switch {
		case c == '\t' || c == '\n':
			made.WriteRune(c)
		case c < 0x20:
			made.WriteRune(0x2400 + c)
		case c == 0x7f:
			made.WriteRune(0x2421)
		case c >= 0x80 && c < 0xa0, c == 0x61c, c == 0x200b, c == 0x200e, c == 0x200f, c >= 0x2028 && c <= 0x202e, c >= 0x2060 && c <= 0x206f, c == 0xfeff, c >= 0xfff9 && c <= 0xfffb, c >= 0xe0000 && c <= 0xe007f:
			fmt.Fprintf(&made, "\u27e8U+%04X\u27e9", c)
		default:
			made.WriteRune(c)
		}
	}
	return made.String()
}

// inert lists what in the document could act, and what makes the page wider than its window.
const inert = `(() => {
	const wrong = [];
	for (const e of document.querySelectorAll("*")) {
		if (/^(iframe|object|embed|base|frame|video|audio|applet|template|noscript|form)$/i.test(e.localName) && !e.matches("form.box, dialog form")) wrong.push(e.outerHTML.slice(0, 200));
		if (e.localName === "script" && !e.src.startsWith(location.origin + "/ui/")) wrong.push(e.outerHTML.slice(0, 200));
		if (/^(img|image|source|use|feImage)$/.test(e.localName)) wrong.push(e.outerHTML.slice(0, 200));
		for (const a of e.attributes) {
			if (/^on/i.test(a.name)) wrong.push(e.localName + " " + a.name + "=" + a.value.slice(0, 100));
			if (/^(href|src|action|formaction|xlink:href|data|srcset|poster)$/i.test(a.name) && !e.matches("head *") && !/^(https?:|mailto:|#)/.test(a.value)) wrong.push(e.localName + " " + a.name + "=" + a.value.slice(0, 100));
			if (a.name === "style" && /url|expression|javascript/i.test(a.value)) wrong.push(e.localName + " style=" + a.value.slice(0, 100));
		}
	}
	if (document.querySelectorAll("h1").length !== 1) wrong.push(document.querySelectorAll("h1").length + " headings of the first level");
	if (document.documentElement.scrollWidth > innerWidth) wrong.push("the page is " + document.documentElement.scrollWidth + " pixels wide");
	const main = document.querySelector("main");
	if (!main || main.scrollWidth > main.clientWidth + 1) wrong.push("the view is wider than its place");
	for (const a of document.querySelectorAll("article")) if (a.getBoundingClientRect().right > innerWidth + 1) wrong.push("a message reaches out of the window: " + a.textContent.slice(0, 100));
	return wrong;
})()`

// harmless holds the page to inert.
func (b *tab) harmless(where string) {
	b.t.Helper()
	for _, wrong := range get[[]string](b, inert) {
		b.t.Errorf("%s: %s", where, wrong)
	}
}

const batch = 25 // texts of one answer

// Hostile texts in every place that can have them.
func TestHostile(t *testing.T) {
	all := hostile()
	if len(all) < 200 {
		t.Fatalf("%d texts", len(all))
	}
	s := newScript(t)
	var now []string
	s.answers(func(_ int, _ object, e *events) {
		for i, text := range now {
			id := fmt.Sprint(i)
			e.reasoning(text)
			name := []rune(text)[:min(len([]rune(text)), 500)]
			e.call(object{"type": "web_search_call", "id": "ws" + id, "status": "completed", "action": object{"type": "search", "query": text, "queries": []any{text}, "sources": []any{object{"url": text, "title": text}, object{"url": "https://evil.example/" + id, "title": text}}}})
			e.call(object{"type": "web_search_call", "id": "wo" + id, "status": "completed", "action": object{"type": "open_page", "url": text}})
			e.call(object{"type": "code_interpreter_call", "id": "ci" + id, "status": "completed", "code": text, "outputs": []any{object{"type": "logs", "logs": text}}})
			e.call(object{"type": "mcp_call", "id": "mc" + id, "status": "failed", "server_label": string(name), "name": string(name), "arguments": text, "output": text, "error": object{"message": text}})
			e.call(object{"type": "function_call", "id": "fc" + id, "status": "completed", "call_id": id, "name": string(name), "arguments": text})
			e.message(text, object{"type": "url_citation", "start_index": 0, "end_index": 1, "url": text, "title": text}, object{"type": "url_citation", "start_index": -5, "end_index": 9999999, "url": "https://evil.example/" + id, "title": text})
		}
		e.end("completed", nil)
	})
	b := open(t, s.URL, "")
	b.allow("/v1/responses/input_tokens") // the built-in model's context does not hold these chats
	b.run(chromedp.Evaluate(`localStorage.setItem("ossian.preferences", '{"reasoning":true}')`, nil), chromedp.Reload())
	for from := 0; from < len(all); from += batch {
		now = all[from:min(from+batch, len(all))]
		b.run(chromedp.Navigate(s.URL+"/#/"), chromedp.Reload())
		names, _ := json.Marshal(now)
		b.until(`document.activeElement?.dataset.testid === "box"`) // by then it listens
		b.run(chromedp.Evaluate(`{ const files = new DataTransfer(); for (const name of `+string(names)+`.slice(0, 8)) files.items.add(new File(["text"], name.slice(0, 900), {type: "text/plain"}));
			document.querySelector("[data-testid=box]").dispatchEvent(new DragEvent("drop", {bubbles: true, cancelable: true, dataTransfer: files})); }`, nil))
		b.has("chips")
		question := strings.Join(now, "\n\n")
		b.run(chromedp.Evaluate(`{ const box = document.querySelector("[data-testid=box]"); box.value = `+quoted(question)+`; box.dispatchEvent(new InputEvent("input", {bubbles: true})); }`, nil))
		b.click("send")
		b.state("completed")
		where := fmt.Sprintf("texts from %d", from)
		if got := get[string](b, `document.querySelector(".said").textContent`); got != shownText(strings.TrimSpace(strings.ReplaceAll(question, "\r", "\n"))) {
			t.Errorf("%s: the question is shown otherwise", where)
		}
		b.until(fmt.Sprintf(`document.querySelectorAll(".call").length === %d && document.querySelectorAll("[data-testid=reasoning]").length === %d`, 5*len(now), len(now)))
		b.harmless(where)
		b.click("developer")
		b.has("developer-view")
		b.harmless(where + ", developer view")
	}
	b.run(chromedp.Reload())
	b.has("conversation")
	b.harmless("after a reload")
}

// Hostile texts in a file of chats, as titles too, and in what the server says of itself.
func TestHostileImport(t *testing.T) {
	all := hostile()
	s := newScript(t)
	s.info(t, func(told object) {
		told["device"], told["version"] = all[1], all[3]
		models := []any{told["models"].([]any)[0]}
		for _, text := range all[:100] {
			models = append(models, object{"id": text, "family": text, "quantization": text, "parameters": 1, "max_model_len": 4096, "efforts": []any{text}})
		}
		told["models"] = models
		told["tools"] = []any{object{"type": "mcp", "label": all[0], "available": true}, object{"type": all[2], "available": false, "reason": all[1]}}
	})
	file := object{"format": "ossian-chats", "version": 1}
	var chats, messages []any
	for i, text := range all {
		c, q, a := fmt.Sprintf("c%d", i), fmt.Sprintf("q%d", i), fmt.Sprintf("a%d", i)
		title := []rune(text)[:min(len([]rune(text)), 400)]
		chats = append(chats, object{"id": c, "title": string(title), "created": 1, "changed": 1, "leaf": a, "settings": object{"model": string(title), "instructions": text, "effort": string(title)}})
		messages = append(messages, object{"id": q, "conversation": c, "parent": "", "created": 1, "role": "question", "text": text, "files": []any{object{"name": string(title), "text": text}}},
			object{"id": a, "conversation": c, "parent": q, "created": 2, "role": "answer", "text": "", "answer": object{"state": "failed", "items": []any{object{"type": "message", "content": []any{object{"type": "output_text", "text": text}}}}, "failure": object{"message": text, "param": string(title)}, "model": string(title)}})
	}
	file["conversations"], file["messages"] = chats, messages
	content, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, s.URL, "#/settings")
	b.has("import-file")
	b.importing(t, string(content))
	b.says("import-result", fmt.Sprintf("%d chats imported", len(all)))
	b.harmless("settings")
	links := get[[]string](b, `[...document.querySelectorAll("[data-testid=conversation]")].map((a) => a.hash)`)
	for i := 0; i < len(links); i += 8 {
		b.run(chromedp.Evaluate("location.hash = "+quoted(links[i]), nil))
		b.until(`document.querySelector("[data-testid=answer]") && location.hash === ` + quoted(links[i]))
		b.harmless("chat " + links[i])
	}
	b.click("model-link")
	b.until(`document.querySelector("[data-testid=model-view] table")`)
	b.harmless("model view")
	b.click("live-link")
	b.has("live-view")
	b.harmless("live view")
}

// The checks themselves: a canary that is called and a policy that is violated are heard.
func TestWatch(t *testing.T) {
	b := open(t, tiny(t).url, "")
	b.allow("canary", "policy", "TrustedScript", "TrustedHTML")
	b.has("example")
	b.has("box")
	b.run(chromedp.Evaluate(`try { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=canary(1)>"); } catch {}
		try { document.createElement("a").setAttribute("onclick", "canary(2)"); } catch {}
		document.body.append(document.createElement("iframe")); canary(3);`, nil))
	for _, part := range []string{"canary was called: 3", "policy violated"} {
		if !b.heard(part) {
			t.Errorf("not heard: %s", part)
		}
	}
	if len(get[[]string](b, inert)) == 0 {
		t.Error("a frame is not seen")
	}
}
