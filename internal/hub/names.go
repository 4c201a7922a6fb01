package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"ossian/internal/lazyregexp"
	"ossian/internal/nearest"
)

// A Name says which model of a hub is meant: ORG/NAME, perhaps a file of it or the one of a
// quantisation, perhaps at a revision.
type Name struct {
	Repo     string // "openai/gpt-oss-20b"
	File     string // path inside the repository; "" = the repository
	Quant    string // "Q8_0": the GGUF file whose name says so; "" = not said. Not with File
	Revision string // branch, tag or commit; "" = main
	Data     bool   // a data set, no model
}

// What parts of names may look like; reserved are names of devices on Windows.
var (
	segment  = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	revision = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/+-]*$`)
	element  = lazyregexp.New(`^[A-Za-z0-9._][A-Za-z0-9._+=@(), -]*$`)
	reserved = lazyregexp.New(`(?i)^(con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])(\..*)?$`)
	quantTag = lazyregexp.New(`^[A-Za-z][A-Za-z0-9._-]{0,31}$`)
	commitID = lazyregexp.New(`^[0-9a-f]{40}$`)
	sha256ID = lazyregexp.New(`^[0-9a-f]{64}$`)
)

// ParseName reads ORG/NAME[:QUANT][@REVISION] or ORG/NAME/FILE.gguf[@REVISION]. What it
// returns can be used in paths: no part is empty, hidden, "..", reserved on some
// system, or holds a separator of one.
func ParseName(text string) (Name, error) {
	name, err := parseName(text)
	if err != nil {
		return Name{}, fmt.Errorf("model name %.200q: %w%s", text, err, meant(text))
	}
	return name, nil
}

// parseName is ParseName with errors that do not say which name is wrong.
func parseName(text string) (Name, error) {
	bare, rev, pinned := strings.Cut(text, "@")
	parts := strings.SplitN(bare, "/", 3)
	if len(parts) < 2 {
		return Name{}, errors.New("expected ORG/NAME, ORG/NAME:QUANTISATION, ORG/NAME@REVISION or ORG/NAME/FILE.gguf")
	}
	quant, tagged := "", false
	if len(parts) == 2 {
		parts[1], quant, tagged = strings.Cut(parts[1], ":")
	}
	if tagged && (!quantTag.MatchString(quant) || !strings.ContainsAny(quant, "0123456789")) {
		return Name{}, fmt.Errorf("%.100q is not a quantisation such as Q8_0", quant)
	}
	// The hub's own rules for names: what breaks them would be asked for in vain.
	for _, part := range parts[:2] {
		if len(part) > 96 || !segment.MatchString(part) || strings.Contains(part, "--") || strings.Contains(part, "..") ||
			strings.HasSuffix(part, ".git") || strings.HasSuffix(part, ".") || strings.HasSuffix(part, "-") {
			return Name{}, fmt.Errorf("%.100q may hold up to 96 letters, digits and single . _ - between them", part)
		}
	}
	name := Name{Repo: parts[0] + "/" + parts[1], Quant: quant, Revision: rev}
	if len(parts) == 3 {
		name.File = parts[2]
		if !validPath(name.File) || path.Ext(name.File) != ".gguf" {
			return Name{}, fmt.Errorf("%.100q is not the path of a .gguf file inside a repository", name.File)
		}
	}
	if pinned && !validRevision(rev) {
		return Name{}, fmt.Errorf("%.100q is not a branch, tag or commit", rev)
	}
	return name, nil
}

// String writes n as ParseName reads it.
func (n Name) String() string {
	text := n.Repo
	if n.File != "" {
		text += "/" + n.File
	}
	if n.Quant != "" {
		text += ":" + n.Quant
	}
	if n.Revision != "" {
		text += "@" + n.Revision
	}
	return text
}

// revision returns the revision or its default.
func (n Name) revision() string {
	if n.Revision == "" {
		return "main"
	}
	return n.Revision
}

// folder is the repository's folder in the cache, as the reference client names it.
func (n Name) folder() string { return n.kind() + "--" + strings.ReplaceAll(n.Repo, "/", "--") }

// kind is what the hub calls repositories of that kind in its addresses.
func (n Name) kind() string {
	if n.Data {
		return "datasets"
	}
	return "models"
}

// elements are the parts of the repository's own address.
func (n Name) elements() []string {
	parts := strings.Split(n.Repo, "/")
	if n.Data {
		return append([]string{"datasets"}, parts...)
	}
	return parts
}

// validPath reports whether a file name, perhaps told by a server, may be used
// below a folder on every system.
func validPath(p string) bool {
	if !fs.ValidPath(p) || p == "." || len(p) > 512 || strings.Count(p, "/") > 8 {
		return false
	}
	for elem := range strings.SplitSeq(p, "/") {
		if len(elem) > 200 || !element.MatchString(elem) || reserved.MatchString(elem) || strings.HasSuffix(elem, ".") || strings.HasSuffix(elem, " ") {
			return false
		}
	}
	return true
}

// validRevision reports whether r can be a branch, tag or commit, and part of a path.
func validRevision(r string) bool {
	return len(r) <= 128 && revision.MatchString(r) && !strings.Contains(r, "..") && validPath(r)
}

// splitSet matches a file of a set: NAME-00001-of-00003.gguf (formats.md 1).
var splitSet = lazyregexp.New(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// firstOfSet returns the name under which a GGUF file is opened: its own, or that
// of the first file of its set.
func firstOfSet(name string) string {
	if m := splitSet.FindStringSubmatch(name); m != nil {
		return m[1] + "-00001-of-" + m[3] + ".gguf"
	}
	return name
}

// isQuant reports whether the name of a GGUF file, or of a folder that it lies in, says that it
// is of that quantisation, in whatever case. What a quantisation is called is not settled, only
// how names are put together: it stands between "-", ".", "/" and the ends, before it also "_".
func isQuant(name, quant string) bool {
	name, quant = strings.ToLower(name), strings.ToLower(quant)
	for from := 0; ; {
		at := strings.Index(name[from:], quant)
		if at < 0 {
			return false
		}
		at += from
		end := at + len(quant)
		if (at == 0 || strings.ContainsRune("-._/", rune(name[at-1]))) && (end == len(name) || strings.ContainsRune("-./", rune(name[end]))) {
			return true
		}
		from = at + 1
	}
}

// likely returns the name most like want, in whatever case; "" where less than half of want
// is right.
func likely(want string, names []string) string { return nearest.Fold(want, names, len(want)/2) }
