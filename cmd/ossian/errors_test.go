package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/command/commandtest"
	"ossian/internal/synth"
)

// said returns two parts of an error of which one says again what the other says: errors are
// parts with colons between them, from the outermost to the cause.
func said(text string) (first, again string) {
	parts := strings.Split(text, ": ")
	for n, part := range parts {
		for _, later := range parts[n+1:] {
			if strings.HasPrefix(later, part) || strings.HasSuffix(part, "/"+later) || (n == 0 && strings.HasPrefix(part, "ossian ")) {
				return part, later
			}
		}
	}
	return "", ""
}

// No error says anything twice, as those do that every caller on their way puts the same
// name before.
func TestErrorsSayItOnce(t *testing.T) {
	for text, twice := range map[string]bool{
		"model x: model x: no such file": true, "chat template: chat template 1:1: bad": true, "m/tokenizer.json: not supported: tokenizer.json: bad": true,
		"--port x (command line): 0 to 65535 expected": false, "m/config.json: damaged: a JSON object expected": false,
	} {
		if first, _ := said(text); (first != "") != twice {
			t.Errorf("%q: found %q", text, first)
		}
	}
	t.Chdir(t.TempDir())
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	t.Setenv("HF_HUB_OFFLINE", "1")
	// Models with one file that is not right.
	for name, change := range map[string]struct{ file, text string }{
		"template": {"chat_template.jinja", "{{ broken"}, "refuses": {"chat_template.jinja", "{{ raise_exception('no') }}"}, "tokenizer": {"tokenizer.json", "[]"},
		"notjson": {"tokenizer.json", "{"}, "config": {"config.json", "{"}, "family": {"config.json", `{"model_type": "mistral"}`}, "weights": {"model.safetensors", "short"},
		"generation": {"generation_config.json", "[1]"},
	} {
		commandtest.WriteModel(t, "qwen3-tiny", name, synth.Options{})
		if err := os.WriteFile(filepath.Join(name, change.file), []byte(change.text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"a.gguf": "x", "bad.yaml": "a: [\n", "unknown.yaml": "prot: 1\n", "value.yaml": "port: x\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bad := []string{"list", "xyzzy", "bench x", "bench sweep x", "pull", "pull llama3", "pull a/b", "pull a b", "inspect a b", "synth x y", "synth", "perplexity x", "perplexity ossian-tiny none",
		"perplexity ossian-tiny bad.yaml --tokens 1", "run --threads x hi", "run --threads -1 hi", "run --max-model-len 99999999 hi", "run --kv-cache-dtype x hi", "run --reasoning-effort x hi",
		"run --max-tokens -2 hi", "run --top-p 7 hi", "run --packed-weights x hi", "run --activation-bits 3 hi", "run --cpu-weights x hi", "run -m x -p y z", "run -ngl 99 hi", "run --max-tokens",
		"serve --port x --explain", "serve --port 99999", "serve --limit x", "serve --limit queue=x", "serve --limit queue=-1", "serve --config none.yaml", "serve --config bad.yaml",
		"serve --config unknown.yaml", "serve --config value.yaml", "serve --config .", "serve --api-key-file none", "serve --ssl-certfile none", "serve --chat-template none --explain",
		"serve --host 0.0.0.0", "serve a b", "serve --store", "serve --no-port", "serve template --explain --chat-template {{x", "serve --max-model-len 99999999 --explain",
		"bench serve --base-url x", "bench compare a b", "bench compare bad.yaml bad.yaml", "bench summarize none", "bench latency --model ./none", "bench latency --input-len 99999", "bench sweep plot x"}
	for _, model := range []string{"template", "refuses", "tokenizer", "notjson", "config", "family", "weights", "generation", "a.gguf", "./none", "none/none", "none/none/x.gguf", "llama3", "hf.co/a/b:Q4", "https://huggingface.co/a/b"} {
		bad = append(bad, "run "+model+" hi", "inspect "+model+" --max-model-len 99999999", "serve "+model+" --explain --max-model-len 99999999")
	}
	for _, args := range bad {
		_, _, err := commandtest.Run(t, root(), strings.Fields(args)...)
		if err == nil {
			t.Errorf("%s: no error", args)
			continue
		}
		if first, again := said(err.Error()); first != "" {
			t.Errorf("%s: %q and then %q, in %q", args, first, again, err)
		}
	}
}
