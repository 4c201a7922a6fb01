//go:build unix

package jinja

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ossian/internal/soak"
)

// hostileBytes is the bound of CKP-4 for one hostile template, compiled and rendered.
const hostileBytes = 32 << 20

// hostileCPU is the other bound of CKP-4, and what no machine should exceed elsewhere than
// where figures are taken, on a quiet machine.
func hostileCPU() time.Duration {
	if os.Getenv(soak.Env) != "" {
		return 100 * time.Millisecond
	}
	return 5 * time.Second
}

// escaped matches what a template would print if it reached the host: Python
// or Go internals, files, addresses.
var escaped = regexp.MustCompile(`<class|<function|<module|<built-in|subprocess|root:|uid=|0xc[0-9a-f]{9}|reflect|runtime\.|goroutine|os\.`)

// TestCKP4Hostile runs every template of the corpus: no escape, and the bounds hold.
// It must not run in parallel: it measures the whole process.
func TestCKP4Hostile(t *testing.T) {
	corpus := hostileCorpus()
	if len(corpus) < 300 {
		t.Fatalf("the corpus has %d templates, want at least 300", len(corpus))
	}
	var worstCPU time.Duration
	var worstBytes uint64
	worst := ""
	refused := 0
	for name, source := range corpus {
		cpu, bytes, text, err := measureHostile(source)
		for range 3 { // a loaded machine inflates CPU time
			if cpu > hostileCPU() {
				cpu, bytes, text, err = measureHostile(source)
			}
		}
		if cpu > hostileCPU() || bytes > hostileBytes {
			t.Errorf("%s: %v CPU, %.1f MiB; want at most %v and %d MiB (err %v)", name, cpu, float64(bytes)/(1<<20), hostileCPU(), hostileBytes>>20, err)
		}
		if cpu > worstCPU {
			worstCPU, worst = cpu, name
		}
		worstBytes = max(worstBytes, bytes)
		if err != nil {
			refused++
		}
		if found := escaped.FindString(text); found != "" {
			t.Errorf("%s: output has %q: %.200q", name, found, text)
		}
	}
	t.Logf("CKP-4: %d templates, %d of them refused, worst %v CPU (%s), %.1f MiB", len(corpus), refused, worstCPU, worst, float64(worstBytes)/(1<<20))
}

// measureHostile returns CPU time and bytes allocated, freed or not.
func measureHostile(source string) (cpu time.Duration, bytes uint64, text string, err error) {
	vars := NewDict()
	vars.Set("messages", NewList(NewDict()))
	vars.Set("s", "text")
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpuTime()
	tmpl, err := Compile(source)
	if err == nil {
		text, err = tmpl.Render(vars, clock)
	}
	cpu = cpuTime() - start
	runtime.ReadMemStats(&after)
	return cpu, after.TotalAlloc - before.TotalAlloc, text, err
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// hostileCorpus builds the templates by family; keys name family and variant.
func hostileCorpus() map[string]string {
	c := map[string]string{}
	add := func(family string, sources ...string) {
		for i, s := range sources {
			c[fmt.Sprintf("%s/%d", family, i)] = s
		}
	}
	add("escape", escapes()...)
	add("nesting", nestings()...)
	add("growth", growths()...)
	add("loop", loops()...)
	add("recursion", recursions()...)
	add("width", widths()...)
	add("data", dataBombs()...)
	add("lexer", lexerBombs()...)
	return c
}

// escapes walk from every kind of object towards the interpreter.
func escapes() []string {
	var out []string
	bases := []string{"''", "s", "1", "1.5", "none", "true", "[]", "()", "{}", "messages", "messages[0]", "range", "dict", "namespace",
		"namespace()", "raise_exception", "strftime_now", "''.upper", "{}.items", "loop", "m", "self", "lipsum", "cycler", "joiner",
		"config", "request", "undefinedname", "range(3)", "{}.items()", "[1]|map('string')"}
	walks := []string{
		"%s.__class__.__mro__[1].__subclasses__()", "%s['__class__']['__base__']", "(%s)|attr('__class__')|attr('__init__')|attr('__globals__')",
		"%s.__init__.__globals__['os'].popen('id').read()", "[%s]|map(attribute='__class__.__mro__')|list",
	}
	for _, b := range bases {
		for _, w := range walks {
			out = append(out, "{% macro m() %}{% endmacro %}{% for x in [1] %}{{ "+fmt.Sprintf(w, b)+" }}{% endfor %}")
		}
	}
	return append(out,
		"{{ '{0.__class__.__init__.__globals__}'.format(s) }}", "{{ '{a.__class__}'.format(a=s) }}", "{{ '{0[__class__]}'.format(s) }}",
		"{{ '{!r}'.format(range) }}", "{{ '%(__class__)s' % {} }}", "{{ ''.format_map({}) }}", "{{ 'a'.encode() }}", "{{ 'a'.translate({}) }}",
		"{% include '/etc/passwd' %}", "{% import 'os' as os %}{{ os.popen('id') }}", "{% from 'os' import system %}", "{% extends '/etc/passwd' %}",
		"{% block b %}{{ self.b() }}{% endblock %}", "{{ self._TemplateReference__context }}", "{{ range.__self__ }}", "{{ open('/etc/passwd').read() }}",
		"{{ eval('1') }}", "{{ exec('1') }}", "{{ __import__('os') }}", "{{ globals() }}", "{{ getattr(s, '__class__') }}", "{{ vars() }}",
		"{% set ns = namespace(__class__=1) %}", "{% set ns = namespace() %}{% set ns.__init__ = 1 %}", "{% set messages[0].x = 1 %}",
		"{{ messages.append(1) }}", "{{ messages.clear() }}", "{{ messages[0].update(x=1) }}", "{{ messages[0].pop('x') }}", "{{ messages[0].setdefault('x', 1) }}",
		"{{ strftime_now('%s %Z %z') }}", "{{ strftime_now('%Q') }}", "{{ strftime_now('%-Q') }}", "{{ strftime_now('%-') }}", "{{ strftime_now('%-%') }}", "{{ strftime_now('') }}", "{{ strftime_now(1) }}", "{{ caller() }}", "{{ varargs }}", "{{ super() }}",
		"{% do messages.append(1) %}", "{% autoescape true %}x{% endautoescape %}", "{{ s|random }}", "{{ s|urlize }}", "{{ s|xmlattr }}",
		"{{ messages|map('attr', '__class__')|list }}", "{{ ['a']|map('format', '__class__')|list }}", "{{ [s]|groupby('__class__')|list }}",
		"{{ [s]|sort(attribute='__class__')|list }}", "{{ [s]|sum('__class__') }}", "{{ [s]|unique(attribute='__class__')|list }}",
		"{{ raise_exception(range) }}", "{{ {}.fromkeys([1]) }}", "{{ dict.fromkeys([1]) }}", "{{ dict.__class__ }}")
}

func nestings() []string {
	var out []string
	for _, n := range []int{90, 1_000, 100_000} {
		for _, p := range [][3]string{
			{"{{ ", "(", ")"}, {"{{ ", "[", "]"}, {"{{ ", "{1:", "}"}, {"{{ ", "-", ""}, {"{{ ", "not ", ""}, {"{{ ", "1 + (", ")"}, {"{{ ", "s[", "]"}, {"{{ ", "range(", ")"},
			{"{{ ", "1 if 1 else ", ""}, {"{{ ", "2 ** ", ""}, {"{{ ", "s ~ (", ")"},
		} {
			out = append(out, p[0]+strings.Repeat(p[1], n)+"1"+strings.Repeat(p[2], n)+" }}")
		}
		for _, suffix := range []string{"+ 1", "~ 1", "- 1", "and 1", "or 0", "== 1", ".x", "[0]", "()", "|string", " is defined", "|map('list')", ", 1", " if 1 else 2"} {
			out = append(out, "{{ s"+strings.Repeat(suffix, n)+" }}")
		}
		for _, b := range [][2]string{{"{% if 1 %}", "{% endif %}"}, {"{% for i in [1] %}", "{% endfor %}"}, {"{% macro m() %}", "{% endmacro %}"},
			{"{% set x %}", "{% endset %}"}, {"{% filter upper %}", "{% endfilter %}"}, {"{% with a=1 %}", "{% endwith %}"}, {"{% generation %}", "{% endgeneration %}"}} {
			out = append(out, strings.Repeat(b[0], n)+"x"+strings.Repeat(b[1], n))
		}
		out = append(out, "{% if 0 %}"+strings.Repeat("{% elif 0 %}", n)+"{% endif %}", strings.Repeat("{% if 1 %}", n), strings.Repeat("{% call m() %}", n))
	}
	return out
}

// growths double something until it does not fit.
func growths() []string {
	var out []string
	for _, step := range []string{"ns.x + ns.x", "ns.x ~ ns.x", "ns.x * 2", "ns.x * 1000", "[ns.x, ns.x]|join", "'%s%s' % (ns.x, ns.x)", "'{}{}'.format(ns.x, ns.x)",
		"ns.x.replace('a', 'aaaa')", "ns.x|replace('', 'a')", "ns.x.join(ns.x)", "(ns.x ~ '\\n')|indent(100)", "ns.x|e ~ ns.x", "(ns.x ~ '&<')|e|e", "ns.x|tojson|tojson",
		"(ns.x ~ ns.x)|upper", "(ns.x ~ ns.x).split('')|join", "(ns.x ~ ns.x)|list|join", "ns.x.center(10 ** 9)", "ns.x ~ ns.x|urlencode", "[ns.x, ns.x]|string|tojson"} {
		out = append(out, "{% set ns = namespace(x='a') %}{% for i in range(100000) %}{% set ns.x = "+step+" %}{% endfor %}{{ ns.x }}")
	}
	for _, step := range []string{"ns.x + ns.x", "ns.x * 2", "ns.x * 10 ** 18", "[ns.x, ns.x]", "{'a': ns.x, 'b': ns.x}", "(ns.x, ns.x)", "ns.x|batch(1)|list + ns.x", "(ns.x + ns.x)|sort",
		"(ns.x + ns.x)|map('string')|list", "(ns.x + ns.x)[::-1]", "ns.x + range(100000)|list", "ns.x|list + ns.x|list", "dict(a=ns.x).items()|list", "ns.x|slice(1000)|list"} {
		for _, use := range []string{"", "{{ ns.x }}", "{{ ns.x|tojson }}", "{{ ns.x == ns.x|list }}", "{{ ns.x|string|length }}"} {
			out = append(out, "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = "+step+" %}{% endfor %}"+use)
		}
	}
	for _, n := range []string{"10 ** 6", "10 ** 9", "10 ** 18", "9223372036854775807", "99999999999999999999"} {
		for _, e := range []string{"'a' * (%s)", "(%s) * 'ab'", "[1] * (%s)", "(1,) * (%s)", "(%s) ** (%s)", "(%s) * (%s)", "range(%s)|list", "range(-(%s), %s)|list", "'x' * (%s) * (%s)"} {
			out = append(out, "{{ "+strings.ReplaceAll(e, "%s", n)+" }}")
		}
	}
	return out
}

// loops spend time.
func loops() []string {
	var out []string
	head := "{% set big = 'ab' * 200000 %}{% set l = range(20000)|list %}{% set d = dict(l|map('string')|map('list')|map('batch', 9)|map('first')|map('list')|map('join')|map('batch', 2)|map('first')) %}"
	head2 := "{% set big = 'ab' * 200000 %}{% set l = range(20000)|list %}"
	for _, body := range []string{"", "x", "{{ i }}", "{% set y = i %}", "{{ big == big ~ '' }}", "{{ 'x' in big }}", "{{ big.find('ba' * 100 ~ 'c') }}", "{{ big.count('a') }}", "{{ big|length }}",
		"{% set y = big|reverse %}", "{% set y = big.split('a') %}", "{% set y = big[::-1] %}", "{% set y = big.strip('ab') %}", "{% set y = big.strip(big) %}", "{% set y = big.upper() %}",
		"{% set y = big|wordcount %}", "{% set y = big|tojson %}", "{% set y = big.splitlines() %}", "{% set y = l|sort(reverse=true) %}", "{% set y = l|sum %}", "{% set y = l|unique|list %}",
		"{% set y = l|map('string')|list %}", "{% set y = l|select('odd')|list %}", "{% set y = l|groupby(0)|list %}", "{% set y = l == l|list %}", "{% set y = -1 in l %}", "{% set y = l.index(19999) %}",
		"{% set y = l|tojson %}", "{% set y = l|string %}", "{% set y = l[::-1] %}", "{% set y = l|max %}", "{% set y = l|join %}", "{% set y = l|batch(2)|list %}", "{% set y = big|title %}",
		"{% set y = big|indent %}", "{% set y = big|striptags %}", "{% set y = big|truncate(10) %}", "{% set y = big|int %}", "{% set y = ('9' * 4000)|int %}", "{% set y = big.isalpha() %}",
		"{% set y = strftime_now('%A' * 100) %}", "{% set y = '%s' % big %}", "{% set y = big.startswith(l) %}", "{% set y = namespace(a=big) %}", "{% set y = dict(a=1, b=2) %}",
		"{% for j in range(100000) %}{% endfor %}", "{% for j in big %}{% endfor %}", "{% for j in l if j < 0 %}{% endfor %}", "{% macro m() %}{% endmacro %}{{ m() }}", "{{ 'é' * 1000 }}",
		"{% set y = ('é' * 100000)[50000] %}", "{% set y = ('é' * 100000)|length %}", "{{ loop.changed(l) }}", "{{ loop.cycle(*l) }}", "{% set y = dict(**{'a': 1}) %}", "{% set y = big.rsplit('a', 100000) %}",
		"{% set y = big.rsplit(none, 100000) %}", "{% set y = big.replace('a', '') %}", "{% set y = '<' * 20000 |striptags %}", "{% set y = big|e %}", "{% set y = big|urlencode %}"} {
		out = append(out, head2+"{% for i in range(100000) %}"+body+"{% endfor %}")
	}
	out = append(out, head, "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor %}{% endfor %}{% endfor %}",
		strings.Repeat("{% for i in range(100000) %}", 20)+strings.Repeat("{% endfor %}", 20),
		"{% set ns = namespace(d={}) %}{% for i in range(100000) %}{% set ns.d = dict(ns.d, **{'k' ~ i: i}) %}{% endfor %}",
		"{% set ns = namespace() %}{% for i in range(100000) %}{% set ns.x = dict(x=i) %}{% endfor %}",
		"{% for i in range(100000) %}{{ '%10000d' % i }}{% endfor %}")
	return out
}

func recursions() []string {
	out := []string{
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
		"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
		"{% macro f(n) %}{% if n > 1 %}{{ f(n - 1) ~ f(n - 2) }}{% else %}x{% endif %}{% endmacro %}{{ f(60) }}",
		"{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('a') }}", "{% macro m(x) %}{{ m([x]) }}{% endmacro %}{{ m(1) }}", "{% macro m(x=m()) %}{% endmacro %}{{ m() }}",
		"{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{% call m() %}x{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{% call m() %}{{ m() }}{% endcall %}{% endcall %}",
		"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "{% for x in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}", "{% for x in 'ab' recursive %}{{ loop(x * 2) }}{% endfor %}",
		"{% macro m() %}{% for i in range(100000) %}{{ m() }}{% endfor %}{% endmacro %}{{ m() }}", "{% macro m() %}{% set x %}{{ m() }}{% endset %}{% endmacro %}{{ m() }}",
		"{% macro m(n) %}{% filter upper %}{{ m(n + 1) }}{% endfilter %}{% endmacro %}{{ m(0) }}", "{% set ns = namespace() %}{% set ns.f = range %}{% set ns.g = ns %}{{ ns }}",
		"{% set ns = namespace() %}{% set ns.a = ns %}{{ ns == ns.a }}{{ ns|tojson }}", "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a }}", "{% set ns = namespace() %}{% set ns.a = {'k': ns} %}{{ ns.a|string }}",
		"{% macro m() %}{{ [1]|map('list')|list }}{{ m() }}{% endmacro %}{{ [m]|map('string')|list }}{{ m() }}",
	}
	return out
}

// widths ask for padding, precision and slices of absurd size.
func widths() []string {
	var out []string
	for _, n := range []string{"1000000000", "9223372036854775807", "-9223372036854775808", "99999999999999999999"} {
		for _, e := range []string{"s.center(N)", "s.ljust(N)", "s.zfill(N)", "s|center(N)", "s|indent(N)", "s|truncate(N)", "1.5|round(N)", "[1]|batch(N, 0)|list", "[1]|slice(N)|list", "s[N:]", "s[:N]",
			"s[::N]", "[1, 2][N::N]", "(1, 2)[N:N:N]", "[1, 2][N]", "s[N]", "s.split('e', N)", "s.rsplit('e', N)", "s.replace('t', 'x', N)", "s.find('t', N)", "[1]|tojson(indent=N)", "'%*d' % (N, 1)", "N + N",
			"N * N", "-(N)", "(N) // -1", "(N) % -1", "(N)|abs", "(N)|int + 1", "N|string", "N|tojson", "(N) - 1 - 1"} {
			out = append(out, "{{ "+strings.ReplaceAll(e, "N", n)+" }}")
		}
		out = append(out, "{{ '%"+strings.TrimLeft(n, "-")+"d' % 1 }}", "{{ '%."+strings.TrimLeft(n, "-")+"f' % 1 }}")
	}
	return out
}

// dataBombs build deep or shared structures and then walk them.
func dataBombs() []string {
	var out []string
	for _, build := range []string{"[ns.x]", "{'k': ns.x}", "(ns.x,)", "[ns.x, ns.x]", "{'a': ns.x, 'b': ns.x}"} {
		for _, n := range []string{"30", "900", "100000"} {
			for _, use := range []string{"ns.x", "ns.x|tojson", "ns.x|tojson(indent=100)", "ns.x == ns.y", "[ns.x, ns.y]|sort", "ns.x in [ns.y]", "[ns.x]|unique|list", "ns.x|string|length", "ns.x < ns.y", "'%r' % [ns.x]"} {
				out = append(out, "{% set ns = namespace(x=1, y=1) %}{% for i in range("+n+") %}{% set ns.x = "+build+" %}{% set ns.y = "+strings.ReplaceAll(build, "ns.x", "ns.y")+" %}{% endfor %}{{ "+use+" }}")
			}
		}
	}
	return out
}

// names returns n distinct names of equal length, each with suffix.
func names(n int, suffix string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "name%06d%s", i, suffix)
	}
	return b.String()
}

func lexerBombs() []string {
	big := func(s string) string { return strings.Repeat(s, 1_000_000/len(s)) }
	sets := "{% set " + strings.Join(strings.Fields(names(9_000, " ")), " = 1 %}{% set ") + " = 1 %}"
	return []string{
		sets, sets + "{% for i in range(100000) %}{{ name000000 }}{{ missing }}{% endfor %}", "{% macro m(" + names(10_000, ",") + ") %}{% endmacro %}{{ m(" + names(10_000, "=1,") + ") }}",
		"{{ namespace(" + names(9_000, "=1,") + ") }}", "{{ dict(" + names(9_000, "=1,") + ") }}", "{% macro m() %}{% endmacro %}{{ m(**dict(range(20000)|map('string')|map('batch', 9)|list)) }}",
		"{% macro m(a) %}{% endmacro %}{% for i in range(100000) %}{{ m(a=1) }}{% endfor %}", "{% set " + names(20_000, ",") + " = range(20000) %}", "{% for " + names(20_000, ",") + " in [range(20000)] * 100 %}{% endfor %}",
		big("{"), big("}"), big("{{"), big("{%"), big("{#"), big("{{}}"), big("{{ 1 }}"), big("{##}"), big("{% set x=1 %}"), "{{ '" + big("a") + "' }}", "{{ '" + big(`\x41`) + "' }}", "{{ " + big("'a' ") + "}}",
		"{{ " + big("1") + " }}", "{{ " + big("1,") + " }}", "{{ [" + big("1,") + "] }}", "{{ {" + big("1:1,") + "} }}", "{{ f(" + big("a,") + ") }}", "{{ f(" + big("a=1,") + ") }}", "{{ " + big("a ") + " }}",
		"{% raw %}" + big("{% endra %}"), "{% raw %}" + big("{%"), big("\n"), big("\r"), big(" ") + "{%- if 1 %}{% endif %}", "{# " + big("#"), "{{ " + big(" ") + "1 }}", "{{ 0x" + big("f") + " }}",
		"{{ 1" + big("_1") + " }}", "{{ 1." + big("1") + " }}", "{{ 1e" + big("9") + " }}", "{{ " + big("é") + " }}", "{{ s" + big(".a") + " }}", "{{ s" + big("|e") + " }}", "{% macro m(" + big("a,") + ") %}{% endmacro %}",
		"{% set " + big("a,") + " = 1 %}", "{% for " + big("a,") + " in [] %}{% endfor %}", "{% with " + big("a=1,") + " %}{% endwith %}", "{{ \x00 }}", "{{ \xff }}", big("\xff"), strings.Repeat("a", maxSource+1), "{{ '\\U99999999' }}", "{{ '\\x' }}",
		big("a {%- set x = 1 -%} "), big("{{ x }}\n"), "{% if " + big("(1)and") + "1 %}{% endif %}", big("{%if 1%}{%endif%}"),
	}
}

// TestLimitErrors checks that every bound is reached by its own kind of
// template and reported as *LimitError with the line.
func TestLimitErrors(t *testing.T) {
	t.Parallel()
	for what, source := range map[string]string{
		"steps":           "\n{% set l = range(1000) %}{% for i in l %}{% for j in l %}{% endfor %}{% endfor %}",
		"bytes of memory": "\n{{ 'a' * 100000000 }}", "levels of nesting": "\n{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"items in a range": "\n{{ range(100001) }}", "tokens": "\n" + strings.Repeat("{{ 1 }}", 30_000), "open brackets": "\n{{ " + strings.Repeat("(", 200),
		"bytes of source": strings.Repeat(" ", maxSource+1), "levels of nesting in the source": "\n" + strings.Repeat("{% if 1 %}", 200),
	} {
		tmpl, err := Compile(source)
		if err == nil {
			_, err = tmpl.Render(nil, nil)
		}
		lim, ok := err.(*LimitError)
		if !ok || lim.What != what || lim.Max <= 0 || lim.Line < 1 || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %T %v", what, err, err)
		}
	}
}

// TestBudgetGrows renders a conversation far larger than the base budget.
func TestBudgetGrows(t *testing.T) {
	t.Parallel()
	messages := NewList(slices.Repeat([]Value{message("user", strings.Repeat("text ", 1000)), message("assistant", "ok")}, 1000)...)
	vars := NewDict()
	vars.Set("messages", messages)
	got, err := renderSource(readFile(t, "testdata/templates/qwen3.jinja"), vars)
	if err != nil || len(got) < 5_000_000 {
		t.Errorf("%d bytes, err %v", len(got), err)
	}
}

func message(role, content string) *Dict {
	m := NewDict()
	m.Set("role", role)
	m.Set("content", content)
	return m
}
