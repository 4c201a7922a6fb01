package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// A number with a point can be typed, and what is typed is sent.
func TestDecimals(t *testing.T) {
	s := newScript(t)
	s.answers(func(_ int, _ object, e *events) {
		e.message("Yes.")
		e.end("completed", nil)
	})
	b := open(t, s.URL, "#/settings")
	b.click("setting-temperature")
	b.press("0.7")
	b.until(`document.querySelector("[data-testid=setting-temperature]").value === "0.7"`)
	b.click("setting-top_p") // what is wrong stays there, with what is wrong about it
	b.press("5")
	b.press("\t")
	b.until(`document.querySelector("[data-testid=setting-top_p]").value === "5" && document.querySelector(".wrong")`)
	b.run(evaluate(`document.querySelector("input[name=scope]:not(:checked)").click()`))
	b.until(`document.querySelector("[data-testid=setting-temperature]").value === "" && !document.querySelector(".wrong")`)
	b.run(evaluate(`location.hash = "#/"`))
	b.has("example")
	b.ask("Hello")
	b.state("completed")
	if body := s.asked()[0]; body["temperature"] != 0.7 || body["top_p"] != nil {
		t.Errorf("temperature %v and top_p %v are sent", body["temperature"], body["top_p"])
	}
}

// A request for approval does not take the focus from who is writing: the next space would decide.
func TestApprovalWhileWriting(t *testing.T) {
	s := newScript(t)
	next := make(chan bool)
	s.answers(func(_ int, _ object, e *events) {
		e.reasoning("I look it up.")
		select {
		case <-next:
		case <-e.gone: // a turn that is one too many
		}
		e.call(wanted)
		e.end("completed", nil)
	})
	b := open(t, s.URL, "")
	b.ask("Delete it")
	b.state("running")
	b.fill("box", "and")
	next <- true
	b.has("approval-decline")
	get[bool](b, drawn)
	b.press(" then")
	b.until(`document.querySelector("[data-testid=box]").value === "and then"`)
	b.has("approval-decline")
}

// Who clicks twice to send does not stop the answer.
func TestDoubleClickSends(t *testing.T) {
	s := newScript(t)
	next := make(chan bool)
	s.answers(func(_ int, _ object, e *events) {
		e.reasoning("I look it up.")
		select {
		case <-next:
			e.message("Yes.")
			e.end("completed", nil)
		case <-e.gone:
		}
	})
	b := open(t, s.URL, "")
	b.fill("box", "Hello")
	b.click("send")
	b.state("running")
	var at []float64
	for len(at) != 2 {
		if b.late() {
			t.Fatal("there is nothing to stop with")
		}
		at = get[[]float64](b, fmt.Sprintf(place, mark("stop")))
	}
	b.run(chromedp.MouseClickXY(at[0], at[1], chromedp.ClickCount(2)))
	get[bool](b, drawn)
	b.state("running")
	b.until(`document.activeElement?.dataset.testid === "box"`)
	next <- true
	b.state("completed")
	b.fill("box", "Hello")
	b.click("send")
	b.state("running")
	b.click("stop")
	b.state("stopped")
}

// A file that cannot be read, as a folder or one that is gone, is named; the others are added.
func TestUnreadableFile(t *testing.T) {
	b := blank(t, newContext(t), tiny(t).url)
	b.before(`const real = Blob.prototype.arrayBuffer;
		Blob.prototype.arrayBuffer = function () { return this.name === "gone.txt" ? Promise.reject(new DOMException("it is gone", "NotFoundError")) : real.call(this); }`)
	b.run(chromedp.Navigate(b.origin + "/"))
	b.has("example")
	b.run(evaluate(`{ const files = new DataTransfer();
		for (const name of ["gone.txt", "here.txt"]) files.items.add(new File(["text"], name));
		dispatchEvent(new DragEvent("drop", {dataTransfer: files, cancelable: true})); }`))
	b.says("chips", "here.txt")
	b.until(`document.querySelector(".refused")?.textContent === "gone.txt cannot be read"`)
}

// A question is not edited while an answer is made in its chat: there would be two.
func TestEditWhileAnswering(t *testing.T) {
	s := newScript(t)
	next := make(chan bool)
	s.answers(func(turn int, _ object, e *events) {
		e.reasoning("I look it up.")
		if turn == 1 {
			select {
			case <-next:
			case <-e.gone:
			}
		}
		e.message("Yes.")
		e.end("completed", nil)
	})
	b := open(t, s.URL, "")
	b.ask("Hello")
	b.state("completed")
	b.click("edit")
	b.fill("edit-box", "Hello there")
	b.ask("And now?")
	b.state("running")
	b.until(`document.querySelector("[data-testid=edit-send]").disabled`)
	b.run(focus("edit-box"))
	b.press("\r")
	next <- true
	b.state("completed")
	b.until(`!document.querySelector("[data-testid=edit-send]").disabled`)
	if n := len(s.asked()); n != 2 {
		t.Errorf("%d requests", n)
	}
	b.run(focus("edit-box"))
	b.press("\r")
	b.until(`document.querySelector("[data-testid=branch-count]")?.textContent === "2/2"`)
	b.state("completed")
}
