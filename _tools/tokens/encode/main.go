// Command encode puts lines through package token: base64 strings in, ids out, or
// with -decode ids in, base64 strings out.
//
//	go run ./_tools/tokens/encode [-vocab FILE] [-markup | -decode] < in > out
//
// The vocabulary is a tokenizer.json, the JSON form of token.Vocab if the name
// ends in .vocab, or o200k_harmony without -vocab.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"

	"ossian/internal/token"
)

func main() {
	log.SetFlags(0)
	vocab := flag.String("vocab", "", "vocabulary `file`")
	markup := flag.Bool("markup", false, "encode as trusted markup")
	decode := flag.Bool("decode", false, "decode ids")
	flag.Parse()
	bpe, err := load(*vocab)
	if err != nil {
		log.Fatalf("encode: %v", err)
	}
	each := func(text []byte) ([]byte, error) { return encode(bpe, text, *markup) }
	if *decode {
		each = func(ids []byte) ([]byte, error) { return decodeLine(bpe, ids) }
	}
	if err := lines(os.Stdout, os.Stdin, each); err != nil {
		log.Fatalf("encode: %v", err)
	}
}

func load(name string) (*token.BPE, error) {
	if name == "" {
		return token.Harmony()
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(name, ".vocab") {
		return token.FromJSON(data)
	}
	var v token.Vocab
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return token.FromGGUF(v)
}

func lines(w io.Writer, r io.Reader, each func([]byte) ([]byte, error)) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<30)
	out := bufio.NewWriter(w)
	for in.Scan() {
		line, err := each(in.Bytes())
		if err != nil {
			return err
		}
		out.Write(append(line, '\n')) // Flush reports the error
	}
	if err := in.Err(); err != nil {
		return err
	}
	return out.Flush()
}

func encode(bpe *token.BPE, line []byte, markup bool) ([]byte, error) {
	text, err := base64.StdEncoding.DecodeString(string(line))
	if err != nil {
		return nil, err
	}
	ids := bpe.Encode(nil, string(text))
	if markup {
		p := bpe.Prompt()
		p.Markup(string(text))
		ids = p.IDs()
	}
	var out []byte
	for i, id := range ids {
		if i > 0 {
			out = append(out, ' ')
		}
		out = strconv.AppendInt(out, int64(id), 10)
	}
	return out, nil
}

func decodeLine(bpe *token.BPE, line []byte) ([]byte, error) {
	var ids []int32
	for _, word := range strings.Fields(string(line)) {
		id, err := strconv.ParseInt(word, 10, 32)
		if err != nil {
			return nil, err
		}
		ids = append(ids, int32(id))
	}
	return []byte(base64.StdEncoding.EncodeToString([]byte(bpe.Decode(ids)))), nil
}
