package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"ossian/internal/self"
)

// A build is what programs say of themselves. Without a version they say what the go command
// found out: the commit, or nothing.
type build struct {
	version  string // v1.2.3; "" = no release
	revision string // the commit, 40 hexadecimal digits; "" = unknown
	time     string // of the commit, in seconds since 1970; "" = unknown
}

// semantic is a version of semantic versioning 2.0.0, as tags have it.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// identify finds out which commit the tree in dir is. A version has to be its tag, and nothing in
// the tree may differ from it: a release is what others can build, too.
func (b *build) identify(dir string) error {
	if b.version != "" && !semantic.MatchString(b.version) {
		return fmt.Errorf("version %q: v1.2.3 expected", b.version)
	}
	head, err := git(dir, "show", "--no-patch", "--format=%H %ct", "HEAD")
	if err != nil {
		if b.version == "" {
			return nil // a copy without its history
		}
		return err
	}
	b.revision, b.time, _ = strings.Cut(head, " ")
	if b.version == "" {
		if clean(dir) != nil {
			b.revision += "-dirty"
		}
		return nil
	}
	tagged, err := git(dir, "rev-parse", "--verify", "--quiet", "refs/tags/"+b.version+"^{commit}")
	if err != nil {
		return fmt.Errorf("there is no tag %s: git tag %[1]s", b.version)
	}
	if tagged != b.revision {
		return fmt.Errorf("the tag %s is commit %s, checked out is %s: git checkout %[1]s", b.version, tagged, b.revision)
	}
	return clean(dir)
}

// clean returns an error if a file of the tree in dir is not as in its commit.
func clean(dir string) error {
	changed, err := git(dir, "status", "--porcelain", "--untracked-files=no")
	if err == nil && changed != "" {
		err = fmt.Errorf("changes are not committed, so nobody else can build the same program:\n%s", changed)
	}
	return err
}

// git returns what a command of git writes for the tree in dir.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && len(failed.Stderr) > 0 {
		err = fmt.Errorf("git %s: %s", args[0], strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// linkerFlags are those of every program. -s -w: no tables for debuggers, 12 MB; profiles and
// traces have their names from another one, which stays.
func (b *build) linkerFlags() string {
	flags := "-s -w"
	if b.version != "" {
		flags += " -X ossian/internal/command.version=" + b.version + " -X ossian/internal/command.revision=" + b.revision
	}
	return flags
}

// program makes the program for a platform from the tree in dir, as every release is built: with
// its second form where it has one, which is left in the file second too.
func (b *build) program(dir, program, second, target string, env ...string) error {
	if err := b.compile(dir, program, target, "", env...); err != nil || !twoForms(target) {
		return err
	}
	if err := b.compile(dir, second, target, "cuda", env...); err != nil {
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

// compile compiles the command of the tree in dir for a platform, with a build tag. -trimpath: no
// paths of this machine.
func (b *build) compile(dir, program, target, tag string, env ...string) error {
	system, processor, ok := strings.Cut(target, "/")
	if !ok {
		return fmt.Errorf("platform %q: GOOS/GOARCH expected, as in linux/amd64", target)
	}
	path, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags="+b.linkerFlags(), "-tags="+tag, "-o", path, "./cmd/ossian")
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
func (b *build) buildAgain(program, target string) error {
	if err := clean("."); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ossian-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	clone, again := filepath.Join(dir, "clone"), filepath.Join(dir, "program")
	if _, err := git(".", "clone", "--quiet", ".", clone); err != nil {
		return err
	}
	if err := b.program(clone, again, filepath.Join(dir, "second"), target, "GOCACHE="+filepath.Join(dir, "cache")); err != nil {
		return err
	}
	return sameBytes(program, again)
}
