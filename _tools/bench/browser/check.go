package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// check opens a report, takes a screenshot and tries what it can do.
func (b *browser) check(file, shot string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	url := "file://" + filepath.ToSlash(path)
	if err := b.open(url); err != nil {
		return err
	}
	if err := b.screenshot(shot); err != nil {
		return err
	}
	var is struct{ Sweep, Timeline bool }
	if err := b.evaluate(`({sweep: document.querySelector("details[id]") !== null, timeline: document.querySelector(".timeline") !== null})`, &is); err != nil {
		return err
	}
	all := []error{b.looks()}
	if is.Timeline {
		all = append(all, b.timeline())
	}
	if is.Sweep {
		all = append(all, b.details())
	}
	return errors.Join(append(all, b.sorting(), b.complaints(url))...)
}

// looks returns what is missing on the page, or does not fit.
func (b *browser) looks() error {
	var wrong []string
	err := b.evaluate(`(() => {
		const wrong = [], labels = [...document.querySelectorAll("figure")].map(f => f.ariaLabel);
		const expect = names => names.filter(n => !labels.some(l => l.startsWith(n))).forEach(n => wrong.push("no plot of " + n));
		if (document.querySelector("section"))
			expect(["Time to first token", "Time per output token", "Inter-token latency", "End-to-end latency", "Over time"]);
		else if (document.querySelector("details[id]"))
			expect(["Throughput and latency over load", "Throughput of all"]);
		else if (!document.querySelector(".timeline svg path[d^=M]"))
			wrong.push("no bars in the timeline");
		for (const f of document.querySelectorAll("figure")) {
			const box = f.querySelector("svg")?.getBoundingClientRect();
			if (!box || box.width < 300 || box.height < 100) wrong.push("nothing to see in the plot " + f.ariaLabel);
			else if ([...f.querySelectorAll("svg path")].filter(p => p.getBBox().width > 20).length < 3) wrong.push("no lines in the plot " + f.ariaLabel);
		}
		const nonsense = /\b(NaN|undefined|null|\[object \w+\])(?![\w-])/.exec(document.body.innerText);
		if (nonsense) wrong.push("it says " + nonsense[0]);
		if (document.documentElement.scrollWidth > innerWidth) wrong.push("the page is wider than the window: " + document.documentElement.scrollWidth);
		for (const t of document.querySelectorAll(".scroll"))
			if (t.scrollWidth > t.clientWidth) wrong.push("columns are hidden in a table of " + t.clientWidth + " pixels that needs " + t.scrollWidth);
		return wrong;
	})()`, &wrong)
	if err != nil {
		return err
	}
	var all []error
	for _, w := range wrong {
		all = append(all, errors.New(w))
	}
	return errors.Join(all...)
}

// planted spoils a report of runs and wants each fault found.
func (b *browser) planted(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ossian-spoiled")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	const image = `<h1><img src="http://127.0.0.1:9/x.png" alt="">`
	for _, c := range []struct {
		name, want string
		spoil      []string // what is replaced, and by what, in turn
	}{
		{"data that the script cannot read", "exception", []string{`id="hover0">`, `id="hover0">{`}},
		{"an image from elsewhere", "Content Security Policy", []string{"<h1>", image}},
		{"the same without the policy", "asked for http", []string{"<h1>", image, "Content-Security-Policy", "Nothing"}},
		{"a plot left out", "no plot of", []string{`aria-label="Over time"`, `aria-label="Nothing"`}},
		{"an empty plot", "nothing to see", []string{"<figure", "<figure></figure><figure"}},
		{"a number that is none", "it says NaN", []string{"<h1>", "<h1>NaN "}},
		{"a table too wide", "columns are hidden", []string{"<th>P99 E2EL</th>", `<th style="min-width:900px">P99 E2EL</th>`}},
	} {
		page := string(text)
		for i := 0; i < len(c.spoil); i += 2 {
			if !strings.Contains(page, c.spoil[i]) {
				return fmt.Errorf("%s: nothing to spoil, it has no %s", file, c.spoil[i])
			}
			page = strings.Replace(page, c.spoil[i], c.spoil[i+1], 1)
		}
		spoiled := filepath.Join(dir, "report.html")
		if err := os.WriteFile(spoiled, []byte(page), 0o644); err != nil {
			return err
		}
		if err := b.check(spoiled, filepath.Join(dir, "report.png")); err == nil || !strings.Contains(err.Error(), c.want) {
			return fmt.Errorf("%s with %s: found %v, expected %q", file, c.name, err, c.want)
		}
		fmt.Printf("%s with %s: found\n", file, c.name)
	}
	return nil
}
