package plan

import (
	"io/fs"
	"iter"
	"math"
	"path"
	"strconv"
	"strings"
)

// A hierarchy is how one version of control groups names its files.
type hierarchy struct {
	mark           string // in /proc/self/cgroup, before the group's path
	root           string
	limit, used    string
	cached, active string // fields of memory.stat
}

// hierarchies are version 2 and version 1; a system may have both.
var hierarchies = []hierarchy{
	{"0::/", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "active_file"},
	{":memory:/", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"},
}

// available returns the bytes that a process may still take without swapping or being
// killed, as the files of a Linux system below fsys tell: the kernel's estimate and
// the limits of every control group above the process. 0 = not told.
func available(fsys fs.FS) int64 {
	least := int64(math.MaxInt64)
	if kb, ok := field(fsys, "proc/meminfo", "MemAvailable:"); ok {
		least = kb << 10
	}
	for _, groups := range hierarchies {
		for dir := range groupsAbove(fsys, groups.mark, groups.root) {
			if limit, ok := number(fsys, path.Join(dir, groups.limit)); ok {
				used, _ := number(fsys, path.Join(dir, groups.used))
				cached, _ := field(fsys, path.Join(dir, "memory.stat"), groups.cached)
				active, _ := field(fsys, path.Join(dir, "memory.stat"), groups.active)
				least = min(least, limit-max(used-cached-active, 0)) // the kernel gives file pages back before it kills
			}
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return max(least, 1)
}

// groupsAbove gives the folders below root of the control group that /proc/self/cgroup
// names behind mark and of all groups above it, root itself last.
func groupsAbove(fsys fs.FS, mark, root string) iter.Seq[string] {
	return func(yield func(string) bool) {
		own, _ := fs.ReadFile(fsys, "proc/self/cgroup")
		group := ""
		for line := range strings.Lines(string(own)) {
			if _, p, ok := strings.Cut(strings.TrimSpace(line), mark); ok {
				group = strings.TrimPrefix(path.Clean("/"+p), "/")
			}
		}
		for ; ; group = path.Dir(group) {
			if !yield(path.Join(root, group)) || group == "" || group == "." {
				return
			}
		}
	}
}

// number reads a file of one number; "max" is none.
func number(fsys fs.FS, name string) (int64, bool) {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil && n >= 0
}

// field reads the number after a name in a file of lines "name number …".
func field(fsys fs.FS, file, name string) (int64, bool) {
	b, err := fs.ReadFile(fsys, file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil && n >= 0 && n < 1<<50
		}
	}
	return 0, false
}
