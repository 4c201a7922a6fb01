// Package browsertest drives the page of ossian serve in a headless Chromium, as a user would: by
// keys, clicks and what is on the screen.
//
// Where no browser is found the tests are skipped and say so, unless REQUIRE_BROWSER=1. Nothing
// waits for a fixed time: what is waited for either comes, or the test ends at its own limit of
// minutes.
package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/css"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var (
	patience = flag.Duration("patience", 8*time.Minute, "how long a test may take before what it waits for counts as missing")
	keep     = flag.String("keep", "", "folder for a picture of each tab of a test that fails")
)

// browserNames are the programs that are looked for, the first that is there is taken.
var browserNames = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

func findBrowser() string {
	if named := os.Getenv("BROWSER"); named != "" {
		return named
	}
	for _, name := range browserNames {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// browser is the one Chromium of all tests; each test has a context of its own in it, as private
// windows have. It can resolve no name: the page has to do without a network.
var browser context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	path := findBrowser()
	if path == "" {
		if os.Getenv("REQUIRE_BROWSER") == "1" {
			fmt.Fprintln(os.Stderr, "browsertest: no browser here: install Debian's chromium-headless-shell, or name one in BROWSER")
			return 1
		}
		fmt.Println("browsertest: skipped, no browser here: install Debian's chromium-headless-shell, or name one in BROWSER")
		return 0
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.WindowSize(1280, 800),
		chromedp.WSURLReadTimeout(*patience))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	// Messages of the protocol that cdproto does not know are no concern of the tests.
	ctx, _ := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	defer func() {
		if err := chromedp.Cancel(ctx); err != nil { // which waits until it is gone, with its folder
			fmt.Fprintf(os.Stderr, "browsertest: the browser does not end: %v\n", err)
		}
	}()
	if err := chromedp.Run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "browsertest: %s does not start: %v\n", path, err)
		return 1
	}
	browser = ctx
	defer stopServers()
	return m.Run()
}

// A tab is a page that is looked at. What it asks for and what the browser says about it is kept:
// at the end of a test all requests have gone to the tab's own origin, nothing was written to the
// console, no policy was violated and no canary was called.
type tab struct {
	t      testing.TB
	ctx    context.Context
	limit  time.Time // until which it waits
	origin string

	mu      sync.Mutex // guards what follows
	asked   []*network.Request
	said    []string
	allowed []string // parts of what may be said
	foreign []string // beginnings of addresses that may be asked
}

// open opens the page of an origin in a browser context of its own.
func open(t testing.TB, origin, fragment string) *tab {
	t.Helper()
	return show(t, newContext(t), origin, fragment)
}

// another opens a further tab of the same browser context: both have the same storage.
func (b *tab) another(fragment string) *tab {
	b.t.Helper()
	ctx, end := chromedp.NewContext(b.ctx)
	b.t.Cleanup(end)
	return show(b.t, ctx, b.origin, fragment)
}

// watching is what every document begins with. The canary is what hostile texts call.
const watching = `
globalThis.canary = (what) => report("the canary was called: " + what);
addEventListener("securitypolicyviolation", (e) => report("policy violated: " + e.violatedDirective + " " + e.blockedURI + " " + e.sample));
addEventListener("error", (e) => report("error: " + e.message));
addEventListener("unhandledrejection", (e) => report("rejected: " + e.reason));`

// blank opens a tab that shows nothing yet, and watches it.
func blank(t testing.TB, ctx context.Context, origin string) *tab {
	t.Helper()
	b := &tab{t: t, ctx: ctx, origin: origin, limit: time.Now().Add(*patience)}
	t.Cleanup(b.check)
	chromedp.ListenTarget(ctx, b.hear)
	if err := chromedp.Run(ctx); err != nil { // the tab lives as long as the context that opens it
		t.Fatal(err)
	}
	b.run(network.Enable(), log.Enable(), audits.Enable(), runtime.AddBinding("report"), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(watching).Do(ctx)
		return err
	}))
	return b
}

func show(t testing.TB, ctx context.Context, origin, fragment string) *tab {
	t.Helper()
	b := blank(t, ctx, origin)
	b.run(chromedp.Navigate(origin + "/" + fragment))
	return b
}

// hear keeps what the browser says. It is called in the loop that reads the protocol, so it asks
// nothing.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request)
	case *runtime.EventBindingCalled:
		b.said = append(b.said, e.Payload)
	case *runtime.EventConsoleAPICalled:
		b.said = append(b.said, "console."+string(e.Type)+": "+written(e.Args))
	case *runtime.EventExceptionThrown:
		b.said = append(b.said, "exception: "+strings.Join(strings.Fields(e.ExceptionDetails.Error()), " "))
	case *log.EventEntryAdded:
		b.said = append(b.said, string(e.Entry.Source)+": "+e.Entry.Text+" "+e.Entry.URL)
	case *audits.EventIssueAdded:
		if e.Issue.Details.ContentSecurityPolicyIssueDetails != nil {
			b.said = append(b.said, "policy violated: "+e.Issue.Details.ContentSecurityPolicyIssueDetails.ViolatedDirective)
		}
	case *page.EventJavascriptDialogOpening:
		b.said = append(b.said, "dialog: "+e.Message)
	}
}

func written(values []*runtime.RemoteObject) string {
	var all []string
	for _, v := range values {
		all = append(all, string(v.Value)+v.Description)
	}
	return strings.Join(all, " ")
}

// allow lets the browser say something, such as that a request failed which has to fail.
func (b *tab) allow(parts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allowed = append(b.allowed, parts...)
}

// requests are those that were sent since the tab was opened.
func (b *tab) requests() []*network.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// sent counts the requests for a path.
func (b *tab) sent(path string) int {
	n := 0
	for _, r := range b.requests() {
		if strings.TrimPrefix(r.URL, b.origin) == path {
			n++
		}
	}
	return n
}

// check is what holds for every tab at the end of every test.
func (b *tab) check() {
	if b.t.Failed() {
		b.picture()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.asked {
		local := strings.HasPrefix(r.URL, b.origin+"/") || strings.HasPrefix(r.URL, "data:image/svg+xml") || strings.HasPrefix(r.URL, "blob:"+b.origin+"/")
		if !local && !slices.ContainsFunc(b.foreign, func(start string) bool { return strings.HasPrefix(r.URL, start) }) {
			b.t.Errorf("the page asked %.200s", r.URL)
		}
	}
	for _, text := range b.said {
		if !slices.ContainsFunc(b.allowed, func(part string) bool { return strings.Contains(text, part) }) {
			b.t.Errorf("the browser says: %.500s", text)
		}
	}
}

// picture saves how the tab looks now, for those who look for a fault.
func (b *tab) picture() {
	if *keep == "" {
		return
	}
	ctx, done := context.WithTimeout(b.ctx, time.Minute)
	defer done()
	var shot []byte
	if err := chromedp.Run(ctx, chromedp.CaptureScreenshot(&shot)); err != nil {
		return
	}
	name := filepath.Join(*keep, strings.ReplaceAll(b.t.Name(), "/", "-")+".png")
	if err := os.WriteFile(name, shot, 0o644); err == nil {
		b.t.Logf("picture: %s", name)
	}
}

func (b *tab) try(actions ...chromedp.Action) error {
	ctx, done := context.WithDeadline(b.ctx, b.limit.Add(time.Minute)) // pictures need some
	defer done()
	return chromedp.Run(ctx, actions...)
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := b.try(actions...); err != nil {
		b.t.Fatalf("the browser: %v", err)
	}
}

// recall has the page keep in recalled all that its texts become from now on: what is there only
// for a while can be missed by who looks now and then.
func (b *tab) recall() {
	b.t.Helper()
	b.run(evaluate(`globalThis.recalled = ""; new MutationObserver(() => { recalled += document.body.innerText + "\n"; }).observe(document.body, {subtree: true, childList: true, characterData: true})`))
}

// get evaluates an expression of JavaScript, and waits for it where it is a promise.
func get[T any](b *tab, expression string) T {
	b.t.Helper()
	var value T
	b.run(chromedp.Evaluate(expression, &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}))
	return value
}

// late reports whether the patience is over. It lets a moment go by: who asks waits for something.
func (b *tab) late() bool {
	time.Sleep(5 * time.Millisecond)
	return time.Now().After(b.limit)
}

// until waits for an expression to hold. While a document gives way to another one there is none to
// ask: the browser says so by an error of the protocol, and is asked again.
func (b *tab) until(expression string) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		var holds bool
		err := b.try(chromedp.Evaluate("!!("+expression+")", &holds))
		if err == nil && holds {
			return
		}
		if leaving := (*cdproto.Error)(nil); err != nil && !errors.As(err, &leaving) {
			b.t.Fatalf("the browser: %v", err)
		}
		if time.Now().After(b.limit) {
			b.t.Fatalf("waited in vain for %s; the page says: %.1500s", expression, get[string](b, "document.body.innerText"))
		}
	}
}

// fonts are those with which the browser drew the first element of a selector.
func (b *tab) fonts(selector string) (fonts []*css.PlatformFontUsage) {
	b.t.Helper()
	b.run(dom.Enable(), css.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		document, err := dom.GetDocument().Do(ctx)
		if err != nil {
			return err
		}
		node, err := dom.QuerySelector(document.NodeID, selector).Do(ctx)
		if err != nil {
			return err
		}
		fonts, err = css.GetPlatformFontsForNode(node).Do(ctx)
		return err
	}))
	return fonts
}

// mark is the selector of what carries a mark for tests. A second word is added to it.
func mark(name string) string {
	id, more, _ := strings.Cut(name, " ")
	return strings.TrimSpace(fmt.Sprintf("[data-testid=%q] %s", id, more))
}

// has waits for something with a mark.
func (b *tab) has(name string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%q)", mark(name)))
}

// text is what the last element with a mark says.
func (b *tab) text(name string) string {
	b.t.Helper()
	return get[string](b, fmt.Sprintf("[...document.querySelectorAll(%q)].at(-1)?.textContent ?? ''", mark(name)))
}

// says waits for the last element with a mark to contain a text.
func (b *tab) says(name, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("[...document.querySelectorAll(%q)].at(-1)?.textContent.includes(%q)", mark(name), text))
}

// state waits for the last answer to be in a state.
func (b *tab) state(state string) {
	b.t.Helper()
	b.until(fmt.Sprintf("[...document.querySelectorAll('[data-testid=answer]')].at(-1)?.dataset.state === %q", state))
}

// place gives where an element can be hit, or nothing as long as something covers it or it moves.
const place = `(async (selector) => {
	const element = [...document.querySelectorAll(selector)].at(-1);
	if (!element || element.disabled) return null;
	element.scrollIntoView({block: "nearest", behavior: "instant"});
	const before = element.getBoundingClientRect();
	await new Promise((next) => setTimeout(next, 20));
	const box = element.getBoundingClientRect();
	if (box.width === 0 || box.top !== before.top || box.left !== before.left) return null;
	const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
	const hit = document.elementFromPoint(x, y);
	return hit && (element.contains(hit) || hit.contains(element) && getComputedStyle(element).opacity === "0") ? [x, y] : null;
})(%q)`

// click clicks with the mouse on the last element that a selector names.
func (b *tab) clickOn(selector string) {
	b.t.Helper()
	for {
		at := get[[]float64](b, fmt.Sprintf(place, selector))
		if len(at) == 2 {
			b.run(chromedp.MouseEvent(input.MouseMoved, at[0], at[1]), chromedp.MouseClickXY(at[0], at[1]))
			return
		}
		if time.Now().After(b.limit) {
			b.t.Fatalf("%s cannot be clicked", selector)
		}
	}
}

func (b *tab) click(name string) {
	b.t.Helper()
	b.clickOn(mark(name))
}

// fill replaces what a field contains, once it takes the focus: that of a dialog does when it is
// shown.
func (b *tab) fill(name, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("(() => { const field = [...document.querySelectorAll(%q)].at(-1); field?.focus(); field?.select(); return field && document.activeElement === field; })()", mark(name)))
	if text == "" {
		b.press("\b")
		return
	}
	b.run(input.InsertText(text))
}

// press sends keys as a keyboard does: no character comes of a key that the page has taken. Behind
// the events that chromedp sends itself it comes in any case.
func (b *tab) press(keys string, with ...input.Modifier) {
	b.t.Helper()
	for _, r := range keys {
		for _, event := range kb.Encode(r) {
			if event.Type == input.KeyDown {
				event.Type = input.KeyRawDown // else what follows is not held back
			}
			for _, m := range with {
				event.Modifiers |= m
			}
			b.run(event)
		}
	}
}

// ask asks a question in the box.
func (b *tab) ask(question string) {
	b.t.Helper()
	b.fill("box", question)
	b.until(`!document.querySelector("[data-testid=send]")?.disabled`)
	b.press("\r")
}

// tabTo moves the focus with the Tab key to what has a mark, the way round the page once. What has
// the focus on the way has to be seen to have it.
func (b *tab) tabTo(name string) {
	b.t.Helper()
	b.has(name)
	const seen = `(() => { const e = document.activeElement, s = getComputedStyle(e);
		return [e.dataset.testid ?? "", e === document.body || s.outlineStyle !== "none" || s.boxShadow !== "none" || e.matches("textarea, input") ? "" : e.outerHTML.slice(0, 200)]; })()`
	for range 200 {
		b.press("\t")
		at := get[[]string](b, seen)
		if at[1] != "" {
			b.t.Errorf("the focus is not to be seen on %s", at[1])
		}
		if at[0] == name {
			return
		}
	}
	b.t.Fatalf("the Tab key does not lead to %s", name)
}

func reload() chromedp.Action { return chromedp.Reload() }

// quoted is a text as JavaScript writes it.
func quoted(text string) string {
	made, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string is always valid
	}
	return string(made)
}

func fragmentOf(b *tab) string {
	b.t.Helper()
	return get[string](b, "location.hash")
}

// newContext is a browser context of its own, for a page that is not ossian's.
func newContext(t testing.TB) context.Context {
	t.Helper()
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	return ctx
}

// heard reports whether the browser has said something.
func (b *tab) heard(part string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.said, func(text string) bool { return strings.Contains(text, part) })
}

func focus(name string) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).focus()", mark(name)), nil)
}

func evaluate(script string) chromedp.Action { return chromedp.Evaluate(script, nil) }
