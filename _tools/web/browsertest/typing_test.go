package browsertest

import (
	"testing"
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
