package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"ossian/internal/command/commandtest"
	"ossian/internal/load"
	"ossian/internal/synth"
	"ossian/internal/tensor"
)

func skipUnpacked(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("this platform keeps no packed files")
	}
}

// packedFile returns the only packed file of a prefix.
func packedFile(t *testing.T, prefix string) string {
	t.Helper()
	found, err := filepath.Glob(prefix + "-*")
	if err != nil || len(found) != 1 {
		t.Fatalf("packed files %v, %v; want one", found, err)
	}
	return found[0]
}

// Answers are the same whatever becomes of the packed file, and each start says what.
func TestRunPacked(t *testing.T) {
	skipUnpacked(t)
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "gpt-oss-tiny", "gpt-oss", synth.Options{})
	commandtest.WriteModel(t, "llama3-tiny", "llama.gguf", synth.Options{Format: synth.GGUF, Type: tensor.Q8_0})
	for _, c := range []struct{ model, prefix, weights string }{
		{"gpt-oss", filepath.Join("gpt-oss", "ossian-packed"), filepath.Join("gpt-oss", "*.safetensors")},
		{"llama.gguf", "llama.gguf.packed", "llama.gguf"},
	} {
		answer := func(what string, flags []string, told ...string) string {
			t.Helper()
			out, status, err := commandtest.Run(t, root(), append([]string{"run", c.model, "hello there", "--raw", "--threads", "2", "--max-tokens", "8", "--ignore-eos", "--temperature", "0"}, flags...)...)
			if err != nil {
				t.Fatalf("%s, %s: %v", c.model, what, err)
			}
			for _, text := range []string{"packing weights into " + c.prefix, "are not used", "are not kept", "from other files", "damaged in bytes", "it was cut"} {
				want := false
				for _, s := range told {
					want = want || strings.HasPrefix(text, s)
				}
				if strings.Contains(status, text) != want {
					t.Errorf("%s, %s: told %q, want %q", c.model, what, status, told)
				}
			}
			return out
		}
		on := []string{"--packed-weights", "on"}
		want := answer("off", []string{"--packed-weights", "off"})
		same := func(what string, flags []string, told ...string) {
			t.Helper()
			if got := answer(what, flags, told...); got != want {
				t.Errorf("%s, %s: answered %q, want %q", c.model, what, got, want)
			}
		}
		same("small", nil)
		same("nobody looked at it", append(on, "--no-verify"))
		if found, err := filepath.Glob(c.prefix + "*"); err != nil || len(found) > 0 {
			t.Errorf("%s: packed files %v, %v; none was asked for", c.model, found, err)
		}
		same("made", on, "packing")
		file := packedFile(t, c.prefix)
		same("mapped", on)
		same("mapped unchecked", append(on, "--no-verify"))
		sound, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		put := func(data []byte) {
			t.Helper()
			if err := os.WriteFile(file, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		bad, at := bytes.Clone(sound), len(sound)*2/3
		for bad[at] == 0 { // between sections
			at++
		}
		bad[at] ^= 16
		put(bad)
		same("damaged", on, "packing", "are not used", "damaged in bytes")
		put(sound[:len(sound)-1])
		same("cut", on, "packing", "are not used", "it was cut")
		weights, err := filepath.Glob(c.weights)
		if err != nil || len(weights) == 0 {
			t.Fatal(c.weights, err)
		}
		if err := os.Chtimes(weights[0], time.Now(), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		same("of an older checkpoint", on, "packing", "are not used", "from other files")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(file+".partial", 0o755); err != nil { // no file can be made
			t.Fatal(err)
		}
		same("not kept", on, "packing", "are not kept")
		if err := os.Remove(file + ".partial"); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := commandtest.Run(t, root(), "run", "llama.gguf", "hello", "--packed-weights", "yes"); err == nil || !strings.Contains(err.Error(), "auto, on or off expected") {
		t.Errorf("an unknown setting: %v", err)
	}
}

// A damaged checkpoint is found where it is still read, also with a packed file.
func TestRunPackedVerifies(t *testing.T) {
	skipUnpacked(t)
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "llama3-tiny", "llama.gguf", synth.Options{Format: synth.GGUF, Type: tensor.Q8_0})
	run := func() error {
		_, _, err := commandtest.Run(t, root(), "run", "llama.gguf", "hello", "--raw", "--threads", "1", "--max-tokens", "1", "--packed-weights", "on")
		return err
	}
	if _, _, err := commandtest.Run(t, root(), "inspect", "llama.gguf", "--seal", "--threads", "1"); err != nil {
		t.Fatal(err)
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat("llama.gguf")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("llama.gguf")
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile("llama.gguf", data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes("llama.gguf", time.Now(), info.ModTime()); err != nil { // as rot does
		t.Fatal(err)
	}
	if err := run(); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a damaged checkpoint: %v", err)
	}
}

// The memory plan counts a packed file as mapped, inspect shows and removes it, and a
// server uses it.
func TestServePacked(t *testing.T) {
	skipUnpacked(t)
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "gpt-oss-tiny", "model", synth.Options{})
	mapped := func(setting string) (all, mapped string) {
		t.Helper()
		out, _, err := commandtest.Run(t, root(), "serve", "model", "--explain", "--packed-weights", setting, "--threads", "1")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 3 && f[0] == "weights" && f[3] == "of" {
				return f[1], f[2]
			}
		}
		t.Fatalf("no row of weights:\n%s", out)
		return "", ""
	}
	allOff, off := mapped("off")
	allOn, on := mapped("on")
	if allOff != allOn || len(on) <= len(off)-1 || on == off {
		t.Errorf("weights %s of which %s are mapped without a file, %s and %s with one", allOff, off, allOn, on)
	}
	inspected := func(flags ...string) (r struct {
		Packed load.PackedReport `json:"packed_weights"`
	}) {
		t.Helper()
		out, _, err := commandtest.Run(t, root(), append([]string{"inspect", "model", "--json", "--threads", "1"}, flags...)...)
		if err == nil {
			err = json.Unmarshal([]byte(out), &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := inspected(); r.Packed.State != "" || r.Packed.Files != nil {
		t.Errorf("before: %+v", r.Packed)
	}
	for range 2 {
		url := commandtest.Serve(t, root(), "model", "--packed-weights", "on")
		commandtest.Post(t, url+"/v1/completions", `{"model": "model", "prompt": "hello", "max_tokens": 2}`)
	}
	file := packedFile(t, filepath.Join("model", "ossian-packed"))
	if r := inspected(); !strings.Contains(r.Packed.State, "mapped from "+file) || len(r.Packed.Files) != 1 || r.Packed.Files[0].Path != file {
		t.Errorf("with a file: %+v", r.Packed)
	}
	if out, _, err := commandtest.Run(t, root(), "inspect", "model", "--threads", "1"); err != nil || !strings.Contains(out, "file "+file) {
		t.Errorf("%v:\n%s", err, out)
	}
	if r := inspected("--remove-packed"); r.Packed.State != "" || r.Packed.Files != nil {
		t.Errorf("removed: %+v", r.Packed)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}
