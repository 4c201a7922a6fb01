// Command archive writes the PTX of a folder into one compressed file, ptx.zip beside it, which is
// what the program embeds: uncompressed PTX would be a twelfth of the program. build.sh runs it
// after compiling; the test of package kernels fails where the archive does not hold what lies
// beside it.
//
//	go run ./_tools/cuda/archive internal/cuda/kernels
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "archive: takes the folder that has the PTX, internal/cuda/kernels")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "archive:", err)
		os.Exit(1)
	}
}

// write packs all *.ptx of a folder into its ptx.zip. Nothing but names and bytes go in, in the
// order of names: the same files make the same archive.
func write(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.ptx"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no *.ptx; build.sh writes them", folder)
	}
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	archive.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(to, flate.BestCompression)
	})
	for _, file := range files {
		ptx, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		entry, err := archive.Create(filepath.Base(file))
		if err != nil {
			return err
		}
		if _, err := entry.Write(ptx); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "ptx.zip"), packed.Bytes(), 0o644)
}
