package ledger

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile writes a file of a campaign, and the directory that it lies in: whoever reads it, also after
// a crash, finds what was there before or all of the new.
func WriteFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	part := path + ".part"
	file, err := os.Create(part)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(part, path)
}
