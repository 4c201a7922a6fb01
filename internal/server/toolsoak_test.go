package server

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ossian/internal/sim"
	"ossian/internal/soak"
	"ossian/internal/tools/registry"
)

// A talk is what becomes of one conversation: the prompts that the model got, and what clients saw.
type talk struct {
	prompts [][]int32
	shown   []string
}

// A hall is a model for many conversations at once. What it says depends on the number of the
// conversation, the number of the user's message in it, and the results behind that.
type hall struct {
	mu    sync.Mutex
	talks map[int]*talk
}

var whereabouts = regexp.MustCompile(`Conversation (\d+), part (\d)\.`)

// scriptOf are the steps of a part of a conversation. There are plain ones, some that browse or
// compute, with numbers of their own, and some that look for what they have not put there.
func scriptOf(n, part int) []string {
	say := func(text string) string {
		return fmt.Sprintf("<|channel|>final<|message|>%s of %d.<|return|>", text, n)
	}
	switch kind := n % 5; {
	case kind == 1 && part == 1:
		return []string{call("browser.search", fmt.Sprintf(`{"query":"harp %d"}`, n)), call("browser.open", `{"id":0}`), say("Opened【1†L6】")}
	case kind == 1:
		return []string{call("browser.find", `{"pattern":"willow"}`), call("browser.open", `{"cursor":0,"id":1}`), say("Found【3†L0】")}
	case n%10 == 2:
		return []string{call("python", fmt.Sprintf("x = %d; open('own', 'w').write(str(x))", n)), call("python", "print(x, open('/mnt/data/own').read())"), say("Computed")}
	case n%10 == 7:
		return []string{call("python", "import os; print('x' in globals(), os.listdir('/mnt/data'))"), say("Nothing there")}
	case kind == 3:
		return []string{call("weather.now", "{}"), call("weather.later", "{}"), say("Rain")}
	case kind == 4:
		return []string{call("browser.open", `{"cursor":0,"id":0}`), call("browser.find", `{"pattern":"willow"}`), say("No pages")}
	}
	return []string{say("Plain")}
}

// next plays the conversations.
func (h *hall) next() sim.Next {
	says := sim.Reply(func(prompt []int32) []int32 {
		n, part, results := placeOf(prompt)
		script := scriptOf(n, part)
		return said(script[min(results, len(script)-1)])
	})
	return func(history []int32, step uint64) int32 {
		if step == 0 {
			n, _, _ := placeOf(history)
			h.mu.Lock()
			if mine := h.talks[n]; mine != nil {
				mine.prompts = append(mine.prompts, slices.Clone(history))
			}
			h.mu.Unlock()
		}
		return says(history, step)
	}
}

// placeOf says where a prompt is.
func placeOf(prompt []int32) (n, part, results int) {
	text := harmony().Decode(prompt)
	all := whereabouts.FindAllStringSubmatchIndex(text, -1)
	if all == nil {
		return -1, 1, 0 // the engine tries itself
	}
	last := all[len(all)-1]
	n, _ = strconv.Atoi(text[last[2]:last[3]])
	part, _ = strconv.Atoi(text[last[4]:last[5]])
	return n, part, strings.Count(text[last[1]:], " to=assistant")
}

// hold holds one conversation, through the API and in the form that its number says.
func (h *hall) hold(t *testing.T, g *rig, n int) {
	key := []string{"Authorization", "Bearer " + []string{"anna", "bert"}[n/5%2]}
	h.mu.Lock()
	mine := &talk{}
	h.talks[n] = mine
	h.mu.Unlock()
	tools := map[int]string{1: `{"type":"web_search"}`, 2: `{"type":"code_interpreter"}`, 3: `{"type":"mcp","server_label":"weather"}`, 4: `{"type":"web_search"}`}[n%5]
	ask := func(more string, part int) (made object) {
		body := fmt.Sprintf(`{"input":"Conversation %d, part %d.","tools":[%s]%s`, n, part, tools, more)
		if n/10%2 == 0 {
			made = responded(t, g.post("/v1/responses", body+"}", key...))
		} else {
			made = fold(t, streamed(t, g.post("/v1/responses", body+`,"stream":true}`, key...)))
		}
		mine.shown = append(mine.shown, itemsOf(made)...)
		out := list(made["output"])
		mine.shown = append(mine.shown, fmt.Sprint(at(out, len(out)-1, "content", 0, "annotations")))
		return made
	}
	switch n % 5 {
	case 1:
		first := ask("", 1)
		ask(fmt.Sprintf(`,"previous_response_id":%q`, first["id"]), 2)
	case 0, 3:
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Conversation %d, part 1."}],"tools":[%s]}`, n, tools)
		mine.shown = append(mine.shown, fmt.Sprint(at(parsed(t, g.post(chatsPath, body, key...).body), "choices", 0, "message")))
	default:
		ask(`,"store":false`, 1)
	}
}

// TestToolConversations: conversations with tools beside plain ones, of two owners, each with what
// it has alone, id for id: nobody sees pages, cursors, variables or files of others.
func TestToolConversations(t *testing.T) {
	soak.Beside(t)
	n := soak.Cases(t, 50, 1000)
	box := runs(t, nil, registry.Config{Servers: []string{"demo", weatherPeer(t, func() {}).Address}, Demo: registry.Demo{Browser: "corpus", Corpus: site(t)}})
	h := &hall{talks: map[int]*talk{}}
	u := inMemory(t, setup{next: h.next()})
	u.cfg.Toolbox, u.cfg.Keys = box, []string{"anna", "bert"}
	g := start(t, u)
	for i := range n {
		h.hold(t, g, i)
	}
	alone := h.talks
	h.talks = map[int]*talk{}
	var next atomic.Int64
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				h.hold(t, g, i)
			}
		})
	}
	all.Wait()
	for i := range n {
		if got, want := h.talks[i], alone[i]; !reflect.DeepEqual(got, want) {
			t.Fatalf("conversation %d\nshows %q\nalone %q\nlast prompt %s\nalone %s", i, got.shown, want.shown, harmony().Decode(got.prompts[len(got.prompts)-1]), harmony().Decode(want.prompts[len(want.prompts)-1]))
		}
	}
	for i, want := range map[int]string{1: "Found【3†L0】 of 1.", 2: "2 2\n", 7: "False []", 3: "no such day", 4: "No pages to access!"} {
		if text := fmt.Sprint(alone[i].shown) + harmony().Decode(alone[i].prompts[len(alone[i].prompts)-1]); !strings.Contains(text, want) {
			t.Errorf("conversation %d does not have %q:\n%s", i, want, text)
		}
	}
	g.agree("Authorization", "Bearer anna")
	t.Logf("%d conversations alone and together", n)
}
