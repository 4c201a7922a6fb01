// Command release builds what a release consists of, from the commit that is checked out:
// a program for each platform, the notices of everything linked into them, a bill of
// materials (CycloneDX 1.6) and a list of checksums.
//
//	go run ./_tools/release [-out bin/release] [-targets linux/amd64,darwin/arm64] [-check]
//
// A program for Linux has two forms, one behind the other (internal/self): the static one, which
// runs everywhere, and the one that can call NVIDIA's driver.
//
// The programs are reproducible: built with -trimpath and without cgo they hold no path of
// the machine, so that the same commit gives the same bytes everywhere. With -check the first
// one is built a second time, from another clone with an empty build cache, and compared.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"ossian/internal/self"
)

// platforms are what a release has unless -targets says otherwise.
const platforms = "linux/amd64,linux/arm64,darwin/arm64,darwin/amd64,windows/amd64"

func main() {
	out := flag.String("out", "bin/release", "folder for the files; what it holds under their names is replaced")
	targets := flag.String("targets", platforms, "platforms as GOOS/GOARCH, comma-separated")
	check := flag.Bool("check", false, "build the first one again in another place and compare")
	flag.Parse()
	if err := release(*out, strings.Split(*targets, ","), *check); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release writes all files of a release into a folder.
func release(out string, targets []string, check bool) error {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	var programs, forms []string
	temporary, err := os.MkdirTemp("", "ossian-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	for _, target := range targets {
		program := filepath.Join(out, programName(target))
		second := filepath.Join(temporary, programName(target))
		if err := build(".", program, second, target); err != nil {
			return err
		}
		programs, forms = append(programs, program), append(forms, program)
		if twoForms(target) {
			forms = append(forms, second)
		}
	}
	if check {
		if err := buildAgain(programs[0], targets[0]); err != nil {
			return err
		}
		fmt.Println(programs[0], "is the same, built in another place")
	}
	linked, err := modulesOf(forms)
	if err != nil {
		return err
	}
	page, err := pageParts()
	if err != nil {
		return err
	}
	notices, err := notices(linked, page)
	if err != nil {
		return err
	}
	bill, err := billOfMaterials(linked, page, programs[0])
	if err != nil {
		return err
	}
	files := slices.Clone(programs)
	for name, content := range map[string][]byte{"NOTICES.txt": notices, "sbom.cdx.json": bill} {
		path := filepath.Join(out, name)
		if err := os.WriteFile(path, content, 0o666); err != nil {
			return err
		}
		files = append(files, path)
	}
	return writeChecksums(out, files)
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

// build makes the program for a platform from the tree in dir, as every release is built: with
// its second form where it has one, which is left in the file second too.
func build(dir, program, second, target string, env ...string) error {
	if err := compile(dir, program, target, "", env...); err != nil || !twoForms(target) {
		return err
	}
	if err := compile(dir, second, target, "cuda", env...); err != nil {
		return err
	}
	static, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	dynamic, err := os.ReadFile(second)
	if err != nil {
		return err
	}
	version, err := sameVersion(program, second)
	if err != nil {
		return err
	}
	tail, err := self.Attach(static, dynamic, version)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	file, err := os.OpenFile(program, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := file.Write(tail); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// sameVersion returns what two forms of one build say of their version.
func sameVersion(first, second string) (string, error) {
	var versions [2]string
	for i, path := range []string{first, second} {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return "", err
		}
		versions[i] = self.Version(info)
	}
	if versions[0] != versions[1] {
		return "", fmt.Errorf("the forms are of two versions, %s and %s: the tree changed while it was built", versions[0], versions[1])
	}
	return versions[0], nil
}

// compile compiles the command of the tree in dir for a platform, with a build tag.
func compile(dir, program, target, tag string, env ...string) error {
	system, processor, ok := strings.Cut(target, "/")
	if !ok {
		return fmt.Errorf("platform %q: GOOS/GOARCH expected, as in linux/amd64", target)
	}
	path, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	// -trimpath: no paths of this machine. -s -w: no tables for debuggers, 12 MB; profiles and
	// traces have their names from another one, which stays.
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-tags="+tag, "-o", path, "./cmd/ossian")
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+processor), env...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building for %s: %w", target, err)
	}
	return nil
}

// buildAgain builds the commit in a clone of its own, with a cache of its own, and compares
// the result with a program. A tree with changes that are not committed cannot be built again.
func buildAgain(program, target string) error {
	changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output()
	if err != nil {
		return fmt.Errorf("git status: %w", err)
	}
	if len(changed) > 0 {
		return fmt.Errorf("changes are not committed, so nobody else can build the same program:\n%s", changed)
	}
	dir, err := os.MkdirTemp("", "ossian-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	clone, again := filepath.Join(dir, "clone"), filepath.Join(dir, "program")
	if text, err := exec.Command("git", "clone", "--quiet", ".", clone).CombinedOutput(); err != nil {
		return fmt.Errorf("git clone: %w: %s", err, text)
	}
	if err := build(clone, again, filepath.Join(dir, "second"), target, "GOCACHE="+filepath.Join(dir, "cache")); err != nil {
		return err
	}
	return sameBytes(program, again)
}

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
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o666)
}
