package token

import (
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// o200k holds the 199,998 tokens of o200k_base in rank order, each as its length
// (uvarint) and its bytes, compressed with DEFLATE. _tools/tokens makes it from
// the published rank file; o200k.LICENSE is the licence of the copy it came from.
//
//go:embed o200k.bin
var o200k string

const (
	o200kBase  = 199_998 // ids of o200k_base
	harmonyEnd = 200_019 // ids with a meaning
)

// Harmony returns the vocabulary of gpt-oss, o200k_harmony (formats.md §9), for
// checkpoints that come without one.
func Harmony() (*BPE, error) {
	base, err := unpackRanks(o200k, o200kBase)
	if err != nil {
		return nil, fmt.Errorf("built-in o200k_base: %w", err)
	}
	src := &source{
		tokens: append(base, harmonyTokens()...), class: make([]class, harmonyEnd),
		byRank: true, scan: scanO200k, bos: -1, eos: 200_002,
	}
	for i := range src.class {
		src.class[i] = plain
		if i >= o200kBase {
			src.class[i] = control
		}
	}
	return src.build()
}

// harmonyTokens are the control tokens behind o200k_base, in id order.
func harmonyTokens() []string {
	names := map[int]string{
		199_998: "startoftext", 199_999: "endoftext", 200_002: "return", 200_003: "constrain",
		200_005: "channel", 200_006: "start", 200_007: "end", 200_008: "message",
		200_012: "call", 200_018: "endofprompt",
	}
	var list []string
	for id := o200kBase; id < harmonyEnd; id++ {
		name, ok := names[id]
		if !ok {
			name = fmt.Sprintf("reserved_%d", id)
		}
		list = append(list, "<|"+name+"|>")
	}
	return list
}

// unpackRanks reverses the packing of o200k: count tokens. There is room for those behind.
func unpackRanks(packed string, count int) ([]string, error) {
	raw, err := io.ReadAll(flate.NewReader(strings.NewReader(packed)))
	if err != nil {
		return nil, err
	}
	text := string(raw) // one string, of which all tokens are parts
	tokens := make([]string, 0, count+harmonyEnd-o200kBase)
	for at := 0; at < len(text); {
		size, width := binary.Uvarint(raw[at:])
		if width <= 0 || size > uint64(len(text)-at-width) {
			return nil, errors.New("length outside the data")
		}
		at += width
		tokens = append(tokens, text[at:at+int(size)])
		at += int(size)
	}
	if len(tokens) != count {
		return nil, fmt.Errorf("%d tokens, expected %d", len(tokens), count)
	}
	return tokens, nil
}
