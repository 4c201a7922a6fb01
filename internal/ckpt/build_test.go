package ckpt

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ossian/internal/synth"
	"ossian/internal/tensor"
)

// writeSynth writes a synthetic checkpoint and returns its path.
func writeSynth(t testing.TB, preset string, o synth.Options) string {
	t.Helper()
	m, err := synth.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	o.Model = m
	path := filepath.Join(t.TempDir(), preset)
	if o.Format == synth.GGUF {
		path += ".gguf"
	}
	if err := synth.Write(context.Background(), path, o, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustOpen(t testing.TB, path string) *Model {
	t.Helper()
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func mustWrite(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A field is a place in a file that a damage case may lie about.
type field struct {
	name     string
	at, size int
}

// A ggufImage is a GGUF file taken apart, to be put together again with changes.
type ggufImage struct {
	keys    []ggufKey
	tensors []ggufTensor
	fields  []field // of the last encoding
}

type ggufKey struct {
	name string
	typ  uint32
	body []byte // all that follows the type
}

type ggufTensor struct {
	name string
	typ  uint32
	ne   []uint64
	data []byte
}

func takeApart(t testing.TB, path string) *ggufImage {
	t.Helper()
	data := mustRead(t, path)
	g, err := readGGUF(&file{path: path, data: data})
	if err != nil {
		t.Fatal(err)
	}
	image := &ggufImage{}
	names := slices.SortedFunc(maps.Keys(g.keys), func(a, b string) int { return cmp.Compare(g.keys[a].at, g.keys[b].at) })
	for _, name := range names {
		v := g.keys[name]
		body := v.raw
		switch v.typ {
		case ggufString:
			body = append(binary.LittleEndian.AppendUint64(nil, uint64(len(v.raw))), v.raw...)
		case ggufArray:
			body = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, v.elem), uint64(v.count))
			body = append(body, v.raw...)
		}
		image.keys = append(image.keys, ggufKey{name, v.typ, body})
	}
	for _, s := range g.tensors {
		info := ggufTensor{name: s.name, data: data[s.offset : s.offset+s.size]}
		for _, d := range slices.Backward(s.shape) {
			info.ne = append(info.ne, uint64(d))
		}
		for id, typ := range ggufTypes {
			if typ.name == s.typeName {
				info.typ = id
			}
		}
		image.tensors = append(image.tensors, info)
	}
	return image
}

func (g *ggufImage) encode() []byte {
	var b []byte
	g.fields = nil
	mark := func(size int, format string, args ...any) {
		g.fields = append(g.fields, field{fmt.Sprintf(format, args...), len(b), size})
	}
	u32 := func(v uint32, format string, args ...any) {
		mark(4, format, args...)
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	u64 := func(v uint64, format string, args ...any) {
		mark(8, format, args...)
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	mark(4, "magic")
	b = append(b, "GGUF"...)
	u32(3, "version")
	u64(uint64(len(g.tensors)), "tensor count")
	u64(uint64(len(g.keys)), "key count")
	for _, k := range g.keys {
		u64(uint64(len(k.name)), "key length of %s", k.name)
		b = append(b, k.name...)
		u32(k.typ, "type of %s", k.name)
		b = append(b, k.body...)
	}
	at := 0
	for _, t := range g.tensors {
		u64(uint64(len(t.name)), "name length of %s", t.name)
		b = append(b, t.name...)
		u32(uint32(len(t.ne)), "dims of %s", t.name)
		for i, n := range t.ne {
			u64(n, "ne%d of %s", i, t.name)
		}
		u32(t.typ, "tensor type of %s", t.name)
		u64(uint64(at), "offset of %s", t.name)
		at += (len(t.data) + 31) / 32 * 32
	}
	pad := func() { b = append(b, make([]byte, -len(b)&31)...) }
	for _, t := range g.tensors {
		pad()
		b = append(b, t.data...)
	}
	pad()
	return b
}

func (g *ggufImage) key(name string) *ggufKey {
	i := slices.IndexFunc(g.keys, func(k ggufKey) bool { return k.name == name })
	if i < 0 {
		g.keys = append(g.keys, ggufKey{name: name})
		i = len(g.keys) - 1
	}
	return &g.keys[i]
}

func (g *ggufImage) set(name string, typ uint32, body []byte) {
	k := g.key(name)
	k.typ, k.body = typ, body
}

func (g *ggufImage) setString(name, text string) {
	g.set(name, ggufString, append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...))
}

func (g *ggufImage) setU16(name string, v uint16) {
	g.set(name, ggufU16, binary.LittleEndian.AppendUint16(nil, v))
}

func (g *ggufImage) drop(key string) {
	g.keys = slices.DeleteFunc(g.keys, func(k ggufKey) bool { return k.name == key })
}

func (g *ggufImage) tensor(name string) *ggufTensor {
	i := slices.IndexFunc(g.tensors, func(t ggufTensor) bool { return t.name == name })
	return &g.tensors[i]
}

func (g *ggufImage) dropTensor(name string) {
	g.tensors = slices.DeleteFunc(g.tensors, func(t ggufTensor) bool { return t.name == name })
}

// A stEntry is one tensor of a safetensors file.
type stEntry struct {
	name, dtype string
	shape       []int
	data        []byte
}

func takeApartShard(t testing.TB, path string) []stEntry {
	t.Helper()
	data := mustRead(t, path)
	list, err := readSafetensors(&file{path: path, data: data})
	if err != nil {
		t.Fatal(err)
	}
	var entries []stEntry
	for _, s := range list {
		entries = append(entries, stEntry{s.name, s.typeName, s.shape, data[s.offset : s.offset+s.size]})
	}
	return entries
}

// encodeShard lets change see every entry's JSON before it is written.
func encodeShard(entries []stEntry, change func(name, entry string) string) []byte {
	header, at := []string{`"__metadata__":{"format":"pt"}`}, 0
	var body []byte
	for _, e := range entries {
		shape, _ := json.Marshal(e.shape)
		entry := fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, e.name, e.dtype, shape, at, at+len(e.data))
		if change != nil {
			entry = change(e.name, entry)
		}
		header = append(header, entry)
		body = append(body, e.data...)
		at += len(e.data)
	}
	text := "{" + strings.Join(header, ",") + "}"
	text += strings.Repeat(" ", -len(text)&7)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(b, text...), body...)
}

// editJSON changes one JSON file.
func editJSON(t testing.TB, path string, edit func(m map[string]any)) {
	t.Helper()
	m := map[string]any{}
	if err := json.Unmarshal(mustRead(t, path), &m); err != nil {
		t.Fatal(err)
	}
	edit(m)
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, path, data)
}

// values decodes every row.
func values(t testing.TB, p *tensor.Tensor) []float32 {
	t.Helper()
	out := make([]float32, p.Elems())
	for i := range p.Rows() {
		p.Row(i).Floats(out[i*p.Cols():][:p.Cols()])
	}
	return out
}

// sameParams compares the decoded values of all parameters.
func sameParams(t testing.TB, got, want *Model) {
	t.Helper()
	if len(got.Params) != len(want.Params) || len(got.Params) == 0 {
		t.Fatalf("%d parameters, want %d", len(got.Params), len(want.Params))
	}
	for name, w := range want.Params {
		g := got.Params[name]
		if !slices.Equal(g.Shape, w.Shape) {
			t.Errorf("%s: shape %v, want %v", name, g.Shape, w.Shape)
			continue
		}
		gv, wv := values(t, &g), values(t, &w)
		for i := range wv {
			if gv[i] != wv[i] {
				t.Errorf("%s: element %d is %v, want %v", name, i, gv[i], wv[i])
				break
			}
		}
	}
}
