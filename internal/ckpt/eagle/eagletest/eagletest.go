// Package eagletest writes EAGLE3 heads for tests: those whose log probabilities
// _tools/reference/eagle.py has computed, and one that was trained.
package eagletest

import (
	"embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata
var testdata embed.FS

// A Case is a head, and how its files say what it is.
type Case struct {
	Name             string
	Prefix           string // of the tensors of its layer
	Offset           int    // see eagle.Open
	Embed, Head, IDs bool   // it has an embedding, an output matrix, a map of ids
	Config           json.RawMessage

	// Read from Config, its layer and eagle_config.
	layer struct {
		Hidden int `json:"hidden_size"`
		Inner  int `json:"intermediate_size"`
		Heads  int `json:"num_attention_heads"`
		KV     int `json:"num_key_value_heads"`
		Dim    int `json:"head_dim"`
		Vocab  int `json:"vocab_size"`
	}
	flags struct {
		Out          int   `json:"draft_vocab_size"`
		Layers       []int `json:"eagle_aux_hidden_state_layer_ids"`
		NormBeforeFC bool  `json:"norm_before_fc"`
		NormFeatures bool  `json:"fc_norm"`
	}
}

// Golden is what the script found.
type Golden struct {
	Preset    string // the target
	Seed      uint64
	Positions []int   // behind which there are log probabilities
	IDs       []int32 // the prompt
	Cases     []struct {
		Name    string
		Drawn   int32   // by the target behind the prompt
		Guesses []int32 // by the head behind that
	}
}

// Cases returns the heads that the script has computed.
func Cases(t testing.TB) (all []Case) {
	t.Helper()
	read(t, "cases.json", &all)
	for i := range all {
		all[i].read(t)
	}
	return all
}

// Want returns what the script found.
func Want(t testing.TB) (g Golden) {
	t.Helper()
	read(t, "golden.json", &g)
	return g
}

// Rows returns log probabilities of a case: behind each position, then behind each guess but the last.
func (c *Case) Rows(t testing.TB) (all [][]float64) {
	t.Helper()
	data, err := testdata.ReadFile("testdata/" + c.Name + ".f32")
	if err != nil || len(data)%(4*c.Out()) != 0 {
		t.Fatalf("%s: %d bytes of rows of %d, %v", c.Name, len(data), c.Out(), err)
	}
	for row := range slices.Chunk(data, 4*c.Out()) {
		all = append(all, nil)
		for value := range slices.Chunk(row, 4) {
			all[len(all)-1] = append(all[len(all)-1], float64(math.Float32frombits(binary.LittleEndian.Uint32(value))))
		}
	}
	return all
}

// Trained writes a head that _tools/tinymodel/head.py has trained on the model inside the program, and
// returns its directory.
func Trained(t testing.TB) string {
	t.Helper()
	files, err := fs.Sub(testdata, "testdata/ossian-tiny")
	dir := filepath.Join(t.TempDir(), "head")
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t testing.TB, file string, into any) {
	t.Helper()
	text, err := testdata.ReadFile("testdata/" + file)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// read takes the sizes from Config.
func (c *Case) read(t testing.TB) {
	t.Helper()
	var parts struct {
		Layer json.RawMessage `json:"transformer_layer_config"`
		Eagle json.RawMessage `json:"eagle_config"`
	}
	// Files of either family have some of these parts, and later ones say more.
	texts := []json.RawMessage{c.Config}
	for _, into := range []any{&parts, &c.flags, &c.layer} {
		if err := json.Unmarshal(c.Config, into); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range append(texts, parts.Eagle, parts.Layer) {
		if text == nil {
			continue
		}
		for _, into := range []any{&c.flags, &c.layer} {
			if err := json.Unmarshal(text, into); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Out is how many ids the head guesses among.
func (c *Case) Out() int {
	if c.flags.Out > 0 {
		return c.flags.Out
	}
	return c.layer.Vocab
}

// Tensors are those of a file, by name.
type Tensors map[string]Tensor

// A Tensor is what a safetensors file has of one.
type Tensor struct {
	Type  string
	Shape []int
	Data  []byte
}

// values are numbers between mean-width and mean+width by a hash of name and place, as the script has
// them.
func values(name string, shape []int, mean, width float64) Tensor {
	out, salt, n := Tensor{Type: "F32", Shape: shape}, crc32.ChecksumIEEE([]byte(name)), uint32(1)
	for _, size := range shape {
		n *= uint32(size)
	}
	for i := range n {
		h := i*2654435761 + salt
		h ^= h >> 15
		h *= 2246822519
		h ^= h >> 13
		h *= 3266489917
		h ^= h >> 16
		value := float32(mean + width*(float64(h)/(1<<31)-1))
		out.Data = binary.LittleEndian.AppendUint32(out.Data, math.Float32bits(value))
	}
	return out
}

// Tensors returns those of the head, for a target of that hidden size.
func (c *Case) Tensors(wide int) Tensors {
	made, layer, hidden := Tensors{}, &c.layer, c.layer.Hidden
	outer := ""
	if strings.HasPrefix(c.Prefix, "model.") {
		outer = "model."
	}
	matrix := func(prefix, name string, out, in int, times float64) {
		made[prefix+name+".weight"] = values(name, []int{out, in}, 0, times*1.7/math.Sqrt(float64(in)))
	}
	norm := func(prefix, name string, n int) { made[prefix+name+".weight"] = values(name, []int{n}, 1, 0.3) }
	for _, name := range []string{"input_layernorm", "hidden_norm", "post_attention_layernorm"} {
		norm(c.Prefix, name, hidden)
	}
	norm(outer, "norm", hidden)
	matrix(c.Prefix, "self_attn.q_proj", layer.Heads*layer.Dim, 2*hidden, 1)
	matrix(c.Prefix, "self_attn.k_proj", layer.KV*layer.Dim, 2*hidden, 1)
	matrix(c.Prefix, "self_attn.v_proj", layer.KV*layer.Dim, 2*hidden, 1)
	matrix(c.Prefix, "self_attn.o_proj", hidden, layer.Heads*layer.Dim, 1)
	matrix(c.Prefix, "mlp.gate_proj", layer.Inner, hidden, 1)
	matrix(c.Prefix, "mlp.up_proj", layer.Inner, hidden, 1)
	matrix(c.Prefix, "mlp.down_proj", hidden, layer.Inner, 1)
	parts := len(c.flags.Layers)
	if parts > 0 {
		matrix(outer, "fc", hidden, parts*wide, 1)
	}
	if c.flags.NormBeforeFC {
		norm(outer, "input_norm", parts*wide)
	}
	for part := range parts {
		if c.flags.NormFeatures {
			norm(outer, fmt.Sprint("fc_norm.", part), wide)
		}
	}
	if c.Embed {
		made[outer+"embed_tokens.weight"] = values("embed_tokens", []int{layer.Vocab, hidden}, 0, 0.5)
	}
	if c.Head {
		matrix("", "lm_head", c.Out(), hidden, 3)
	}
	if c.IDs { // of the target every third, from 1 on
		offsets, there := Tensor{Type: "I64", Shape: []int{c.Out()}}, Tensor{Type: "BOOL", Shape: []int{layer.Vocab}, Data: make([]byte, layer.Vocab)}
		for id := range c.Out() {
			offsets.Data = binary.LittleEndian.AppendUint64(offsets.Data, uint64(2*id+1))
			there.Data[3*id+1] = 1
		}
		made["d2t"], made["t2d"] = offsets, there
	}
	return made
}

// Write writes a head into a directory.
func Write(t testing.TB, dir string, config []byte, tensors Tensors) {
	t.Helper()
	header, data := map[string]any{}, []byte(nil)
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		s := tensors[name]
		header[name] = map[string]any{"dtype": s.Type, "shape": s.Shape, "data_offsets": []int{len(data), len(data) + len(s.Data)}}
		data = append(data, s.Data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	// The format: length of the header, header, data.
	whole := append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), data...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"config.json": config, "model.safetensors": whole} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
