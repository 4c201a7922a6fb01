package hub

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"ossian/internal/nearest"
)

// A Name says which model of a hub is meant: ORG/NAME, perhaps a file of it,
// perhaps at a revision.
type Name struct {
	Repo     string // "openai/gpt-oss-20b"
	File     string // path inside the repository; "" = the repository
	Revision string // branch, tag or commit; "" = main
}

var (
	segment  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	revision = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+-]*$`)
	element  = regexp.MustCompile(`^[A-Za-z0-9._][A-Za-z0-9._+=@(), -]*$`)
	reserved = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])(\..*)?$`)
	commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)
	sha256ID = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ParseName reads ORG/NAME[@REVISION] or ORG/NAME/FILE.gguf[@REVISION]. What it
// returns can be used in paths: no part is empty, hidden, "..", reserved on some
// system, or holds a separator of one.
func ParseName(s string) (Name, error) {
	bare, rev, pinned := strings.Cut(s, "@")
	parts := strings.SplitN(bare, "/", 3)
	if len(parts) < 2 {
		return Name{}, fmt.Errorf("model name %.200q: expected ORG/NAME, ORG/NAME@REVISION or ORG/NAME/FILE.gguf", s)
	}
	for _, p := range parts[:2] {
		if len(p) > 96 || !segment.MatchString(p) || strings.Contains(p, "--") || strings.Contains(p, "..") ||
			strings.HasSuffix(p, ".git") || strings.HasSuffix(p, ".") || strings.HasSuffix(p, "-") {
			return Name{}, fmt.Errorf("model name %.200q: %.100q may hold up to 96 letters, digits and single . _ - between them", s, p)
		}
	}
	n := Name{Repo: parts[0] + "/" + parts[1], Revision: rev}
	if len(parts) == 3 {
		n.File = parts[2]
		if !validPath(n.File) || path.Ext(n.File) != ".gguf" {
			return Name{}, fmt.Errorf("model name %.200q: %.100q is not the path of a .gguf file inside a repository", s, n.File)
		}
	}
	if pinned && !validRevision(rev) {
		return Name{}, fmt.Errorf("model name %.200q: %.100q is not a branch, tag or commit", s, rev)
	}
	return n, nil
}

// String writes n as ParseName reads it.
func (n Name) String() string {
	s := n.Repo
	if n.File != "" {
		s += "/" + n.File
	}
	if n.Revision != "" {
		s += "@" + n.Revision
	}
	return s
}

// revision returns the revision or its default.
func (n Name) revision() string {
	if n.Revision == "" {
		return "main"
	}
	return n.Revision
}

// folder is the repository's folder in the cache, as the reference client names it.
func (n Name) folder() string { return "models--" + strings.ReplaceAll(n.Repo, "/", "--") }

// validPath reports whether a file name, perhaps told by a server, may be used
// below a folder on every system.
func validPath(p string) bool {
	if !fs.ValidPath(p) || p == "." || len(p) > 512 || strings.Count(p, "/") > 8 {
		return false
	}
	for e := range strings.SplitSeq(p, "/") {
		if len(e) > 200 || !element.MatchString(e) || reserved.MatchString(e) || strings.HasSuffix(e, ".") || strings.HasSuffix(e, " ") {
			return false
		}
	}
	return true
}

func validRevision(r string) bool {
	return len(r) <= 128 && revision.MatchString(r) && !strings.Contains(r, "..") && validPath(r)
}

// splitSet matches a file of a set: NAME-00001-of-00003.gguf (formats.md 1).
var splitSet = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// firstOfSet returns the name under which a GGUF file is opened: its own, or that
// of the first file of its set.
func firstOfSet(name string) string {
	if m := splitSet.FindStringSubmatch(name); m != nil {
		return m[1] + "-00001-of-" + m[3] + ".gguf"
	}
	return name
}

// likely returns the name most like want, in whatever case; "" where less than half of want
// is right.
func likely(want string, names []string) string { return nearest.Fold(want, names, len(want)/2) }
