package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// One release of this machine's platform, of a commit with a tag: built twice in two places all of
// it is the same, it says which version it is, it holds no path of the places, every module in it
// has its notice and its place in the bill, and its signature holds until a byte is changed.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program twice; run without -short")
	}
	t.Chdir("../..")
	first, second := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "elsewhere")
	copyTree(t, first)
	tag(t, first)
	if _, err := git(".", "clone", "--quiet", first, second); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	if text, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Skipf("ssh-keygen is needed to sign: %v %s", err, text)
	}
	targets := []string{runtime.GOOS + "/" + runtime.GOARCH}
	if os.Getenv("OSSIAN_SOAK") != "" {
		targets = append(targets, strings.Split(platforms, ",")...)
		slices.Sort(targets)
		targets = slices.Compact(targets)
	}
	out, again := t.TempDir(), t.TempDir()
	for dir, into := range map[string]string{first: out, second: again} {
		t.Chdir(dir)
		r := release{out: into, targets: targets, key: key, source: "https://example.org/ossian", build: build{version: "v1.2.3"}}
		if err := r.make(); err != nil {
			t.Fatal(err)
		}
	}
	if err := sameBytes(filepath.Join(out, checksums), filepath.Join(again, checksums)); err != nil {
		t.Error(err)
	}
	t.Chdir(first)
	checkPrograms(t, out, targets, first, second)
	var programs []string
	for _, target := range targets {
		programs = append(programs, filepath.Join(out, programName(target)))
	}
	checkDocuments(t, out, programs)
	checkSize(t, filepath.Join(out, programName(runtime.GOOS+"/"+runtime.GOARCH)))
	checkSignature(t, out, key)
}

// tag makes a repository of a folder, with one commit that has the tag v1.2.3.
func tag(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "--all"},
		{"-c", "user.name=Ossian", "-c", "user.email=release@ossian", "-c", "commit.gpgsign=false", "commit", "--quiet", "--message=release"}, {"tag", "v1.2.3"}} {
		if _, err := git(dir, args...); err != nil {
			t.Fatal(err)
		}
	}
}

// checkPrograms fails unless each program says its version and its commit and holds none of some
// paths; the one of this machine is asked.
func checkPrograms(t *testing.T, out string, targets []string, dirs ...string) {
	t.Helper()
	revision, err := git(dirs[0], "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	caches, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		binary, err := os.ReadFile(filepath.Join(out, programName(target)))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range append(strings.Fields(string(caches)), dirs...) {
			if bytes.Contains(binary, []byte(path+"/")) {
				t.Errorf("the program for %s holds the path %s", target, path)
			}
		}
		if !bytes.Contains(binary, []byte("v1.2.3")) || !bytes.Contains(binary, []byte(revision)) {
			t.Errorf("the program for %s does not hold its version", target)
		}
	}
	said, err := exec.Command(filepath.Join(out, programName(runtime.GOOS+"/"+runtime.GOARCH)), "--version").Output()
	if want := "ossian version v1.2.3 (" + revision + ")\n"; err != nil || string(said) != want {
		t.Errorf("--version says %q, %v; want %q", said, err, want)
	}
}

// checkSignature fails unless the files of a release are accepted where its key is an allowed
// one, and refused with another key, without a signature, and where a byte is changed.
func checkSignature(t *testing.T, out, key string) {
	t.Helper()
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	allowed := filepath.Join(t.TempDir(), "allowed_signers")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(allowed, signer+` namespaces="`+purpose+`" `+string(public))
	if err := verify(out, allowed, io.Discard); err != nil {
		t.Error(err)
	}
	if err := verify(out, allowedSigners, io.Discard); err == nil {
		t.Error("accepted with the committed signers, of whom none has signed")
	}
	for _, name := range []string{"sbom.cdx.json", checksums, checksums + ".sig"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.Clone(text)
		changed[len(changed)/2] ^= 1
		write(filepath.Join(out, name), string(changed))
		if err := verify(out, allowed, io.Discard); err == nil {
			t.Errorf("accepted with a changed %s", name)
		}
		write(filepath.Join(out, name), string(text))
	}
	if err := sign(out, ""); err != nil {
		t.Fatal(err)
	}
	if err := verify(out, allowed, io.Discard); err == nil {
		t.Error("accepted without a signature")
	}
}

// A version is built only from the commit that has its tag, and from nothing else.
func TestIdentify(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	tag(t, dir)
	refused := func(version, says string) {
		t.Helper()
		b := build{version: version}
		if err := b.identify(dir); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", version, err, says)
		}
	}
	b := build{version: "v1.2.3"}
	if err := b.identify(dir); err != nil || len(b.revision) != 40 || b.seconds() < 1.7e9 {
		t.Errorf("%+v, %v", b, err)
	}
	refused("1.2.3", "v1.2.3 expected")
	refused("v1.2", "v1.2.3 expected")
	refused("v1.2.4", "no tag v1.2.4")
	write("second")
	refused("v1.2.3", "not committed")
	if _, err := git(dir, "-c", "user.name=Ossian", "-c", "user.email=release@ossian", "-c", "commit.gpgsign=false", "commit", "--quiet", "--all", "--message=more"); err != nil {
		t.Fatal(err)
	}
	refused("v1.2.3", "the tag v1.2.3 is commit")
	if err := (&build{version: "v1.2.3"}).identify(t.TempDir()); err == nil {
		t.Error("a folder without a history has a version")
	}
}

// What the page is bundled from is what its lock file names for others than developers.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "package-lock.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"lockfileVersion":3,"packages":{"":{"name":"page"},
		"node_modules/b":{"version":"2.0.0","integrity":"sha512-b"},
		"node_modules/b/node_modules/@s/a":{"version":"1.0.0","integrity":"sha512-a"},
		"node_modules/tool":{"version":"1.0.0","integrity":"sha512-c","dev":true}}}`)
	a, b := part{name: "@s/a", version: "1.0.0"}, part{name: "b", version: "2.0.0"}
	parts := []part{a, b}
	if err := locked(path, parts); err != nil || parts[0].integrity != "sha512-a" || parts[1].integrity != "sha512-b" {
		t.Errorf("%+v, %v", parts, err)
	}
	for _, parts := range [][]part{{a}, {a, b, {name: "c", version: "1.0.0"}}, {a, {name: "b", version: "2.0.1"}}} {
		if err := locked(path, parts); err == nil {
			t.Errorf("%+v: no error", parts)
		}
	}
	for _, text := range []string{`{`, `{"lockfileVersion":2}`, `{"lockfileVersion":3,"packages":{"node_modules/b":{"version":"2.0.0"}}}`} {
		write(text)
		if err := locked(path, []part{b}); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

// checkSize compares a program with the size that README.md tells of one without tables for
// debuggers, which has one form, and with what a file with two may have: 60 MB (cuda.md 4). The
// platform is that which most people have; a dependency that makes it larger is to be noticed.
func checkSize(t *testing.T, program string) {
	t.Helper()
	if runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		return
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	told := regexp.MustCompile("leaves `ossian` in the folder, \\d+ MB \\((\\d+) with `-ldflags \"-s -w\"`\\)").FindSubmatch(readme)
	if told == nil {
		t.Fatal("README.md does not tell the size of the program")
	}
	megabytes, err := strconv.ParseFloat(string(told[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	one := filepath.Join(t.TempDir(), "one")
	if err := (&build{}).compile(".", one, "linux/amd64", ""); err != nil {
		t.Fatal(err)
	}
	static, err := os.Stat(one)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB, with its second form %.1f MB", float64(static.Size())/1e6, float64(file.Size())/1e6)
	if size := float64(static.Size()) / 1e6; math.Abs(size-megabytes) > 2 {
		t.Errorf("the program has %.1f MB, README.md says %v MB", size, megabytes)
	}
	if file.Size() > 60e6 || file.Size() <= static.Size() {
		t.Errorf("the program has %d bytes with its second form, %d without; at most 60 MB expected", file.Size(), static.Size())
	}
}

// copyTree copies the files of the project, without what is built or fetched.
func copyTree(t *testing.T, to string) {
	t.Helper()
	list, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skipf("git is needed to tell the project's files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err == nil {
			err = os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o777)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkDocuments compares the notices and the bill with what the programs say of themselves.
func checkDocuments(t *testing.T, out string, programs []string) {
	t.Helper()
	notices, err := os.ReadFile(filepath.Join(out, "NOTICES.txt"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "sbom.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill bom
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	linked, err := modulesOf(programs)
	if err != nil {
		t.Fatal(err)
	}
	second := module{Path: "github.com/ebitengine/purego"}
	listed := slices.ContainsFunc(linked, func(m module) bool { return m.Path == second.Path })
	if twoForms(runtime.GOOS+"/"+runtime.GOARCH) && !listed { // the file's own list is that of its first form
		for _, c := range bill.Components {
			if c.Name == second.Path {
				second.Version = c.Version
			}
		}
		linked = append(linked, second)
		slices.SortFunc(linked, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	}
	page, err := pageParts()
	if err != nil {
		t.Fatal(err)
	}
	if bill.Metadata.Component.Version != "v1.2.3" || bill.Components[0].Name != "std" {
		t.Errorf("the bill is of %+v", bill.Metadata.Component)
	}
	if len(linked) < 10 || len(page) < 3 || len(bill.Components) != len(linked)+len(page)+1 || len(bill.Dependencies[0].DependsOn) != len(bill.Components) {
		t.Errorf("%d modules are linked, %d parts in the page, the bill has %d components and %d dependencies", len(linked), len(page), len(bill.Components), len(bill.Dependencies[0].DependsOn))
	}
	for i, m := range linked {
		if got := bill.Components[i+1]; got.Name != m.Path || got.Version != m.Version || len(got.Licenses) == 0 {
			t.Errorf("component %+v, want %s %s with a known licence", got, m.Path, m.Version)
		}
		if !strings.Contains(string(notices), m.Path+" "+m.Version+": ") {
			t.Errorf("no notice of %s", m.Path)
		}
	}
	for i, p := range page {
		kind, digest, id := "pkg:npm/", "sha512-", "MIT"
		if p.name == fontName {
			kind, digest, id = "pkg:generic/", "sha256-", "Bitstream-Vera"
		}
		if got := bill.Components[1+len(linked)+i]; got.Purl != kind+p.name+"@"+p.version || !strings.HasPrefix(got.Properties[0].Value, digest) || !slices.Contains(got.Licenses, licensed{license{id}}) {
			t.Errorf("component %+v, want %s %s with its licence", got, p.name, p.version)
		}
		if !strings.Contains(string(notices), p.name+" "+p.version+", in the page") {
			t.Errorf("no notice of %s", p.name)
		}
	}
	if !strings.Contains(string(notices), "The Go standard library") || !strings.Contains(string(notices), "o200k_harmony") {
		t.Error("the notices lack the standard library or the vocabulary")
	}
	sums, err := os.ReadFile(filepath.Join(out, checksums))
	files := len(programs) + 3 // notices, bill, manifests
	if twoForms(runtime.GOOS + "/" + runtime.GOARCH) {
		files++ // the image
	}
	if err != nil || strings.Count(string(sums), "\n") != files {
		t.Errorf("checksums %q, %v", sums, err)
	}
}

// Each licence is known by its own words.
func TestLicenceID(t *testing.T) {
	for want, text := range map[string]string{
		"MIT":              "Permission is hereby granted, free of\ncharge, to any person",
		"Bitstream-Vera":   "Bitstream Vera is a trademark of Bitstream, Inc.\n\nPermission is hereby granted, free of charge, to any person",
		"BSD-3-Clause":     "Redistribution and use in source and binary forms …\n * Neither the name of",
		"BSD-2-Clause":     "Redistribution and use in source and binary forms, with or without",
		"Apache-2.0":       "                Apache License\n  Version 2.0",
		"CC-BY-4.0":        "Creative Commons Attribution 4.0 International Public License",
		"LicenseRef-other": "All rights reserved.",
	} {
		if got := licenceID(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
