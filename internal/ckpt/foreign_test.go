package ckpt

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/lazyregexp"
	"ossian/internal/synth"
)

// What is found in place of files, after public reports about other servers.
const (
	lfsPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\nsize 4826829824\n"
	signInPage = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Access is restricted.</body></html>\n"
)

// Each is named as what it is, whatever its name, with what to do about it.
func TestForeign(t *testing.T) {
	for _, c := range []struct {
		name, text string
		kind       Kind
		words      []string
	}{
		{"pointer", lfsPointer, Incomplete, []string{"Git LFS pointer", "4826829824 bytes", "4.83 GB", "git lfs pull", "ossian pull"}},
		{"pointer without a size", "version https://git-lfs.github.com/spec/v1\n", Incomplete, []string{"Git LFS pointer", "git lfs pull"}},
		{"annex pointer", "/annex/objects/SHA256E-s12--ab.gguf\n", Incomplete, []string{"git-annex pointer", "git annex get"}},
		{"page", signInPage, Incomplete, []string{"web page", `"Sign in"`, "HF_TOKEN"}},
		{"page of another kind", "\ufeff\n <html lang=en>\n<title>502\x1b[2J Bad\nGateway</title>", Incomplete, []string{"web page", `"502[2J Bad Gateway"`}},
		{"XML", `<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`, Incomplete, []string{"web page"}},
		{"answer", `{"error":"Repository not found"}`, Incomplete, []string{"it is text", "Repository not found"}},
		{"sentence", "Entry not found", Incomplete, []string{"it is text", `"Entry not found"`}},
		{"zeros", strings.Repeat("\x00", 5000), Incomplete, []string{"zeros", "did not end"}},
		{"zip", "PK\x03\x04\x14\x00\x00\x00\x00\x00archive", Unsupported, []string{"zip archive", "PyTorch"}},
		{"pickle", "\x80\x02}q\x00X\x01\x00\x00\x00", Unsupported, []string{"pickle", "never read"}},
		{"GGML", "tjgg\x03\x00\x00\x00\x00\x00\x00\x00", Unsupported, []string{"GGML", "convert the model again"}},
		{"gzip", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00", Unsupported, []string{"gzip", "unpack"}},
		{"tar", strings.Repeat("a\x00", 128) + "a" + "ustar\x0000", Unsupported, []string{"tar", "unpack"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			gguf := filepath.Join(t.TempDir(), "model.gguf")
			mustWrite(t, gguf, []byte(c.text))
			wantError(t, gguf, c.kind, c.words...)
			dir := writeSynth(t, "qwen3-tiny", synth.Options{})
			mustWrite(t, filepath.Join(dir, "model.safetensors"), []byte(c.text))
			wantError(t, dir, c.kind, append(c.words, "model.safetensors")...)
		})
	}
	dir := writeSynth(t, "qwen3-tiny", synth.Options{})
	shard := filepath.Join(dir, "model.safetensors")
	wantError(t, shard, Unsupported, "the directory that holds it")
	mustWrite(t, shard, []byte("GGUF\x03\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"))
	wantError(t, dir, Unsupported, "the path of this file itself")
}

// The other files of a repository are pointers and pages as well.
func TestForeignConfiguration(t *testing.T) {
	for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "model.safetensors.index.json", "chat_template.jinja", "chat_template.json"} {
		for text, words := range map[string]string{lfsPointer: "Git LFS pointer", signInPage: "web page"} {
			t.Run(name+"/"+words, func(t *testing.T) {
				dir := writeSynth(t, "qwen3-tiny", synth.Options{})
				if name == "chat_template.json" { // which counts where there is no other template
					editJSON(t, filepath.Join(dir, "tokenizer_config.json"), func(m map[string]any) { delete(m, "chat_template") })
				}
				mustWrite(t, filepath.Join(dir, name), []byte(text))
				wantError(t, dir, Incomplete, words, name)
			})
		}
	}
}

// Messages are in words of the format, not in those of a decoder.
func TestForeignValues(t *testing.T) {
	for _, c := range []struct {
		file, text string
		words      []string
	}{
		{"config.json", "false", []string{"a JSON object", "found false"}},
		{"config.json", "[1]", []string{"a JSON object", "found an array"}},
		{"config.json", `"text"`, []string{"a JSON object", "found a string"}},
		{"config.json", `{"model_type": qwen3}`, []string{"at byte 15", `"qwen3}"`}},
		{"config.json", `{"model_type": "qwen3"`, []string{"the end of the file"}},
		{"tokenizer_config.json", `{"chat_template": {"default": "x"}}`, []string{"chat_template", "a text, or a list of templates", "found an object"}},
		{"tokenizer_config.json", `{"chat_template": ["x"]}`, []string{"chat_template[0]", "name and template", `"x"`}},
		{"tokenizer_config.json", `{"chat_template": [{"name": "tool_use", "template": "x"}]}`, []string{"a template named default", "tool_use"}},
		{"tokenizer_config.json", `{"bos_token": 3}`, []string{"bos_token", "a string, or an object", "found 3"}},
		{"generation_config.json", "null", []string{"a JSON object", "found null"}},
		{"tokenizer.json", "false", []string{"a JSON object", "found false"}},
		{"tokenizer.json", `{"model": 3}`, []string{"model is of type number, expected an object"}},
		{"tokenizer.json", `{"model": {"type": 3}}`, []string{"type", "expected a string"}},
	} {
		t.Run(c.file+" "+c.text, func(t *testing.T) {
			dir := writeSynth(t, "qwen3-tiny", synth.Options{})
			mustWrite(t, filepath.Join(dir, c.file), []byte(c.text))
			m, err := Open(dir)
			if err == nil {
				m.Close()
				t.Fatal("opened")
			}
			for _, word := range append(c.words, c.file) {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%v: want the words %q", err, word)
				}
			}
			for _, word := range []string{" json:", "unmarshal", "Go "} {
				if strings.Contains(err.Error(), word) {
					t.Errorf("%v: a decoder's word %q", err, word)
				}
			}
		})
	}
}

// An adapter is told from a model, and its base is named.
func TestAdapter(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "adapter_config.json"), []byte(`{"peft_type": "LORA", "base_model_name_or_path": "org/base\u001b[2J"}`))
	mustWrite(t, filepath.Join(dir, "adapter_model.safetensors"), encodeShard([]stEntry{{"base_model.model.lora_A.weight", "F32", []int{1}, make([]byte, 4)}}, nil))
	wantError(t, dir, Unsupported, "adapter (LoRA)", `"org/base[2J"`, "merge_and_unload")
	// The same without weights beside a configuration.
	whole := writeSynth(t, "qwen3-tiny", synth.Options{})
	for _, name := range []string{"adapter_config.json", "adapter_model.safetensors"} {
		mustWrite(t, filepath.Join(whole, name), mustRead(t, filepath.Join(dir, name)))
	}
	mustOpen(t, whole) // the model itself is here
	if err := os.Remove(filepath.Join(whole, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	wantError(t, whole, Unsupported, "adapter (LoRA)")
}

// What a file says reaches messages without what would steer a terminal.
func TestMessagesAreClean(t *testing.T) {
	hostile := "\x1b]0;title\x07\u009b31m\u202egnp.exe\nossian: all is well"
	dir := writeSynth(t, "qwen3-tiny", synth.Options{})
	editJSON(t, filepath.Join(dir, "config.json"), func(m map[string]any) { m["model_type"] = hostile })
	_, err := Open(dir)
	g := takeApart(t, writeSynth(t, "qwen3-tiny", synth.Options{Format: synth.GGUF}))
	g.setString("general.name", hostile)
	path := filepath.Join(t.TempDir(), "named.gguf")
	mustWrite(t, path, g.encode())
	for _, text := range []string{fmt.Sprint(err), mustOpen(t, path).Spec.Name} {
		if strings.ContainsAny(text, "\x1b\x07\u009b\u202e\n") || !strings.Contains(text, "gnp.exe") {
			t.Errorf("%q", text)
		}
	}
}

func FuzzForeign(f *testing.F) {
	for _, text := range []string{lfsPointer, signInPage, "{}", "PK\x03\x04", "\xff\xfe", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, path := range []string{"m.gguf", "config.json"} {
			if err := foreign(path, data, int64(len(data))); err != nil && (len(err.Error()) > 2000 || bytes.ContainsAny([]byte(err.Error()), "\x1b\n")) {
				t.Errorf("%q", err)
			}
		}
	})
}

// TestExpressions: an expression that is none would end the program at its first use.
func TestExpressions(t *testing.T) {
	if err := lazyregexp.Check(); err != nil {
		t.Error(err)
	}
}
