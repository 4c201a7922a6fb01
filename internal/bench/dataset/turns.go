package dataset

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
)

// TurnsOptions are the flags of conversations (bench.md 1.10). Common.Prompts counts
// conversations. Only vLLM's compiled client has them, so its generator is that of all
// rules.
type TurnsOptions struct {
	Common
	Path        string  // ShareGPT's file; "" = random content
	Input, Next int     // --random-input-len: tokens of the first turn; --per-turn-input-len: of those behind it, 0 = as the first
	Output      int     // tokens of an answer; 0 = as in the file
	Turns       int     // --multi-turn-num-turns
	Least, Most int     // --multi-turn-min-turns, -max-turns; 0 = Turns, in ShareGPT 2 and no bound
	Global, Own float64 // --multi-turn-prefix-global-ratio, -conversation-ratio: shares of a first turn that all conversations, all turns of one, begin with
	KeepOrder   bool    // --disable-shuffle
	NoRepeats   bool    // --no-oversample
}

const maxTurns = 10_000 // of a conversation

// Turns returns conversations, the turns of each one behind the other: what the user
// says, without the answers, which whoever sends them puts in between. The length of an
// answer is forced by min_tokens.
func Turns(o TurnsOptions) ([]Query, error) {
	if o.Path != "" {
		return recordedTurns(&o)
	}
	return randomTurns(&o)
}

// turn is turn t of conversation i.
func (o *TurnsOptions) turn(i, t int, c *coder, prompt string, output int) Query {
	session := "conv-" + strconv.Itoa(i)
	return Query{Prompt: prompt, Input: len(c.encode(prompt)), Output: output, Session: session, Turn: t,
		ID: session + "-turn" + strconv.Itoa(t), Body: fmt.Appendf(nil, `{"min_tokens":%d}`, output)}
}

func randomTurns(o *TurnsOptions) ([]Query, error) {
	least, most, next := cmp.Or(o.Least, o.Turns), cmp.Or(o.Most, o.Turns), cmp.Or(o.Next, o.Input)
	if most > maxTurns {
		return nil, fmt.Errorf("--multi-turn-max-turns %d: want at most %d", most, maxTurns)
	}
	err := o.check(most*max(o.Input, next), flag{"--multi-turn-min-turns", least, 1}, flag{"--multi-turn-max-turns", most, least},
		flag{"--random-input-len", o.Input, 1}, flag{"--per-turn-input-len", next, 1}, flag{"--random-output-len", o.Output, 1})
	if err != nil {
		return nil, err
	}
	if n := o.Prompts * most; n > maxPrompts {
		return nil, fmt.Errorf("%d conversations of up to %d turns: want at most %d turns in all", o.Prompts, most, maxPrompts)
	}
	if !(o.Global >= 0 && o.Own >= 0 && o.Global+o.Own < 1) {
		return nil, fmt.Errorf("--multi-turn-prefix-global-ratio %v and --multi-turn-prefix-conversation-ratio %v: want 0 or more, together less than 1", o.Global, o.Own)
	}
	c, err := newCoder(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	first, later := o.Input-len(c.begin), next-len(c.begin)
	global, own := int(float64(first)*o.Global), int(float64(first)*o.Own)
	if min(first, later)-global-own < 1 {
		return nil, fmt.Errorf("turns of %d and %d tokens, %d of them shared: none is left for what is new; raise --random-input-len and --per-turn-input-len or lower the ratios",
			first, later, global+own)
	}
	r, g := newRust(c), NewRust(uint64(o.Seed))
	common := r.run(g, len(r.pool), global, 0)
	begins, counts := make([]string, o.Prompts), make([]int, o.Prompts)
	for i := range begins {
		begins[i] = common + r.run(g, len(r.pool), own, i)
	}
	for i := range counts {
		counts[i] = g.within(span{least, most})
	}
	var queries []Query
	for i, count := range counts {
		length := first
		for t := range count {
			prompt := begins[i] + r.run(g, r.ids, length-global-own, i*most+t)
			queries = append(queries, o.turn(i, t, c, prompt, o.Output))
			length = later
		}
	}
	return queries, nil
}

// run is the text of n ids that follow one another, from a random place below bound plus
// at; for none nothing is drawn.
func (r *rust) run(g *Rust, bound, n, at int) string {
	if n == 0 {
		return ""
	}
	place, ids := g.Below(bound), make([]int32, n)
	for j := range ids {
		ids[j] = r.pool[(place+at+j)%len(r.pool)]
	}
	return r.decode(r.refit(ids, n))
}

func recordedTurns(o *TurnsOptions) ([]Query, error) {
	least := max(o.Least, 2)
	if err := o.check(0, flag{"--sharegpt-output-len", o.Output, 0}); err != nil {
		return nil, err
	}
	if o.Most != 0 && o.Most < least {
		return nil, fmt.Errorf("--multi-turn-max-turns %d: want %d or more, or 0 for no bound", o.Most, least)
	}
	if o.Global != 0 || o.Own != 0 {
		return nil, fmt.Errorf("shared prefixes (--multi-turn-prefix-…-ratio) are for --dataset-name random only")
	}
	c, err := newCoder(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	list, err := readFile(o.Path, "--dataset-path", readTurns)
	if err != nil {
		return nil, err
	}
	g := NewRust(uint64(o.Seed))
	if !o.KeepOrder {
		g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	var kept [][]turns
	for _, talk := range list {
		if len(talk) >= least && len(kept) < o.Prompts {
			kept = append(kept, talk)
		}
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("%s: none of %d conversations has %d questions with answers", o.Path, len(list), least)
	}
	for n := len(kept); len(kept) < o.Prompts && !o.NoRepeats; {
		kept = append(kept, kept[g.Below(n)])
	}
	var queries []Query
	for i, talk := range kept {
		if o.Most > 0 {
			talk = talk[:min(o.Most, len(talk))]
		}
		for t, pair := range talk {
			output := cmp.Or(o.Output, len(c.encode(pair.answer)), 1)
			queries = append(queries, o.turn(i, t, c, pair.prompt, output))
		}
	}
	return queries, nil
}

// readTurns reads what humans ask in conversations and what is answered at once. It
// leaves out those with room for less than two of these.
func readTurns(r io.Reader) ([][]turns, error) {
	var list [][]turns
	err := eachConversation(r, func(entry *conversation) error {
		c := entry.Conversations
		if len(c) < 4 {
			return nil
		}
		var talk []turns
		for k := 0; k+1 < len(c); k++ {
			if string(c[k].From) != `"human"` || string(c[k+1].From) != `"gpt"` {
				continue
			}
			prompt, err := c[k].text(k)
			if err != nil {
				return err
			}
			answer, err := c[k+1].text(k + 1)
			if err != nil {
				return err
			}
			if prompt != "" {
				talk = append(talk, turns{prompt, answer})
			}
		}
		list = append(list, talk)
		return nil
	})
	return list, err
}
