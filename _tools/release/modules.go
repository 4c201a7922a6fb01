package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A module is one that is linked into a program, with the texts that its authors want to
// go with it.
type module struct {
	Path, Version string
	Sum           string // of go.sum: "h1:…"
	Dir           string // where its source is
	licences      []licenceText
}

// A licenceText is one file of a module.
type licenceText struct {
	name string // of the file
	id   string // SPDX, or "LicenseRef-…" where SPDX has none
	text string
}

// modulesOf returns the modules that are linked into any of the programs, as these say
// themselves, with their licences; sorted by path. What go.mod asks for and nobody links
// needs no notice.
func modulesOf(programs []string) ([]module, error) {
	found := map[string]*module{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", program, err)
		}
		for _, dep := range info.Deps {
			found[dep.Path] = &module{Path: dep.Path, Version: dep.Version, Sum: dep.Sum}
		}
	}
	if err := locate(found); err != nil {
		return nil, err
	}
	var all []module
	for _, m := range found {
		var err error
		if m.licences, err = licencesIn(m.Dir); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// locate asks the go command where the sources of modules are.
func locate(found map[string]*module) error {
	text, err := exec.Command("go", "list", "-m", "-json", "all").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	for in := json.NewDecoder(bytes.NewReader(text)); ; {
		var listed module
		switch err := in.Decode(&listed); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("go list: %w", err)
		}
		if m := found[listed.Path]; m != nil {
			m.Dir = listed.Dir
		}
	}
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-._].*)?$`)

// licencesIn returns the notices at the top of a module and beside what it embeds. A module
// without any is an error: nobody may pass it on.
func licencesIn(dir string) ([]licenceText, error) {
	var texts []licenceText
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !licenceFile.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		texts = append(texts, licenceText{name: filepath.ToSlash(name), id: licenceID(string(text)), text: string(text)})
		return nil
	})
	if err == nil && len(texts) == 0 {
		err = errors.New("no licence found: look for another module, or ask its authors")
	}
	return texts, err
}

// licences tells texts apart by what only they say; the first that fits counts.
var licences = []struct{ id, says string }{
	{"Apache-2.0", "Apache License"},
	{"CC-BY-4.0", "Attribution 4.0 International"},
	{"OFL-1.1", "SIL OPEN FONT LICENSE"},
	{"FTL", "FreeType Project"},
	{"GPL-2.0-only", "GNU GENERAL PUBLIC LICENSE"},
	{"BSD-3-Clause", "Neither the name"},
	{"BSD-3-Clause", "nor the names of"},
	{"BSD-2-Clause", "Redistribution and use in source and binary forms"},
	{"Bitstream-Vera", "Bitstream Vera is a trademark"}, // it says what MIT's says, too
	{"MIT", "Permission is hereby granted, free of charge"},
	{"ISC", "Permission to use, copy, modify, and/or distribute"},
}

// licenceID returns the SPDX id of a licence's text.
func licenceID(text string) string {
	flat := strings.Join(strings.Fields(text), " ")
	for _, known := range licences {
		if strings.Contains(strings.ToLower(flat), strings.ToLower(known.says)) {
			return known.id
		}
	}
	return "LicenseRef-other"
}

// ids returns the ids of a module's licences, each once.
func (m *module) ids() []string {
	var ids []string
	for _, licence := range m.licences {
		if licence.id != "LicenseRef-other" && !slices.Contains(ids, licence.id) {
			ids = append(ids, licence.id)
		}
	}
	return ids
}
