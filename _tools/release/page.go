package main

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A part is what is bundled into the page of ossian serve: an npm package, or the font.
type part struct {
	name, version, licence string
	integrity              string // of a package its digest, as the lock file has it; of the font that of the file
	font                   bool
}

// The font of formulas, a part of DejaVu's, is in no registry of npm: it lies beside the sources.
const (
	fontName = "dejavu-math-tex-gyre"
	fontFile = "_tools/web/src/formulas.woff2"
)

// purl is the package URL of a part.
func (p part) purl() string {
	if p.font {
		return "pkg:generic/" + p.name + "@" + p.version
	}
	return "pkg:npm/" + strings.Replace(p.name, "@", "%40", 1) + "@" + p.version
}

// pageParts returns the parts of the page, by the licence texts that it comes with: of each a line
// with name and version, an empty line, and its text, and two empty lines behind it.
func pageParts() (all []part, err error) {
	found, err := filepath.Glob("internal/web/dist/ui/licences-*.txt.gz")
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("internal/web/dist: one file of licences expected, found %q (%v)", found, err)
	}
	file, err := os.Open(found[0])
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", found[0], err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", found[0], err)
	}
	for section := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n\n") {
		head, licence, ok := strings.Cut(strings.TrimSpace(section), "\n\n")
		name, version, named := strings.Cut(head, " ")
		if !ok || !named || strings.Contains(version, "\n") {
			return nil, errors.New(found[0] + ": a name, a version and a licence expected, found " + head)
		}
		all = append(all, part{name: name, version: version, licence: licence})
	}
	at := slices.IndexFunc(all, func(p part) bool { return p.name == fontName })
	font, err := os.ReadFile(fontFile)
	if err != nil || at < 0 {
		return nil, fmt.Errorf("%s: a licence of %s expected beside it (%v)", fontFile, fontName, err)
	}
	sum := sha256.Sum256(font)
	all[at].font, all[at].integrity = true, "sha256-"+base64.StdEncoding.EncodeToString(sum[:])
	return all, locked("_tools/web/package-lock.json", all)
}

// locked adds to the parts of the page what a lock file of npm (version 3) says of them. It fails
// if these are not all that the file names for others than developers.
func locked(path string, parts []part) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var lock struct {
		Version  int `json:"lockfileVersion"`
		Packages map[string]struct {
			Version   string `json:"version"`
			Integrity string `json:"integrity"`
			Dev       bool   `json:"dev"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if lock.Version != 3 {
		return fmt.Errorf("%s: lock file of version %d, 3 expected", path, lock.Version)
	}
	found := 0
	for _, p := range parts {
		if p.font {
			found++
		}
	}
	for place, p := range lock.Packages {
		if place == "" || p.Dev {
			continue
		}
		name := place[strings.LastIndex(place, "node_modules/")+len("node_modules/"):]
		at := slices.IndexFunc(parts, func(each part) bool { return each.name == name && each.version == p.Version })
		if at < 0 || p.Integrity == "" {
			return fmt.Errorf("%s: %s %s is no part of the page, or has no digest there", path, name, p.Version)
		}
		parts[at].integrity = p.Integrity
		found++
	}
	if found != len(parts) {
		return fmt.Errorf("%s: %d of the page's %d parts are in it", path, found, len(parts))
	}
	return nil
}

// ids returns the ids of the licences that a part's text holds: of code that was taken over it
// may have another's, too.
func (p part) ids() (ids []string) {
	flat := strings.ToLower(strings.Join(strings.Fields(p.licence), " "))
	for _, known := range licences {
		if strings.Contains(flat, strings.ToLower(known.says)) && !slices.Contains(ids, known.id) && !(known.id == "BSD-2-Clause" && slices.Contains(ids, "BSD-3-Clause")) && !(known.id == "MIT" && slices.Contains(ids, "Bitstream-Vera")) {
			ids = append(ids, known.id)
		}
	}
	return ids
}
