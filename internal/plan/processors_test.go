package plan

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
)

func TestProcessors(t *testing.T) {
	// system returns the files of a process that may run on cpus, n of each core, and others.
	system := func(cpus string, n int, others ...string) fstest.MapFS {
		fsys := fstest.MapFS{"proc/self/status": {Data: []byte("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t" + cpus + "\n")}}
		for i := range 8 {
			first := i / n * n
			fsys[fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/core_cpus_list", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d-%d\n", first, first+n-1)}
		}
		for i := 0; i < len(others); i += 2 {
			fsys[others[i]] = &fstest.MapFile{Data: []byte(others[i+1])}
		}
		return fsys
	}
	old := system("0-3", 1)
	for i := range 8 {
		name := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", i)
		old[name+"thread_siblings_list"] = old[name+"core_cpus_list"]
		delete(old, name+"core_cpus_list")
	}
	const group, v2, v1 = "proc/self/cgroup", "0::/a/b\n", "5:memory:/m\n4:cpu,cpuacct:/a\n0::/\n"
	for _, c := range []struct {
		name   string
		fsys   fstest.MapFS
		n      int
		want   Processors
		counts []int
	}{
		{"nothing told", fstest.MapFS{}, 8, Processors{8, 0, 0}, []int{8, 4}},
		{"one", system("3", 1), 1, Processors{1, 1, 0}, []int{1}},
		{"two cores", system("0-1", 1), 2, Processors{2, 2, 0}, []int{2, 1}},
		{"one core, two threads", system("0-1", 2), 2, Processors{2, 1, 0}, []int{2, 1}},
		{"four cores, eight threads", system("0-7", 2), 8, Processors{8, 4, 0}, []int{8, 4, 2}},
		{"some of them", system("0,2,4-6", 2), 5, Processors{5, 4, 0}, []int{5, 4, 2}},
		{"the older name", old, 4, Processors{4, 4, 0}, []int{4, 2}},
		{"the environment says fewer", system("0-7", 2), 3, Processors{3, 4, 0}, []int{3, 1}},
		{"no quota", system("0-7", 2, group, v2, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n"), 8, Processors{8, 4, 0}, []int{8, 4, 2}},
		{"half a processor", system("0-7", 2, group, v2, "sys/fs/cgroup/a/b/cpu.max", "50000 100000\n"), 8, Processors{1, 4, 0.5}, []int{1}},
		{"one and a half", system("0-7", 2, group, v2, "sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"), 8, Processors{2, 4, 1.5}, []int{2, 1}},
		{"a tighter group above", system("0-7", 2, group, v2, "sys/fs/cgroup/a/b/cpu.max", "600000 100000\n", "sys/fs/cgroup/a/cpu.max", "300000 100000\n"), 8, Processors{3, 4, 3}, []int{3, 1}},
		{"more than there are", system("0-7", 2, group, v2, "sys/fs/cgroup/cpu.max", "9000000 100000\n"), 8, Processors{8, 4, 90}, []int{8, 4, 2}},
		{"version 1", system("0-7", 1, group, v1, "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "250000\n", "sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"), 8, Processors{3, 8, 2.5}, []int{3, 1}},
		{"version 1, none", system("0-7", 1, group, v1, "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n", "sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"), 8, Processors{8, 8, 0}, []int{8, 4}},
		{"nonsense", fstest.MapFS{"proc/self/status": {Data: []byte("Cpus_allowed_list:\t4-1,99999999999,-\n")}, group: {Data: []byte("0::/../..\n")},
			"sys/fs/cgroup/cpu.max": {Data: []byte("NaN Inf\n")}}, 2, Processors{2, 0, 0}, []int{2, 1}},
	} {
		if got := processorsIn(c.fsys, c.n); got != c.want || !slices.Equal(got.Counts(), c.counts) {
			t.Errorf("%s: %+v, %v threads; want %+v, %v", c.name, got, got.Counts(), c.want, c.counts)
		}
	}
	if p := ThisProcess(); p.Threads < 1 || p.Quota < 0 || p.Counts()[0] != p.Threads {
		t.Errorf("this process has %+v", p)
	}
}

// Whatever the system's files say, there is at least one thread, and no more than there were.
func FuzzProcessors(f *testing.F) {
	f.Add("0-3,7", "50000 100000", "25000", "0")
	f.Add("-", "max 1", "-1", "")
	f.Add("0-70000", "1e300 1e-300", "0", "0-7")
	f.Fuzz(func(t *testing.T, cpus, limit, share, siblings string) {
		p := processorsIn(fstest.MapFS{
			"proc/self/status": {Data: []byte("Cpus_allowed_list: " + cpus)}, "proc/self/cgroup": {Data: []byte("1:cpu:/\n0::/a")},
			"sys/fs/cgroup/a/cpu.max": {Data: []byte(limit)}, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": {Data: []byte(share)},
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": {Data: []byte("100000")}, "sys/devices/system/cpu/cpu0/topology/core_cpus_list": {Data: []byte(siblings)},
		}, 4)
		if p.Threads < 1 || p.Threads > 4 || p.Cores < 0 || !(p.Quota >= 0) {
			t.Errorf("%+v", p)
		}
		for i, n := range p.Counts() {
			if n < 1 || (i > 0 && n >= p.Counts()[i-1]) {
				t.Errorf("%+v: %v threads", p, p.Counts())
			}
		}
	})
}
