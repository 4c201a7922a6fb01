package main

import (
	"testing"

	"ossian/internal/token"
)

func TestTurn(t *testing.T) {
	tok, err := token.Harmony()
	if err != nil {
		t.Fatal(err)
	}
	const thought = "<|channel|>analysis<|message|>x<|end|><|start|>assistant"
	answer := item{Channel: "final", Want: "42", End: "<|return|>"}
	shape := item{Channel: "final", Want: `{"a":1,"b":"x"}`, End: "<|return|>", JSON: true}
	call := item{Channel: "commentary", To: "functions.f", Want: `{"a":1}`, End: "<|call|>", JSON: true}
	for _, c := range []struct {
		name          string
		text          string
		it            item
		proper, right bool
	}{
		{"answer", thought + "<|channel|>final<|message|>42<|return|>", answer, true, true},
		{"no working", "<|channel|>final<|message|>42<|return|>", answer, true, true},
		{"other text", thought + "<|channel|>final<|message|>43<|return|>", answer, true, false},
		{"ended like a message", thought + "<|channel|>final<|message|>42<|end|>", answer, false, false},
		{"ended like a call", thought + "<|channel|>final<|message|>42<|call|>", answer, false, false},
		{"cut short", thought + "<|channel|>final<|message|>42", answer, false, false},
		{"only working", "<|channel|>analysis<|message|>42<|return|>", answer, false, false},
		{"goes on", thought + "<|channel|>final<|message|>42<|return|><|start|>", answer, false, false},
		{"marker in the text", thought + "<|channel|>final<|message|>4<|channel|>2<|return|>", answer, false, false},
		{"second header", thought + "<|start|>assistant<|channel|>final<|message|>42<|return|>", answer, false, false},
		{"unknown channel", "<|channel|>thoughts<|message|>42<|return|>", answer, false, false},
		{"empty", "", answer, false, false},
		{"object", "<|channel|>final <|constrain|>json<|message|>{\"b\": \"x\", \"a\": 1}<|return|>", shape, true, true},
		{"other number", "<|channel|>final<|message|>{\"a\":1.0,\"b\":\"x\"}<|return|>", shape, true, false},
		{"two values", "<|channel|>final<|message|>{\"a\":1,\"b\":\"x\"} {}<|return|>", shape, true, false},
		{"not JSON", "<|channel|>final<|message|>{\"a\":1<|return|>", shape, true, false},
		{"call", thought + "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>", call, true, true},
		{"other tool", "<|channel|>commentary to=functions.g <|constrain|>json<|message|>{\"a\":1}<|call|>", call, true, false},
		{"call that returns", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|return|>", call, false, false},
		{"preamble only", "<|channel|>commentary<|message|>{\"a\":1}<|call|>", call, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := tok.Prompt()
			p.Markup(c.text)
			got := parse(tok, p.IDs())
			if got.proper != c.proper || got.right(&c.it) != c.right {
				t.Errorf("%q: proper %v, right %v; want %v, %v (%+v)", c.text, got.proper, got.right(&c.it), c.proper, c.right, got)
			}
		})
	}
}
