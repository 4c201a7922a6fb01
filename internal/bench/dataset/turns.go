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
func Turns(opts TurnsOptions) ([]Query, error) {
	if opts.Path != "" {
		return recordedTurns(&opts)
	}
	return randomTurns(&opts)
}

// turn is a turn of a conversation, both counted from 0.
func (opts *TurnsOptions) turn(conversation, turn int, coder *textCoder, prompt string, output int) Query {
	session := "conv-" + strconv.Itoa(conversation)
	return Query{Prompt: prompt, Input: len(coder.encode(prompt)), Output: output, Session: session, Turn: turn,
		ID: session + "-turn" + strconv.Itoa(turn), Body: fmt.Appendf(nil, `{"min_tokens":%d}`, output)}
}

// randomTurns makes conversations of runs of the vocabulary. A turn is
//
//	common beginning · beginning of the conversation · what is new
func randomTurns(opts *TurnsOptions) ([]Query, error) {
	least, most, next := cmp.Or(opts.Least, opts.Turns), cmp.Or(opts.Most, opts.Turns), cmp.Or(opts.Next, opts.Input)
	if most > maxTurns {
		return nil, fmt.Errorf("--multi-turn-max-turns %d: want at most %d", most, maxTurns)
	}
	err := opts.check(most*max(opts.Input, next), flag{"--multi-turn-min-turns", least, 1}, flag{"--multi-turn-max-turns", most, least},
		flag{"--random-input-len", opts.Input, 1}, flag{"--per-turn-input-len", next, 1}, flag{"--random-output-len", opts.Output, 1})
	if err != nil {
		return nil, err
	}
	if total := opts.Prompts * most; total > maxPrompts {
		return nil, fmt.Errorf("%d conversations of up to %d turns: want at most %d turns in all", opts.Prompts, most, maxPrompts)
	}
	if !(opts.Global >= 0 && opts.Own >= 0 && opts.Global+opts.Own < 1) {
		return nil, fmt.Errorf("--multi-turn-prefix-global-ratio %v and --multi-turn-prefix-conversation-ratio %v: want 0 or more, together less than 1", opts.Global, opts.Own)
	}
	coder, err := newCoder(opts.Tokenizer)
	if err != nil {
		return nil, err
	}
	first, later := opts.Input-len(coder.begin), next-len(coder.begin)
	global, own := int(float64(first)*opts.Global), int(float64(first)*opts.Own)
	if min(first, later)-global-own < 1 {
		return nil, fmt.Errorf("turns of %d and %d tokens, %d of them shared: none is left for what is new; raise --random-input-len and --per-turn-input-len or lower the ratios",
			first, later, global+own)
	}
	// Drawn in this order: what all share, each conversation's own, the numbers of turns, and
	// then the turns.
	compiled, rng := newRustCoder(coder), NewRust(uint64(opts.Seed))
	common := compiled.runText(rng, len(compiled.pool), global, 0)
	begins, counts := make([]string, opts.Prompts), make([]int, opts.Prompts)
	for i := range begins {
		begins[i] = common + compiled.runText(rng, len(compiled.pool), own, i)
	}
	for i := range counts {
		counts[i] = rng.within(span{least, most})
	}
	var queries []Query
	for i, count := range counts {
		length := first
		for turn := range count {
			prompt := begins[i] + compiled.runText(rng, compiled.size, length-global-own, i*most+turn)
			queries = append(queries, opts.turn(i, turn, coder, prompt, opts.Output))
			length = later
		}
	}
	return queries, nil
}

// runText is the text of so many ids that follow one another, from a random place below bound plus
// at; for none nothing is drawn.
func (r *rustCoder) runText(rng *Rust, bound, count, at int) string {
	if count == 0 {
		return ""
	}
	place, ids := rng.Below(bound), make([]int32, count)
	for j := range ids {
		ids[j] = r.pool[(place+at+j)%len(r.pool)]
	}
	return r.decode(r.refit(ids, count))
}

// recordedTurns takes the conversations of ShareGPT that are long enough.
func recordedTurns(opts *TurnsOptions) ([]Query, error) {
	least := max(opts.Least, 2)
	if err := opts.check(0, flag{"--sharegpt-output-len", opts.Output, 0}); err != nil {
		return nil, err
	}
	if opts.Most != 0 && opts.Most < least {
		return nil, fmt.Errorf("--multi-turn-max-turns %d: want %d or more, or 0 for no bound", opts.Most, least)
	}
	if opts.Global != 0 || opts.Own != 0 {
		return nil, fmt.Errorf("shared prefixes (--multi-turn-prefix-…-ratio) are for --dataset-name random only")
	}
	coder, err := newCoder(opts.Tokenizer)
	if err != nil {
		return nil, err
	}
	// As in ShareGPT, the order is drawn for all before some are taken.
	list, err := readFile(opts.Path, "--dataset-path", readConversations)
	if err != nil {
		return nil, err
	}
	rng := NewRust(uint64(opts.Seed))
	if !opts.KeepOrder {
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	var kept [][]exchange
	for _, talk := range list {
		if len(talk) >= least && len(kept) < opts.Prompts {
			kept = append(kept, talk)
		}
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("%s: none of %d conversations has %d questions with answers", opts.Path, len(list), least)
	}
	for recorded := len(kept); len(kept) < opts.Prompts && !opts.NoRepeats; {
		kept = append(kept, kept[rng.Below(recorded)])
	}
	var queries []Query
	for i, talk := range kept {
		if opts.Most > 0 {
			talk = talk[:min(opts.Most, len(talk))]
		}
		for turn, pair := range talk {
			output := cmp.Or(opts.Output, len(coder.encode(pair.answer)), 1)
			queries = append(queries, opts.turn(i, turn, coder, pair.prompt, output))
		}
	}
	return queries, nil
}

// readConversations reads what humans ask in conversations and what is answered at once. It
// leaves out those with room for less than two of these.
func readConversations(r io.Reader) ([][]exchange, error) {
	var list [][]exchange
	err := eachConversation(r, func(entry *conversation) error {
		said := make([]turn, len(entry.said()))
		for at, raw := range entry.said() {
			var err error
			if said[at], err = readTurn(raw, at+1); err != nil {
				return err
			}
		}
		if len(said) > 0 && said[0].leads() {
			said = said[1:] // it is not one of the turns that are counted
		}
		if len(said) < 4 {
			return nil
		}
		// A question without an answer right behind it is left out, and so is one without text.
		var talk []exchange
		for at := 0; at+1 < len(said); at++ {
			if said[at].speaker() != "human" || said[at+1].speaker() != "gpt" {
				continue
			}
			prompt, err := said[at].text()
			if err != nil {
				return err
			}
			answer, err := said[at+1].text()
			if err != nil {
				return err
			}
			if prompt != "" {
				talk = append(talk, exchange{prompt, answer})
			}
		}
		list = append(list, talk)
		return nil
	})
	return list, err
}
