package ckpt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"ossian/internal/lazyregexp"
)

// What people have in place of weights: the pointer that git leaves where a large file was
// not fetched, the page of a hub that asked for a login, an archive, another tool's format.
// Each is named as what it is, with what to do about it: "magic: expected GGUF, found vers"
// helps nobody. Only the beginning of a file is looked at.

// headBytes is how much of a file is looked at.
const headBytes = 4096

// foreign says what a file is that is not what its name or its place says, nil if that is not
// known. size is the file's, in bytes.
func foreign(path string, data []byte, size int64) error {
	head := data[:min(len(data), headBytes)]
	if len(head) == 0 {
		return damaged(path, 0, "content; fetch the file again", "some", "none: it is empty")
	}
	if err := pointer(path, head); err != nil {
		return err
	}
	if err := page(path, head); err != nil {
		return err
	}
	for _, kind := range foreignKinds {
		if bytes.HasPrefix(head[min(kind.at, len(head)):], []byte(kind.magic)) {
			return unsupported(path, "kind of file", "weights as safetensors or GGUF", kind.what)
		}
	}
	if len(head) > 8 && head[8] == '{' && binary.LittleEndian.Uint64(head) < uint64(size) {
		return unsupported(path, "kind of file", "a GGUF file", "safetensors: give the directory that holds it and its config.json")
	}
	if len(bytes.Trim(head, "\x00")) == 0 && size >= 8 {
		return incomplete(path, fmt.Sprintf("the file begins with %d zeros, as one whose download did not end: fetch it again", len(head)))
	}
	return nil
}

// foreignKinds are formats by the bytes that they have at a place.
var foreignKinds = []struct {
	at          int
	magic, what string
}{
	{0, "GGUF", "GGUF: give the path of this file itself"},
	{0, "PK\x03\x04", "a zip archive, such as PyTorch writes; pickles in it can run code and are never read: take the safetensors or GGUF form"},
	{0, "\x80\x02", "a Python pickle, which can run code and is never read: take the safetensors or GGUF form"},
	{0, "\x80\x04", "a Python pickle, which can run code and is never read: take the safetensors or GGUF form"},
	{0, "\x89HDF", "HDF5, such as Keras writes: take the safetensors or GGUF form"},
	{0, "\x93NUMPY", "a NumPy array: take the safetensors or GGUF form"},
	{0, "lmgg", "GGML, which GGUF replaced in August 2023: convert the model again"},
	{0, "fmgg", "GGML, which GGUF replaced in August 2023: convert the model again"},
	{0, "tjgg", "GGML, which GGUF replaced in August 2023: convert the model again"},
	{0, "algg", "a LoRA adapter for GGML, not a model: merge it into its base model"},
	{0, "\x1f\x8b", "an archive (gzip): unpack it"},
	{0, "BZh", "an archive (bzip2): unpack it"},
	{0, "\xfd7zXZ", "an archive (xz): unpack it"},
	{0, "\x28\xb5\x2f\xfd", "an archive (zstd): unpack it"},
	{0, "7z\xbc\xaf", "an archive (7z): unpack it"},
	{0, "Rar!", "an archive (rar): unpack it"},
	{257, "ustar", "an archive (tar): unpack it"},
	{0, "%PDF", "a PDF document"},
	{0, "\x7fELF", "a program"},
	{0, "MZqFpD", "a llamafile, a program with a model in it: take the model's GGUF file"},
	{0, "MZ", "a program for Windows"},
}

// lfsSize finds the size in a Git LFS pointer.
var lfsSize = lazyregexp.New(`(?m)^size (\d{1,18})\r?$`)

// pointer recognises what git keeps in place of a large file.
func pointer(path string, head []byte) error {
	name := filepath.Base(path)
	switch {
	case bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/spec/")):
	case bytes.HasPrefix(head, []byte("/annex/objects/")):
		return incomplete(path, fmt.Sprintf("it is a git-annex pointer, not the file: fetch it with: git annex get %s", name))
	default:
		return nil
	}
	large := "whose size it does not tell"
	if found := lfsSize.FindSubmatch(head); found != nil {
		size, _ := strconv.ParseInt(string(found[1]), 10, 64)
		large = fmt.Sprintf("of %d bytes (%.2f GB)", size, float64(size)/1e9)
	}
	return incomplete(path, fmt.Sprintf("it is a Git LFS pointer to a file %s, which was not fetched: run in its repository: git lfs pull --include %q, or fetch the model with: ossian pull ORG/NAME", large, name))
}

// What saved pages begin with, in lower case, and their title.
var (
	pageStart = lazyregexp.New(`(?i)^(<!--|<!doctype html|<html|<head|<\?xml|<error>)`)
	pageTitle = lazyregexp.New(`(?is)<title[^>]*>(.{0,200}?)</title>`)
)

// page recognises the answer of a server that was saved as if it were the file.
func page(path string, head []byte) error {
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	const again = "fetch it again, with HF_TOKEN where the model wants a login"
	switch {
	case pageStart.Match(text):
		title := ""
		if found := pageTitle.FindSubmatch(text); found != nil {
			title = fmt.Sprintf(" with the title %q", clip(clean(strings.TrimSpace(string(found[1])))))
		}
		return incomplete(path, "a web page"+title+" was saved in place of the file: "+again)
	case weightsName(path) && len(text) > 0 && (text[0] == '{' || readable(text)):
		return incomplete(path, fmt.Sprintf("it is text, which begins with %q, perhaps what a server answered in place of the file: %s", firstLine(text), again))
	}
	return nil
}

// weightsName reports whether a file of that name holds weights, which are no text.
func weightsName(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".gguf" || ext == ".safetensors"
}

// readable reports whether bytes are text, but for a character that is cut at the end.
func readable(text []byte) bool {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if (r == utf8.RuneError && size == 1 && len(text) >= utf8.UTFMax) || (r < ' ' && !unicode.IsSpace(r)) {
			return false
		}
		text = text[size:]
	}
	return true
}

// firstLine returns the beginning of text.
func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return clean(string(line[:min(len(line), 100)]))
}

// adapter recognises a directory that holds what was learnt on top of a model; name is a file
// of it. The error says which model that is, if the directory does.
func (m *Model) adapter() error {
	const name = "adapter_config.json"
	data, err := m.small(name, maxConfig)
	if err != nil || data == nil {
		return err
	}
	base := "its base model"
	if parsed, err := parseObject(name, data); err == nil {
		if named := parsed.string("", "base_model_name_or_path"); named != "" {
			base = fmt.Sprintf("its base model %q", clip(clean(named)))
		}
	}
	return unsupported(filepath.Join(m.Path, name), "kind of model", "a whole model",
		"an adapter (LoRA): merge it into "+base+" (merge_and_unload of peft), and give the directory of the result")
}
