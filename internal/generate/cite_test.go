package generate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ossian/internal/tools"
	"ossian/internal/wire"
)

// pages knows the displays 0 to 9.
func pages(cursor, line int) (tools.Source, bool) {
	return tools.Source{URL: fmt.Sprintf("https://www.example.org/p(%d)?l=%d", cursor, line), Title: "T"}, cursor < 10
}

// cited returns the text and the citations of an answer whose text comes in the given parts.
func cited(parts []string, links bool) (text string, marks []string) {
	answer := &Answer{}
	c := &citer{find: pages, links: links}
	for _, part := range parts {
		c.push(answer, Delta{Field: Content, Text: part, Logprobs: []wire.TokenLogprob{{Bytes: part}}})
	}
	c.flush(answer)
	var bytes strings.Builder
	for _, delta := range answer.Deltas {
		for _, entry := range delta.Logprobs {
			bytes.WriteString(entry.Bytes)
		}
		if text += delta.Text; delta.Field == Cited {
			at := []rune(text)[delta.Citation.Start:delta.Citation.End]
			marks = append(marks, fmt.Sprintf("%d %s %s", delta.Citation.Start, string(at), delta.Citation.URL))
		}
	}
	if bytes.String() != strings.Join(parts, "") {
		marks = append(marks, "log probabilities of "+bytes.String())
	}
	return text, marks
}

func TestCite(t *testing.T) {
	long := strings.Repeat("x", 61)
	for _, c := range []struct {
		in    string
		marks []string
	}{
		{"nothing", nil},
		{"A【1†L2】b", []string{"1 【1†L2】 https://www.example.org/p(1)?l=2"}},
		{"【1†L2-L5】", []string{"0 【1†L2-L5】 https://www.example.org/p(1)?l=2"}},
		{"🙂é【3†source】", []string{"2 【3†source】 https://www.example.org/p(3)?l=-1"}},
		{"【3†A title†example.org】.", []string{"0 【3†A title†example.org】 https://www.example.org/p(3)?l=-1"}},
		{"【1†L2】【2†L3】", []string{"0 【1†L2】 https://www.example.org/p(1)?l=2", "6 【2†L3】 https://www.example.org/p(2)?l=3"}},
		{"【10†L2】 is no display", nil},
		{"【99999999999999999999†L2】", nil},
		{"【x†L2】", nil},
		{"【】", nil},
		{"【1】", nil},
		{"【1†L2", nil},
		{"【1†L\n2】", nil},
		{"【1†【2†L3】", []string{"3 【2†L3】 https://www.example.org/p(2)?l=3"}},
		{"【【2†L3】", []string{"1 【2†L3】 https://www.example.org/p(2)?l=3"}},
		{"【1†" + long + "】", nil},
		{"【1†" + long[:40] + "】", []string{"0 【1†" + long[:40] + "】 https://www.example.org/p(1)?l=-1"}},
		{"【1†】", []string{"0 【1†】 https://www.example.org/p(1)?l=-1"}},
	} {
		text, marks := cited([]string{c.in}, false)
		if text != c.in || !slices.Equal(marks, c.marks) {
			t.Errorf("%q: %q with %q, want %q", c.in, text, marks, c.marks)
		}
	}
	text, marks := cited([]string{"So【1†L2】, and【12†L2】."}, true)
	const link = " ([example.org](https://www.example.org/p%281%29?l=2)) "
	if want := []string{"2 " + link + " https://www.example.org/p(1)?l=2"}; text != "So"+link+", and【12†L2】." || !slices.Equal(marks, want) {
		t.Errorf("%q with %q, want %q", text, marks, want)
	}
}

// split cuts a text into whole characters, several at a time.
func split(random *rand.Rand, text string) (parts []string) {
	for text != "" {
		n := 0
		for range 1 + random.IntN(4) {
			_, size := utf8.DecodeRuneInString(text[n:])
			n += size
		}
		parts, text = append(parts, text[:n]), text[n:]
	}
	return parts
}

// FuzzCite: however a text arrives, it stays what it was, or has links, and the same is cited.
// What is held back never has more characters than a citation.
func FuzzCite(f *testing.F) {
	for _, text := range []string{"A【1†L2】b【2†x†y】", "【1†【2†L3-L4】】", "【", "【12†", "【1†\n】🙂【3†L1】"} {
		f.Add(text, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		text = strings.ToValidUTF8(text, "?")
		random := rand.New(rand.NewPCG(seed, 2))
		for _, links := range []bool{false, true} {
			whole, marks := cited([]string{text}, links)
			parts := split(random, text)
			if got, again := cited(parts, links); got != whole || !slices.Equal(again, marks) || (!links && got != text) {
				t.Fatalf("%q in parts %q: %q with %q, want %q with %q", text, parts, got, again, whole, marks)
			}
			answer, c := &Answer{}, &citer{find: pages, links: links}
			for _, part := range parts {
				if c.push(answer, Delta{Field: Content, Text: part}); utf8.RuneCountInString(c.text) >= maxCitation {
					t.Fatalf("%q is held back of %q", c.text, text)
				}
			}
		}
	})
}

// TestCitedAnswers: citations come right behind their text, with places in the whole text or in
// their message, and stop strings end them like other text.
func TestCitedAnswers(t *testing.T) {
	f := gptOSS(t)
	for _, c := range []struct {
		name, answer string
		change       func(*Generation)
		want         string
	}{
		{"whole", "<|channel|>commentary<|message|>First【1†L2】.<|end|><|start|>assistant<|channel|>final<|message|>Then【2†L3】 end.<|return|>", nil,
			"content[First【1†L2】] cited[5-11 https://www.example.org/p(1)?l=2] content[.\nThen【2†L3】] cited[17-23 https://www.example.org/p(2)?l=3] content[ end.] stop."},
		{"messages apart", "<|channel|>commentary<|message|>First【1†L2】.<|end|><|start|>assistant<|channel|>final<|message|>Then【2†L3】 end.<|return|>", func(gen *Generation) { gen.Items = true },
			"item[] content[First【1†L2】] cited[5-11 https://www.example.org/p(1)?l=2] content[.] end[] item[] content[Then【2†L3】] cited[4-10 https://www.example.org/p(2)?l=3] content[ end.] end[] stop."},
		{"a stop string inside", "<|channel|>final<|message|>Then【2†L3】 end.<|return|>", func(gen *Generation) { gen.Stop = []string{"L3"} }, "content[Then【2†] stop."},
		{"a stop string behind", "<|channel|>final<|message|>Then【2†L3】 end.<|return|>", func(gen *Generation) { gen.Stop = []string{" end"} }, "content[Then【2†L3】] cited[4-10 https://www.example.org/p(2)?l=3] stop."},
		{"an answer that ends inside", "<|channel|>final<|message|>Then【2†<|return|>", nil, "content[Then【2†] stop."},
		{"links", "<|channel|>final<|message|>Then【2†L3】.<|return|>", func(gen *Generation) { gen.Builtin.Links = true },
			"content[Then ([example.org](https://www.example.org/p%282%29?l=3))  cited[4-59 https://www.example.org/p(2)?l=3] content[.] stop."},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, f, play{script: f.counted("<|call|>", c.answer)})
			server := echoing()
			server.cite = pages
			change := []func(*Generation){}
			if c.change != nil {
				change = append(change, c.change)
			}
			if got := r.tell(r.ask(server, change...)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
