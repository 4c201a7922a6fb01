package browsertest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var updateScreenshots = flag.Bool("update-screenshots", false, "write the pictures of README.md into docs/images")

// Times are measured and logged: a busy machine is no fault. What is too large is one.
func TestBudgets(t *testing.T) {
	const messages = 200
	var file struct {
		Format        string   `json:"format"`
		Version       int      `json:"version"`
		Conversations []object `json:"conversations"`
		Messages      []object `json:"messages"`
	}
	file.Format, file.Version = "ossian-chats", 1
	parent := ""
	long := strings.Repeat(rich, 8000/len(rich)+1)
	for i := range messages {
		m := object{"id": fmt.Sprintf("m%d", i), "conversation": "c", "parent": parent, "created": i}
		if parent = m["id"].(string); i%2 == 0 {
			m["role"], m["text"] = "question", long[:8000]
		} else {
			m["role"], m["text"] = "answer", ""
			m["answer"] = object{"state": "completed", "items": []any{object{"type": "message", "content": []any{object{"type": "output_text", "text": long[:8000]}}}}}
		}
		file.Messages = append(file.Messages, m)
	}
	file.Conversations = []object{{"id": "c", "title": "Long", "created": 1, "changed": 1, "leaf": parent}}
	content, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(t)
	s.answers(func(_ int, _ object, e *events) {
		e.reasoning("Long.")
		e.message(strings.Repeat(rich, 100_000/len(rich)))
		e.end("completed", nil)
	})
	b := open(t, s.URL, "#/settings")
	b.allow("/v1/responses/input_tokens") // the built-in model's context does not hold these chats
	b.has("import-file")
	b.importing(t, string(content))
	b.says("import-result", "1 chat imported")
	begun := time.Now()
	b.click("conversation")
	b.until(`document.querySelectorAll("article").length === 200`)
	t.Logf("200 messages of 8 kB open in %v (budget 1.5 s)", time.Since(begun).Round(time.Millisecond))
	key := get[float64](b, `new Promise((done) => { const box = document.querySelector("[data-testid=box]"), begun = performance.now(); box.value = "a"; box.dispatchEvent(new InputEvent("input", {bubbles: true})); requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun))); })`)
	t.Logf("a key press in that chat takes %.0f ms (budget 50 ms)", key)

	b.run(evaluate(`location.hash = "#/"`))
	b.has("example")
	for i := range 10 {
		b.ask("A long answer, please")
		b.until(fmt.Sprintf(`document.querySelectorAll("[data-testid=answer]").length === %d`, i+1))
		b.state("completed")
	}
	// The collector runs before memory is measured, so that what is counted is held.
	heap := 0.0
	b.run(chromedp.ActionFunc(func(ctx context.Context) error { return collect(ctx, &heap) }))
	t.Logf("after 10 answers of 100 kB the heap has %.0f MB (budget 150 MB)", heap/1e6)
	if heap > 150e6 {
		t.Errorf("the heap has %.0f MB after 10 answers of 100 kB, more than 150", heap/1e6)
	}
}

// Without the page / is what it was: not there.
func TestNoPage(t *testing.T) {
	s := serve(t, "--no-ui")
	for _, path := range []string{"/", "/ui/x.js"} {
		answer, err := http.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s is answered with %d", path, answer.StatusCode)
		}
	}
}

// TestScreenshots takes the pictures of the documents: a chat with the built-in model, the live view
// while it answers, the chat on a phone.
func TestScreenshots(t *testing.T) {
	if !*updateScreenshots {
		t.Skip("-update-screenshots was not given")
	}
	s := serve(t)
	b := open(t, s.url, "")
	b.run(chromedp.EmulateViewport(1280, 800))
	for i, question := range []string{"Hello!", "What can you do?", "1234+5678"} {
		b.ask(question)
		b.until(fmt.Sprintf(`document.querySelectorAll("[data-testid=answer]").length === %d`, i+1))
		b.state("completed")
	}
	b.click("work-line")
	b.has("context")
	b.run(evaluate(`document.activeElement.blur(); document.querySelector(".scroller").scrollTop = 1e9`))
	b.save("chat.png", 1280, 800)

	b.run(evaluate(`location.hash = "#/live"`))
	b.has("tile")
	end := make(chan bool)
	defer close(end)
	for range 3 { // a load that goes on while figures of some moments come together
		go func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				answer, err := http.Post(s.url+"/v1/responses", "application/json", strings.NewReader(`{"input":"123+456","store":false}`))
				if err != nil {
					return
				}
				answer.Body.Close()
			}
		}()
	}
	b.until(`+(` + tile("Output") + ` ?? "0").replace(/\D/g, "") > 60000`)
	b.save("live.png", 1280, 800)

	// The same on a phone, in its dark theme.
	b.run(evaluate(`history.back()`), chromedp.EmulateViewport(390, 800), emulation.SetTouchEmulationEnabled(true).WithMaxTouchPoints(1),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	b.says("answer .prose", "6912")
	b.run(evaluate(`document.activeElement.blur(); document.querySelector(".scroller").scrollTop = 1e9`))
	b.save("phone.png", 390, 800)
}

const largest = 150_000 // bytes of a picture

// save writes what is seen as a picture, with the pixels of its size.
func (b *tab) save(name string, width, height int) {
	b.t.Helper()
	b.until(`document.getAnimations().every((a) => a.playState === "finished")`)
	var shot []byte
	b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		shot, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).WithOptimizeForSpeed(false).Do(ctx)
		return err
	}))
	picture, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		b.t.Fatal(err)
	}
	if size := picture.Bounds().Size(); size.X != width || size.Y != height || picture.At(0, 0) == (color.RGBA{}) {
		b.t.Errorf("%s has %v pixels", name, size)
	}
	if len(shot) > largest {
		b.t.Errorf("%s has %d bytes, more than %d", name, len(shot), largest)
	}
	path := filepath.Join("..", "..", "..", "docs", "images", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, shot, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// collect has the browser drop what nothing holds, and gives the bytes that are left.
func collect(ctx context.Context, used *float64) error {
	if err := heapprofiler.CollectGarbage().Do(ctx); err != nil {
		return err
	}
	inUse, _, _, _, err := runtime.GetHeapUsage().Do(ctx)
	*used = inUse
	return err
}
