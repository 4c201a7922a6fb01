package ckpt

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ossian/internal/token"
)

const (
	indexName = "model.safetensors.index.json"
	maxIndex  = 64 << 20  // bytes
	maxVocab  = 512 << 20 // bytes of tokenizer.json; the published ones have up to 33e6
	maxShards = 4096
)

// openDir opens a directory in Hugging Face or original gpt-oss layout
// (formats.md 1, 2). Sub-directories are never looked at, but for that of named templates:
// published repositories keep second copies of the weights there.
func (m *Model) openDir() error {
	config, original, where, err := m.begin(func(config []byte) ([]byte, error) { return config, nil })
	if err != nil {
		return err
	}
	// What is stored becomes what the Spec asks for.
	file, spec := filepath.Join(m.Path, "config.json"), m.Spec
	assembler := newAssembler(where, m.stored)
	assembler.spec = spec
	for name, stored := range m.stored {
		if strings.HasSuffix(name, ".weight_scale_inv") {
			return stored.error(Unsupported, "FP8 weights with block scales", "a BF16 repository", stored.typeName)
		}
	}
	build := assembler.buildHuggingFace
	m.Format = "safetensors"
	if original {
		build = assembler.buildOriginal
		m.Format = "safetensors, original layout"
	}
	if m.Params, err = assembler.assemble(build); err != nil {
		return err
	}
	if spec.Tied {
		assembler.used["lm_head.weight"] = true // writers may store the shared tensor twice
	}
	m.Unknown = assembler.unknown()
	if err := m.checkLayers(file); err != nil {
		return err
	}
	if err := m.readTokenizer(); err != nil {
		return err
	}
	if err := m.readText(file, config); err != nil {
		return cmp.Or(m.tokenize(), err) // of two damages the one that was read first
	}
	return nil
}

// OpenPart opens a directory that is a model beside another only, such as a head: Params are all of
// its tensors under their own names, Spec is what the configuration says that translate makes of its.
func OpenPart(path string, translate func(config []byte) ([]byte, error)) (*Model, error) {
	part := newModel(path)
	if _, _, _, err := part.begin(translate); err != nil {
		return nil, errors.Join(err, part.Close())
	}
	for name, stored := range part.stored {
		part.Params[name] = stored.view()
	}
	return part, nil
}

// begin reads the configuration, as translate makes it, and opens the safetensors files; where is
// the file to name when a tensor is missing.
func (m *Model) begin(translate func([]byte) ([]byte, error)) (config []byte, original bool, where string, err error) {
	if config, err = m.small("config.json", maxConfig); err == nil && config == nil {
		err = m.notAModel("config.json")
	}
	if err == nil {
		config, err = translate(config)
	}
	if err == nil {
		m.Spec, original, err = readConfig(filepath.Join(m.Path, "config.json"), config)
	}
	if err == nil {
		m.Spec.Name = filepath.Base(m.Path)
		where, err = m.openShards()
	}
	return config, original, where, err
}

// openShards opens the safetensors files and returns the file to name when a
// tensor is missing.
func (m *Model) openShards() (where string, err error) {
	where = filepath.Join(m.Path, indexName)
	index, err := m.small(indexName, maxIndex)
	if err != nil {
		return where, err
	}
	if index != nil {
		return where, m.openIndexed(where, index)
	}
	// Without an index: the one file of the usual name, else whatever safetensors are here.
	where = filepath.Join(m.Path, "model.safetensors")
	files := []string{where}
	if _, err := m.stat(where); errors.Is(err, os.ErrNotExist) && m.fsys == nil {
		where = m.Path
		files, err = filepath.Glob(filepath.Join(escapeGlob(m.Path), "*.safetensors"))
		// What was learnt on top of a model is no part of it.
		files = slices.DeleteFunc(files, func(path string) bool { return filepath.Base(path) == "adapter_model.safetensors" })
		if err != nil || len(files) == 0 {
			return where, m.notAModel("*.safetensors")
		}
	}
	for _, path := range files[:min(len(files), maxShards)] {
		file, err := m.openMap(path)
		if err != nil {
			return where, err
		}
		list, err := readSafetensors(file)
		if err != nil {
			return where, err
		}
		if err := m.add(list); err != nil {
			return where, err
		}
	}
	return where, nil
}

// escapeGlob quotes the characters of a directory name that Glob would interpret.
func escapeGlob(path string) string {
	return strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`).Replace(path)
}

// notModels are what lies in directories that hold no model, or one in another place: the first
// file that a pattern finds is named. FILE stands for its name in the directory.
var notModels = []struct{ pattern, problem, want, found string }{
	{"*.gguf", "a directory with a GGUF file", "the path of FILE", "the directory"},
	{"*.safetensors.*", "weights", "a whole file", "a download that has not ended: fetch it again"},
	{".cache/huggingface/download/*.incomplete", "weights", "a whole file", "a download that has not ended: go on with it"},
	{"adapter_model.*", "kind of model", "a whole model", "an adapter (LoRA): merge it into its base model"},
	{"snapshots/*", "a folder of the cache of models", "the name ORG/NAME of the model, or the path of FILE", "the folder"},
	{"*/config.json", "a directory with a model in another one", "the directory of FILE", "the one around it"},
	{"*/*.gguf", "a directory with a GGUF file", "the path of FILE", "the directory"},
	{"*.bin", pickled, "safetensors", "a pickle"},
	{"*.pt*", pickled, "safetensors", "a pickle"},
	{"*.ckpt", pickled, "safetensors", "a pickle"},
	{"*.onnx", "kind of file", "safetensors or GGUF", "ONNX"},
	{"model_index.json", "kind of model", "a model that writes text", "a pipeline of Diffusers"},
}

const pickled = "kind of file; pickles can run code and are never read"

// notAModel says what is wrong with a directory that lacks a file, telling one that holds
// something else from an incomplete one.
func (m *Model) notAModel(missing string) error {
	if err := m.adapter(); err != nil || m.fsys != nil {
		return cmp.Or(err, incomplete(filepath.Join(m.Path, missing), "the file is missing"))
	}
	for _, kind := range notModels {
		if found, _ := filepath.Glob(filepath.Join(escapeGlob(m.Path), kind.pattern)); len(found) > 0 {
			name, _ := filepath.Rel(m.Path, found[0])
			return unsupported(found[0], kind.problem, strings.ReplaceAll(kind.want, "FILE", name), kind.found)
		}
	}
	return incomplete(filepath.Join(m.Path, missing), "the file is missing; a model is a directory with config.json, tokenizer.json and safetensors, or a GGUF file")
}

// openIndexed opens the shards that the index names. The numbers in shard names
// mean nothing: published ones count from 0 or from 1.
func (m *Model) openIndexed(where string, index []byte) error {
	shards, err := readIndex(where, index)
	if err != nil {
		return err
	}
	byFile := map[string]bool{}
	for _, file := range shards {
		byFile[file] = true
	}
	files := make([]string, 0, len(byFile))
	for file := range byFile {
		files = append(files, file)
	}
	slices.Sort(files)
	if len(files) > maxShards {
		return unsupported(where, "number of files", fmt.Sprintf("at most %d", maxShards), len(files))
	}
	for _, name := range files {
		file, err := m.openMap(filepath.Join(m.Path, name))
		if err != nil {
			return err
		}
		list, err := readSafetensors(file)
		if err != nil {
			return err
		}
		// A tensor that the index places elsewhere is not this one.
		list = slices.DeleteFunc(list, func(t stored) bool { file, ok := shards[t.name]; return ok && file != name })
		if err := m.add(list); err != nil {
			return err
		}
	}
	for name, file := range shards {
		if stored, ok := m.stored[name]; !ok || filepath.Base(stored.file.path) != file {
			return &Error{Kind: Inconsistent, File: filepath.Join(m.Path, file), Tensor: name, Offset: -1,
				Problem: "a tensor is missing that " + indexName + " says is here"}
		}
	}
	return nil
}

// readIndex returns the file of every tensor.
func readIndex(where string, index []byte) (map[string]string, error) {
	if jsonKind(index) != "an object" {
		return nil, notObject(where, index)
	}
	scan := &scanner{path: where, data: index}
	var shards map[string]string
	scan.object(func(key string) {
		if key != "weight_map" {
			scan.skip(0)
			return
		}
		if shards != nil {
			scan.fail("index", "one weight_map", "a second")
		}
		shards = map[string]string{}
		files := map[string]string{} // one copy of each name
		scan.object(func(name string) {
			at := scan.at
			file := scan.string()
			if known, ok := files[file]; ok {
				file = known
			}
			files[file] = file
			_, again := shards[name]
			switch {
			case scan.err != nil:
			case again || len(shards) == maxTensors:
				scan.at = at
				scan.fail("weight_map", fmt.Sprintf("at most %d unique names", maxTensors), fmt.Sprintf("%q again, or more", clip(name)))
			case !plainName(file):
				scan.at = at
				scan.fail("weight_map", "plain names of .safetensors files", fmt.Sprintf("%q", clip(file)))
			}
			shards[name] = file
		})
	})
	if scan.end(); scan.err != nil {
		return nil, scan.err
	}
	if len(shards) == 0 {
		return nil, incomplete(where, "weight_map is missing or empty")
	}
	return shards, nil
}

// plainName reports whether name is a file of the directory itself: names from
// files never become paths unchecked (reliability.md CKP-5).
func plainName(name string) bool {
	return strings.HasSuffix(name, ".safetensors") && !strings.HasPrefix(name, ".") && len(name) < 256 &&
		!strings.ContainsAny(name, "/\\:\x00")
}

// readTokenizer reads what tokenize will make the tokenizer of.
func (m *Model) readTokenizer() error {
	data, err := m.small("tokenizer.json", maxVocab)
	if err != nil {
		return err
	}
	path := filepath.Join(m.Path, "tokenizer.json")
	// Making it takes long, so Finish does; what is wrong with the file shows there.
	switch {
	case data != nil:
		m.tokenize = func() (err error) {
			if m.Tokenizer, err = token.FromJSON(data); err == nil {
				return nil
			}
			if !json.Valid(data) || jsonKind(data) != "an object" {
				return notObject(path, data)
			}
			err = errors.Unwrap(err) // without the name of the file, which is in path
			return unsupported(path, err.Error(), "", "")
		}
	case m.Spec.Family == "gpt-oss":
		m.tokenize = func() (err error) {
			if m.Tokenizer, err = token.Harmony(); err != nil {
				return fmt.Errorf("built-in tokenizer of gpt-oss: %w", err)
			}
			return nil
		}
	default:
		return absent(path, "the file is missing; where there are others of a tokenizer, transformers makes it of them: AutoTokenizer.from_pretrained(DIRECTORY).save_pretrained(DIRECTORY)")
	}
	return nil
}
