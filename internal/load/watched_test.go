package load

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ossian/internal/ckpt"
	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/synth"
	"ossian/internal/tensor"
)

// writeModel writes a synthetic model and returns its path and the file with its weights.
func writeModel(t *testing.T, preset string, o synth.Options) (path, weights string) {
	t.Helper()
	made, err := synth.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	o.Model = made
	path = filepath.Join(t.TempDir(), preset)
	if o.Format == synth.GGUF {
		path += ".gguf"
	}
	if err := synth.Write(t.Context(), path, o, nil); err != nil {
		t.Fatal(err)
	}
	if o.Format == synth.GGUF {
		return path, path
	}
	return path, filepath.Join(path, "model.safetensors")
}

// limitsOf are those of one short sequence.
func limitsOf(spec *model.Spec) model.Limits {
	lim := model.Limits{MaxSeqs: 1, MaxTokens: 8, MaxLen: 64, BlockSize: 16}
	windows, _ := spec.Groups()
	for range windows {
		lim.Blocks = append(lim.Blocks, 4)
	}
	return lim
}

// stepOnce runs one step.
func stepOnce(r runner.Runner) error {
	batch := &runner.Batch{Tokens: []int32{1, 2, 3}, Rows: []runner.Row{{Len: 3, Tables: Tables(r.Info()), Sample: true, Params: &sample.Params{}}}}
	if err := r.Launch(batch); err != nil {
		return err
	}
	_, err := r.Collect()
	return err
}

// A file that is cut or overwritten while a model runs ends its steps with an error that names
// it, and it is not opened again; in each form in which weights are read.
func TestFileChanges(t *testing.T) {
	changes := map[string]func(path string) error{
		"cut": func(path string) error { return os.Truncate(path, 4096) },
		"overwritten": func(path string) error {
			time.Sleep(20 * time.Millisecond) // more than the steps of the clock that writers set
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(make([]byte, 40000), 20000)
			return errors.Join(err, f.Close())
		},
	}
	for what, change := range changes {
		for name, o := range map[string]synth.Options{"in place": {}, "packed": {Format: synth.GGUF, Type: tensor.Q8_0}} {
			for _, packed := range []string{"off", "on"} {
				t.Run(what+"/"+name+"/packed "+packed, func(t *testing.T) {
					path, weights := writeModel(t, "llama-tiny", o)
					checkpoint, err := OpenModel(path)
					if err != nil {
						t.Fatal(err)
					}
					defer checkpoint.Close()
					options := &Options{Threads: 2, KV: "auto", Packed: packed}
					loading, err := options.Begin(checkpoint, func(string) {})
					if err != nil {
						t.Fatal(err)
					}
					if err := loading.Prepare(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
					r, _, err := loading.Open(t.Context(), limitsOf(checkpoint.Spec), nil)
					if err != nil {
						t.Fatal(err)
					}
					if err := errors.Join(stepOnce(r), stepOnce(r), loading.Unchanged()); err != nil {
						t.Fatalf("before the change: %v", err)
					}
					if files, _ := filepath.Glob(filepath.Join(filepath.Dir(weights), "*packed*")); packed == "on" && len(files) > 0 {
						weights = files[0] // the one that steps read
					}
					if err := change(weights); err != nil {
						t.Fatal(err)
					}
					for where, err := range map[string]error{"step": stepOnce(r), "ready": loading.Unchanged()} {
						if changed, ok := errors.AsType[*ckpt.ChangedError](err); !ok || changed.File != weights {
							t.Errorf("%s: got %v, want an error about %s", where, err, weights)
						}
					}
					if err := r.Close(); err != nil {
						t.Error(err)
					}
					if _, _, err := loading.Open(t.Context(), limitsOf(checkpoint.Spec), nil); !isChanged(err) {
						t.Errorf("opened again: %v", err)
					}
				})
			}
		}
	}
}

func isChanged(err error) bool {
	_, ok := errors.AsType[*ckpt.ChangedError](err)
	return ok
}

// A file that is cut while weights are packed is an error, too, and what was opened is closed.
func TestFileCutWhileLoading(t *testing.T) {
	path, weights := writeModel(t, "llama-tiny", synth.Options{Format: synth.GGUF, Type: tensor.Q8_0})
	checkpoint, err := OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer checkpoint.Close()
	options := &Options{Threads: 2, KV: "auto", Packed: "off"}
	loading, err := options.Begin(checkpoint, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	cut := false
	checkpoint.Attach(cutter{&cut, weights}) // is asked before weights are read, and cuts then
	if _, _, err := loading.Open(t.Context(), limitsOf(checkpoint.Spec), nil); !isChanged(err) {
		t.Errorf("got %v", err)
	}
}

// A cutter cuts a file the first time that it is asked.
type cutter struct {
	done *bool
	path string
}

func (c cutter) Close() error { return nil }

func (c cutter) Unchanged() (path, how string) {
	if !*c.done {
		*c.done = true
		if err := os.Truncate(c.path, 4096); err != nil {
			return c.path, err.Error()
		}
	}
	return "", ""
}
