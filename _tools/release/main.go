// Command release builds what a release consists of, from the commit that is checked out:
// a program for each platform, the container image, the manifests of deploy/, the notices of
// everything linked in, a bill of materials (CycloneDX 1.6) and a list of checksums, signed
// where a key is given.
//
//	go run ./_tools/release [-version v1.2.3] [-out bin/release] [-targets linux/amd64,darwin/arm64] [-check] [-key FILE]
//	go run ./_tools/release -image bin/image [-version v1.2.3]
//	go run ./_tools/release -verify bin/release
//
// A program for Linux has two forms, one behind the other (internal/self): the static one, which
// runs everywhere, and the one that can call NVIDIA's driver. The image has the static one.
//
// The programs are reproducible: built with -trimpath and without cgo they hold no path of
// the machine, so that the same commit gives the same bytes everywhere. With -check the first
// one is built a second time, from another clone with an empty build cache, and compared.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// platforms are what a release has unless -targets says otherwise.
const platforms = "linux/amd64,linux/arm64,darwin/arm64,darwin/amd64,windows/amd64"

func main() {
	var b release
	flag.StringVar(&b.out, "out", "bin/release", "folder for the files; what it holds under their names is replaced")
	targets := flag.String("targets", platforms, "platforms as GOOS/GOARCH, comma-separated")
	flag.BoolVar(&b.check, "check", false, "build the first one again in another place and compare")
	flag.StringVar(&b.version, "version", "", "v1.2.3: build the commit with this tag, and let everything say so")
	flag.StringVar(&b.source, "source", "", "address of the sources, for the labels of the image")
	flag.StringVar(&b.key, "key", "", "private key of ssh-keygen that signs the checksums")
	image := flag.String("image", "", "make only the image, in this folder")
	verified := flag.String("verify", "", "only check the files of this folder against checksums and signature")
	flag.Parse()
	b.targets = strings.Split(*targets, ",")
	var err error
	switch {
	case *verified != "":
		err = verify(*verified, allowedSigners, os.Stdout)
	case *image != "":
		err = b.imageOnly(*image)
	default:
		err = b.make()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A release is what is built, and from what.
type release struct {
	out     string   // folder
	targets []string // GOOS/GOARCH
	check   bool     // build the first one twice
	key     string   // private key; "" = nobody signs
	source  string   // address of the sources
	build
}

// make writes all files of a release into a folder.
func (r *release) make() error {
	if err := r.identify("."); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o777); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "ossian-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	programs, forms, err := r.programs(temporary)
	if err != nil {
		return err
	}
	if r.check {
		if err := r.buildAgain(programs[0], r.targets[0]); err != nil {
			return err
		}
		fmt.Println(programs[0], "is the same, built in another place")
	}
	documents, err := r.documents(forms)
	if err != nil {
		return err
	}
	archives, err := r.archives(temporary)
	if err != nil {
		return err
	}
	if err := writeChecksums(r.out, slices.Concat(programs, documents, archives)); err != nil {
		return err
	}
	if err := sign(r.out, r.key); err != nil {
		return err
	}
	fmt.Println(signed(r.out, r.key, allowedSigners))
	return nil
}

// programs builds a program for each platform. forms are these and, in a temporary folder, the
// second forms that some carry.
func (r *release) programs(temporary string) (programs, forms []string, err error) {
	for _, target := range r.targets {
		program := filepath.Join(r.out, programName(target))
		second := filepath.Join(temporary, programName(target))
		if err := r.program(".", program, second, target); err != nil {
			return nil, nil, err
		}
		programs, forms = append(programs, program), append(forms, program)
		if twoForms(target) {
			forms = append(forms, second)
		}
	}
	return programs, forms, nil
}

// documents writes the notices and the bill of materials of programs.
func (r *release) documents(forms []string) ([]string, error) {
	linked, err := modulesOf(forms)
	if err != nil {
		return nil, err
	}
	page, err := pageParts()
	if err != nil {
		return nil, err
	}
	notices, err := notices(linked, page)
	if err != nil {
		return nil, err
	}
	bill, err := billOfMaterials(linked, page, forms[0], r.version)
	if err != nil {
		return nil, err
	}
	var files []string
	for name, content := range map[string][]byte{noticesName: notices, "sbom.cdx.json": bill} {
		path := filepath.Join(r.out, name)
		if err := os.WriteFile(path, content, 0o666); err != nil {
			return nil, err
		}
		files = append(files, path)
	}
	return files, nil
}

// programName returns the name of the program for a platform: ossian-linux-amd64.
func programName(target string) string {
	name := "ossian-" + strings.ReplaceAll(target, "/", "-")
	if strings.HasPrefix(target, "windows/") {
		name += ".exe"
	}
	return name
}

// twoForms reports whether the program for a platform has a second form, which can call NVIDIA's
// driver. For Windows every program can, for macOS there is no driver.
func twoForms(target string) bool { return target == "linux/amd64" || target == "linux/arm64" }

// sameBytes returns an error that says where two files begin to differ.
func sameBytes(first, second string) error {
	a, err := os.ReadFile(first)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(second)
	if err != nil {
		return err
	}
	if bytes.Equal(a, b) {
		return nil
	}
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	return fmt.Errorf("the build is not reproducible: %s (%d bytes) and %s (%d bytes) differ from byte %d on", first, len(a), second, len(b), at)
}

// writeChecksums writes SHA256SUMS in the form that sha256sum -c reads.
func writeChecksums(out string, files []string) error {
	slices.Sort(files)
	var sums strings.Builder
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), filepath.Base(path))
	}
	return os.WriteFile(filepath.Join(out, checksums), []byte(sums.String()), 0o666)
}
