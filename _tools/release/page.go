package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// pageLock pins what the page of the server is bundled from.
const pageLock = "_tools/web/package-lock.json"

// pagePackages returns the components that a lock file of npm (version 3) names for others than
// developers, sorted by name; none where there is no such file.
func pagePackages(path string) ([]component, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lock struct {
		Version  int `json:"lockfileVersion"`
		Packages map[string]struct {
			Version   string `json:"version"`
			Integrity string `json:"integrity"`
			License   string `json:"license"`
			Dev       bool   `json:"dev"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if lock.Version != 3 {
		return nil, fmt.Errorf("%s: lock file of version %d, 3 expected", path, lock.Version)
	}
	var found []component
	for place, p := range lock.Packages {
		if place == "" || p.Dev {
			continue
		}
		name := place[strings.LastIndex(place, "node_modules/")+len("node_modules/"):]
		if p.Version == "" || p.License == "" || p.Integrity == "" {
			return nil, fmt.Errorf("%s: %s: version, integrity and license expected", path, place)
		}
		purl := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + p.Version
		found = append(found, component{Type: "library", Ref: purl, Name: name, Version: p.Version, Purl: purl, Licenses: licensedAs(p.License), Properties: []property{{"integrity", p.Integrity}}})
	}
	slices.SortFunc(found, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	return slices.CompactFunc(found, func(a, b component) bool { return a.Ref == b.Ref }), nil
}
