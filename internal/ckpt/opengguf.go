package ckpt

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"ossian/internal/token"
)

// openGGUF opens one GGUF file or a split set (formats.md 3).
func (m *Model) openGGUF() error {
	file, err := m.openMap(m.Path)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(file.data, []byte("GGUF")) {
		if known := foreign(file.path, file.data, int64(len(file.data))); known != nil {
			return known
		}
	}
	if !bytes.HasPrefix(file.data, []byte("GGUF")) && !strings.HasSuffix(m.Path, ".gguf") {
		return unsupported(m.Path, "kind of file", "a .gguf file, or the directory that holds config.json", fmt.Sprintf("%q", file.data[:min(len(file.data), 8)]))
	}
	first, err := readGGUF(file)
	if err != nil {
		return err
	}
	if err := m.add(first.tensors); err != nil {
		return err
	}
	if err := m.openParts(first); err != nil {
		return err
	}
	return m.fromGGUF(first)
}

// splitInt returns an integer of the split keys, def when absent.
func (g *container) splitInt(key string, def int64) (int64, error) {
	value, ok := g.keys[key]
	if !ok {
		return def, nil
	}
	number, ok := value.integer()
	if !ok || number < 0 || number > maxTensors {
		return 0, g.file.damaged(value.at, "key "+key, fmt.Sprintf("an integer from 0 to %d", maxTensors), value.text())
	}
	return number, nil
}

// openParts opens the other files of a split set, which lie beside the first.
func (m *Model) openParts(first *container) error {
	count, err := first.splitInt("split.count", 1)
	if err != nil || count <= 1 {
		return err
	}
	no, err := first.splitInt("split.no", 0)
	if err != nil {
		return err
	}
	// The names of the others follow from that of the first, which must be the one given.
	name := func(no int64) string { return fmt.Sprintf("-%05d-of-%05d.gguf", no+1, count) }
	stem, ok := strings.CutSuffix(m.Path, name(no))
	if !ok {
		return incomplete(m.Path, fmt.Sprintf("part %d of %d, whose name must end in %s to find the others", no+1, count, name(no)))
	}
	if no != 0 {
		return unsupported(m.Path, "part of a split model", "the first one, "+stem+name(0), no+1)
	}
	for part := int64(1); part < count; part++ {
		file, err := m.openMap(stem + name(part))
		if err != nil {
			return err
		}
		if known := foreign(file.path, file.data, int64(len(file.data))); known != nil && !bytes.HasPrefix(file.data, []byte("GGUF")) {
			return known
		}
		header, err := readGGUF(file)
		if err != nil {
			return err
		}
		// A part of another set, or in another's place, would give a model of two.
		partNo, err := header.splitInt("split.no", -1)
		if err != nil {
			return err
		}
		partCount, err := header.splitInt("split.count", -1)
		if err != nil {
			return err
		}
		if partNo != part || partCount != count {
			return &Error{Kind: Inconsistent, File: file.path, Offset: -1, Problem: "split.no and split.count",
				Want: fmt.Sprintf("%d of %d", part, count), Got: fmt.Sprintf("%d of %d", partNo, partCount)}
		}
		if err := m.add(header.tensors); err != nil {
			return err
		}
	}
	total, err := first.splitInt("split.tensors.count", int64(len(m.stored)))
	if err == nil && total != int64(len(m.stored)) {
		return &Error{Kind: Inconsistent, File: m.Path, Offset: -1, Problem: "split.tensors.count",
			Want: fmt.Sprintf("%d tensors", total), Got: fmt.Sprint(len(m.stored))}
	}
	return err
}

// fromGGUF makes the Spec, the parameters and what the tokenizer needs of the keys and tensors
// of a file, or of the first file of a set.
func (m *Model) fromGGUF(header *container) error {
	m.Format = "GGUF"
	keys := &metadata{file: header.file.path, keys: header.keys}
	assembler := newAssembler(header.file.path, m.stored)
	assembler.spec = keys.spec(assembler)
	assembler.arch = keys.arch
	if keys.err != nil {
		return keys.err
	}
	if assembler.spec.RoPE.Divisors = assembler.divisors(); assembler.err != nil {
		return assembler.err
	}
	if err := assembler.spec.Validate(); err != nil {
		return damaged(header.file.path, -1, "configuration", "a model that can exist", err)
	}
	var err error
	if m.Params, err = assembler.assemble(assembler.buildGGUF); err != nil {
		return err
	}
	m.Spec = assembler.spec
	m.Unknown = assembler.unknown()
	if err := m.checkLayers(header.file.path); err != nil {
		return err
	}
	// Text: the template, the tokens that end an answer, which files name in several ways, and
	// the vocabulary.
	const template = "tokenizer.chat_template"
	m.Template, m.From = keys.string(template), template
	for _, key := range slices.Sorted(maps.Keys(header.keys)) {
		if name, ok := strings.CutPrefix(key, template+"."); ok && len(header.keys[key].raw) <= maxTemplate {
			m.keepTemplate(name, keys.string(key))
		}
	}
	const prefix = "tokenizer.ggml."
	for _, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id"} {
		m.Stops = append(m.Stops, keys.id(prefix+key))
	}
	if value, ok := header.keys[prefix+"eos_token_ids"]; ok {
		list, ok := value.integers()
		if !ok {
			keys.fail(prefix+"eos_token_ids", "token ids")
		}
		for _, id := range list {
			if id < 0 || id > math.MaxInt32 {
				keys.fail(prefix+"eos_token_ids", "token ids")
				break
			}
			m.Stops = append(m.Stops, int32(id))
		}
	}
	m.BOS = keys.id(prefix + "bos_token_id")
	vocab := keys.vocab(assembler.spec.Family)
	special := map[string]int32{"bos_token": m.BOS, "eos_token": keys.id(prefix + "eos_token_id"),
		"pad_token": keys.id(prefix + "padding_token_id"), "unk_token": keys.id(prefix + "unknown_token_id")}
	if keys.err != nil {
		return keys.err
	}
	m.tokenize = func() error { return m.tokenizeGGUF(header.file.path, vocab, special) }
	return nil
}

// tokenizeGGUF makes the tokenizer and names the special tokens.
func (m *Model) tokenizeGGUF(path string, vocab token.Vocab, special map[string]int32) (err error) {
	if m.Tokenizer, err = token.FromGGUF(vocab); err != nil {
		return unsupported(path, err.Error(), "", "")
	}
	for name, id := range special {
		if text := m.Tokenizer.Text(id); text != "" {
			m.Special[name] = text
		}
	}
	return nil
}
