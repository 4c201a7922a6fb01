package browsertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// metricOf is the sum of a metric's series of one model.
func metricOf(t testing.TB, s *server, name, model string) float64 {
	t.Helper()
	sum := 0.0
	for _, found := range series.FindAllStringSubmatch(fetch(t, s.url+"/metrics"), -1) {
		if found[2] == name && strings.Contains(found[3], fmt.Sprintf("model_name=%q", model)) {
			sum += number(t, found[4])
		}
	}
	return sum
}

// hold keeps a model busy until it is called off.
func hold(t testing.TB, b *tab, s *server, model string) (end func()) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	body := fmt.Sprintf(`{"model":%q,"input":"Hello!","stream":true,"store":false,"ignore_eos":true,"min_tokens":3900}`, model)
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/responses", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}()
	for metricOf(t, s, "num_requests_running", model) == 0 {
		if b.late() {
			t.Fatalf("%s does not run", model)
		}
	}
	return end
}

// choose takes the option behind the one that a menu shows.
func (b *tab) choose(menu, option string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%[1]q)?.options.length > 1 && (document.querySelector(%[1]q).focus(), true)", mark(menu)))
	b.press(kb.ArrowDown)
	b.until(fmt.Sprintf("document.querySelector(%q)?.value === %q", mark(menu), option))
}

// Of several models the menu lists all and the chosen one answers. A question whose model is not in
// memory says what it waits for and is among the requests, and the live view tells models apart.
func TestModels(t *testing.T) {
	s := serve(t, "--device", "sim:H100-SXM,time=30", "--model", "one=ossian-tiny", "--model", "two=ossian-tiny")
	b := open(t, s.url, "#/settings")
	b.fill("setting-max_output_tokens", "8")
	b.click("new-chat")
	b.has("model-menu")
	var served []string
	for _, found := range regexp.MustCompile(`"id":"([^"]+)","object":"model"`).FindAllStringSubmatch(fetch(t, s.url+"/v1/models"), -1) {
		served = append(served, found[1])
	}
	if listed := get[[]string](b, `[...document.querySelector("[data-testid=model-menu]").options].map((o) => o.value)`); len(served) != 2 || !slices.Equal(listed, served) {
		t.Errorf("the menu has %q, the server %q", listed, served)
	}
	b.says("model-menu", "two – not in memory")
	b.choose("model-menu", "two")
	b.ask("Hello!")
	b.state("incomplete") // at its 8 tokens
	b.says("tokens", "two")
	if of := [2]float64{metricOf(t, s, "generation_tokens_total", "one"), metricOf(t, s, "generation_tokens_total", "two")}; of != [2]float64{0, 8} {
		t.Errorf("the models wrote %v tokens, none and 8 expected", of)
	}

	end := hold(t, b, s, "one")
	b.ask("Hello again!")
	b.says("turn", "Waiting for the turn of two")
	live := b.another("#/live")
	const waiting = `[...document.querySelectorAll("[data-testid=request][data-state=queued]")].map((row) => [...row.cells].map((cell) => cell.textContent))`
	live.until(waiting + `.some((row) => row[2] === "two")`) // the column is there once the view knows of several models
	if row := get[[][]string](live, waiting)[0]; !strings.HasSuffix(row[0], "this browser") || row[1] != "/v1/responses" || row[2] != "two" || row[3] != "queued" {
		t.Errorf("who waits for a model has the row %q", row)
	}
	live.choose("live-model", "one")
	live.until(`document.querySelectorAll("[data-testid=request]").length === 1 && document.querySelector("[data-testid=request]").cells[2].textContent === "one"`)
	end()
	b.until(`document.querySelectorAll("[data-testid=answer]").length === 2`)
	b.state("incomplete")
	for _, model := range []string{"one", "two"} {
		live.until(fmt.Sprintf(`document.querySelector("[data-testid=live-model]").value === %q && (%s ?? "").replaceAll(",", "") === "%.0f in all"`, model, tile("Output"), metricOf(t, s, "generation_tokens_total", model)))
		if model == "one" {
			live.choose("live-model", "two")
		}
	}
	live.until(`document.querySelectorAll("[data-testid=request][data-state=ended]").length === 2`)
}
