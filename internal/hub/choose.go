package hub

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// choose picks the files to fetch and the one among them to open, "" for the
// repository as a directory.
func choose(all []remote, req *Request) (files []remote, open string, err error) {
	// A file by name, by pattern, or what a runtime needs.
	want := req.File
	if want == "" {
		want = req.Name.File
	}
	switch {
	case req.Name.Data:
		files, err = chooseData(all, req.Files)
		return files, "", err
	case want != "" || req.Name.Quant != "":
		files, open, err = chooseGGUF(all, want, req.Name.Quant)
	case len(req.Include) > 0:
		files = slices.DeleteFunc(slices.Clone(all), func(r remote) bool { return !matchAny(req.Include, r.Path) })
		if len(files) == 0 {
			err = fmt.Errorf("no file matches --include %s", strings.Join(req.Include, " "))
		}
	default:
		if files = runtimeFiles(all); files == nil {
			files, open, err = chooseGGUF(all, "", "")
		}
	}
	if err != nil {
		return nil, "", err
	}
	files = slices.DeleteFunc(files, func(r remote) bool { return matchAny(req.Exclude, r.Path) })
	if len(files) == 0 {
		return nil, "", fmt.Errorf("--exclude %s leaves no file", strings.Join(req.Exclude, " "))
	}
	return files, open, nil
}

// chooseData picks the named files of a data set.
func chooseData(all []remote, names []string) (files []remote, err error) {
	for _, name := range names {
		at := slices.IndexFunc(all, func(file remote) bool { return file.Path == name })
		if at < 0 {
			var has []string
			for _, file := range all {
				has = append(has, file.Path)
			}
			return nil, fmt.Errorf("holds no file %q; it has %s", name, listed(has))
		}
		files = append(files, all[at])
	}
	return files, nil
}

// runtimeFiles picks what a safetensors checkpoint needs (formats.md 1): the
// top-level weights, configuration, tokenizer and template; other formats and
// copies in folders stay behind. nil = there are no such weights.
func runtimeFiles(all []remote) []remote {
	named := slices.ContainsFunc(all, func(file remote) bool { return modelWeights(file.Path) })
	var files []remote
	found := false
	for _, file := range all {
		ext := path.Ext(file.Path)
		switch {
		case ext == ".jinja" && path.Dir(file.Path) == "additional_chat_templates":
		case strings.Contains(file.Path, "/"):
			continue
		case ext == ".safetensors":
			if named && !modelWeights(file.Path) {
				continue // another copy under another name
			}
			found = true
		case file.Path == "merges.txt" || file.Path == "tokenizer.model" || ext == ".jinja":
		case ext == ".json" && !strings.HasSuffix(file.Path, ".bin.index.json"):
		default:
			continue
		}
		files = append(files, file)
	}
	if !found {
		return nil
	}
	return files
}

// modelWeights reports whether a file has one of the usual names of weights.
func modelWeights(p string) bool {
	return p == "model.safetensors" || (strings.HasPrefix(p, "model-") && strings.HasSuffix(p, ".safetensors"))
}

// chooseGGUF picks the named GGUF file, the only one of a quantisation, or the only one, with
// the rest of its set.
func chooseGGUF(all []remote, want, quant string) (files []remote, open string, err error) {
	sets := map[string][]remote{} // by the name under which they are opened
	var names []string
	for _, file := range all {
		if path.Ext(file.Path) != ".gguf" || strings.HasPrefix(path.Base(file.Path), "mmproj") {
			continue
		}
		first := firstOfSet(file.Path)
		if sets[first] == nil {
			names = append(names, first)
		}
		sets[first] = append(sets[first], file)
	}
	// Which set is meant.
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return nil, "", errors.New("holds no safetensors or GGUF weights")
	case want == "" && quant != "":
		if open, err = ofQuant(names, quant); err != nil {
			return nil, "", fmt.Errorf("%w:%s", err, sizes(names, sets))
		}
	case want == "" && len(names) > 1:
		return nil, "", fmt.Errorf("holds %d GGUF models; name one with --file, or its quantisation as in ORG/NAME:Q8_0:%s", len(names), sizes(names, sets))
	case want == "":
		open = names[0]
	default:
		open = firstOfSet(want)
	}
	if files = sets[open]; files == nil {
		if n := likely(want, names); n != "" {
			return nil, "", fmt.Errorf("holds no file %q, did you mean %s?", want, n)
		}
		return nil, "", fmt.Errorf("holds no file %q; it has %s", want, listed(names))
	}
	if set := splitSet.FindStringSubmatch(open); set != nil && fmt.Sprintf("%05d", len(files)) != set[3] {
		return nil, "", fmt.Errorf("%s: the endpoint lists %d of the %s files of the set", open, len(files), set[3])
	}
	return files, open, nil
}

// ofQuant returns the one name of a quantisation. The error lacks what there is.
func ofQuant(names []string, quant string) (string, error) {
	found := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isQuant(strings.TrimSuffix(name, ".gguf"), quant) })
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("holds no GGUF file of the quantisation %s; it has", quant)
	}
	return "", fmt.Errorf("holds %d GGUF files of the quantisation %s, name one of them as ORG/NAME/FILE.gguf; it has", len(found), quant)
}

// maxListed is how many names a message lists.
const maxListed = 50

// sizes lists sets of files with their sizes.
func sizes(names []string, sets map[string][]remote) string {
	var list strings.Builder
	for i, name := range names {
		if i == maxListed {
			fmt.Fprintf(&list, "\n  and %d more", len(names)-i)
			break
		}
		fmt.Fprintf(&list, "\n  %s (%.2f GB)", name, float64(totalSize(sets[name]))/1e9)
	}
	return list.String()
}

// listed joins names for a message.
func listed(names []string) string {
	if len(names) > maxListed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	return strings.Join(names, ", ")
}

// totalSize adds up the bytes of files.
func totalSize(files []remote) (n int64) {
	for _, r := range files {
		n += r.Size
	}
	return n
}

// matchAny reports whether a glob matches all of p, or its last element. Unlike in
// a shell, * also matches /.
func matchAny(globs []string, p string) bool {
	return slices.ContainsFunc(globs, func(g string) bool {
		pattern := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(g))
		re := regexp.MustCompile("^(" + pattern + ")$")
		return re.MatchString(p) || re.MatchString(path.Base(p))
	})
}
