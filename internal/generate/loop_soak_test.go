package generate

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/chat"
	"ossian/internal/runner"
	"ossian/internal/soak"
	"ossian/internal/wire"
)

// chatter is a script whose answers depend on all of the prompt: up to five calls, of two tools,
// and text of any length.
func (f *family) chatter() func([]int32) []int32 {
	call, words := f.said("<|call|>")[0], f.tok.Encode(nil, strings.Repeat(" all work and no play", 12))
	thinks, searches, computes := f.said("<|channel|>analysis<|message|>Hm"), f.said("<|end|><|start|>assistant<|channel|>analysis to=browser.search code<|message|>{}"), f.said("<|end|><|start|>assistant<|channel|>analysis to=python code<|message|>1")
	answers, ends := f.said("<|end|><|start|>assistant<|channel|>final<|message|>Yes"), f.said("<|return|>")
	return func(prompt []int32) []int32 {
		sum := fnv.New64a()
		calls := 0
		for _, id := range prompt {
			sum.Write([]byte{byte(id), byte(id >> 8), byte(id >> 16)})
			if id == call {
				calls++
			}
		}
		hash := sum.Sum64()
		thought := slices.Concat(thinks, words[:hash%24])
		switch tools := strings.Contains(f.tok.Decode(prompt[:min(len(prompt), 120)]), "## browser"); {
		case tools && calls < 5 && hash>>8%4 != 0 && hash>>16%2 == 0:
			return append(slices.Concat(thought, searches), call)
		case tools && calls < 5 && hash>>8%4 != 0:
			return append(slices.Concat(thought, computes), call)
		}
		return slices.Concat(thought, answers, words[:hash>>24%40], ends)
	}
}

// conversation returns a request that nobody else makes, every second with tools.
func (r *rig) conversation(server *played, number int) *Generation {
	text := fmt.Sprintf("Question %d?", number)
	if number%2 == 0 {
		return r.ask(server, func(gen *Generation) { gen.Builtin.Conversation.Turns[0].Parts = []string{text} })
	}
	conv := &chat.Conversation{Turns: []chat.Turn{{Role: chat.User, Parts: []string{text}}}}
	prompt, err := r.service.Render(r.model, "messages", conv)
	if err != nil {
		r.t.Fatal(err)
	}
	return &Generation{Sampling: &wire.Sampling{}, Model: r.model, Received: time.Now(), Prompts: [][]int32{prompt.IDs()}, TokenIDs: true,
		Parser: func() chat.Parser { return r.format.Parser(conv) }}
}

// answer runs a conversation and returns what was sampled and what the tools gave.
func (r *rig) answer(server *played, number int) string {
	out, job, err := r.run(r.t.Context(), r.conversation(server, number), nil)
	defer job.Close()
	if err != nil {
		r.t.Errorf("conversation %d: %v", number, err)
	}
	answer := job.answers[0]
	usage := job.Usage()
	return fmt.Sprint(closed(&out.story[0]), answer.Steps, answer.NewIDs, usage.Prompt, usage.Completion, usage.Details.Reasoning)
}

// TestToolsBesideOthers: conversations with tools beside others, in an engine with little memory,
// give what each of them gives alone.
func TestToolsBesideOthers(t *testing.T) {
	t.Parallel()
	count := soak.Cases(t, 24, 1000)
	f := gptOSS(t)
	small := runner.Info{MaxLen: 2048, MaxSeqs: 6, MaxTokens: 96, Groups: []runner.Group{{Blocks: 160}}}
	alone, crowd := newRig(t, f, play{script: f.chatter(), quiet: true}), newRig(t, f, play{script: f.chatter(), quiet: true, info: small, queue: 64})
	want := make([]string, count)
	server := echoing()
	alone.offers(server)
	calls := 0
	for i := range want {
		want[i] = alone.answer(server, i)
		calls += strings.Count(want[i], " ends:")
	}
	if calls < count/2 {
		t.Fatalf("%d calls of tools in %d conversations", calls, count)
	}
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for i := range numbers {
				if got := crowd.answer(echoing(), i); got != want[i] {
					t.Errorf("conversation %d\nalone  %.2000s\nbeside %.2000s", i, want[i], got)
				}
			}
		})
	}
	for i := range want {
		numbers <- i
	}
	close(numbers)
	workers.Wait()
	t.Logf("%d conversations, %d calls", count, calls)
}
