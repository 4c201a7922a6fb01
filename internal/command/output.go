package command

// Files and folders that results go to: whether they can be written is found out before what
// they are to hold is made, which may take hours. So is whether a file to read is there. Nothing is
// changed by looking.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// OutputFile returns why a file cannot be written, or made together with its folder. option is what
// named it, such as --log; a path of "" names none.
func OutputFile(option, path string) error {
	info, err := os.Stat(path)
	switch {
	case path == "":
		return nil
	case err != nil: // it is yet to be made
		err = place(filepath.Dir(path))
	case info.IsDir():
		err = errors.New("this is a folder")
	case info.Mode().IsRegular(): // a pipe would notice
		err = opens(path)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w; name a file that can be written", option, path, err)
	}
	return nil
}

// OutputFolder returns why no file can be made in a folder, or why the folder cannot be made.
// option and path are as those of OutputFile.
func OutputFolder(option, path string) error {
	if path == "" {
		return nil
	}
	if err := place(path); err != nil {
		return fmt.Errorf("%s %s: %w; name a folder that can be written to", option, path, err)
	}
	return nil
}

// InputFile returns why there is no file of that name to read; option and path are as those of
// OutputFile.
func InputFile(option, path string) error {
	info, err := os.Stat(path)
	switch {
	case path == "":
		return nil
	case err != nil:
		return fmt.Errorf("%s %s: %w; name a file that is there", option, path, cause(err))
	case info.IsDir():
		return fmt.Errorf("%s %s: this is a folder; name the file in it", option, path)
	}
	return nil
}

// place tries to make a file in a folder, or in the first above it that is there.
func place(dir string) error {
	info, err := os.Stat(dir)
	switch above := filepath.Dir(dir); {
	case (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && above != dir:
		return place(above)
	case err != nil:
		return fmt.Errorf("%s: %w", dir, cause(err))
	case !info.IsDir():
		return fmt.Errorf("%s is a file, where a folder is needed", dir)
	}
	file, err := os.CreateTemp(dir, ".ossian-*")
	if err != nil {
		return fmt.Errorf("no file can be made in %s: %w", dir, cause(err))
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// opens tries to open a file for writing; what it holds stays.
func opens(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return cause(err)
	}
	return file.Close()
}

// cause is an error of the file system without its path, which is named before.
func cause(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	return err
}
