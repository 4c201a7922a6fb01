// Command pack turns a published rank file (lines "base64 rank") into the form
// that package token embeds: every token in rank order as its length (uvarint)
// and its bytes, compressed with DEFLATE.
//
//	go run ./_tools/tokens/pack < o200k_base.tiktoken > internal/token/o200k.bin
package main

import (
	"bufio"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	if err := pack(os.Stdout, os.Stdin); err != nil {
		log.Fatalf("pack: %v", err)
	}
}

func pack(w io.Writer, r io.Reader) error {
	out, err := flate.NewWriter(w, flate.BestCompression)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(r)
	for n := 0; lines.Scan(); n++ {
		var word string
		var rank int
		if _, err := fmt.Sscan(lines.Text(), &word, &rank); err != nil || rank != n {
			return fmt.Errorf("line %d: %q is not a token of rank %d", n+1, lines.Text(), n)
		}
		token, err := base64.StdEncoding.DecodeString(word)
		if err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
		if _, err := out.Write(append(binary.AppendUvarint(nil, uint64(len(token))), token...)); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return out.Close()
}
