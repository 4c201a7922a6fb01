// Package internal_test holds the checks that keep the project's shape: which
// package may import which, and the budgets of ARCHITECTURE.md.
package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// leaves may be imported by every package; they import no package of the project.
var leaves = []string{"board", "lazyregexp", "limits", "metrics", "nearest", "sample", "tensor", "watch", "wire"}

// imports is the table of ARCHITECTURE.md: what each package may import of the
// project besides the leaves. A package that is not here may not exist. Adding an
// edge is a design change and needs a line in RATIONALE.md.
var imports = map[string][]string{
	"limits":               {},
	"wire":                 {"limits"},
	"wire/response":        {"limits", "wire"},
	"board":                {},
	"metrics":              {"limits"},
	"nearest":              {},
	"lazyregexp":           {},
	"watch":                {},
	"config":               {"draft"},
	"tensor":               {},
	"sample":               {},
	"runner":               {"sample"},
	"runner/runnertest":    {"runner", "sample", "soak"},
	"draft":                {},
	"shadow":               {"runner", "sample"},
	"kv":                   {"runner"},
	"sched":                {"draft", "kv", "runner", "sample"},
	"token":                {},
	"jinja":                {},
	"grammar":              {"grammar/ecma", "token", "grammar/formats", "grammar/past", "grammar/runes", "grammar/vocab"},
	"grammar/ecma":         {},
	"chat":                 {"chat/callid", "chat/calljson", "chat/chars", "chat/declare", "chat/event", "chat/fence", "chat/header", "chat/mask", "chat/mend", "chat/shown", "chat/words", "token", "jinja", "grammar"},
	"chat/callid":          {},
	"chat/calljson":        {},
	"chat/chars":           {},
	"chat/declare":         {"jinja"},
	"chat/event":           {"chat/chars", "chat/mend", "token"},
	"chat/fence":           {"jinja", "token"},
	"chat/header":          {"chat/chars", "chat/event", "chat/mend", "chat/words"},
	"chat/mask":            {"token"},
	"chat/mend":            {},
	"chat/shown":           {"jinja"},
	"chat/words":           {"chat/chars"},
	"chat/formattest":      {"chat", "soak", "token"},
	"model":                {"runner", "tensor"},
	"model/devicetest":     {"model", "runner", "tensor", "sample"},
	"model/modeltest":      {"model", "runner", "tensor", "sample"},
	"cpu/kern":             {"tensor"},
	"cpu/measure":          {"cpu/kern", "tensor"},
	"packed":               {},
	"cuda":                 {"cuda/driver", "cuda/kernels", "model", "runner", "sample", "tensor"},
	"cuda/cost":            {"lab/predict/machine"},
	"cuda/driver":          {},
	"cuda/driver/libcuda":  {"cuda/driver"},
	"self":                 {"cuda/driver/libcuda"},
	"cuda/emu":             {"cuda/driver", "cuda/emu/exec", "cuda/emu/ptx"},
	"cuda/emu/arith":       {},
	"cuda/emu/exec":        {"cuda/emu/arith"},
	"cuda/emu/flow":        {"cuda/emu/exec"},
	"cuda/emu/ptx":         {"cuda/emu/arith", "cuda/emu/exec", "cuda/emu/flow"},
	"cuda/kernels":         {},
	"cpu":                  {"cpu/kern", "model", "packed", "runner", "tensor", "sample"},
	"ckpt":                 {"model", "tensor", "token"},
	"ckpt/eagle":           {"ckpt", "model"},
	"ckpt/eagle/eagletest": {},
	"plan":                 {"model", "runner"},
	"hub":                  {},
	"tiny":                 {},
	"synth":                {"model", "tensor", "token"},
	"sim":                  {"runner"},
	"engine":               {"draft", "runner", "sched"},
	"host":                 {"engine", "chat", "token"},
	"generate":             {"host", "engine", "sched", "chat", "chat/mask", "draft", "generate/stops", "grammar", "token", "tools"},
	"generate/stops":       {},
	"tools":                {},
	"api":                  {"generate", "host", "engine", "chat", "store", "tools"},
	"api/chat":             {"api", "generate", "host", "chat", "tools"},
	"tools/browser/source": {"tools/outbound"},
	"tools/registry":       {"api", "config", "tools", "tools/browser", "tools/browser/source", "tools/mcp", "tools/outbound", "tools/python"},
	"tools/mcp/mcptest":    {},
	"tools/outbound":       {},
	"tools/browser":        {"token", "tools", "tools/browser/page", "tools/browser/source"},
	"tools/browser/page":   {},
	"tools/python":         {"soak", "tools", "tools/python/sandbox", "tools/python/wasm", "tools/python/jupyter"},
	"tools/mcp":            {"chat/declare", "tools"},
	"tools/python/jupyter": {},
	"tools/python/sandbox": {},
	"tools/python/wasm":    {},
	"api/completions":      {"api", "generate", "host"},
	"api/responses":        {"api", "generate", "host", "engine", "chat", "store", "tools", "wire/response"},
	"wire/messages":        {"limits", "wire"},
	"api/messages":         {"api", "api/chat", "generate", "host", "chat", "wire/messages"},
	"kvevents":             {},
	"trace":                {},
	"trace/otlp":           {"trace"},
	"web":                  {},
	"server":               {"api", "api/chat", "api/completions", "api/messages", "api/responses", "generate", "host", "engine", "store", "trace", "web", "wire/response", "wire/messages"},
	"soak":                 {},
	"store":                {"store/disk"},
	"store/disk":           {},
	"stat":                 {},
	"bench/jsonfile":       {},
	"bench/dataset":        {"bench/jsonfile", "token"},
	"bench/http1":          {},
	"bench":                {"bench/dataset", "bench/http1", "bench/jsonfile", "token"},
	"bench/resultfile":     {"bench", "bench/jsonfile"},
	"bench/report":         {"bench", "bench/dataset", "bench/jsonfile", "bench/resultfile", "stat", "token", "bench/jsonstyle"},
	"bench/chart":          {"bench", "bench/dataset", "bench/report", "stat"},
	"bench/client":         {"bench", "bench/dataset", "bench/report", "bench/scripted", "chat", "ckpt", "load", "plan", "tiny", "token", "bench/jsonstyle"},
	"bench/offline":        {"bench/dataset", "draft", "engine", "runner", "sched", "stat", "token"},
	"bench/scripted":       {},
	"eval":                 {"bench/jsonfile", "eval/ask", "eval/task", "lab/check/exposition", "stat", "store/disk"},
	"eval/ask":             {},
	"eval/report":          {"bench/chart", "bench/jsonstyle", "eval", "stat"},
	"eval/score":           {},
	"eval/task":            {"bench/dataset", "bench/jsonfile", "eval/score", "hub"},
	"bench/shards":         {"bench"},
	"bench/sweep":          {"bench/jsonfile", "bench/jsonstyle", "stat"},
	"lab/check/exposition": {},
	"lab/guessed":          {"lab/check/exposition"},
	"lab/check":            {"bench", "bench/resultfile", "bench/sweep", "lab/check/exposition", "lab/engines", "lab/guessed", "lab/predict", "lab/predict/machine", "plan", "stat"},
	"lab/ledger":           {"store/disk"},
	"lab/engines":          {"bench/sweep", "lab/planfile", "terminal"},
	"lab/planfile":         {"bench/sweep", "stat"},
	"lab/report":           {"bench/chart", "lab/ledger"},
	"lab/verify":           {"lab/verify/document", "lab/verify/statement"},
	"lab/verify/statement": {"lab/verify/document"},
	"lab/race":             {"stat"},
	"e2e":                  {},
	"bench/jsonstyle":      {},
	"lab/verify/document":  {"bench/resultfile"},
	"lab":                  {"lab/ledger", "lab/planfile", "lab/race"},
	"lab/measure":          {"bench", "bench/client", "bench/report", "lab", "lab/engines", "lab/ledger", "lab/planfile", "plan", "terminal"},
	"lab/simulate":         {"lab", "lab/ledger", "lab/planfile"},
	"lab/forecast":         {"lab", "lab/ledger", "lab/planfile", "lab/predict", "lab/predict/machine", "lab/verify", "plan"},

	"lab/predict":           {"cuda/cost", "bench/dataset", "kv", "lab/predict/machine", "model", "plan", "runner", "sched"},
	"lab/predict/machine":   {},
	"lab/predict/local":     {"bench/dataset", "bench/offline", "lab/predict", "lab/predict/machine", "plan", "runner"},
	"lab/predict/calibrate": {"lab/predict", "lab/predict/machine", "plan"},
	"grammar/formats":       {},
	"grammar/past":          {},
	"grammar/runes":         {},
	"grammar/vocab":         {"token"},
	"lab/verify/verifytest": {"lab/verify"},
	"lab/size":              {"bench/sweep", "lab/predict", "lab/predict/machine", "lab/race", "plan"},

	"terminal":            {},
	"load":                {"chat", "ckpt", "ckpt/eagle", "cpu", "cuda", "cuda/driver/libcuda", "cuda/emu", "hub", "lab/predict", "lab/predict/machine", "model", "plan", "runner", "shadow", "sim", "terminal", "tiny", "token"},
	"command":             {"terminal"},
	"command/serve":       {"api", "chat", "ckpt", "command", "config", "draft", "engine", "host", "kvevents", "lab/predict", "lab/predict/local", "lab/size", "load", "model", "plan", "runner", "sched", "server", "store", "terminal", "tiny", "tools/registry", "trace", "trace/otlp"},
	"command/run":         {"chat", "command", "ckpt", "load", "runner", "terminal", "tiny", "token"},
	"command/bench":       {"bench", "bench/chart", "bench/client", "bench/dataset", "bench/offline", "bench/report", "bench/scripted", "bench/shards", "bench/sweep", "chat", "ckpt", "command", "config", "cpu/measure", "load", "model", "plan", "self", "terminal", "tiny", "token", "bench/jsonstyle"},
	"command/check":       {"bench", "bench/client", "bench/report", "ckpt", "command", "lab/check", "lab/engines", "lab/predict", "lab/predict/machine", "load", "plan", "terminal", "tiny"},
	"command/eval":        {"bench/jsonfile", "command", "eval", "eval/ask", "eval/report", "eval/task", "hub", "load", "terminal"},
	"command/inspect":     {"ckpt", "command", "load", "model", "plan", "terminal"},
	"command/lab":         {"bench/report", "bench/sweep", "command", "lab", "lab/engines", "lab/forecast", "lab/ledger", "lab/measure", "lab/planfile", "lab/predict", "lab/predict/calibrate", "lab/predict/local", "lab/predict/machine", "lab/report", "lab/simulate", "lab/size", "lab/verify", "load", "plan", "self", "terminal", "tiny"},
	"command/pull":        {"ckpt", "command", "hub", "load", "terminal"},
	"command/perplexity":  {"command", "load", "plan", "runner", "terminal"},
	"command/synth":       {"command", "synth", "terminal"},
	"command/store":       {"command", "store", "terminal"},
	"command/tools":       {"command", "config", "terminal", "tools/registry"},
	"command/commandtest": {"soak", "synth"},
	"cmd/ossian":          {"command", "command/bench", "command/check", "command/eval", "command/inspect", "command/lab", "command/perplexity", "command/pull", "command/run", "command/serve", "command/store", "command/synth", "command/tools", "self"},
}

// commands may use what reads a command line; each is a package of its own.
var commands = []string{"cmd/ossian", "command", "command/bench", "command/check", "command/commandtest", "command/eval", "command/inspect", "command/lab", "command/perplexity", "command/pull", "command/run", "command/serve", "command/store", "command/synth", "command/tools"}

// thirdParty says which package hides which outside module.
var thirdParty = map[string][]string{
	"golang.org/x/sys":                     {"api", "ckpt", "cpu", "cpu/kern", "hub", "packed", "plan", "server", "store/disk", "tensor", "bench", "command/commandtest", "terminal", "cuda/driver/libcuda", "self", "tools/python/sandbox"},
	"go.etcd.io/bbolt":                     {"store"},
	"golang.org/x/net":                     {"tools/browser/source", "tools/browser/page"},
	"golang.org/x/text":                    {"token", "tools/browser/source"},
	"gonum.org/v1/gonum":                   {"lab/predict/calibrate", "lab/predict/local", "lab/race", "stat"},
	"gonum.org/v1/plot":                    {"bench/chart"},
	"codeberg.org/go-fonts":                {"bench/chart"},
	"golang.org/x/image":                   {"bench/chart"},
	"github.com/prometheus":                {"metrics"},
	"go.yaml.in/yaml":                      {"config", "eval", "eval/task", "lab/planfile"},
	"github.com/go-zeromq/zmq4":            {"kvevents"},
	"github.com/spf13/cobra":               commands,
	"github.com/spf13/pflag":               {"command", "command/bench", "command/run", "load"},
	"charm.land/bubbletea/v2":              {"terminal"},
	"charm.land/bubbles/v2":                {"terminal"},
	"golang.org/x/term":                    {"terminal"},
	"github.com/charmbracelet/ultraviolet": {"terminal"},
	"github.com/ebitengine/purego":         {"cuda/driver/libcuda"}, // with the build tag cuda
	"github.com/modelcontextprotocol":      {"tools/mcp", "tools/mcp/mcptest"},
	"github.com/tetratelabs/wazero":        {"tools/python/wasm"},
}

// pure packages decide; they do no input or output, take no locks, and get time
// and chance as arguments.
var pure = []string{"sample", "draft", "runner", "kv", "sched", "lab/race"}

var impure = []string{"os", "net", "sync", "log/slog", "math/rand", "math/rand/v2"}

// headless packages know no network: their work is the same however a request came.
var headless = []string{"generate", "engine", "host", "chat", "grammar"}

// A source is one parsed non-generated Go file.
type source struct {
	pkg, path string // "cpu/kern", "cpu/kern/pool.go" (below internal); "cmd/ossian"
	file      *ast.File
	lines     int
	test      bool
	generated bool
}

var fset = token.NewFileSet()

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	for _, root := range []string{".", "../cmd"} {
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name := d.Name()
			if d.IsDir() && (name == "testdata" || strings.HasPrefix(name, "_")) {
				return filepath.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(name, ".go") {
				return nil
			}
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			f, err := parser.ParseFile(fset, p, text, parser.ParseComments)
			if err != nil {
				return err
			}
			slash := strings.TrimPrefix(filepath.ToSlash(p), "../")
			out = append(out, source{pkg: path.Dir(slash), path: slash, file: f, lines: strings.Count(string(text), "\n"),
				test: strings.HasSuffix(name, "_test.go"), generated: ast.IsGenerated(f)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if s.pkg == "." {
			continue
		}
		seen[s.pkg] = true
		allowed, known := imports[s.pkg]
		if !known {
			t.Errorf("%s: package %s is not in the import table", s.path, s.pkg)
			continue
		}
		for _, spec := range s.file.Imports {
			checkImport(t, s, strings.Trim(spec.Path.Value, `"`), allowed)
		}
	}
	for pkg := range imports {
		if !seen[pkg] {
			t.Errorf("import table names package %s, which does not exist", pkg)
		}
	}
}

// The table in ARCHITECTURE.md names what imports names, apart from the leaves.
func TestArchitecture(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)`.* \\| ([^|]+) \\|$").FindAllStringSubmatch(string(text), -1)
	name := regexp.MustCompile("`([a-z0-9/]+)`")
	seen := map[string]bool{}
	for _, row := range rows {
		pkg, cell := row[1], row[2]
		seen[pkg] = true
		if cell == "all" || cell == "many" {
			continue // a row for everything would say nothing
		}
		var got, want []string
		for _, m := range name.FindAllStringSubmatch(cell, -1) {
			got = append(got, m[1])
		}
		for _, p := range imports[pkg] {
			if slices.Contains(leaves, pkg) || !slices.Contains(leaves, p) {
				want = append(want, p)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("ARCHITECTURE.md: %s imports %v, in this test %v", pkg, got, want)
		}
	}
	for pkg := range imports {
		if !seen[pkg] {
			t.Errorf("ARCHITECTURE.md has no row for %s", pkg)
		}
	}
	for _, m := range regexp.MustCompile("`(?:internal/)?([a-z0-9_/]+/[a-z0-9_]+\\.go|[a-z_]+_test\\.go)`").FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("ARCHITECTURE.md names internal/%s: %v", m[1], err)
		}
	}
}

func checkImport(t *testing.T, s source, imp string, allowed []string) {
	t.Helper()
	if sub, ok := strings.CutPrefix(imp, "ossian/internal/"); ok {
		if s.test || (slices.Contains(leaves, sub) && !slices.Contains(leaves, s.pkg)) || slices.Contains(allowed, sub) {
			return
		}
		t.Errorf("%s imports %s; %s may import %v and the leaves %v", s.path, sub, s.pkg, allowed, leaves)
		return
	}
	if s.test {
		return
	}
	if slices.Contains(headless, s.pkg) && (imp == "net" || strings.HasPrefix(imp, "net/http")) {
		t.Errorf("%s imports %s; %s knows no network", s.path, imp, s.pkg)
	}
	if slices.Contains(pure, s.pkg) && slices.Contains(impure, imp) {
		t.Errorf("%s imports %s; %s is a pure package", s.path, imp, s.pkg)
	}
	if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
		return // standard library
	}
	for module, users := range thirdParty {
		if strings.HasPrefix(imp, module) {
			if !slices.Contains(users, s.pkg) {
				t.Errorf("%s imports %s, which only %v may", s.path, imp, users)
			}
			return
		}
	}
	t.Errorf("%s imports %s, a module without a row in the table", s.path, imp)
}

// callers of the wall clock are kept out of the pure packages.
func TestPureHaveNoClock(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !slices.Contains(pure, s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Sleep", "After"}, sel.Sel.Name) {
				t.Errorf("%s calls time.%s; time is an argument there", fset.Position(n.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
}

// Budgets of ARCHITECTURE.md.
const (
	maxFile     = 600
	maxFunction = 60
	maxPackage  = 4000
)

// larger lists packages over maxPackage; RATIONALE.md says why.
var larger = map[string]int{"jinja": 5200, "grammar": 8200}

func TestBudgets(t *testing.T) {
	perPackage := map[string]int{}
	for _, s := range sources(t) {
		if s.test || s.generated {
			continue
		}
		perPackage[s.pkg] += s.lines
		if s.lines > maxFile {
			t.Errorf("%s has %d lines, budget %d", s.path, s.lines, maxFile)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil || isSwitch(f.Body) {
				continue
			}
			if n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; n > maxFunction {
				t.Errorf("%s: %s has %d lines, budget %d", fset.Position(f.Pos()), f.Name.Name, n, maxFunction)
			}
		}
	}
	for pkg, n := range perPackage {
		if limit := max(maxPackage, larger[pkg]); n > limit {
			t.Errorf("package %s has %d lines, budget %d", pkg, n, limit)
		}
	}
}

// isSwitch reports whether a function is one big switch, which the budget excepts.
func isSwitch(b *ast.BlockStmt) bool {
	for _, st := range b.List {
		switch st.(type) {
		case *ast.SwitchStmt, *ast.TypeSwitchStmt:
			whole := fset.Position(b.End()).Line - fset.Position(b.Pos()).Line
			if n := fset.Position(st.End()).Line - fset.Position(st.Pos()).Line; 10*n > 7*whole {
				return true
			}
		}
	}
	return false
}

var leftover = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)

func TestComments(t *testing.T) {
	documented := map[string]bool{}
	packages := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		packages[s.pkg] = true
		if s.file.Doc != nil {
			documented[s.pkg] = true
		}
		if s.generated {
			continue
		}
		for _, d := range s.file.Decls {
			if name, pos, bare := undocumented(d); bare {
				t.Errorf("%s: exported %s has no comment", fset.Position(pos), name)
			}
		}
		for _, g := range s.file.Comments {
			for _, c := range g.List {
				if mark := leftover.FindString(c.Text); mark != "" {
					t.Errorf("%s: %s left in the code", fset.Position(c.Pos()), mark)
				}
			}
		}
	}
	for pkg := range packages {
		if !documented[pkg] {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

// undocumented returns the first exported name of d that no comment covers. A
// comment on a group covers its members, and so does one at the end of the line.
func undocumented(d ast.Decl) (string, token.Pos, bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		exported := d.Name.IsExported()
		if d.Recv != nil && len(d.Recv.List) == 1 {
			exported = exported && ast.IsExported(receiver(d.Recv.List[0].Type))
		}
		known := d.Name.Name == "Error" || d.Name.Name == "String" || d.Name.Name == "Unwrap" // what they do is settled
		return d.Name.Name, d.Pos(), exported && d.Doc == nil && !known
	case *ast.GenDecl:
		if d.Doc != nil {
			return "", 0, false
		}
		for _, sp := range d.Specs {
			switch sp := sp.(type) {
			case *ast.TypeSpec:
				if sp.Name.IsExported() && sp.Doc == nil && sp.Comment == nil {
					return sp.Name.Name, sp.Pos(), true
				}
			case *ast.ValueSpec:
				if sp.Names[0].IsExported() && sp.Doc == nil && sp.Comment == nil && d.Tok == token.VAR {
					return sp.Names[0].Name, sp.Pos(), true
				}
			}
		}
	}
	return "", 0, false
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// TestSEC14Modules counts what the product asks for, 25 modules at most, and what these
// bring along: 56 in all, the figure of the dependency list as a whole. Each is what its
// authors published under that version, by a checksum: none is replaced by other source.
func TestSEC14Modules(t *testing.T) {
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	direct, all := 0, 0
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 0 && slices.Contains([]string{"replace", "exclude", "tool", "ignore"}, words[0]) {
			t.Errorf("go.mod has %q", line)
		}
		if !strings.HasPrefix(line, "\t") || len(words) < 2 {
			continue
		}
		all++
		if !strings.Contains(line, "// indirect") {
			direct++
		}
		if !strings.Contains("\n"+string(sums), "\n"+words[0]+" "+words[1]+" h1:") {
			t.Errorf("go.sum has no checksum of %s %s", words[0], words[1])
		}
	}
	t.Logf("SEC-14: %d modules required, %d with theirs, each with its checksum, 0 replaced", direct, all)
	if direct == 0 || direct > 25 || all > 56 {
		t.Errorf("go.mod requires %d modules, %d with theirs; between 1 and 25, and at most 56 expected", direct, all)
	}
}

// TestSEC14KnownDefects: a module in which defects were known is not required in a version
// that has them. make vuln asks for those that are known today.
func TestSEC14KnownDefects(t *testing.T) {
	sound := map[string]string{"golang.org/x/image": "v0.43.0"} // GO-2026-4815, -4962, -5032, -5062, -5066
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := func(text string) (numbers [3]int) {
		if _, err := fmt.Sscanf(text, "v%d.%d.%d", &numbers[0], &numbers[1], &numbers[2]); err != nil {
			t.Fatalf("version %q: %v", text, err)
		}
		return numbers
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || sound[words[0]] == "" {
			continue
		}
		required, least := version(words[1]), version(sound[words[0]])
		if slices.Compare(required[:], least[:]) < 0 {
			t.Errorf("%s %s has known defects, %s has not", words[0], words[1], sound[words[0]])
		}
	}
}

// Interface budgets: a seam that grows is a design change.
func TestInterfaceBudgets(t *testing.T) {
	budget := map[string]int{"runner.Runner": 4, "model.Device": 20}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			ts, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			it, ok := ts.Type.(*ast.InterfaceType)
			if !ok {
				return true
			}
			name := path.Base(s.pkg) + "." + ts.Name.Name
			limit, own := budget[name]
			if !own {
				limit = 5
			}
			if it.Methods.NumFields() > limit {
				t.Errorf("%s: interface %s has %d methods, budget %s", fset.Position(ts.Pos()), name, it.Methods.NumFields(), strconv.Itoa(limit))
			}
			return true
		})
	}
}

// What a reader would have to work out, the code says: which of && and || binds first, and
// what a mutex guards.
func TestReading(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.generated {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.LOR && (conjunction(n.X) || conjunction(n.Y)) {
					t.Errorf("%s: && beside || without parentheses", fset.Position(n.Pos()))
				}
			case *ast.StructType:
				for _, field := range n.Fields.List {
					if kind, ok := field.Type.(*ast.SelectorExpr); ok && strings.HasSuffix(kind.Sel.Name, "Mutex") && field.Doc == nil && field.Comment == nil {
						t.Errorf("%s: a mutex that does not say what it guards", fset.Position(field.Pos()))
					}
				}
			}
			return true
		})
	}
}

// conjunction reports whether an expression is a && b, without parentheses around it.
func conjunction(e ast.Expr) bool {
	both, ok := e.(*ast.BinaryExpr)
	return ok && both.Op == token.LAND
}

// variant ends the name of a file that belongs to a platform.
var variant = regexp.MustCompile(`(_(linux|nonlinux|unix|darwin|windows|amd64|arm64|other))+$`)

// ARCHITECTURE.md says of every file what it decides, so that a newcomer's first guess is right.
func TestFileMap(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Which file\n")
	section, _, ended := strings.Cut(section, "\n## ")
	if !found || !ended {
		t.Fatal("ARCHITECTURE.md has no chapter Which file")
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(section, -1) {
		named[m[1]] = true
	}
	tests := []string{"chat/formattest", "runner/runnertest", "model/devicetest", "model/modeltest", "command/commandtest", "e2e"}
	for _, s := range sources(t) {
		if s.test || s.generated || s.pkg == "." || strings.HasPrefix(s.pkg, "cmd/") || slices.Contains(tests, s.pkg) {
			continue
		}
		name := variant.ReplaceAllString(strings.TrimSuffix(path.Base(s.path), ".go"), "")
		if !named[name] && name != path.Base(s.pkg) {
			t.Errorf("ARCHITECTURE.md, Which file: nothing is said of internal/%s", s.path)
		}
	}
}
