package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/token"
)

// runOptions are the flags of ossian run.
type runOptions struct {
	load              loadOptions
	raw, quiet        bool
	system, effort    string
	max               int
	seed              int64
	temperature, topP float32
	minP, repetition  float32
	frequency         float32
	presence          float32
	topK              int
	ignoreEOS         bool
}

func runCommand() *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run [MODEL] [PROMPT | PROMPT - | -]",
		Short: "Answer a prompt on the terminal, or chat",
		Long: `Answer PROMPT with MODEL: a directory, a GGUF file, or a name already in the cache.
Without MODEL the built-in ossian-tiny answers a quoted PROMPT: it adds, subtracts
and compares numbers, calls tools, answers in JSON, and little else.

The answer appears as it comes; a last line tells what it took. A last "-" stands for
standard input, so that PROMPT can say what to do with it. Without PROMPT the prompt
is read from standard input, or, on a terminal, a chat begins: an empty line or
Ctrl-D ends it, Ctrl-C stops an answer. When the output is not a terminal, reasoning
is left out.`,
		Example: `  ossian run "12+30"
  ossian run ./SmolLM2-135M-Instruct.gguf "What is the capital of France?"
  git diff | ossian run openai/gpt-oss-20b "Review this change." -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if namesModel(args) {
				return o.run(cmd, args[0], args[1:])
			}
			return o.run(cmd, "", args)
		},
	}
	o.load.flags(c.Flags())
	f := c.Flags()
	f.BoolVar(&o.raw, "raw", false, "complete PROMPT as it is: no chat template, names of control tokens in it are control tokens, those in the answer are shown")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no progress and no last line")
	f.StringVar(&o.system, "system", "", "system message `TEXT`")
	f.StringVar(&o.effort, "reasoning-effort", "", "low, medium or high, or none to answer at once, for models whose template knows it")
	f.IntVar(&o.max, "max-tokens", 0, "produce at most `N` tokens; 0 = until the context is full")
	f.Int64Var(&o.seed, "seed", -1, "`SEED` of the random draws; -1 = another one each time")
	f.Float32Var(&o.temperature, "temperature", -1, "0 = always the most likely token; -1 = the checkpoint's advice, else 0")
	f.Float32Var(&o.topP, "top-p", -1, "keep the likeliest tokens of that total probability; -1 = the checkpoint's advice")
	f.IntVar(&o.topK, "top-k", -1, "keep the `K` likeliest tokens, 0 = all; -1 = the checkpoint's advice")
	f.Float32Var(&o.minP, "min-p", -1, "drop tokens less likely than this times the likeliest; -1 = the checkpoint's advice")
	f.Float32Var(&o.repetition, "repetition-penalty", -1, "divide the logits of tokens seen before; -1 = the checkpoint's advice")
	f.Float32Var(&o.frequency, "frequency-penalty", 0, "subtract per occurrence in the answer")
	f.Float32Var(&o.presence, "presence-penalty", 0, "subtract once if in the answer")
	f.BoolVar(&o.ignoreEOS, "ignore-eos", false, "go on after the end of the answer, for measurements")
	return c
}

// params merges flags over the checkpoint's advice.
func (o *runOptions) params(g ckpt.Generation) sample.Params {
	pick := func(flag float32, advice *float64, otherwise float32) float32 {
		switch {
		case flag != -1: // what makes no sense is refused by Validate
			return flag
		case advice != nil:
			return float32(*advice)
		}
		return otherwise
	}
	otherwise := float32(0)
	if g.Sample != nil && *g.Sample {
		otherwise = 1 // what the reference client samples with when no temperature is given
	}
	p := sample.Params{
		Temperature:       pick(o.temperature, g.Temperature, otherwise),
		TopP:              pick(o.topP, g.TopP, 0),
		MinP:              pick(o.minP, g.MinP, 0),
		RepetitionPenalty: pick(o.repetition, g.RepetitionPenalty, 0),
		FrequencyPenalty:  o.frequency,
		PresencePenalty:   o.presence,
		Seed:              uint64(o.seed),
	}
	if g.Sample != nil && !*g.Sample && o.temperature == -1 {
		p.Temperature = 0
	}
	if p.TopP == 0 && (o.topP == 0 || g.TopP != nil) {
		p.TopP = math.SmallestNonzeroFloat32 // the likeliest id alone, as for a request; 0 would keep all
	}
	if p.TopK = o.topK; p.TopK == -1 {
		p.TopK = 0
		if g.TopK != nil {
			p.TopK = max(*g.TopK, 0) // -1 is all, too
		}
	}
	if o.seed < 0 {
		p.Seed = rand.Uint64()
	}
	return p
}

// keptAnswer is how many tokens an answer of a chat may have so that the next turn
// still finds what was said before it: templates leave reasoning out afterwards.
const keptAnswer = 8192

// An answerer holds what one command needs to produce answers.
type answerer struct {
	o      *runOptions
	tok    *token.BPE
	talk   *talk // nil with --raw
	seq    *sequence
	gen    generation
	out    io.Writer
	status io.Writer     // progress and the last line; nil = none
	term   bool          // out is a terminal
	loaded time.Duration // what loading took, told once
}

func (o *runOptions) run(cmd *cobra.Command, name string, words []string) error {
	ctx := cmd.Context()
	a := &answerer{o: o, out: cmd.OutOrStdout(), status: cmd.ErrOrStderr()}
	if o.quiet {
		a.status = nil
	}
	if f, ok := a.out.(*os.File); ok {
		a.term = term.IsTerminal(int(f.Fd()))
	}
	if o.max < 0 {
		return fmt.Errorf("--max-tokens %d: a number of tokens, or 0 for no limit, expected", o.max)
	}
	if !slices.Contains([]string{"", "none", "low", "medium", "high"}, o.effort) {
		return fmt.Errorf("--reasoning-effort %q: none, low, medium or high expected", o.effort)
	}
	m, err := openModel(name)
	if err != nil {
		return err
	}
	defer m.Close()
	prompt, lines, err := promptFrom(ctx, cmd.InOrStdin(), words, m.Spec.MaxLen)
	if err != nil {
		return err
	}
	ids, err := a.begin(m, prompt, lines)
	if err != nil {
		return err
	}
	p := o.params(m.Generation)
	if err := p.Validate(m.Spec.Vocab); err != nil {
		return err
	}
	if lines {
		o.load.keep = keptAnswer
	}
	began := time.Now()
	r, err := o.load.runner(ctx, m, a.status)
	if err != nil {
		return err
	}
	defer r.Close()
	a.loaded = time.Since(began)
	a.prepare(m, r, p)
	if lines {
		return a.chat(cmd.InOrStdin())
	}
	_, err = a.answer(ctx, ids)
	return err
}

// begin begins the talk, unless --raw is given, and returns the ids of the prompt,
// unless lines follow: a template that refuses does so before weights are read.
func (a *answerer) begin(m *ckpt.Model, prompt string, lines bool) (ids []int32, err error) {
	switch {
	case a.o.raw && (a.o.system != "" || a.o.effort != ""):
		return nil, errors.New("--raw completes a text as it is: leave out --system and --reasoning-effort")
	case a.o.raw && lines:
		return nil, errors.New("--raw completes a text: give one as PROMPT or on standard input")
	case a.o.raw:
		return completion(m.Tokenizer, prompt), nil
	case !lines && prompt == "":
		return nil, errors.New("the prompt is empty: give one as PROMPT or on standard input")
	}
	if a.talk, err = newTalk(m, a.o.system, a.o.effort); err != nil || lines {
		return nil, err
	}
	return a.talk.ask(prompt)
}

func (a *answerer) prepare(m *ckpt.Model, r runner.Runner, p sample.Params) {
	a.tok, a.seq = m.Tokenizer, newSequence(r)
	a.gen = generation{Max: a.o.max, Params: p, Stops: m.Stops, Mask: maskOut(m.Spec.Vocab, m.Unused)}
	if a.talk != nil {
		a.gen.Stops = a.talk.format.Stops()
	}
	if a.o.max <= 0 {
		a.gen.Max = math.MaxInt
	}
	if a.o.ignoreEOS {
		a.gen.Mask = maskOut(m.Spec.Vocab, slices.Concat(m.Unused, a.gen.Stops))
		a.gen.Stops = nil
	}
}

// maskOut returns a mask that allows every id but the given ones; nil when none is given.
func maskOut(vocab int, ids []int32) []uint64 {
	if len(ids) == 0 {
		return nil
	}
	mask := make([]uint64, (vocab+63)/64)
	for i := range mask {
		mask[i] = math.MaxUint64
	}
	for _, id := range ids {
		mask[id/64] &^= 1 << (id % 64)
	}
	return mask
}

// tokenBytes is the length of the longest token of a published vocabulary, o200k's
// run of spaces: no text has fewer tokens than its bytes over this.
const tokenBytes = 128

// promptFrom returns the prompt, its words joined; a last "-" or no words at all
// stand for standard input. With no words and a person at the input, lines of a chat
// follow. Input that cannot fit into maxLen tokens is refused before all of it is read.
func promptFrom(ctx context.Context, in io.Reader, words []string, maxLen int) (prompt string, lines bool, err error) {
	if n := len(words); n > 0 && words[n-1] != "-" {
		return strings.Join(words, " "), false, nil
	} else if n > 1 {
		prompt = strings.Join(words[:n-1], " ") + "\n\n"
	}
	if f, ok := in.(*os.File); ok && len(words) == 0 && term.IsTerminal(int(f.Fd())) {
		return "", true, nil
	}
	var all []byte
	var failed error
	read := make(chan struct{})
	go func() {
		defer close(read)
		most := int64(tokenBytes * maxLen)
		all, failed = io.ReadAll(io.LimitReader(in, most+1))
		if int64(len(all)) > most {
			failed = fmt.Errorf("standard input has more than %d bytes, which cannot fit into the %d tokens of the model's context", most, maxLen)
		}
	}()
	select {
	case <-read:
		return prompt + string(all), false, failed
	case <-ctx.Done(): // the read goes on until the process ends
		return "", false, ctx.Err()
	}
}

// chat reads lines and answers them until the input ends or a line is empty.
// Ctrl-C ends an answer; at the prompt it ends the chat.
func (a *answerer) chat(in io.Reader) error {
	// Not the command's context, which the first Ctrl-C ends.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	defer signal.Stop(interrupt)
	lines := make(chan string)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(in)
		s.Buffer(nil, 1<<24)
		for s.Scan() {
			lines <- s.Text()
		}
	}()
	for {
		select {
		case <-interrupt: // it was for the answer, which has ended
		default:
		}
		fmt.Fprint(a.out, "> ")
		var line string
		select {
		case line = <-lines:
		case <-interrupt:
		case <-ctx.Done():
		}
		if strings.TrimSpace(line) == "" {
			fmt.Fprintln(a.out)
			return ctx.Err()
		}
		if err := a.reply(ctx, line, interrupt); err != nil {
			return err
		}
	}
}

// reply answers one line of a chat. A line for which the context has no room is
// forgotten: a shorter one may do.
func (a *answerer) reply(ctx context.Context, line string, interrupt <-chan os.Signal) error {
	ids, err := a.talk.ask(line)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-interrupt:
			cancel()
		case <-ctx.Done():
		}
	}()
	turn, err := a.answer(ctx, ids)
	if errors.Is(err, errContextFull) {
		a.talk.forget()
		_, err = fmt.Fprintln(a.out, err)
		return err
	}
	if turn.Parts[0] == "" { // stopped before it said anything: templates want turns to alternate
		a.talk.forget()
	} else {
		a.talk.conv.Turns = append(a.talk.conv.Turns, turn)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// answer generates after ids, shows it, and returns it as a turn of the talk.
func (a *answerer) answer(ctx context.Context, ids []int32) (turn chat.Turn, err error) {
	d := &display{w: a.out, parser: verbatim{a.tok.Detok()}, terminal: a.term}
	if a.talk != nil {
		d.parser = a.talk.format.Parser(&a.talk.conv)
	}
	g := a.gen
	g.Prompt = ids
	var bar *progress
	g.Progress = func(done, total int) {
		if bar == nil {
			bar = newProgress(a.status, "reading the prompt", unitTokens, int64(total))
		}
		bar.Set(int64(done))
		if done == total {
			bar.Done()
		}
	}
	g.Emit = func(id int32, _ []sample.Logprob) (over bool) {
		if a.talk == nil && slices.Contains(g.Stops, id) {
			return true // no part of the text
		}
		turn.Output = append(turn.Output, id)
		return d.push(id) && !a.o.ignoreEOS
	}
	tm, err := a.seq.generate(ctx, g)
	if bar != nil {
		bar.Done()
	}
	d.close()
	if err == nil {
		d.put("\n")
		err = d.err
	}
	turn.Role, turn.Parts, turn.Reasoning = chat.Assistant, []string{d.content.String()}, d.reasoning.String()
	if err == nil && a.status != nil {
		line := tm.line(turn.Parts[0] != "" || !d.reasoned)
		if a.loaded > 0 {
			line += fmt.Sprintf(" · load %.2f s", a.loaded.Seconds())
			a.loaded = 0
		}
		fmt.Fprintln(a.status, line)
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
	s := fmt.Sprintf("prompt %d tokens", t.Prompt)
	if t.Cached > 0 {
		s += fmt.Sprintf(" (%d kept)", t.Cached)
	}
	first := "–"
	if t.First > 0 {
		first = fmt.Sprintf("%.3f s", t.First.Seconds())
	}
	s += fmt.Sprintf(", %s · output %d tokens, %s · TTFT %s",
		rate(t.Prompt-t.Cached, t.First), t.Output, rate(t.Output-1, t.Decode), first)
	if !t.Stopped {
		s += " · cut short"
	}
	if !answered {
		s += " · only reasoning so far"
	}
	return s
}
