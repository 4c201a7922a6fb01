package ckpt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ossian/internal/synth"
)

// wantError opens path and checks the diagnosis.
func wantError(t testing.TB, path string, kind Kind, words ...string) {
	t.Helper()
	m, err := Open(path)
	if err == nil {
		m.Close()
		t.Fatalf("opened, want %v with %q", kind, words)
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error %v of type %T, want *Error", err, err)
	}
	if e.Kind != kind {
		t.Errorf("%v: want kind %v", err, kind)
	}
	if !strings.HasPrefix(e.File, filepath.Dir(path)) {
		t.Errorf("%v: file %q is not of the checkpoint", err, e.File)
	}
	if e.Want != "" && e.Got == "" {
		t.Errorf("%v: nothing said about what was found", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v: want the words %q", err, w)
		}
	}
	if len(err.Error()) > 2000 {
		t.Errorf("message of %d bytes", len(err.Error()))
	}
}

// A lie is a change to a sound checkpoint and the diagnosis it must get.
type lie struct {
	name  string
	kind  Kind
	words []string
}

// Every number in the header of a GGUF file, lied about in several ways.
func TestDamagedGGUFFields(t *testing.T) {
	g := takeApart(t, writeSynth(t, "llama-linear-tiny", synth.Options{Format: synth.GGUF}))
	sound := g.encode()
	path := filepath.Join(t.TempDir(), "damaged.gguf")
	count := 0
	try := func(f field, value uint64, l lie) {
		count++
		t.Run(fmt.Sprintf("%s=%#x", f.name, value), func(t *testing.T) {
			b := slices.Clone(sound)
			switch f.size {
			case 4:
				binary.LittleEndian.PutUint32(b[f.at:], uint32(value))
			case 8:
				binary.LittleEndian.PutUint64(b[f.at:], value)
			}
			mustWrite(t, path, b)
			wantError(t, path, l.kind, l.words...)
		})
	}
	size := uint64(len(sound))
	huge := []uint64{1 << 32, 1 << 62, 1 << 63, math.MaxUint64}
	for _, f := range g.fields {
		what, name, _ := strings.Cut(f.name, " of ")
		if strings.HasPrefix(name, "blk.1.") || strings.HasPrefix(name, "blk.2.") {
			continue // as blk.0
		}
		tensorLie := func(k Kind, words ...string) lie { return lie{"", k, append(words, fmt.Sprintf("%q", name))} }
		switch what {
		case "magic":
			for _, v := range []uint64{0, 0x46554746, 0x47475546, 0x04034c50} {
				try(f, v, lie{"", Damaged, []string{"magic", "at byte 0"}})
			}
		case "version":
			for _, v := range []uint64{0, 1, 4, 1<<31 | 3} {
				try(f, v, lie{"", Unsupported, []string{"GGUF version", "2 or 3"}})
			}
			try(f, 3<<24, lie{"", Unsupported, []string{"big-endian"}})
		case "tensor count":
			try(f, 0, lie{"", Unsupported, []string{"a vocabulary without weights"}})
			try(f, uint64(len(g.tensors)+1), lie{"", Damaged, []string{"tensor name length"}})
			try(f, uint64(len(g.tensors)-1), lie{"", Incomplete, []string{g.tensors[len(g.tensors)-1].name}})
			for _, v := range append(slices.Clone(huge), maxTensors+1) {
				try(f, v, lie{"", Damaged, []string{"tensor count", "at byte 8"}})
			}
		case "key count":
			try(f, 0, lie{"", Damaged, []string{"dimension count"}})
			try(f, uint64(len(g.keys)-1), lie{"", Damaged, nil})
			for _, v := range append(slices.Clone(huge), maxKeys+1) {
				try(f, v, lie{"", Damaged, []string{"key count", "at byte 16"}})
			}
		case "key length":
			for _, v := range append(slices.Clone(huge), 0, 65536) {
				try(f, v, lie{"", Damaged, []string{"key length", fmt.Sprintf("at byte %d", f.at)}})
			}
		case "type":
			for _, v := range []uint64{13, 99, math.MaxUint32} {
				try(f, v, lie{"", Damaged, []string{"type of key " + name, fmt.Sprintf("at byte %d", f.at)}})
			}
		case "name length":
			for _, v := range append(slices.Clone(huge), 0, 64) {
				try(f, v, lie{"", Damaged, []string{"tensor name length", fmt.Sprintf("at byte %d", f.at)}})
			}
		case "dims":
			for _, v := range []uint64{0, 5, math.MaxUint32} {
				try(f, v, lie{"", Damaged, []string{name, "dimension count"}})
			}
		case "ne0", "ne1":
			for _, v := range []uint64{0, 1 << 60, 1 << 63, math.MaxUint64} {
				try(f, v, tensorLie(Damaged, "shape"))
			}
		case "tensor type":
			for _, v := range []uint64{4, 10, 34, 40, 41, 255} {
				try(f, v, tensorLie(Unsupported, "type", "MXFP4, Q8_0"))
			}
			try(f, math.MaxUint32, tensorLie(Damaged, "type"))
			if binary.LittleEndian.Uint32(sound[f.at:]) == 0 {
				try(f, 26, tensorLie(Unsupported, "type", "I32"))
			}
		case "offset":
			at := binary.LittleEndian.Uint64(sound[f.at:])
			for _, v := range []uint64{at + 1, at + 32, size, size + 1, 1 << 63, math.MaxUint64} {
				try(f, v, tensorLie(Damaged, "offset"))
			}
		default:
			t.Fatalf("field %q has no lies", f.name)
		}
	}
	t.Logf("%d cases", count)
	if count < 200 {
		t.Errorf("%d cases, want 200", count)
	}
}

// Metadata that is well-formed and wrong.
func TestDamagedGGUFKeys(t *testing.T) {
	path := writeSynth(t, "gpt-oss-tiny", synth.Options{Format: synth.GGUF})
	u32 := func(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
	f32 := func(v float32) []byte { return u32(math.Float32bits(v)) }
	array := func(elem uint32, n uint64, body ...byte) []byte {
		return append(binary.LittleEndian.AppendUint64(u32(elem), n), body...)
	}
	const p, tok = "gpt-oss.", "tokenizer.ggml."
	type change struct {
		lie
		edit func(g *ggufImage)
	}
	var cases []change
	for _, key := range []string{"general.architecture", p + "block_count", p + "embedding_length", p + "attention.head_count", p + "context_length",
		p + "expert_count", p + "expert_used_count", tok + "tokens", tok + "merges", tok + "token_type"} {
		cases = append(cases, change{lie{"without " + key, Incomplete, []string{"key " + key}}, func(g *ggufImage) { g.drop(key) }})
	}
	for _, key := range []string{"block_count", "embedding_length", "attention.head_count", "attention.head_count_kv", "attention.key_length", "context_length",
		"expert_count", "expert_used_count", "expert_feed_forward_length", "attention.sliding_window", "rope.scaling.original_context_length"} {
		for what, edit := range map[string]func(g *ggufImage){
			"zero":         func(g *ggufImage) { g.set(p+key, ggufU32, u32(0)) },
			"negative":     func(g *ggufImage) { g.set(p+key, ggufI32, u32(math.MaxUint32)) },
			"over int32":   func(g *ggufImage) { g.set(p+key, ggufU32, u32(math.MaxUint32)) },
			"over int64":   func(g *ggufImage) { g.set(p+key, ggufU64, binary.LittleEndian.AppendUint64(nil, math.MaxUint64)) },
			"a string":     func(g *ggufImage) { g.setString(p+key, "4") },
			"a float":      func(g *ggufImage) { g.set(p+key, ggufF32, f32(4)) },
			"a bool":       func(g *ggufImage) { g.set(p+key, ggufBool, []byte{1}) },
			"no elements":  func(g *ggufImage) { g.set(p+key, ggufArray, array(ggufU32, 0)) },
			"string array": func(g *ggufImage) { g.set(p+key, ggufArray, array(ggufString, 1, make([]byte, 8)...)) },
		} {
			cases = append(cases, change{lie{key + " is " + what, Damaged, []string{"key " + p + key, "expected an integer"}}, edit})
		}
	}
	for _, key := range []string{"rope.freq_base", "attention.layer_norm_rms_epsilon", "rope.scaling.factor", "rope.scaling.yarn_beta_fast"} {
		cases = append(cases,
			change{lie{key + " is NaN", Damaged, []string{"key " + p + key, "a finite number", "NaN"}}, func(g *ggufImage) { g.set(p+key, ggufF32, f32(float32(math.NaN()))) }},
			change{lie{key + " is a string", Damaged, []string{"key " + p + key}}, func(g *ggufImage) { g.setString(p+key, "x") }})
	}
	cases = append(cases, []change{
		{lie{"other architecture", Unsupported, []string{"general.architecture", "mamba", "gpt-oss, qwen3"}}, func(g *ggufImage) { g.setString("general.architecture", "mamba") }},
		{lie{"architecture is a number", Damaged, []string{"key general.architecture", "a string"}}, func(g *ggufImage) { g.set("general.architecture", ggufU32, u32(1)) }},
		{lie{"partial rotation", Unsupported, []string{"rope.dimension_count", "the key length 32", "16"}}, func(g *ggufImage) { g.set(p+"rope.dimension_count", ggufU32, u32(16)) }},
		{lie{"other value length", Unsupported, []string{"attention.value_length"}}, func(g *ggufImage) { g.set(p+"attention.value_length", ggufU32, u32(16)) }},
		{lie{"layers differ", Unsupported, []string{"head_count_kv", "one value for all layers", "2 for layer 0 and 1 for layer 1"}}, func(g *ggufImage) {
			g.set(p+"attention.head_count_kv", ggufArray, array(ggufU32, 2, append(u32(2), u32(1)...)...))
		}},
		{lie{"heads do not divide", Damaged, []string{"8 heads are not a multiple of 3"}}, func(g *ggufImage) { g.set(p+"attention.head_count_kv", ggufU32, u32(3)) }},
		{lie{"a million layers", Damaged, []string{"layers is 1000000"}}, func(g *ggufImage) { g.set(p+"block_count", ggufU32, u32(1000000)) }},
		{lie{"more layers than tensors", Incomplete, []string{"blk.4.attn_norm.weight"}}, func(g *ggufImage) { g.set(p+"block_count", ggufU32, u32(5)) }},
		{lie{"more experts than stored", Inconsistent, []string{"[9 96] from the configuration", "[8 96]"}}, func(g *ggufImage) { g.set(p+"expert_count", ggufU32, u32(9)) }},
		{lie{"shrinking factor", Damaged, []string{"rope.scaling.factor", "0.5"}}, func(g *ggufImage) { g.set(p+"rope.scaling.factor", ggufF32, f32(0.5)) }},
		{lie{"betas swapped", Damaged, []string{"yarn_beta_slow"}}, func(g *ggufImage) { g.set(p+"rope.scaling.yarn_beta_slow", ggufF32, f32(99)) }},
		{lie{"alignment 0", Damaged, []string{"general.alignment", "power of two"}}, func(g *ggufImage) { g.set("general.alignment", ggufU32, u32(0)) }},
		{lie{"alignment 48", Damaged, []string{"general.alignment", "48"}}, func(g *ggufImage) { g.set("general.alignment", ggufU32, u32(48)) }},
		{lie{"alignment 2^31", Damaged, []string{"general.alignment"}}, func(g *ggufImage) { g.set("general.alignment", ggufU32, u32(1<<31)) }},
		{lie{"bool of 2", Damaged, []string{"add_bos_token", "0 or 1"}}, func(g *ggufImage) { g.set(tok+"add_bos_token", ggufBool, []byte{2}) }},
		{lie{"nested array", Damaged, []string{"element type of key x"}}, func(g *ggufImage) { g.set("x", ggufArray, array(ggufArray, 1, make([]byte, 12)...)) }},
		{lie{"array beyond the file", Damaged, []string{"key x", "before the end of the file"}}, func(g *ggufImage) { g.set("x", ggufArray, array(ggufU64, 1<<29)) }},
		{lie{"array of 2^31", Damaged, []string{"element count of key x"}}, func(g *ggufImage) { g.set("x", ggufArray, array(ggufU8, 1<<31)) }},
		{lie{"strings beyond the file", Damaged, []string{"string of key x"}}, func(g *ggufImage) { g.set("x", ggufArray, array(ggufString, 1<<29)) }},
		{lie{"key twice", Damaged, []string{"key twice", "a second one"}}, func(g *ggufImage) {
			g.keys = append(g.keys, ggufKey{"twice", ggufU8, []byte{1}}, ggufKey{"twice", ggufU8, []byte{1}})
		}},
		{lie{"key of bad UTF-8", Damaged, []string{"UTF-8"}}, func(g *ggufImage) { g.keys[3].name = "\xff" }},
		{lie{"tensor twice", Damaged, []string{"unique names"}}, func(g *ggufImage) { g.tensors = append(g.tensors, g.tensors[0]) }},
		{lie{"token ids that are strings", Damaged, []string{"eos_token_id", "a token id"}}, func(g *ggufImage) { g.setString(tok+"eos_token_id", "2") }},
		{lie{"other tokenizer", Unsupported, []string{"tokenizer.ggml.model"}}, func(g *ggufImage) { g.setString(tok+"model", "llama") }},
		{lie{"other splitter", Unsupported, []string{"pre"}}, func(g *ggufImage) { g.setString(tok+"pre", "unheard-of") }},
		{lie{"short token types", Unsupported, []string{"token types"}}, func(g *ggufImage) { g.set(tok+"token_type", ggufArray, array(ggufI32, 1, 1, 0, 0, 0)) }},
		{lie{"more tokens than rows", Inconsistent, []string{"embedding", "400"}}, func(g *ggufImage) {
			k := g.key(tok + "tokens")
			k.body = append(slices.Clone(k.body), append(binary.LittleEndian.AppendUint64(nil, 3), "zzz"...)...)
			binary.LittleEndian.PutUint64(k.body[4:], 401)
			k = g.key(tok + "token_type")
			k.body = append(slices.Clone(k.body), 1, 0, 0, 0)
			binary.LittleEndian.PutUint64(k.body[4:], 401)
		}},
		{lie{"early fused gate and up", Unsupported, []string{"order of gate and up", "gptoss"}}, func(g *ggufImage) { fuseGateUp(g); toOllama(g) }},
		{lie{"an adapter", Unsupported, []string{"kind of GGUF file", "LoRA"}}, func(g *ggufImage) { g.setString("general.type", "adapter") }},
		{lie{"a projector", Unsupported, []string{"kind of GGUF file", "projector"}}, func(g *ggufImage) { g.setString("general.architecture", "clip") }},
		{lie{"a splitter that is not known", Unsupported, []string{`"gpt-9"`, "deepseek-r1-qwen"}}, func(g *ggufImage) { g.setString("tokenizer.ggml.pre", "gpt-9") }},
		{lie{"quantised norm", Unsupported, []string{"blk.0.attn_norm.weight", "for a vector"}}, func(g *ggufImage) {
			n := g.tensor("blk.0.attn_norm.weight")
			n.typ, n.data = 8, make([]byte, 96/32*34)
		}},
		{lie{"embedding of one dimension", Incomplete, []string{"token_embd.weight", "matrix"}}, func(g *ggufImage) {
			e := g.tensor("token_embd.weight")
			e.ne = []uint64{e.ne[0] * e.ne[1]}
		}},
		{lie{"dense llama with experts", Unsupported, []string{"llama.expert_count"}}, func(g *ggufImage) {
			g.setString("general.architecture", "llama")
			for i := range g.keys {
				g.keys[i].name = strings.Replace(g.keys[i].name, "gpt-oss.", "llama.", 1)
			}
			g.set("llama.feed_forward_length", ggufU32, u32(64))
		}},
	}...)
	for _, x := range takeApart(t, path).tensors[:21] {
		name := x.name
		cases = append(cases,
			change{lie{"without " + name, Incomplete, []string{name[:strings.LastIndex(name, ".")]}}, func(g *ggufImage) { g.dropTensor(name) }},
			change{lie{"reshaped " + name, Inconsistent, []string{name, "shape", "from the configuration"}}, func(g *ggufImage) {
				x := g.tensor(name)
				if last := len(x.ne) - 1; last > 0 {
					x.ne[last], x.ne[last-1] = x.ne[last]*2, x.ne[last-1]/2
				} else {
					x.ne = append(x.ne, 1)
				}
			}})
	}
	t.Logf("%d cases", len(cases))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := takeApart(t, path)
			c.edit(g)
			changed := filepath.Join(t.TempDir(), "changed.gguf")
			mustWrite(t, changed, g.encode())
			wantError(t, changed, c.kind, c.words...)
		})
	}
}

// A file that ends early is damaged wherever it ends, and the message says where.
func TestTruncated(t *testing.T) {
	path := writeSynth(t, "llama-linear-tiny", synth.Options{Format: synth.GGUF})
	dir := writeSynth(t, "llama-linear-tiny", synth.Options{})
	shard := filepath.Join(dir, "model.safetensors")
	for name, c := range map[string]struct{ open, cut string }{"gguf": {path, path}, "safetensors": {dir, shard}} {
		sound := mustRead(t, c.cut)
		for i := range 60 {
			n := len(sound) * i / 60
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				mustWrite(t, c.cut, sound[:n])
				wantError(t, c.open, Damaged, "expected", "found")
			})
		}
	}
}

func TestDamagedSafetensors(t *testing.T) {
	dir := writeSynth(t, "llama-linear-tiny", synth.Options{})
	shard := filepath.Join(dir, "model.safetensors")
	entries := takeApartShard(t, shard)
	type edit struct {
		old, new string
		lie
	}
	damage := func(name, old, new string, words ...string) edit { return edit{old, new, lie{name, Damaged, words}} }
	edits := []edit{
		damage("unknown type", `"BF16"`, `"F99"`, "dtype", "F99"),
		damage("type of another size", `"BF16"`, `"F32"`, "data_offsets", "bytes for F32"),
		damage("type is a number", `"BF16"`, `16`, "'\"'"),
		{`"BF16"`, `"I16"`, lie{"type that is not read", Unsupported, []string{"type", "I16"}}},
		damage("no type", `"dtype":"BF16",`, ``, "once each"),
		damage("type twice", `"dtype"`, `"dtype":"BF16","dtype"`, "once each"),
		damage("no shape", `"shape"`, `"form"`, "once each"),
		damage("no offsets", `"data_offsets"`, `"offsets"`, "once each"),
		damage("negative size", `"shape":[`, `"shape":[-`, "integer from 0"),
		damage("fraction", `"shape":[`, `"shape":[0.`, "expected"),
		damage("leading zero", `"shape":[`, `"shape":[0`, "integer from 0"),
		damage("overflowing shape", `"shape":[`, `"shape":[4611686018427387903,4,`, "shape", "elements"),
		damage("number beyond 2^62", `"shape":[`, `"shape":[99999999999999999999,`, "integer from 0"),
		damage("many dimensions", `"shape":[`, `"shape":[1,1,1,1,1,1,1,1,`, "dimensions"),
		damage("larger shape", `"shape":[`, `"shape":[2,`, "data_offsets", "bytes for BF16"),
		damage("empty shape", `"shape":[`, `"shape":[0,`, "data_offsets", "0 bytes"),
		{`"shape":[`, `"shape":[1,`, lie{"other shape", Inconsistent, []string{"shape", "from the configuration"}}},
		damage("begin after end", `"data_offsets":[`, `"data_offsets":[99999999`, "begin <= end"),
		damage("three offsets", `"data_offsets":[`, `"data_offsets":[0,`, "data_offsets"),
		damage("offsets are strings", `"data_offsets":[`, `"data_offsets":["0",`, "integer"),
		damage("offsets are an object", `"data_offsets":[`, `"data_offsets":{"a":[`, "'['"),
		damage("not an object", `":{`, `":[{`, "'{'"),
		damage("unclosed", `}`, ``, "'}'"),
		damage("deep nonsense", `"dtype"`, `"x":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`,"dtype"`, "levels"),
		damage("control character", `"dtype"`, "\"\x01\":1,\"dtype\"", "control characters"),
		damage("bad UTF-8", `"dtype"`, "\"\xff\":1,\"dtype\"", "UTF-8"),
		damage("bad escape", `"dtype"`, `"\x":1,"dtype"`, "escapes"),
		damage("bad literal", `"dtype"`, `"x":nul,"dtype"`, "a value"),
	}
	// A norm, a matrix in the middle and the last tensor get every lie.
	for _, i := range []int{0, len(entries) / 2, len(entries) - 1} {
		target := entries[i].name
		for _, e := range edits {
			t.Run(target+" "+e.name, func(t *testing.T) {
				mustWrite(t, shard, encodeShard(entries, func(name, entry string) string {
					if name != target {
						return entry
					}
					changed := strings.Replace(entry, e.old, e.new, 1)
					if e.name == "unclosed" {
						changed = strings.TrimSuffix(entry, "}")
					}
					if changed == entry {
						t.Fatalf("%q is not in %s", e.old, entry)
					}
					return changed
				}))
				wantError(t, dir, e.kind, e.words...)
			})
		}
		for name, c := range map[string]struct {
			change func([]stEntry) []stEntry
			lie
		}{
			"missing": {func(l []stEntry) []stEntry { return slices.Delete(l, i, i+1) }, lie{"", Incomplete, []string{fmt.Sprintf("%q", target), "missing"}}},
			"renamed": {func(l []stEntry) []stEntry { l[i].name += "x"; return l }, lie{"", Incomplete, []string{fmt.Sprintf("%q", target), "missing"}}},
			"twice":   {func(l []stEntry) []stEntry { return append(l, l[i]) }, lie{"", Damaged, []string{fmt.Sprintf("%q", target), "unique names"}}},
		} {
			t.Run(target+" "+name, func(t *testing.T) {
				mustWrite(t, shard, encodeShard(c.change(slices.Clone(entries)), nil))
				wantError(t, dir, c.kind, c.words...)
			})
		}
	}
	// Moved tensors: the bytes stay, one entry claims others.
	for name, move := range map[string]struct {
		by   [2]int
		word string
	}{"hole": {[2]int{2, 2}, "cover the file"}, "overlap": {[2]int{-2, -2}, "cover the file"}} {
		t.Run(name, func(t *testing.T) {
			target := entries[3].name
			mustWrite(t, shard, encodeShard(entries, func(n, entry string) string {
				if n != target {
					return entry
				}
				var a, b int
				at := strings.Index(entry, `"data_offsets":[`) + len(`"data_offsets":[`)
				fmt.Sscanf(entry[at:], "%d,%d", &a, &b)
				return entry[:at] + fmt.Sprintf("%d,%d]}", a+move.by[0], b+move.by[1])
			}))
			wantError(t, dir, Damaged, move.word)
		})
	}
}

func TestDamagedSafetensorsHeader(t *testing.T) {
	dir := writeSynth(t, "llama-linear-tiny", synth.Options{})
	shard := filepath.Join(dir, "model.safetensors")
	sound := mustRead(t, shard)
	n := binary.LittleEndian.Uint64(sound)
	withLength := func(n uint64) []byte { return append(binary.LittleEndian.AppendUint64(nil, n), sound[8:]...) }
	withText := func(text string) []byte {
		return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), sound[8+n:]...)
	}
	text := string(sound[8 : 8+n])
	for name, c := range map[string]struct {
		data []byte
		word string
	}{
		"length 0":             {withLength(0), `"{"`},
		"length 1":             {withLength(1), "expected"},
		"length short":         {withLength(n / 2), "expected"},
		"length long":          {withLength(n + 8), "expected"},
		"length of the file":   {withLength(uint64(len(sound))), "header length"},
		"length 2^63":          {withLength(1 << 63), "header length"},
		"length -1":            {withLength(math.MaxUint64), "header length"},
		"length over limit":    {withLength(maxHeader + 1), "header length"},
		"starts with a blank":  {withText(" " + text), `"{"`},
		"an array":             {withText("[" + text + "]"), `"{"`},
		"garbage behind":       {withText(text + "x"), "the end"},
		"zero byte behind":     {withText(text + "\x00"), "the end"},
		"only {":               {withText("{"), "the end"},
		"no comma":             {withText(strings.Replace(text, "},", "}", 1)), "'}'"},
		"comma at the end":     {withText(strings.TrimRight(text, " }") + "},}"), "expected"},
		"metadata is a list":   {withText(strings.Replace(text, `{`, `{"__metadata__":[],"`, 1)), "'{'"},
		"metadata of numbers":  {withText(`{"__metadata__":{"a":1}}`), "'\"'"},
		"metadata twice":       {withText(`{"__metadata__":{},"__metadata__":{}}`), "a second"},
		"no tensors, but data": {withText(`{}`), "cover the file"},
	} {
		t.Run(name, func(t *testing.T) {
			mustWrite(t, shard, c.data)
			wantError(t, dir, Damaged, c.word, "model.safetensors")
		})
	}
}

// Every key of config.json that is read, with values that cannot be.
func TestDamagedConfig(t *testing.T) {
	ints := []string{"num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings",
		"num_local_experts", "num_experts_per_tok", "intermediate_size", "sliding_window"}
	dir := writeSynth(t, "gpt-oss-tiny", synth.Options{})
	path := filepath.Join(dir, "config.json")
	sound := mustRead(t, path)
	count := 0
	try := func(name string, kind Kind, words []string, edit func(m map[string]any)) {
		count++
		t.Run(name, func(t *testing.T) {
			mustWrite(t, path, sound)
			editJSON(t, path, edit)
			wantError(t, dir, kind, words...)
		})
	}
	for _, key := range ints {
		for _, v := range []any{0, -1, 1.5, "4", []int{1}, map[string]int{}, true, 1e300, int64(math.MaxInt32) + 1} {
			try(fmt.Sprintf("%s=%v", key, v), Damaged, []string{"config.json", key, "an integer"}, func(m map[string]any) { m[key] = v })
		}
	}
	for _, key := range []string{"num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads", "num_local_experts", "num_experts_per_tok", "intermediate_size", "model_type"} {
		for _, null := range []bool{false, true} {
			try(fmt.Sprintf("%s missing, null %v", key, null), Incomplete, []string{"config.json", key, "is missing"}, func(m map[string]any) {
				delete(m, "experts_per_token") // the other spelling of one of them
				if delete(m, key); null {
					m[key] = nil
				}
			})
		}
	}
	rope := func(key string, v any) func(m map[string]any) {
		return func(m map[string]any) { m["rope_scaling"].(map[string]any)[key] = v }
	}
	for _, v := range []any{0.5, -1, "x", 1e9} {
		try(fmt.Sprintf("factor=%v", v), Damaged, []string{"rope_scaling.factor", "number"}, rope("factor", v))
	}
	for _, c := range []struct {
		name  string
		kind  Kind
		words []string
		edit  func(m map[string]any)
	}{
		{"rms_norm_eps text", Damaged, []string{"rms_norm_eps", "a number"}, func(m map[string]any) { m["rms_norm_eps"] = "small" }},
		{"rms_norm_eps 7", Damaged, []string{"norm epsilon 7"}, func(m map[string]any) { m["rms_norm_eps"] = 7 }},
		{"rope_theta 0", Damaged, []string{"rope base 0"}, func(m map[string]any) { m["rope_theta"] = 0 }},
		{"rope_theta list", Damaged, []string{"rope_theta", "a number"}, func(m map[string]any) { m["rope_theta"] = []int{1} }},
		{"rope_scaling list", Damaged, []string{"rope_scaling", "an object"}, func(m map[string]any) { m["rope_scaling"] = []int{1} }},
		{"rope_type unknown", Unsupported, []string{"rope_scaling.rope_type", "longrope"}, rope("rope_type", "longrope")},
		{"rope_type number", Damaged, []string{"rope_type", "a string"}, rope("rope_type", 3)},
		{"mscale", Unsupported, []string{"mscale"}, rope("mscale", 0.7)},
		{"beta swapped", Damaged, []string{"beta_slow <= beta_fast"}, rope("beta_slow", 64)},
		{"original length 0", Damaged, []string{"original_max_position_embeddings"}, rope("original_max_position_embeddings", 0)},
		{"rope per kind of layer", Unsupported, []string{"one set of parameters"}, func(m map[string]any) {
			m["rope_parameters"] = map[string]any{"full_attention": map[string]any{}}
		}},
		{"partial rotation", Unsupported, []string{"partial_rotary_factor"}, func(m map[string]any) { m["partial_rotary_factor"] = 0.5 }},
		{"layer_types short", Damaged, []string{"layer_types", "4 entries"}, func(m map[string]any) { m["layer_types"] = []string{"full_attention"} }},
		{"layer_types unknown", Unsupported, []string{"layer_types", "chunked_attention"}, func(m map[string]any) {
			m["layer_types"] = slices.Repeat([]string{"chunked_attention"}, 4)
		}},
		{"layer_types numbers", Damaged, []string{"layer_types"}, func(m map[string]any) { m["layer_types"] = []int{1, 2, 3, 4} }},
		{"model_type unknown", Unsupported, []string{"model_type", "mamba", "gpt_oss"}, func(m map[string]any) { m["model_type"] = "mamba" }},
		{"model_type number", Damaged, []string{"model_type", "a string"}, func(m map[string]any) { m["model_type"] = 3 }},
		{"hidden_act", Unsupported, []string{"hidden_act", "gelu"}, func(m map[string]any) { m["hidden_act"] = "gelu" }},
		{"swiglu_limit", Unsupported, []string{"swiglu_limit", "8"}, func(m map[string]any) { m["swiglu_limit"] = 8 }},
		{"fp8", Unsupported, []string{"quant_method", "fp8"}, func(m map[string]any) { m["quantization_config"] = map[string]any{"quant_method": "fp8"} }},
		{"quantization list", Damaged, []string{"quantization_config"}, func(m map[string]any) { m["quantization_config"] = []int{} }},
		{"attention_bias text", Damaged, []string{"attention_bias", "true or false"}, func(m map[string]any) { m["attention_bias"] = "yes" }},
		{"heads do not divide", Damaged, []string{"8 heads are not a multiple of 3"}, func(m map[string]any) { m["num_key_value_heads"] = 3 }},
		{"odd head", Damaged, []string{"head dim 33 is odd"}, func(m map[string]any) { m["head_dim"] = 33 }},
		{"2^31-1 layers", Damaged, []string{"num_hidden_layers", "at most 4096"}, func(m map[string]any) { m["num_hidden_layers"] = math.MaxInt32; delete(m, "layer_types") }},
		{"fewer layers", Inconsistent, []string{"model.layers.3.", "number of layers", "at least 4", "found 3"}, func(m map[string]any) { m["num_hidden_layers"] = 3; delete(m, "layer_types") }},
		{"more layers", Incomplete, []string{"model.layers.4.input_layernorm.weight", "missing"}, func(m map[string]any) { m["num_hidden_layers"] = 5; delete(m, "layer_types") }},
		{"wider", Inconsistent, []string{"model.embed_tokens.weight", "[400 128] from the configuration", "[400 96]"}, func(m map[string]any) { m["hidden_size"] = 128 }},
		{"more experts", Inconsistent, []string{"mlp.router.weight", "[16 96]"}, func(m map[string]any) { m["num_local_experts"] = 16 }},
	} {
		try(c.name, c.kind, c.words, c.edit)
	}
	for name, text := range map[string]string{"empty": "", "cut": string(sound[:len(sound)/2]), "a list": "[]", "text": "hello", "null": "null", "two": "{}{}", "huge": strings.Repeat(" ", maxConfig+1)} {
		count++
		t.Run(name, func(t *testing.T) {
			mustWrite(t, path, []byte(text))
			kind := Damaged
			if name == "huge" {
				kind = Unsupported
			}
			wantError(t, dir, kind, "config.json")
		})
	}
	t.Logf("%d cases", count)
}

func TestDamagedIndex(t *testing.T) {
	dir := writeSynth(t, "llama-tiny", synth.Options{ShardBytes: 60_000})
	path := filepath.Join(dir, indexName)
	sound := string(mustRead(t, path))
	shards, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(shards) < 2 {
		t.Fatal(shards, err)
	}
	first := filepath.Base(shards[0])
	cases := map[string]struct {
		text string
		lie
	}{
		"empty":            {"", lie{"", Damaged, nil}},
		"cut":              {sound[:len(sound)/2], lie{"", Damaged, nil}},
		"no map":           {`{"metadata":{}}`, lie{"", Incomplete, []string{"weight_map"}}},
		"empty map":        {`{"weight_map":{}}`, lie{"", Incomplete, []string{"weight_map"}}},
		"map is a list":    {`{"weight_map":[]}`, lie{"", Damaged, []string{"'{'"}}},
		"two maps":         {`{"weight_map":{},"weight_map":{}}`, lie{"", Damaged, []string{"a second"}}},
		"numbers":          {`{"weight_map":{"a":1}}`, lie{"", Damaged, []string{"'\"'"}}},
		"name twice":       {`{"weight_map":{"a":"` + first + `","a":"` + first + `"}}`, lie{"", Damaged, []string{"unique names"}}},
		"unknown tensor":   {strings.Replace(sound, `"weight_map":{`, `"weight_map":{"ghost":"`+first+`",`, 1), lie{"", Inconsistent, []string{"ghost", first}}},
		"file that is not": {strings.ReplaceAll(sound, first, "gone.safetensors"), lie{"", Incomplete, []string{"gone.safetensors", "fetch it again"}}},
	}
	for _, name := range []string{"../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors", `..\\x.safetensors`, "C:x.safetensors", "..", "", ".hidden.safetensors", "pytorch_model.bin", `a\u0000.safetensors`, strings.Repeat("a", 300) + ".safetensors"} {
		cases["path "+name] = struct {
			text string
			lie
		}{`{"weight_map":{"a":"` + name + `"}}`, lie{"", Damaged, []string{"plain names"}}}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.text == sound {
				t.Fatal("nothing changed")
			}
			mustWrite(t, path, []byte(c.text))
			wantError(t, dir, c.kind, c.words...)
		})
	}
}

// What is well-formed but not for this program is refused, not called damaged.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, preset string
		lie
		change func(t *testing.T, dir string)
	}{
		{"FP8", "llama-tiny", lie{"", Unsupported, []string{"weight_scale_inv", "BF16 repository"}}, func(t *testing.T, dir string) {
			addTensor(t, dir, stEntry{"model.layers.0.mlp.down_proj.weight_scale_inv", "F32", []int{1}, make([]byte, 4)})
		}},
		{"FP8 weights", "llama-tiny", lie{"", Unsupported, []string{"model.embed_tokens.weight", "F8_E4M3"}}, func(t *testing.T, dir string) {
			replaceTensor(t, dir, "model.embed_tokens.weight", func(e *stEntry) { e.dtype, e.data = "F8_E4M3", e.data[:len(e.data)/2] })
		}},
		{"transposed gpt-oss experts", "gpt-oss-tiny", lie{"", Unsupported, []string{"transposed", "gate_up_proj"}}, func(t *testing.T, dir string) {
			addTensor(t, dir, stEntry{"model.layers.0.mlp.experts.gate_up_proj", "BF16", []int{1, 2}, make([]byte, 4)})
		}},
		{"fused Qwen experts", "qwen3moe-tiny", lie{"", Unsupported, []string{"experts are fused"}}, func(t *testing.T, dir string) {
			addTensor(t, dir, stEntry{"model.layers.0.mlp.experts.gate_up_proj", "BF16", []int{1, 2}, make([]byte, 4)})
		}},
		{"experts as bytes of another type", "gpt-oss-tiny", lie{"", Unsupported, []string{"gate_up_proj_blocks", "expected U8", "I8"}}, func(t *testing.T, dir string) {
			replaceTensor(t, dir, "model.layers.0.mlp.experts.gate_up_proj_blocks", func(e *stEntry) { e.dtype = "I8" })
		}},
		{"experts of no whole block", "gpt-oss-tiny", lie{"", Unsupported, []string{"a multiple of 32", "65"}}, func(t *testing.T, dir string) {
			editJSON(t, filepath.Join(dir, "config.json"), func(m map[string]any) { m["intermediate_size"] = 65 })
			for suffix, width := range map[string]int{"blocks": 3 * 16, "scales": 3, "bias": 2} {
				replaceTensor(t, dir, "model.layers.0.mlp.experts.gate_up_proj_"+suffix, func(e *stEntry) {
					e.shape[1], e.data = 130, make([]byte, 8*130*width)
				})
			}
		}},
		{"expert missing", "qwen3moe-tiny", lie{"", Incomplete, []string{"mlp.experts.7.up_proj.weight"}}, func(t *testing.T, dir string) {
			replaceTensor(t, dir, "model.layers.1.mlp.experts.7.up_proj.weight", func(e *stEntry) { e.name = "elsewhere" })
		}},
		{"no configuration", "llama-tiny", lie{"", Incomplete, []string{"config.json", "missing"}}, remove("config.json")},
		{"no weights", "llama-tiny", lie{"", Incomplete, []string{"*.safetensors"}}, remove("model.safetensors")},
		{"no tokenizer", "llama-tiny", lie{"", Incomplete, []string{"tokenizer.json"}}, remove("tokenizer.json")},
		{"pickles", "llama-tiny", lie{"", Unsupported, []string{"pickles can run code"}}, func(t *testing.T, dir string) {
			remove("model.safetensors")(t, dir)
			mustWrite(t, filepath.Join(dir, "pytorch_model.bin"), []byte("PK"))
		}},
		{"GGUF in a directory", "llama-tiny", lie{"", Unsupported, []string{"the path of m.gguf"}}, func(t *testing.T, dir string) {
			remove("config.json")(t, dir)
			mustWrite(t, filepath.Join(dir, "m.gguf"), []byte("GGUF"))
		}},
		{"tokenizer is not JSON", "llama-tiny", lie{"", Damaged, []string{"tokenizer.json"}}, write("tokenizer.json", "{")},
		{"tokenizer of another kind", "llama-tiny", lie{"", Unsupported, []string{"tokenizer.json"}}, write("tokenizer.json", `{"model":{"type":"Unigram"}}`)},
		{"tokenizer_config is not JSON", "llama-tiny", lie{"", Damaged, []string{"tokenizer_config.json"}}, write("tokenizer_config.json", "{")},
		{"template of numbers", "llama-tiny", lie{"", Damaged, []string{"chat_template"}}, write("tokenizer_config.json", `{"chat_template": 3}`)},
		{"no default template", "llama-tiny", lie{"", Unsupported, []string{"a template named default"}}, write("tokenizer_config.json", `{"chat_template": [{"name":"rag","template":"x"}]}`)},
		{"generation_config is a list", "llama-tiny", lie{"", Damaged, []string{"generation_config.json"}}, write("generation_config.json", "[]")},
		{"temperature is text", "llama-tiny", lie{"", Damaged, []string{"generation_config.json", "temperature", "a number"}}, write("generation_config.json", `{"temperature":"hot"}`)},
		{"stop id is text", "llama-tiny", lie{"", Damaged, []string{"eos_token_id"}}, write("generation_config.json", `{"eos_token_id":"</s>"}`)},
		{"weights are a directory", "llama-tiny", lie{"", Unsupported, []string{"a regular file"}}, func(t *testing.T, dir string) {
			remove("model.safetensors")(t, dir)
			if err := os.Mkdir(filepath.Join(dir, "model.safetensors"), 0o777); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeSynth(t, c.preset, synth.Options{})
			c.change(t, dir)
			wantError(t, dir, c.kind, c.words...)
		})
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	mustWrite(t, path, []byte("something"))
	wantError(t, path, Unsupported, "the directory that holds config.json")
	if _, err := Open(filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a path that does not exist: %v", err)
	}
}

func remove(name string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func write(name, text string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		mustWrite(t, filepath.Join(dir, name), []byte(text))
	}
}

func addTensor(t *testing.T, dir string, e stEntry) {
	t.Helper()
	shard := filepath.Join(dir, "model.safetensors")
	mustWrite(t, shard, encodeShard(append(takeApartShard(t, shard), e), nil))
}

func replaceTensor(t *testing.T, dir, name string, change func(e *stEntry)) {
	t.Helper()
	shard := filepath.Join(dir, "model.safetensors")
	entries := takeApartShard(t, shard)
	i := slices.IndexFunc(entries, func(e stEntry) bool { return e.name == name })
	if i < 0 {
		t.Fatalf("no tensor %q", name)
	}
	change(&entries[i])
	mustWrite(t, shard, encodeShard(entries, nil))
}

// CKP-1: headers made to cost as much memory as possible for their size.
func TestHeaderMemory(t *testing.T) {
	entries := func(format string) string {
		var b strings.Builder
		for i := range maxTensors {
			fmt.Fprintf(&b, format, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	header := "{" + entries(`"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`) + "}"
	shard := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	var tensors, keys, words ggufImage
	for i := range maxTensors {
		tensors.tensors = append(tensors.tensors, ggufTensor{fmt.Sprintf("%x", i), 0, []uint64{1}, nil})
	}
	for i := range maxKeys {
		keys.keys = append(keys.keys, ggufKey{fmt.Sprintf("%x", i), ggufU8, []byte{0}})
	}
	words.set("w", ggufArray, append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, ggufString), maxStrings), make([]byte, 8*maxStrings)...))
	gguf := func(data []byte) error {
		g, err := readGGUF(&file{path: "x", data: data})
		if err == nil {
			g.keys["w"].strings()
		}
		return err
	}
	for _, c := range []struct {
		name string
		data []byte
		ok   bool
		read func(data []byte) error
	}{
		{"safetensors", shard, true, func(data []byte) error {
			list, err := readSafetensors(&file{path: "x", data: data})
			return errors.Join(err, (&Model{stored: map[string]stored{}}).add(list))
		}},
		{"index", []byte(`{"weight_map":{` + entries(`"%x":"a.safetensors",`) + "}}"), true, func(data []byte) error {
			_, err := readIndex("x", data)
			return err
		}},
		{"gguf tensors", tensors.encode(), false, gguf}, // the second offset is wrong: all are read before
		{"gguf keys", keys.encode(), true, gguf},
		{"gguf strings", words.encode(), true, gguf},
		{"config", []byte(`{"model_type":[` + strings.Repeat("[],", maxConfig/3-10) + "[]]}"), false, func(data []byte) error {
			_, _, err := readConfig("x", data)
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bounded(t, len(c.data), func() {
				if err := c.read(c.data); (err == nil) != c.ok {
					t.Error(err)
				}
			})
		})
	}
}
