// Command browser opens reports of ossian bench in a headless Chromium, checks them and
// takes a screenshot of each:
//
//	go run ./_tools/bench/browser [-chromium PROGRAM] -out DIR REPORT.html ...
//
// A report passes if the browser logs no error and asks for nothing but the file, if its
// plots are there and nothing is wider than the page, if pointing at a bar of a timeline
// shows its times, if dragging zooms and a double-click goes back, if a link of a sweep's
// table opens the details of its run, and if a click on the head of a table sorts it.
// Then the first report is spoiled in several ways, and each has to be found. Chromium is
// Debian's chromium-headless-shell or chromium.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("browser: ")
	program := flag.String("chromium", "chromium-headless-shell", "the browser's `PROGRAM`")
	out := flag.String("out", ".", "`DIR` for screenshots")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("name one report at least")
	}
	b, err := start(*program)
	if err != nil {
		log.Fatal(err)
	}
	failed := false
	for _, file := range flag.Args() {
		shot := filepath.Join(*out, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))+".png")
		if err := b.check(file, shot); err != nil {
			log.Printf("%s: %v", file, err)
			failed = true
			continue
		}
		fmt.Printf("%s: ok, see %s\n", file, shot)
	}
	if err := b.planted(flag.Arg(0)); err != nil {
		log.Print(err)
		failed = true
	}
	b.stop()
	if failed {
		os.Exit(1)
	}
}

// A browser is a Chromium that is spoken to in its DevTools protocol, over two pipes:
// JSON objects, each with a zero byte behind it.
type browser struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	home    string
	id      int
	session string
	events  []message
}

// A message is a reply, or an event with a method.
type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// limit is how long the browser may be silent.
const limit = 2 * time.Minute

func start(program string) (*browser, error) {
	home, err := os.MkdirTemp("", "ossian-browser")
	if err != nil {
		return nil, err
	}
	ours, theirs, err := pipes()
	if err != nil {
		return nil, err
	}
	b := &browser{home: home, in: ours[1], out: bufio.NewReader(ours[0])}
	b.cmd = exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
		"--host-resolver-rules=MAP * ~NOTFOUND", "--no-first-run", "--user-data-dir="+home, "--remote-debugging-pipe")
	b.cmd.ExtraFiles = theirs // 3: it reads, 4: it writes
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w (install Debian's chromium-headless-shell, or name another with -chromium)", err)
	}
	for _, f := range theirs {
		f.Close()
	}
	return b, nil
}

// pipes returns the ends of two pipes: what we read and write, what the browser reads and writes.
func pipes() (ours, theirs []*os.File, err error) {
	read, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	r, write, err := os.Pipe()
	return []*os.File{read, write}, []*os.File{r, w}, err
}

func (b *browser) stop() {
	if err := b.call("Browser.close", nil, nil); err != nil {
		b.cmd.Process.Kill()
	}
	b.cmd.Wait()
	os.RemoveAll(b.home)
}

// call sends a command and waits for its reply; events that come before it are kept.
func (b *browser) call(method string, params, result any) error {
	b.id++
	command := map[string]any{"id": b.id, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		return err
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		return err
	}
	for {
		m, err := b.next()
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		switch {
		case m.Method != "":
			b.events = append(b.events, m)
		case m.ID != b.id:
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(m.Result, result)
		}
	}
}

// next reads one message.
func (b *browser) next() (message, error) {
	silent := time.AfterFunc(limit, func() { b.cmd.Process.Kill() })
	defer silent.Stop()
	var m message
	text, err := b.out.ReadBytes(0)
	if err != nil {
		return m, fmt.Errorf("the browser ended: %w", err)
	}
	return m, json.Unmarshal(text[:len(text)-1], &m)
}

// object is what commands take.
type object = map[string]any

// open loads a page in a new tab and waits until it is complete.
func (b *browser) open(url string) error {
	b.session, b.events = "", nil
	var target struct{ TargetID string }
	if err := b.call("Target.createTarget", object{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct{ SessionID string }
	if err := b.call("Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		return err
	}
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		if err := b.call(domain+".enable", nil, nil); err != nil {
			return err
		}
	}
	size := object{"width": 1180, "height": 900, "deviceScaleFactor": 1, "mobile": false}
	if err := b.call("Emulation.setDeviceMetricsOverride", size, nil); err != nil {
		return err
	}
	if err := b.call("Page.navigate", object{"url": url}, nil); err != nil {
		return err
	}
	for !b.saw("Page.loadEventFired") {
		m, err := b.next()
		if err != nil {
			return err
		}
		b.events = append(b.events, m)
	}
	return nil
}

func (b *browser) saw(method string) bool {
	for _, m := range b.events {
		if m.Method == method {
			return true
		}
	}
	return false
}

// complaints returns what the browser had to say against the page, and what it asked for
// beside the page itself.
func (b *browser) complaints(page string) error {
	var all []error
	for _, m := range b.events {
		var p struct {
			Type    string
			Entry   struct{ Level, Text string }
			Request struct{ URL string }
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			return err
		}
		switch {
		case m.Method == "Runtime.exceptionThrown":
			all = append(all, fmt.Errorf("exception: %s", m.Params))
		case m.Method == "Runtime.consoleAPICalled" && (p.Type == "error" || p.Type == "assert"):
			all = append(all, fmt.Errorf("console: %s", m.Params))
		case m.Method == "Log.entryAdded" && (p.Entry.Level == "error" || p.Entry.Level == "warning"):
			all = append(all, fmt.Errorf("log: %s", p.Entry.Text))
		case m.Method == "Network.requestWillBeSent" && p.Request.URL != page && !strings.HasPrefix(p.Request.URL, "data:"):
			all = append(all, fmt.Errorf("asked for %s", p.Request.URL))
		}
	}
	return errors.Join(all...)
}

// screenshot writes the whole page as PNG.
func (b *browser) screenshot(file string) error {
	var layout struct {
		CSSContentSize struct{ Width, Height float64 }
	}
	if err := b.call("Page.getLayoutMetrics", nil, &layout); err != nil {
		return err
	}
	clip := object{"x": 0, "y": 0, "width": layout.CSSContentSize.Width, "height": min(layout.CSSContentSize.Height, 8000), "scale": 1}
	var image struct{ Data string }
	if err := b.call("Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": true, "clip": clip}, &image); err != nil {
		return err
	}
	png, err := base64.StdEncoding.DecodeString(image.Data)
	if err != nil {
		return err
	}
	return os.WriteFile(file, png, 0o644)
}

// evaluate runs an expression in the page, though its policy forbids scripts, and reads
// what it gives.
func (b *browser) evaluate(expression string, into any) error {
	var reply struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	if err := b.call("Runtime.evaluate", object{"expression": expression, "returnByValue": true}, &reply); err != nil {
		return err
	}
	if reply.ExceptionDetails != nil {
		return fmt.Errorf("%s: %s", expression, reply.ExceptionDetails)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(reply.Result.Value, into)
}

// mouse moves or clicks.
func (b *browser) mouse(kind string, x, y float64, clicks int) error {
	button := "left"
	if kind == "mouseMoved" {
		button = "none"
	}
	return b.call("Input.dispatchMouseEvent", object{"type": kind, "x": x, "y": y, "button": button, "clickCount": clicks}, nil)
}

// timeline points at the first row of the first timeline, zooms and goes back.
func (b *browser) timeline() error {
	var at struct{ X, Y, W, H float64 }
	if err := b.evaluate(`(() => { const p = document.querySelector(".timeline .plot"); p.scrollIntoView({block: "center"});
		const r = p.getBoundingClientRect(); return {x: r.x, y: Math.max(r.y, 0), w: r.width, h: Math.min(r.height, innerHeight)}; })()`, &at); err != nil {
		return err
	}
	steps := []struct {
		kind   string
		x, y   float64
		clicks int
	}{
		{"mouseMoved", 0.1, 0.1, 0}, {"mousePressed", 0.1, 0.1, 1}, {"mouseMoved", 0.4, 0.6, 0}, {"mouseReleased", 0.4, 0.6, 1},
		{"mousePressed", 0.5, 0.5, 1}, {"mouseReleased", 0.5, 0.5, 1}, {"mousePressed", 0.5, 0.5, 2}, {"mouseReleased", 0.5, 0.5, 2},
	}
	const box = `document.querySelector(".timeline svg").getAttribute("viewBox")`
	var whole, zoomed, back, tip string
	if err := b.evaluate(box, &whole); err != nil {
		return err
	}
	for i, s := range steps {
		if err := b.mouse(s.kind, at.X+s.x*at.W, at.Y+s.y*at.H, s.clicks); err != nil {
			return err
		}
		var err error
		switch i {
		case 0:
			err = b.evaluate(`document.querySelector(".timeline .tip").innerText`, &tip)
		case 3:
			err = b.evaluate(box, &zoomed)
		}
		if err != nil {
			return err
		}
	}
	if err := b.evaluate(box, &back); err != nil {
		return err
	}
	switch {
	case !strings.HasPrefix(tip, "Req ") || !strings.Contains(tip, "prompt tokens"):
		return fmt.Errorf("pointing at the timeline shows %q", tip)
	case zoomed == whole:
		return errors.New("dragging over the timeline does not zoom")
	case back != whole:
		return fmt.Errorf("a double-click leaves the view at %s, the whole is %s", back, whole)
	}
	return nil
}

// details follows the last link to a run.
func (b *browser) details() error {
	var before, after bool
	const last = `[...document.querySelectorAll("details[id]")].pop()`
	if err := b.evaluate(last+`.open`, &before); err != nil {
		return err
	}
	if err := b.evaluate(`document.querySelector("a[href='#" + `+last+`.id + "']").click()`, nil); err != nil {
		return err
	}
	if err := b.evaluate(last+`.open`, &after); err != nil {
		return err
	}
	if before || !after {
		return fmt.Errorf("details of a run: open %v before, %v after following the link to them", before, after)
	}
	return nil
}

// sorting clicks on the second column of the last table that sorts, where there is one.
func (b *browser) sorting() error {
	var wrong int
	err := b.evaluate(`(() => { const t = [...document.querySelectorAll("table.sort")].pop(); if (!t) return 0;
		const head = t.tHead.rows[0].cells[1]; let wrong = 0;
		for (const sign of [1, -1]) { head.click();
			const v = [...t.tBodies[0].rows].map(r => parseFloat(r.cells[1].textContent)).filter(x => !isNaN(x));
			v.forEach((x, i) => { if (i && sign * (x - v[i - 1]) < 0) wrong++; }); }
		return wrong; })()`, &wrong)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d rows are out of order after sorting", wrong)
	}
	return err
}
