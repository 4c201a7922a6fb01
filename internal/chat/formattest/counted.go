package formattest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"ossian/internal/chat"
	"ossian/internal/soak"
	"ossian/internal/token"
)

// AnyIDs is PAR-1: whatever a model samples, its answer is well-formed. A release
// reads 10⁹ ids in five families.
func AnyIDs(t *testing.T, suite Suite) {
	want := soak.Cases(t, 100_000, 200_000_000)
	babble := newBabbler(&suite, 1)
	var ids []int32
	var events []chat.Event
	answers, read, salvaged := 0, 0, 0
	for ; read < want; answers++ {
		size := babble.random.IntN(100)
		if answers%1000 == 0 {
			size = 5000
		}
		ids = babble.answer(ids[:0], size)
		read += size
		// What a Push gives is checked before the next one, the end against all ids.
		check := checker{last: -1}
		parser := suite.Format.Parser(suite.Conversation)
		for i := 0; i <= size; i++ {
			if i < size {
				events = parser.Push(events[:0], ids[i])
			} else {
				events = parser.Close(events[:0])
			}
			for at := range events {
				if err := check.event(&events[at], min(i+1, size)); err != nil {
					t.Fatalf("answer %d, id %d of %v: %+v: %v", answers, i, ids, events, err)
				}
				if events[at].Kind == chat.Salvage {
					salvaged++
				}
			}
		}
		if err := check.end(size); err != nil {
			t.Fatalf("answer %d, %v: %v", answers, ids, err)
		}
	}
	t.Logf("PAR-1: %s: %d answers of %d ids, salvaged %d times, 0 malformed", suite.Name, answers, read, salvaged)
}

// A babbler samples nonsense.
type babbler struct {
	suite  *Suite
	random *rand.Rand
	texts  []int32 // words of headers and calls, and characters of several tokens
}

func newBabbler(s *Suite, seed uint64) *babbler {
	const words = "assistant analysis commentary final to=functions.get_weather json {\"name\": \"get_weather\", \"arguments\": {\"a\": 1}}\n\n😀 é <|"
	return &babbler{s, rand.New(rand.NewPCG(seed, 0)), s.Tokenizer.Encode(nil, words)}
}

// answer appends n ids: markers, words and ids without meaning.
func (b *babbler) answer(dst []int32, n int) []int32 {
	for range n {
		switch b.random.IntN(8) {
		case 0, 1:
			dst = append(dst, b.suite.Markers[b.random.IntN(len(b.suite.Markers))])
		case 2:
			dst = append(dst, b.random.Int32N(int32(b.suite.Tokenizer.Vocab())+10))
		default:
			dst = append(dst, b.texts[b.random.IntN(len(b.texts))])
		}
	}
	return dst
}

// Splits is PAR-2: the same text in other tokens is the same answer. Answers of up
// to 64 bytes are cut into tokens at every place and into single bytes, longer ones
// at random places. A release reads 10⁶ answers in five families.
func Splits(t *testing.T, suite Suite) {
	answers := soak.Cases(t, 500, 200_000)
	random := rand.New(rand.NewPCG(2, 0))
	spell := newSpeller(suite.Tokenizer)
	splits := 0
	for answer := range answers {
		long := answer%10 == 0
		var say []span
		if long {
			say = spell.spans(suite.ramble(t, random))
		} else {
			say = suite.nonsense(random)
		}
		// What the tokenizer makes of the text says how it is to be read.
		whole := spell.ids(nil, say, nil)
		want := Story(Parse(suite.Format.Parser(suite.Conversation), whole))
		for _, cuts := range places(random, say, long) {
			ids := spell.ids(nil, say, cuts)
			splits++
			if got := Story(Parse(suite.Format.Parser(suite.Conversation), ids)); got != want {
				t.Fatalf("answer %d, %q cut at %v:\ngot  %s\nwant %s", answer, suite.Tokenizer.Decode(whole), cuts, got, want)
			}
		}
	}
	t.Logf("PAR-2: %s: %d answers, %d splits, 0 differences", suite.Name, answers, splits)
}

// nonsense returns a short answer of markers and text. It has less than 64 bytes,
// so that no split makes its headers too long (harmony.md 9), and no longer row of
// line breaks than a parser waits for.
func (s *Suite) nonsense(random *rand.Rand) []span {
	words := []string{"final", "analysis", "assistant", "commentary", " to=functions.get_weather", " json", "\n", "\n\n", "}\n", "é", "😀", "a b", " ",
		"{\"name\": \"get_weather\", \"arguments\": {", "\"a\": 1", "}", "}}", "<|end|>", "日本", "</think>"}
	var say []span
	bytes, breaks := 0, 0
	for range 1 + random.IntN(12) {
		if random.IntN(2) == 0 {
			say = append(say, span{id: s.Markers[random.IntN(len(s.Markers))]})
			continue
		}
		word := words[random.IntN(len(words))]
		if breaks++; strings.Trim(word, "\n") != "" {
			breaks = 0
		}
		if bytes += len(word); bytes > 48 || breaks > 2 {
			break
		}
		// Neighbouring words are one text, which the caller cuts.
		if last := len(say); last > 0 && say[last-1].text != "" {
			say[last-1].text += word
			continue
		}
		say = append(say, span{text: word})
	}
	return say
}

// ramble returns the ids of a well-formed answer of some length.
func (s *Suite) ramble(t *testing.T, random *rand.Rand) []int32 {
	names := slices.Sorted(maps.Keys(s.Turns))
	turn := s.Turns[names[random.IntN(len(names))]]
	text := func() string {
		if random.IntN(4) == 0 { // lines that may end in one token each
			return "a" + strings.Repeat("}\n", random.IntN(20)) + "}"
		}
		var text strings.Builder
		for range 1 + random.IntN(20) {
			text.WriteString(s.Strings[random.IntN(len(s.Strings))])
		}
		return "a" + strings.ReplaceAll(text.String(), "\n", "}\n") + "z"
	}
	turn.Parts = []string{text()}
	if turn.Reasoning != "" {
		turn.Reasoning = text()
	}
	return s.answer(t, s.Conversation, turn)
}

// answer returns the ids with which the model gives the turn as an answer to conv, up to
// a stop id if it has one.
func (s *Suite) answer(t *testing.T, conv *chat.Conversation, turn chat.Turn) []int32 {
	t.Helper()
	prompt := s.render(t, conv)
	after := *conv
	after.Turns = append(slices.Clone(conv.Turns), turn)
	after.NoPrompt, after.KeepReasoning = true, true
	whole := s.render(t, &after)
	if len(whole) < len(prompt) || !slices.Equal(whole[:len(prompt)], prompt) {
		t.Fatalf("the turn does not follow the prompt: %q", s.Tokenizer.Decode(whole))
	}
	ids := whole[len(prompt):]
	if i := slices.IndexFunc(ids, func(id int32) bool { return slices.Contains(s.Format.Stops(), id) }); i >= 0 {
		ids = ids[:i+1]
	}
	return ids
}

// places returns the splits to try: every place in turn and all of them, or for long
// answers some at random. A place is a byte of the text of all spans.
func places(random *rand.Rand, say []span, long bool) [][]int {
	size := 0
	for _, part := range say {
		size += len(part.text)
	}
	var all, every [][]int // every: one cut at each place
	for i := 1; i < size; i++ {
		every = append(every, []int{i})
	}
	if !long {
		return append(every, slices.Concat(every...))
	}
	for range 8 { // one for each place would be too many
		cuts := make([]int, random.IntN(size/2+1))
		for i := range cuts {
			cuts[i] = 1 + random.IntN(size)
		}
		slices.Sort(cuts)
		all = append(all, slices.Compact(cuts))
	}
	return append(all, slices.Concat(every...))
}

// Respeller returns what makes answers of the same text in other tokens, cut at random
// places.
func Respeller(tok *token.BPE) func(ids []int32, random *rand.Rand, count int) [][]int32 {
	spell := newSpeller(tok)
	return func(ids []int32, random *rand.Rand, count int) (all [][]int32) {
		say := spell.spans(ids)
		for _, cuts := range places(random, say, true) {
			if len(all) < count {
				all = append(all, spell.ids(nil, say, cuts))
			}
		}
		return all
	}
}

// A span of an answer is an id that means something, or text.
type span struct {
	id   int32
	text string // "" = id
}

// A speller writes text in tokens that end where it is told.
type speller struct {
	tok   *token.BPE
	short map[string]int32 // ids of short tokens, by their bytes
	added map[int32]bool
}

// longest bounds the tokens that a speller uses for parts of characters, in bytes.
const longest = 8

func newSpeller(tok *token.BPE) *speller {
	sp := &speller{tok: tok, short: map[string]int32{}, added: map[int32]bool{}}
	for _, a := range tok.Added() {
		sp.added[a.ID] = true
	}
	for id := range int32(tok.Vocab()) {
		if text := tok.Text(id); len(text) <= longest && !sp.added[id] {
			sp.short[text] = id
		}
	}
	return sp
}

// spans takes ids apart.
func (sp *speller) spans(ids []int32) []span {
	var say []span
	for _, id := range ids {
		last := len(say) - 1
		switch {
		case sp.added[id]:
			say = append(say, span{id: id})
		case last >= 0 && say[last].text != "":
			say[last].text += sp.tok.Text(id)
		default:
			say = append(say, span{text: sp.tok.Text(id)})
		}
	}
	return say
}

// ids appends the tokens of say, with token boundaries at cuts, ascending.
func (sp *speller) ids(dst []int32, say []span, cuts []int) []int32 {
	at := 0
	for _, part := range say {
		if part.text == "" {
			dst = append(dst, part.id)
			continue
		}
		from, end := at, at+len(part.text)
		for len(cuts) > 0 && cuts[0] < end {
			if cuts[0] > from {
				dst = sp.spell(dst, part.text[from-at:cuts[0]-at])
				from = cuts[0]
			}
			cuts = cuts[1:]
		}
		dst = sp.spell(dst, part.text[from-at:])
		at = end
	}
	return dst
}

// spell appends tokens whose text is that, byte for byte.
func (sp *speller) spell(dst []int32, s string) []int32 {
	before, size := len(dst), 0
	if utf8.ValidString(s) {
		dst = sp.tok.Encode(dst, s)
		same := true
		for _, id := range dst[before:] {
			text := sp.tok.Text(id)
			same = same && strings.HasPrefix(s[size:], text)
			size += len(text)
		}
		if same && size == len(s) {
			return dst
		}
		dst = dst[:before] // the tokenizer composes characters, or lacks some
	}
	for len(s) > 0 { // parts of characters: the longest token that fits
		size := min(longest, len(s))
		for size > 1 && sp.short[s[:size]] == 0 {
			size--
		}
		if id, ok := sp.short[s[:size]]; ok {
			dst = append(dst, id)
		}
		s = s[size:]
	}
	return dst
}

// Characters is LIF-5: text in any language, its characters cut into tokens at every
// byte, gives events of whole characters, at most 3 bytes late.
func Characters(t *testing.T, suite Suite) {
	conv := *suite.Conversation
	conv.NoCalls = true // with calls possible, line breaks may wait for one
	spell := newSpeller(suite.Tokenizer)
	splits := 0
	turn := chat.Turn{Role: chat.Assistant, Reasoning: suite.Turns["answer"].Reasoning}
	for _, text := range suite.Strings {
		text = "a" + text // line breaks at the beginning may be the prompt's
		turn.Parts = []string{text}
		say := spell.spans(suite.answer(t, &conv, turn))
		want := Collect(Parse(suite.Format.Parser(&conv), spell.ids(nil, say, nil))).Content
		if heard := suite.Tokenizer.Decode(suite.Tokenizer.Encode(nil, text)); strip(want) != strip(heard) {
			t.Fatalf("%q came back as %q", heard, want)
		}
		for _, cuts := range places(nil, say, false) {
			splits++
			if err := late(suite.Format.Parser(&conv), suite.Tokenizer, spell.ids(nil, say, cuts), want); err != nil {
				t.Fatalf("%q cut at %v: %v", text, cuts, err)
			}
		}
	}
	t.Logf("LIF-5: %s: %d strings, %d splits, 0 differences, at most 3 bytes held back", suite.Name, len(suite.Strings), splits)
}

// strip is text without what templates may take off its ends: Python's white space.
func strip(text string) string {
	return strings.TrimFunc(text, func(char rune) bool { return unicode.IsSpace(char) || (char >= 0x1c && char <= 0x1f) })
}

// late reads ids whose content is want, and reports text that comes late or is cut.
func late(parser chat.Parser, tok *token.BPE, ids []int32, want string) error {
	var ordinary strings.Builder
	for _, id := range ids {
		if !tok.IsControl(id) {
			ordinary.WriteString(tok.Text(id))
		}
	}
	whole := utf8.ValidString(ordinary.String()) // some vocabularies lack bytes
	rest, out := ordinary.Len(), 0
	var events []chat.Event
	for i, id := range ids {
		events = parser.Push(events[:0], id)
		for _, event := range events {
			if !event.Part.Visible() {
				continue
			}
			if !utf8.ValidString(event.Text) || !strings.HasPrefix(want[out:], event.Text) {
				return fmt.Errorf("id %d gives %q, expected what follows %q in %q", i, event.Text, want[:out], want)
			}
			out += len(event.Text)
		}
		if !tok.IsControl(id) {
			rest -= len(tok.Text(id))
		}
		if held := len(want) - rest - out; whole && held > utf8.UTFMax-1 { // the content is the end of the text
			return fmt.Errorf("id %d: %d bytes are held back", i, held)
		}
	}
	if out != len(want) {
		return fmt.Errorf("%q is missing at the end", want[out:])
	}
	return nil
}
