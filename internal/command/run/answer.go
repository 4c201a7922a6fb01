package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/load"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/terminal"
	"ossian/internal/token"
)

// An answerer holds what one command needs to produce answers. One goroutine uses it; in a
// chat another one cancels the context of an answer.
type answerer struct {
	o          *options // the flags, which a chat may change: configure makes them count
	checkpoint *ckpt.Model
	tok        *token.BPE
	talk       *talk // nil with --raw
	seq        *sequence
	gen        generation
	out        io.Writer
	status     io.Writer     // of progress and the last line
	term       bool          // out is a terminal
	loaded     time.Duration // what loading took, told once

	history   *terminal.History // of a chat; nil = none
	forgetful bool              // the history gets nothing more
}

// progress is where progress and the last line are shown; nil = nowhere.
func (a *answerer) progress() io.Writer {
	if a.o.quiet {
		return nil
	}
	return a.status
}

// begin begins the talk, unless --raw is given, and returns the ids of the prompt,
// unless lines follow: a template that refuses does so before weights are read.
func (a *answerer) begin(checkpoint *ckpt.Model, prompt string, lines bool) (ids []int32, err error) {
	switch {
	case a.o.raw && (a.o.system != "" || a.o.effort != ""):
		return nil, errors.New("--raw completes a text as it is: leave out --system and --reasoning-effort")
	case a.o.raw && lines:
		return nil, errors.New("--raw completes a text: give one as PROMPT or on standard input")
	case a.o.raw:
		return load.Completion(checkpoint.Tokenizer, prompt), nil
	case !lines && prompt == "":
		return nil, errors.New("the prompt is empty: give one as PROMPT or on standard input")
	}
	if a.talk, err = newTalk(checkpoint, a.o.system, a.o.effort); err != nil || lines {
		return nil, err
	}
	return a.talk.ask(prompt)
}

// prepare says how answers of a model are produced, once it is loaded.
func (a *answerer) prepare(checkpoint *ckpt.Model, run runner.Runner) error {
	a.checkpoint, a.tok, a.seq = checkpoint, checkpoint.Tokenizer, newSequence(run)
	a.gen = generation{Stops: checkpoint.Stops, Mask: load.MaskOut(checkpoint.Spec.Vocab, checkpoint.Unused)}
	if a.talk != nil {
		a.gen.Stops = a.talk.format.Stops()
	}
	if a.o.ignoreEOS { // ids that would end it cannot be chosen
		a.gen.Mask = load.MaskOut(checkpoint.Spec.Vocab, slices.Concat(checkpoint.Unused, a.gen.Stops))
		a.gen.Stops = nil
	}
	return a.configure()
}

// configure makes the options count that a chat can change. It returns an error, and does
// nothing, where one of them cannot be.
func (a *answerer) configure() error {
	params := a.o.sampling.Params(a.checkpoint.Generation)
	if err := params.Validate(a.checkpoint.Spec.Vocab); err != nil {
		return err
	}
	a.gen.Params, a.gen.Max = params, a.o.max
	if a.o.max <= 0 {
		a.gen.Max = math.MaxInt
	}
	if a.talk != nil {
		a.talk.conv.Effort = a.o.effort
		a.talk.setSystem(a.o.system)
	}
	return nil
}

// answer generates after ids, shows it, and returns it as a turn of the talk.
func (a *answerer) answer(ctx context.Context, ids []int32) (turn chat.Turn, err error) {
	shown := &display{w: a.out, parser: verbatim{a.tok.Detok()}, terminal: a.term, styled: terminal.Styled(a.out)}
	gen := a.gen
	gen.Prompt = ids
	if a.talk != nil {
		shown.parser = a.talk.format.Parser(&a.talk.conv)
		if gen.Held, err = a.talk.held(); err != nil {
			return turn, err
		}
	}
	// Progress and Emit are called while generate runs: the one before the first id, the
	// other behind each.
	var bar *terminal.Progress
	gen.Progress = func(done, total int) {
		if bar == nil {
			bar = terminal.NewProgress(a.progress(), "reading the prompt", terminal.Tokens, int64(total))
		}
		bar.Set(int64(done))
		if done == total {
			bar.Done()
		}
	}
	gen.Emit = func(id int32, _ []sample.Logprob) (over bool) {
		if a.talk == nil && slices.Contains(gen.Stops, id) {
			return true // no part of the text
		}
		turn.Output = append(turn.Output, id)
		return shown.push(id) && !a.o.ignoreEOS
	}
	took, err := a.seq.generate(ctx, gen)
	if bar != nil {
		bar.Done()
	}
	// What was said stands, whatever ended it: the turn is returned with the error.
	shown.close()
	if err == nil {
		shown.put("\n")
		err = shown.err
	}
	turn.Role, turn.Parts, turn.Reasoning = chat.Assistant, []string{shown.content.String()}, shown.reasoning.String()
	if status := a.progress(); err == nil && status != nil {
		line := took.line(turn.Parts[0] != "" || !shown.reasoned)
		if a.loaded > 0 {
			line += fmt.Sprintf(" · load %.2f s", a.loaded.Seconds())
			a.loaded = 0
		}
		fmt.Fprintln(status, line)
	}
	if err == nil {
		err = ctx.Err()
	}
	return turn, err
}

// line is the last line of an answer: what it took.
func (t timing) line(answered bool) string {
	rate := func(n int, d time.Duration) string {
		if n <= 0 || d <= 0 {
			return "–"
		}
		return fmt.Sprintf("%.1f tokens/s", float64(n)/d.Seconds())
	}
	// The first token belongs to the prompt: TTFT measures it, and decoding makes the others.
	line := fmt.Sprintf("prompt %d tokens", t.Prompt)
	if t.Cached > 0 {
		line += fmt.Sprintf(" (%d kept)", t.Cached)
	}
	first := "–"
	if t.First > 0 {
		first = fmt.Sprintf("%.3f s", t.First.Seconds())
	}
	line += fmt.Sprintf(", %s · output %d tokens, %s · TTFT %s",
		rate(t.Prompt-t.Cached, t.First), t.Output, rate(t.Output-1, t.Decode), first)
	if !t.Stopped {
		line += " · cut short"
	}
	if !answered {
		line += " · only reasoning so far"
	}
	return line
}
