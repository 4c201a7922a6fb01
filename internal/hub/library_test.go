package hub

import (
	"strings"
	"testing"
)

func TestInLibrary(t *testing.T) {
	for word, want := range map[string]bool{
		"llama3": true, "llama3.2:1b": true, "Llama3": true, "qwen3:0.6b": true, "gpt-oss": true, "gpt-oss:20b": true, "mistral": true, "gemma3": true, "phi4": true, "phi3:mini": true,
		"deepseek-r1": true, "tinyllama": true, "qwen2.5-coder": true, "smollm2:135m": true, "llama3:latest": true,
		"phi": false, "falcon": false, "solar": false, "llamas": false, "hello": false, "gemmayze": false, "12+30": false, "a:b": false, "org/llama3": false, "": false, "mistrals": false, "llama 3": false, "yiddish": false,
	} {
		if got := InLibrary(word); got != want {
			t.Errorf("%q: %v", word, got)
		}
	}
}

// A name of another tool is answered with the one that it has here.
func TestMeant(t *testing.T) {
	for text, want := range map[string]string{
		"llama3":                      "ossian pull meta-llama/Meta-Llama-3-8B-Instruct",
		"llama3.2":                    "ossian pull meta-llama/Llama-3.2-3B-Instruct",
		"llama3.2:1b-instruct-q4_0":   "ossian pull meta-llama/Llama-3.2-1B-Instruct",
		"qwen3:0.6b":                  "ossian pull Qwen/Qwen3-0.6B",
		"gpt-oss:120b":                "ossian pull openai/gpt-oss-120b",
		"gemma3":                      "names of Ollama's library are not known here",
		"hf.co/a/b:Q4_K_M":            "a/b/FILE.gguf, where FILE has Q4_K_M in it",
		"a/b:Q8_0":                    "a/b/FILE.gguf, where FILE has Q8_0 in it",
		"https://huggingface.co/a/b":  "; write a/b",
		"https://huggingface.co/a/b/": "; write a/b",
		"hf.co/a/b":                   "; write a/b",
		"hf:a/b":                      "; write a/b",
		"hello":                       "", "a/b": "", "": "", "a:b": "", "https://example.com/x/y/z": "",
	} {
		if got := meant(text); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	}
	// What is written in its place is a name.
	for _, m := range library {
		if m.repos[m.usual] == "" || !InLibrary(m.name) {
			t.Errorf("%s: no usual one", m.name)
		}
		for tag, repo := range m.repos {
			if _, err := ParseName(repo); err != nil || !InLibrary(m.name+":"+tag) {
				t.Errorf("%s:%s: %v", m.name, tag, err)
			}
		}
	}
}

// An error says once which model and what is wrong with it.
func TestNameOnce(t *testing.T) {
	_, err := Resolve(Config{Cache: t.TempDir()}, "llama3")
	if err == nil || strings.Count(err.Error(), "model") != 2 || !strings.HasPrefix(err.Error(), `model "llama3": no such file or directory, and no name of a model: expected ORG/NAME`) {
		t.Errorf("%v", err)
	}
	_, err = ParseName("llama3")
	if err == nil || !strings.HasPrefix(err.Error(), `model name "llama3": expected ORG/NAME`) || !strings.Contains(err.Error(), "ossian pull meta-llama/") {
		t.Errorf("%v", err)
	}
}
