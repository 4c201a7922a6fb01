package main

import (
	"bytes"
	"encoding/json"
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

// One release of this machine's platform: built twice in two places it is the same, it holds
// no path of them, and every module in it has its notice and its place in the bill.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program twice; run without -short")
	}
	t.Chdir("../..")
	target := runtime.GOOS + "/" + runtime.GOARCH
	out := t.TempDir()
	if err := release(out, []string{target}, false); err != nil {
		t.Fatal(err)
	}
	checkDocuments(t, out, filepath.Join(out, programName(target)))
	checkSize(t, filepath.Join(out, programName(target)))

	// The stamp of the version control is left out: the copy is no checkout.
	const unstamped = "GOFLAGS=-buildvcs=false"
	copied := filepath.Join(t.TempDir(), "elsewhere")
	copyTree(t, copied)
	program, again := filepath.Join(out, "here"), filepath.Join(out, "again")
	second := filepath.Join(t.TempDir(), "second")
	if err := build(".", program, second, target, unstamped); err != nil {
		t.Fatal(err)
	}
	if err := build(copied, again, second, target, unstamped); err != nil {
		t.Fatal(err)
	}
	if err := sameBytes(program, again); err != nil {
		t.Error(err)
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	caches, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(strings.Fields(string(caches)), here, copied) {
		if bytes.Contains(binary, []byte(path+"/")) {
			t.Errorf("the program holds the path %s", path)
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
	if err := compile(".", one, "linux/amd64", ""); err != nil {
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

// checkDocuments compares the notices and the bill with what the program says of itself.
func checkDocuments(t *testing.T, out, program string) {
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
	linked, err := modulesOf([]string{program})
	if err != nil {
		t.Fatal(err)
	}
	second := module{Path: "github.com/ebitengine/purego"}
	if twoForms(runtime.GOOS + "/" + runtime.GOARCH) { // the file's own list is that of its first form
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
		if got := bill.Components[1+len(linked)+i]; got.Purl != "pkg:npm/"+p.name+"@"+p.version || !slices.Contains(got.Licenses, licensed{license{"MIT"}}) {
			t.Errorf("component %+v, want %s %s with its licence", got, p.name, p.version)
		}
		if !strings.Contains(string(notices), p.name+" "+p.version+", in the page") {
			t.Errorf("no notice of %s", p.name)
		}
	}
	if !strings.Contains(string(notices), "The Go standard library") || !strings.Contains(string(notices), "o200k_harmony") {
		t.Error("the notices lack the standard library or the vocabulary")
	}
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil || strings.Count(string(sums), "\n") != 3 {
		t.Errorf("checksums %q, %v", sums, err)
	}
}

// Each licence is known by its own words.
func TestLicenceID(t *testing.T) {
	for want, text := range map[string]string{
		"MIT":              "Permission is hereby granted, free of\ncharge, to any person",
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
