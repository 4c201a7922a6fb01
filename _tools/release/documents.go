package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// data are files of the project that others wrote, with the licence beside them.
var data = []struct{ name, origin, licence string }{
	{"o200k_harmony", "the ranks of OpenAI's tokenizer, internal/token", "internal/token/o200k.LICENSE"},
}

// notices returns the text that goes with the programs: what they hold of others, and under
// which terms.
func notices(modules []module, page []part) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("Ossian is licensed under the Apache License 2.0 (LICENSE). Its programs hold parts of others,\nwhose notices follow.\n")
	section := func(title, text string) {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), title, strings.TrimRight(text, "\n"))
	}
	goRoot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	standard, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(goRoot)), "LICENSE"))
	if err != nil {
		return nil, err
	}
	section("The Go standard library and run time", string(standard))
	for _, file := range data {
		text, err := os.ReadFile(file.licence)
		if err != nil {
			return nil, err
		}
		section(file.name+": "+file.origin, string(text))
	}
	for _, m := range modules {
		for _, licence := range m.licences {
			section(fmt.Sprintf("%s %s: %s", m.Path, m.Version, licence.name), licence.text)
		}
	}
	for _, p := range page {
		section(fmt.Sprintf("%s %s, in the page of ossian serve", p.name, p.version), p.licence)
	}
	return out.Bytes(), nil
}

// The parts of CycloneDX 1.6 that are used (ECMA-424).
type (
	bom struct {
		Schema       string       `json:"$schema"`
		Format       string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		SerialNumber string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     bomMetadata  `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	bomMetadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		Purl       string     `json:"purl"`
		Licenses   []licensed `json:"licenses,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	licensed struct {
		License license `json:"license"`
	}
	license struct {
		ID string `json:"id"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
)

// billOfMaterials returns the modules of a release, and the packages of its page, in CycloneDX
// 1.6. It has no date and no chance in it: equal releases have equal bills. Without a version the
// product has the one that the program was stamped with.
func billOfMaterials(modules []module, page []part, program, version string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	if version == "" {
		version = info.Main.Version
	}
	product := component{Type: "application", Ref: "ossian", Name: "ossian", Version: version, Purl: "pkg:golang/ossian@" + version, Licenses: licensedAs("Apache-2.0")}
	standard := component{Type: "library", Ref: "std", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
		Purl: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"), Licenses: licensedAs("BSD-3-Clause")}
	bill := bom{Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: bomMetadata{product}, Components: []component{standard}}
	uses := dependency{Ref: "ossian", DependsOn: []string{"std"}}
	for _, m := range modules {
		purl := "pkg:golang/" + strings.ReplaceAll(m.Path, "~", "%7E") + "@" + m.Version
		bill.Components = append(bill.Components, component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, Purl: purl,
			Licenses: licensedAs(m.ids()...), Properties: []property{{"go.sum", m.Sum}}})
		uses.DependsOn = append(uses.DependsOn, purl)
	}
	for _, p := range page {
		purl := p.purl()
		bill.Components = append(bill.Components, component{Type: "library", Ref: purl, Name: p.name, Version: p.version, Purl: purl,
			Licenses: licensedAs(p.ids()...), Properties: []property{{"integrity", p.integrity}}})
		uses.DependsOn = append(uses.DependsOn, purl)
	}
	bill.Dependencies = []dependency{uses}
	bill.SerialNumber = serial(bill)
	text, err := json.MarshalIndent(bill, "", "  ")
	return append(text, '\n'), err
}

func licensedAs(ids ...string) (all []licensed) {
	for _, id := range ids {
		all = append(all, licensed{license{id}})
	}
	return all
}

// serial returns a UUID of version 8 (RFC 9562) that is a digest of the bill.
func serial(bill bom) string {
	text, _ := json.Marshal(bill) // it has only texts and numbers
	sum := sha256.Sum256(text)
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	digits := hex.EncodeToString(sum[:16])
	return "urn:uuid:" + strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]}, "-")
}
