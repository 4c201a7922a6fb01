package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// noticesName is the file with the notices of what is linked in.
const noticesName = "NOTICES.txt"

// archives writes the image and the manifests as files that can be carried.
func (r *release) archives(temporary string) ([]string, error) {
	image, manifests := filepath.Join(r.out, "ossian-image.tar"), filepath.Join(r.out, "ossian-deploy.tar.gz")
	layout := filepath.Join(temporary, "image")
	made, err := r.image(layout, temporary, filepath.Join(r.out, noticesName))
	if err != nil {
		return nil, err
	}
	files := []string{manifests}
	if made {
		for _, name := range []string{"amd64", "arm64"} { // the second name of a layer, for docker build
			if err := os.Remove(filepath.Join(layout, "layer-"+name+".tar.gz")); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
		if err := r.archive(image, layout, ""); err != nil {
			return nil, err
		}
		files = append(files, image)
	}
	return files, r.archive(manifests, "deploy", "deploy/")
}

// imageOnly makes the image for both processors, with their notices.
func (r *release) imageOnly(out string) error {
	if err := r.identify("."); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "ossian-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	r.targets = []string{"linux/amd64", "linux/arm64"}
	_, err = r.image(out, temporary, "")
	return err
}

// image makes the layout of the platforms that an image can be for, and reports whether there are
// any. Without a file of notices it makes one of these programs.
func (r *release) image(out, temporary, noticesFile string) (bool, error) {
	var programs, arguments []string
	for _, target := range r.targets {
		if !twoForms(target) {
			continue
		}
		program := filepath.Join(temporary, "static-"+programName(target))
		if err := r.compile(".", program, target, ""); err != nil {
			return false, err
		}
		programs, arguments = append(programs, program), append(arguments, target+"="+program)
	}
	if len(programs) == 0 {
		return false, nil
	}
	if noticesFile == "" {
		noticesFile = filepath.Join(temporary, noticesName)
		if err := writeNotices(noticesFile, programs); err != nil {
			return false, err
		}
	}
	for _, path := range []*string{&out, &noticesFile} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return false, err
		}
		*path = absolute
	}
	version := r.version
	if version == "" {
		version = "dev"
	}
	// The tool is a module of its own, and runs in its folder.
	cmd := exec.Command("go", append([]string{"run", ".", "-out", out, "-version", version, "-revision", r.revision,
		"-source", r.source, "-time", strconv.FormatInt(r.seconds(), 10), "-notices", noticesFile}, arguments...)...)
	cmd.Dir = filepath.Join("_tools", "image")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return true, cmd.Run()
}

// writeNotices writes the notices of programs into a file.
func writeNotices(path string, programs []string) error {
	linked, err := modulesOf(programs)
	if err != nil {
		return err
	}
	page, err := pageParts()
	if err != nil {
		return err
	}
	text, err := notices(linked, page)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o666)
}

// seconds is the time of the commit, 1980 where it is unknown: the first that every archive knows.
func (b *build) seconds() int64 {
	if seconds, err := strconv.ParseInt(b.time, 10, 64); err == nil {
		return seconds
	}
	return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
}

// archive writes the files of a folder, in order and with nothing of this machine, under names
// that begin with prefix.
func (r *release) archive(path, dir, prefix string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, file.Close())
	}()
	into := io.Writer(file)
	if strings.HasSuffix(path, ".gz") {
		packed := gzip.NewWriter(file)
		defer func() {
			err = errors.Join(err, packed.Close())
		}()
		into = packed
	}
	w := tar.NewWriter(into)
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is no plain file", path)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return r.archiveFile(w, path, prefix+filepath.ToSlash(name))
	})
	return errors.Join(err, w.Close())
}

// archiveFile writes one file under a name.
func (r *release) archiveFile(w *tar.Writer, path, name string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: time.Unix(r.seconds(), 0).UTC(), Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
