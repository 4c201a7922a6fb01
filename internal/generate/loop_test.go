package generate

import (
	"slices"
	"testing"

	"ossian/internal/engine"
)

// harmonyTalk is an answer of gpt-oss that searches, computes and says what it found.
var harmonyTalk = []string{
	"<|channel|>analysis<|message|>Look it up.<|end|><|start|>assistant<|channel|>analysis to=browser.search code<|message|>{\"query\":\"x\"}<|call|>",
	"<|channel|>analysis<|message|>Now add.<|end|><|start|>assistant<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant<|channel|>analysis to=python code<|message|>1+1<|call|>",
	"<|channel|>analysis<|message|>Done.<|end|><|start|>assistant<|channel|>final<|message|>It is 2.<|return|>",
}

const harmonyStory = `reasoning[Look it up.] begins:0[browser.search] with:0[{"query":"x"}] runs:0[{"query":"x"}] ends:0[<search {"query":"x"}>] ` +
	`reasoning[
Now add.] content[Wait.] begins:1[python] with:1[1+1] runs:1[1+1] ends:1[< 1+1>] reasoning[
Done.] content[
It is 2.] stop.`

// qwenTalk is the same of Qwen3, which calls both tools at once.
func qwenTalk(thinks string) []string {
	return []string{
		thinks + "Look it up.\n</think>\n\n<tool_call>\n{\"name\": \"browser_search\", \"arguments\": {\"query\":\"x\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"python\", \"arguments\": {\"code\":\"1+1\"}}\n</tool_call><|im_end|>",
		thinks + "Done.\n</think>\n\nIt is 2.<|im_end|>",
	}
}

const qwenStory = `reasoning[Look it up.] begins:0[browser.search] with:0[{"query":"x"}] begins:1[python] with:1[1+1] runs:0[{"query":"x"}] runs:1[1+1] ` +
	`ends:0[<search {"query":"x"}>] ends:1[< 1+1>] reasoning[
Done.] content[It is 2.] stop.`

// talk is a conversation that a family plays, and what an output is told of it.
func (f *family) talk() (mark string, texts []string, story string) {
	switch f.name {
	case "qwen3":
		return "</tool_response>", qwenTalk("<think>\n"), qwenStory
	case "qwen3-thinking-2507":
		return "</tool_response>", qwenTalk(""), qwenStory
	case "llama3.2":
		texts = []string{"{\"name\": \"browser_open\", \"parameters\": {\"id\": 3}}<|eot_id|>", "Three.<|eot_id|>"}
		return "<|start_header_id|>ipython", texts, `begins:0[browser.open] with:0[{"id": 3}] runs:0[{"id": 3}] ends:0[<open {"id": 3}>] content[Three.] stop.`
	case "qwen3-instruct-2507":
		texts = []string{"<tool_call>\n{\"name\": \"browser_open\", \"arguments\": {\"id\": 3}}\n</tool_call><|im_end|>", "Three.<|im_end|>"}
		return "</tool_response>", texts, `begins:0[browser.open] with:0[{"id": 3}] runs:0[{"id": 3}] ends:0[<open {"id": 3}>] content[Three.] stop.`
	}
	return "<|call|>", harmonyTalk, harmonyStory
}

// keeps reports whether the format can write sampled ids as they were: templates cannot.
func (f *family) keeps() bool { return f.name != "qwen3-thinking-2507" && f.name != "llama3.2" }

// TestLoop: answers of every format search, compute and go on. Each prompt begins with the one
// before and the ids that were sampled, the rest of it is what the format writes of a whole
// conversation, the engine computes none of it again, and the sum of all steps is the usage.
func TestLoop(t *testing.T) {
	for _, f := range families(t) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			mark, texts, want := f.talk()
			script := f.counted(mark, texts...)
			r := newRig(t, f, play{script: script})
			gen := r.ask(echoing())
			out, job, err := r.run(t.Context(), gen, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := closed(&out.story[0]); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			prompts, cached, prompt, completion := r.prompts, 0, 0, 0
			if len(prompts) < 2 {
				t.Fatalf("%d steps", len(prompts))
			}
			for i, ids := range prompts {
				prompt, completion = prompt+len(ids), completion+len(script(ids))
				if i == 0 {
					continue
				}
				before := append(slices.Clone(prompts[i-1]), script(prompts[i-1])...)
				if len(ids) <= len(before) || !slices.Equal(ids[:len(before)], before) {
					t.Errorf("step %d: the prompt does not begin with the one before and its answer:\n%q\n%q", i, f.tok.Decode(ids), f.tok.Decode(before))
				}
				cached += (len(before) - 1) / 16 * 16 // the last id has no place in the KV memory before it is read
			}
			answer := job.Answers()[0]
			if visible := f.said("<|start|>assistant<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant<|channel|>final<|message|>It is 2.<|return|>"); want == harmonyStory && job.Usage().Details.Reasoning != completion-len(visible) {
				t.Errorf("%d tokens of reasoning, want %d: those that are not visible", job.Usage().Details.Reasoning, completion-len(visible))
			}
			if f.keeps() {
				r.whole(t, answer, prompts)
			}
			usage := job.Usage()
			if usage.Prompt != prompt || usage.Completion != completion || usage.PromptOf.Cached != cached || len(usage.Tools.Prompt) != len(prompts) {
				t.Errorf("usage %+v %+v, want %d + %d tokens, %d of them cached", usage, usage.Tools, prompt, completion, cached)
			}
			job.Close()
		})
	}
}

// whole holds the last prompt to what the format renders of the conversation as a whole.
func (r *rig) whole(t *testing.T, answer *Answer, prompts [][]int32) {
	t.Helper()
	conv := answer.turn.conv
	conv.Since = 0
	prompt := r.tok.Prompt()
	if err := r.format.Render(prompt, &conv); err != nil {
		t.Fatal(err)
	}
	if got, want := prompt.IDs(), prompts[len(prompts)-1]; !slices.Equal(got, want) {
		t.Errorf("rendered as a whole: %q\nstep by step: %q", r.tok.Decode(got), r.tok.Decode(want))
	}
	if n := len(answer.Steps); n != len(prompts) || len(answer.Steps[n-1].Results) > 0 || len(answer.Steps[0].Results) == 0 {
		t.Errorf("%d steps with %+v, want %d", n, answer.Steps, len(prompts))
	}
}

// TestTextAllocates: text of an answer that may call tools and cite takes no more allocations
// for a token than that of another.
func TestTextAllocates(t *testing.T) {
	f := gptOSS(t)
	r := newRig(t, f, play{script: f.counted("<|call|>", finishes)})
	measure := func(gen *Generation) float64 {
		job, err := r.service.Start(t.Context(), gen)
		if err != nil {
			t.Fatal(err)
		}
		defer job.Close()
		answer := job.answers[0]
		for _, id := range f.said("<|channel|>final<|message|>Yes") {
			answer.Push(&engine.Token{ID: id})
		}
		word := engine.Token{ID: f.tok.Encode(nil, " all")[0]}
		return testing.AllocsPerRun(1000, func() {
			answer.Push(&word)
			answer.Taken()
		})
	}
	server := echoing()
	server.cite = pages
	with := r.ask(server)
	plain := *with
	plain.Builtin = nil
	if without, with := measure(&plain), measure(with); with > without || without > 1 {
		t.Errorf("%v allocations with tools, %v without", with, without)
	}
}
