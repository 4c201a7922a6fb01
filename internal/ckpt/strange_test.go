package ckpt

// What people have by mistake where a model should be, and files of a model that say what no
// file says. Each is named as what it is, with where it lies and what to do.

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ossian/internal/synth"
)

// wrongWords are words of decoders and of this program's types, and a message that ends where
// what was found should stand.
var wrongWords = regexp.MustCompile(`(^| )json: |unmarshal|Go (value|struct)|invalid character|found *$|found ,|%!`)

// speaks fails where an error of a model with a strange file does not name the file, or is not
// in words of the format. A model that opens is closed.
func speaks(t *testing.T, dir, file string) error {
	t.Helper()
	m, err := Open(dir)
	if err == nil {
		m.Close()
		return nil
	}
	if !strings.Contains(err.Error(), file) || wrongWords.MatchString(err.Error()) {
		t.Errorf("%v: want the name of %s and no decoder's words", err, file)
	}
	return err
}

// wrongValues are JSON values of every type, and lists with each.
var wrongValues = []string{`null`, `3`, `-1`, `1.5`, `1e400`, `true`, `"text"`, `""`, `[]`, `[1]`, `["x"]`, `[[]]`, `[null]`, `[{}]`, `{}`, `{"a": 1}`, `[1, null]`}

// Every JSON file of a directory, of which the whole is something else.
func TestWrongJSON(t *testing.T) {
	texts := map[string]string{"cut": `{"a": [1, 2`, "cut in a string": `{"a": "b`, "garbage": `{"a": nope}`, "blank": " \n", "behind": `{} x`, "two": `{}{}`,
		"mark": "\ufeff{}", "UTF-16": "\xff\xfe{\x00}\x00", "not UTF-8": "{\"a\": \"\xff\"", "deep": strings.Repeat(`{"a":`, 20000), "empty": ""}
	for _, value := range wrongValues {
		if value[0] != '{' {
			texts[value] = value
		}
	}
	for _, file := range []string{"config.json", "tokenizer_config.json", "generation_config.json", "tokenizer.json", indexName, "chat_template.json"} {
		dir := writeSynth(t, "qwen3-tiny", synth.Options{})
		editJSON(t, filepath.Join(dir, "tokenizer_config.json"), func(m map[string]any) { delete(m, "chat_template") })
		for name, text := range texts {
			before, _ := os.ReadFile(filepath.Join(dir, file))
			mustWrite(t, filepath.Join(dir, file), []byte(text))
			if err := speaks(t, dir, file); err == nil {
				t.Errorf("%s, %s: opened", file, name)
			}
			if mustWrite(t, filepath.Join(dir, file), before); before == nil {
				if err := os.Remove(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	// What is there is said in words.
	dir := writeSynth(t, "qwen3-tiny", synth.Options{})
	config := filepath.Join(dir, "config.json")
	for text, words := range map[string]string{`[1]`: "found an array", `null`: "found null", `"x"`: `found a string, "x"`, `{} x`: `"x", which is no JSON`, "\ufeff{}": "byte order mark",
		"\xff\xfe{\x00}\x00": "UTF-16", `{"a"`: "fetch it again"} {
		mustWrite(t, config, []byte(text))
		wantError(t, dir, Damaged, "a JSON object", words)
	}
}

// Every member that is read, with values of every type; those of tokenizer.json at any depth.
func TestWrongMembers(t *testing.T) {
	more := map[string][]string{
		"config.json": {"architectures", "rope_scaling", "rope_parameters", "layer_types", "quantization_config", "quantization", "sliding_window", "use_sliding_window",
			"attention_bias", "partial_rotary_factor"},
		"tokenizer_config.json":  {"chat_template", "bos_token", "eos_token", "pad_token", "unk_token"},
		"generation_config.json": {"bos_token_id", "eos_token_id", "do_sample", "temperature", "top_p", "min_p", "top_k", "repetition_penalty"},
		indexName:                {"weight_map", "metadata"},
		"chat_template.json":     {"chat_template"},
	}
	for _, preset := range []string{"qwen3-tiny", "qwen3moe-tiny"} {
		dir := writeSynth(t, preset, synth.Options{})
		editJSON(t, filepath.Join(dir, "tokenizer_config.json"), func(m map[string]any) { delete(m, "chat_template") })
		for file, keys := range more {
			path := filepath.Join(dir, file)
			before, _ := os.ReadFile(path)
			members := map[string]json.RawMessage{}
			_ = json.Unmarshal(before, &members)
			for _, key := range slices.Compact(slices.Sorted(slices.Values(append(keys, slices.Collect(maps.Keys(members))...)))) {
				was := members[key]
				for _, value := range wrongValues {
					members[key] = json.RawMessage(value)
					if err := writeMembers(path, members); err != nil {
						t.Fatal(err)
					}
					// A configuration that can be is at odds with the weights.
					err := speaks(t, dir, filepath.Base(dir))
					if e, ok := errors.AsType[*Error](err); err != nil && !ok {
						t.Errorf("%s, %s: %s: %v of type %T", file, key, value, err, e)
					}
				}
				if members[key] = was; was == nil {
					delete(members, key)
				}
			}
			if mustWrite(t, path, before); before == nil {
				_ = os.Remove(path)
			}
		}
	}
	// A null in a list is no 0.
	for file, key := range map[string]string{"config.json": "eos_token_id", "generation_config.json": "bos_token_id"} {
		dir := writeSynth(t, "qwen3-tiny", synth.Options{})
		editJSON(t, filepath.Join(dir, file), func(m map[string]any) { m[key] = []any{1, nil} })
		wantError(t, dir, Damaged, key, "an id or a list of ids", "null")
	}
}

// writeMembers writes an object.
func writeMembers(path string, members map[string]json.RawMessage) error {
	text := "{"
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if text != "{" {
			text += ","
		}
		text += fmt.Sprintf("%q: %s", key, members[key])
	}
	return os.WriteFile(path, []byte(text+"}"), 0o644)
}

// tokenizer.json with a wrong value in the place of each of its values.
func TestWrongTokenizer(t *testing.T) {
	dir := writeSynth(t, "qwen3-tiny", synth.Options{})
	path := filepath.Join(dir, "tokenizer.json")
	var tree any
	if err := json.Unmarshal(mustRead(t, path), &tree); err != nil {
		t.Fatal(err)
	}
	tried := 0
	// Of lists and of long objects a few elements stand for all.
	var walk func(value any, put func(any))
	walk = func(value any, put func(any)) {
		for i, wrong := range wrongValues {
			if put(json.RawMessage(wrong)); wrong == "1e400" || (tried+i)%3 > 0 {
				continue
			}
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			mustWrite(t, path, text)
			_ = speaks(t, dir, "tokenizer.json")
		}
		put(value)
		tried++
		switch node := value.(type) {
		case map[string]any:
			keys := slices.Sorted(maps.Keys(node))
			for _, key := range keys[:min(len(keys), 12)] {
				walk(node[key], func(v any) { node[key] = v })
			}
		case []any:
			for i := range node[:min(len(node), 2)] {
				walk(node[i], func(v any) { node[i] = v })
			}
		}
	}
	root := tree.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(root)) {
		walk(root[key], func(v any) { root[key] = v })
	}
	if tried < 30 {
		t.Errorf("%d values were replaced", tried)
	}
}

// Which of the files counts, and which are told of. Tokenizers of transformers read the first two
// kinds in this order; chat_template.json, which its processors of images read, is what is left.
func TestTemplateSources(t *testing.T) {
	for _, c := range []struct {
		name                string
		jinja, config, json string // chat_template.jinja, tokenizer_config.json, chat_template.json; "" = none
		want, from          string
		overruled           string
	}{
		{"none", "", "", "", "", "", ""},
		{"tokenizer_config.json", "", `"C"`, "", "C", "tokenizer_config.json", ""},
		{"chat_template.json", "", "", `{"chat_template": "L"}`, "L", "chat_template.json", ""},
		{"named in chat_template.json", "", "", `{"chat_template": [{"name": "default", "template": "L"}]}`, "L", "chat_template.json", ""},
		{"before chat_template.json", "", `"C"`, `{"chat_template": "L"}`, "C", "tokenizer_config.json", "chat_template.json"},
		{"an empty one", "", `""`, `{"chat_template": "L"}`, "L", "chat_template.json", ""},
		{"the same", "", `"C"`, `{"chat_template": "C"}`, "C", "tokenizer_config.json", ""},
		{"broken, without need", "", `"C"`, `[`, "C", "tokenizer_config.json", "chat_template.json"},
		{"all", "J", `"C"`, `{"chat_template": "L"}`, "J", "chat_template.jinja", "tokenizer_config.json chat_template.json"},
		{"chat_template.jinja", "J", "", `{"chat_template": "J"}`, "J", "chat_template.jinja", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeSynth(t, "qwen3-tiny", synth.Options{})
			editJSON(t, filepath.Join(dir, "tokenizer_config.json"), func(m map[string]any) {
				if delete(m, "chat_template"); c.config != "" {
					m["chat_template"] = json.RawMessage(c.config)
				}
			})
			for file, text := range map[string]string{"chat_template.jinja": c.jinja, "chat_template.json": c.json} {
				if text != "" {
					mustWrite(t, filepath.Join(dir, file), []byte(text))
				}
			}
			m := mustOpen(t, dir)
			if got := strings.Join(m.Overruled, " "); m.Template != c.want || m.From != c.from || got != c.overruled {
				t.Errorf("template %q of %q beside %q; want %q of %q beside %q", m.Template, m.From, got, c.want, c.from, c.overruled)
			}
		})
	}
	if m := mustOpen(t, writeSynth(t, "qwen3-tiny", synth.Options{Format: synth.GGUF})); m.From != "tokenizer.chat_template" {
		t.Errorf("of a GGUF file: %q", m.From)
	}
	dir := writeSynth(t, "qwen3-tiny", synth.Options{})
	editJSON(t, filepath.Join(dir, "tokenizer_config.json"), func(m map[string]any) { delete(m, "chat_template") })
	mustWrite(t, filepath.Join(dir, "chat_template.json"), []byte(`{"template": "L"}`))
	wantError(t, dir, Incomplete, "chat_template.json", "key chat_template is missing")
	editJSON(t, filepath.Join(dir, "tokenizer_config.json"), func(m map[string]any) { m["chat_template"] = []any{} })
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "a template named default, found nothing") {
		t.Errorf("no templates: %v", err)
	}
}

// Advice that no sampling can follow is refused where it stands, not at each request.
func TestAdviceRange(t *testing.T) {
	for key, value := range map[string]any{"temperature": -1, "top_p": 1.5, "min_p": -0.1, "repetition_penalty": -2} {
		dir := writeSynth(t, "qwen3-tiny", synth.Options{})
		editJSON(t, filepath.Join(dir, "generation_config.json"), func(m map[string]any) { m[key] = value })
		wantError(t, dir, Damaged, "generation_config.json", key, "a number from 0 to", fmt.Sprint(value))
	}
}

// Directories that are no model, or not one as they are.
func TestStrangeDirectories(t *testing.T) {
	write := func(files map[string]string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			for name, text := range files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				mustWrite(t, filepath.Join(dir, name), []byte(text))
			}
		}
	}
	inPlace := func(name string, make func(path string) error) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := errors.Join(os.Remove(filepath.Join(dir, name)), make(filepath.Join(dir, name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	link := func(path string) error { return os.Symlink("../blobs/x", path) }
	folder := func(path string) error { return os.Mkdir(path, 0o755) }
	gone := func(string) error { return nil }
	configured := func(key string, value any) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			editJSON(t, filepath.Join(dir, "config.json"), func(m map[string]any) { m[key] = value })
		}
	}
	const none, whole = false, true
	for _, c := range []struct {
		name  string
		whole bool // a model, which is then changed
		edit  func(*testing.T, string)
		kind  Kind
		words []string
	}{
		{"empty", none, write(nil), Incomplete, []string{"config.json", "the file is missing", "a model is a directory with"}},
		{"a model within", none, write(map[string]string{"Model-1B/config.json": "{}"}), Unsupported, []string{"Model-1B/config.json", "the directory of Model-1B/config.json"}},
		{"of the cache", none, write(map[string]string{"snapshots/0123/config.json": "{}"}), Unsupported, []string{"ORG/NAME", "snapshots/0123"}},
		{"a GGUF file", none, write(map[string]string{"m.gguf": "GGUF"}), Unsupported, []string{"the path of m.gguf"}},
		{"a GGUF file within", none, write(map[string]string{"Q8_0/m.gguf": "GGUF"}), Unsupported, []string{"the path of Q8_0/m.gguf"}},
		{"a download", none, write(map[string]string{"model.safetensors.crdownload": "x"}), Unsupported, []string{"a download that has not ended"}},
		{"a download of the hub's tool", none, write(map[string]string{".cache/huggingface/download/model.safetensors.0f.incomplete": "x"}), Unsupported, []string{"a download that has not ended"}},
		{"the weights of an adapter", none, write(map[string]string{"adapter_model.safetensors": "x"}), Unsupported, []string{"an adapter (LoRA)"}},
		{"a pointer to a named template", whole, write(map[string]string{"additional_chat_templates/tool_use.jinja": lfsPointer}), Incomplete, []string{"tool_use.jinja", "Git LFS pointer"}},
		{"a page for a named template", whole, write(map[string]string{"additional_chat_templates/tool_use.jinja": signInPage}), Incomplete, []string{"tool_use.jinja", "web page"}},
		{"ONNX", none, write(map[string]string{"model.onnx": "x"}), Unsupported, []string{"found ONNX"}},
		{"Diffusers", none, write(map[string]string{"model_index.json": "{}", "unet/x": ""}), Unsupported, []string{"a pipeline of Diffusers"}},
		{"PyTorch", none, write(map[string]string{"consolidated.00.pth": "x", "params.json": "{}"}), Unsupported, []string{"found a pickle"}},
		{"pickles in place of weights", whole, func(t *testing.T, dir string) {
			inPlace("model.safetensors", gone)(t, dir)
			write(map[string]string{"pytorch_model.bin": "x"})(t, dir)
		}, Unsupported, []string{"pytorch_model.bin", "found a pickle"}},
		{"an adapter", none, write(map[string]string{"adapter_config.json": "[]"}), Unsupported, []string{"adapter (LoRA)"}},
		{"weights that are a link", whole, inPlace("model.safetensors", link), Incomplete, []string{"model.safetensors", "a link to ../blobs/x", "blobs"}},
		{"a configuration that is a link", whole, inPlace("config.json", link), Incomplete, []string{"config.json", "a link to ../blobs/x"}},
		{"advice that is a link", whole, inPlace("generation_config.json", link), Incomplete, []string{"generation_config.json", "a link to ../blobs/x"}},
		{"a configuration that is a directory", whole, inPlace("config.json", folder), Unsupported, []string{"config.json", "found a directory"}},
		{"weights that are a directory", whole, inPlace("model.safetensors", folder), Unsupported, []string{"model.safetensors", "found a directory"}},
		{"no tokenizer.json", whole, inPlace("tokenizer.json", gone), Incomplete, []string{"tokenizer.json", "save_pretrained"}},
		{"a shard that is not there", whole, func(t *testing.T, dir string) {
			write(map[string]string{indexName: `{"weight_map": {"a": "model-00002-of-00002.safetensors"}}`})(t, dir)
		}, Incomplete, []string{"model-00002-of-00002.safetensors", "the file is missing"}},
		{"weights that are cut", whole, func(t *testing.T, dir string) {
			path := filepath.Join(dir, "model.safetensors")
			text := mustRead(t, path)
			mustWrite(t, path, text[:len(text)-100])
		}, Damaged, []string{"model.safetensors", "fetch it again"}},
		{"a header that is cut", whole, write(map[string]string{"model.safetensors": string(binary.LittleEndian.AppendUint64(nil, 90e6)) + "{}"}), Damaged, []string{"model.safetensors", "header length", "fetch it again"}},
		{"a classifier", whole, configured("architectures", []string{"Qwen3ForSequenceClassification"}), Unsupported, []string{"architectures", "a model that writes text", "Qwen3ForSequenceClassification"}},
		{"of MLX", whole, configured("quantization", map[string]int{"bits": 4, "group_size": 64}), Unsupported, []string{"quantization", "MLX"}},
		{"of GPTQ", whole, configured("quantization_config", map[string]any{"quant_method": "gptq"}), Unsupported, []string{"quantization_config.quant_method", "found gptq"}},
		{"quantised somehow", whole, configured("quantization_config", map[string]any{"bits": 4}), Unsupported, []string{"quantization_config.quant_method", "found nothing"}},
		{"another family", whole, configured("model_type", "bert"), Unsupported, []string{"model_type", "qwen3", "found bert"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "models--org--name")
			if c.whole {
				dir = writeSynth(t, "qwen3-tiny", synth.Options{})
			} else if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			c.edit(t, dir)
			m, err := Open(dir)
			if err == nil {
				m.Close()
				t.Fatal("opened")
			}
			if e, ok := errors.AsType[*Error](err); !ok || e.Kind != c.kind || wrongWords.MatchString(err.Error()) {
				t.Errorf("%v: want kind %v", err, c.kind)
			}
			for _, words := range c.words {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%v: want the words %q", err, words)
				}
			}
		})
	}
}

// GGUF files that hold something else than a model that writes text, and such as are not whole.
func TestStrangeGGUF(t *testing.T) {
	head := func(order binary.AppendByteOrder, version uint32) string {
		return "GGUF" + string(order.AppendUint64(order.AppendUint64(order.AppendUint32(nil, version), 5), 5)) + strings.Repeat("\x00", 100)
	}
	path := writeSynth(t, "qwen3-tiny", synth.Options{Format: synth.GGUF})
	text := string(mustRead(t, path))
	kind := func(keys map[string]string, tensors bool) string {
		g := takeApart(t, path)
		for key, value := range keys {
			g.setString(key, value)
		}
		if !tensors {
			g.tensors = nil
		}
		return string(g.encode())
	}
	pooled := takeApart(t, path)
	pooled.set("qwen3.pooling_type", ggufU32, []byte{3, 0, 0, 0})
	for _, c := range []struct {
		name, text string
		kind       Kind
		words      []string
	}{
		{"pooled", string(pooled.encode()), Unsupported, []string{"makes embeddings", "qwen3"}},
		{"big-endian", head(binary.BigEndian, 3), Unsupported, []string{"byte order", "convert the model again"}},
		{"the first version", head(binary.LittleEndian, 1), Unsupported, []string{"GGUF version", "2 or 3", "found 1"}},
		{"a later version", head(binary.LittleEndian, 9), Unsupported, []string{"GGUF version", "found 9"}},
		{"cut in the weights", text[:len(text)/2], Damaged, []string{"cut", "fetch it again"}},
		{"cut in the last weights", text[:len(text)-40], Damaged, []string{"before the end of the file", "cut", "fetch it again"}},
		{"cut in the keys", text[:100], Damaged, []string{"before the end of the file", "fetch it again"}},
		{"cut in the head", text[:10], Damaged, []string{"fetch it again"}},
		{"a llamafile", "MZqFpD='\n" + strings.Repeat("\x00", 5000), Unsupported, []string{"a llamafile"}},
		{"a projector", kind(map[string]string{"general.architecture": "clip"}, true), Unsupported, []string{"a projector of images", "the model's own file"}},
		{"a projector by its type", kind(map[string]string{"general.type": "mmproj"}, true), Unsupported, []string{"a projector of images"}},
		{"an importance matrix", kind(map[string]string{"general.type": "imatrix"}, true), Unsupported, []string{"an importance matrix"}},
		{"an adapter", kind(map[string]string{"general.type": "adapter"}, true), Unsupported, []string{"an adapter (LoRA)", "merge it"}},
		{"a control vector", kind(map[string]string{"general.architecture": "controlvector"}, true), Unsupported, []string{"a control vector"}},
		{"embeddings", kind(map[string]string{"general.architecture": "nomic-bert"}, true), Unsupported, []string{"makes embeddings", "nomic-bert"}},
		{"a vocabulary", kind(nil, false), Unsupported, []string{"a vocabulary without weights"}},
		{"another family", kind(map[string]string{"general.architecture": "gemma3"}, true), Unsupported, []string{"general.architecture", "qwen3", `"gemma3"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.gguf")
			mustWrite(t, path, []byte(c.text))
			wantError(t, path, c.kind, append(c.words, "m.gguf")...)
		})
	}
}
