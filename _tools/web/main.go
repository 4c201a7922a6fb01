// Command web bundles the page of ossian serve from src into internal/web/dist: scripts and
// styles minified, named by their content and packed by gzip, a list of them beside. It needs
// the npm packages of package-lock.json; what it writes is committed, so that building Ossian
// needs none of this.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// A file is one of the page: where it is under dist without .gz, and what it is for.
type file struct {
	Name    string `json:"name"`
	Size    int    `json:"size"`   // bytes unpacked
	Packed  int    `json:"packed"` // bytes by gzip
	First   bool   `json:"first"`  // the first view needs it
	content []byte // unpacked
}

func main() {
	dist := flag.String("dist", "../../internal/web/dist", "folder of what is committed")
	check := flag.Bool("check", false, "write nothing, and fail where what is committed is something else")
	test := flag.Bool("test", false, "run the tests of the sources by node --test")
	flag.Parse()
	if err := run(*dist, *check, *test); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

func run(dist string, check, test bool) error {
	if test {
		return runTests()
	}
	files, err := bundle()
	if err != nil {
		return err
	}
	if check {
		return compare(dist, files)
	}
	return write(dist, files)
}

// options are those of every bundle.
func options(entries ...api.EntryPoint) api.BuildOptions {
	return api.BuildOptions{
		EntryPointsAdvanced: entries, Bundle: true, Format: api.FormatESModule, Target: api.ES2022,
		JSX: api.JSXAutomatic, JSXImportSource: "preact", LogLevel: api.LogLevelWarning,
		LegalComments: api.LegalCommentsNone, Charset: api.CharsetUTF8, Loader: map[string]api.Loader{".woff2": api.LoaderFile},
	}
}

// bundle makes all files of the page but writes none.
func bundle() ([]file, error) {
	build := options(api.EntryPoint{InputPath: "src/main.tsx", OutputPath: "page"}, api.EntryPoint{InputPath: "src/style.css", OutputPath: "style"})
	build.Splitting, build.Metafile, build.Outdir = true, true, "ui"
	build.MinifyWhitespace, build.MinifyIdentifiers, build.MinifySyntax = true, true, true
	build.EntryNames, build.ChunkNames, build.AssetNames = "[name]-[hash]", "part-[hash]", "[name]-[hash]"
	licences, err := licenceTexts()
	if err != nil {
		return nil, err
	}
	texts := named("licences", ".txt", licences)
	build.Define = map[string]string{"LICENCES": `"/` + texts.Name + `"`}
	made := api.Build(build)
	if len(made.Errors) > 0 {
		return nil, errors.New("the sources cannot be bundled: see above")
	}
	files := []file{texts}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for _, out := range made.OutputFiles {
		name, err := filepath.Rel(here, out.Path)
		if err != nil {
			return nil, err
		}
		files = append(files, file{Name: filepath.ToSlash(name), content: out.Contents})
	}
	first, err := firstView(made.Metafile)
	if err != nil {
		return nil, err
	}
	page, err := document(files, first)
	if err != nil {
		return nil, err
	}
	files = append(files, page)
	for i := range files {
		f := &files[i]
		f.Size, f.Packed = len(f.content), len(pack(f.content))
		f.First = f.Name == page.Name || slices.Contains(first, f.Name)
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// named is a file under ui whose name holds the digest of its content.
func named(name, ext string, content []byte) file {
	sum := sha256.Sum256(content)
	return file{Name: "ui/" + name + "-" + strings.ToUpper(hex.EncodeToString(sum[:4])) + ext, content: content}
}

// firstView are the entry points and all that they import at once.
func firstView(metafile string) ([]string, error) {
	var meta struct {
		Outputs map[string]struct {
			EntryPoint string
			Imports    []struct{ Path, Kind string }
		}
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return nil, err
	}
	var first []string
	var add func(name string)
	add = func(name string) {
		if slices.Contains(first, name) {
			return
		}
		first = append(first, name)
		for _, imported := range meta.Outputs[name].Imports {
			if imported.Kind == "import-statement" {
				add(imported.Path)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(meta.Outputs)) {
		if entry := meta.Outputs[name].EntryPoint; entry == "src/main.tsx" || entry == "src/style.css" {
			add(name)
		}
	}
	return first, nil
}

// document is the page itself: the template with the names of script and style.
func document(files []file, first []string) (file, error) {
	text, err := os.ReadFile("src/index.html")
	if err != nil {
		return file{}, err
	}
	var preloads strings.Builder
	for _, name := range first {
		switch base := strings.TrimPrefix(name, "ui/"); {
		case strings.HasPrefix(base, "page-"):
			text = bytes.ReplaceAll(text, []byte("{{script}}"), []byte("/"+name))
		case strings.HasPrefix(base, "style-"):
			text = bytes.ReplaceAll(text, []byte("{{style}}"), []byte("/"+name))
		default:
			fmt.Fprintf(&preloads, "<link rel=\"modulepreload\" href=\"/%s\">\n", name)
		}
	}
	text = bytes.ReplaceAll(text, []byte("{{preloads}}\n"), []byte(preloads.String()))
	if bytes.Contains(text, []byte("{{")) {
		return file{}, fmt.Errorf("src/index.html has a place that nothing fills; first view: %s", first)
	}
	return file{Name: "index.html", content: text}, nil
}

// licenceTexts are those of all packages that are bundled and of the font, in one text.
func licenceTexts() ([]byte, error) {
	text, err := os.ReadFile("package.json")
	if err != nil {
		return nil, err
	}
	var described struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &described); err != nil {
		return nil, fmt.Errorf("package.json: %w", err)
	}
	var all bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(described.Dependencies)) {
		found, err := filepath.Glob("node_modules/" + name + "/LICEN[CS]E*")
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("no licence of %s under node_modules; npm ci --ignore-scripts puts it there (%v)", name, err)
		}
		licence, err := os.ReadFile(found[0])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&all, "%s %s\n\n%s\n\n\n", name, described.Dependencies[name], bytes.TrimSpace(bytes.ReplaceAll(licence, []byte("\r\n"), []byte("\n"))))
	}
	font, err := os.ReadFile("src/formulas.txt")
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&all, "dejavu-math-tex-gyre 2.37\n\n%s\n", bytes.TrimSpace(font))
	return all.Bytes(), nil
}

// pack packs a file; the same bytes always give the same.
func pack(content []byte) []byte {
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	_, _ = w.Write(content) // into memory
	_ = w.Close()
	return packed.Bytes()
}

// manifest is the list of files as it is committed.
func manifest(files []file) []byte {
	text, _ := json.MarshalIndent(files, "", "  ") // strings and numbers
	return append(text, '\n')
}

// write replaces what is in dist.
func write(dist string, files []file) error {
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dist, "ui"), 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dist, filepath.FromSlash(f.Name)+".gz"), pack(f.content), 0o644); err != nil {
			return err
		}
		fmt.Printf("%7d %6d %s\n", f.Size, f.Packed, f.Name)
	}
	return os.WriteFile(filepath.Join(dist, "manifest.json"), manifest(files), 0o644)
}

// compare fails where dist is not what the sources make. Contents are compared unpacked:
// another release of Go may pack the same bytes in another way.
func compare(dist string, files []file) error {
	expected := map[string][]byte{}
	for _, f := range files {
		expected[f.Name+".gz"] = f.content
	}
	var wrong []string
	err := filepath.WalkDir(dist, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dist, path)
		name = filepath.ToSlash(name)
		if name == "manifest.json" {
			return nil
		}
		content, known := expected[name]
		delete(expected, name)
		if is, err := unpacked(path); !known || err != nil || !bytes.Equal(is, content) {
			wrong = append(wrong, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	wrong = append(wrong, slices.Sorted(maps.Keys(expected))...)
	if len(wrong) > 0 {
		return fmt.Errorf("%s is not what the sources make: %s; make web writes it anew", dist, strings.Join(wrong, ", "))
	}
	return nil
}

// unpacked reads a packed file.
func unpacked(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// runTests bundles each test into a folder of its own and has node run them.
func runTests() error {
	sources, err := filepath.Glob("test/*.test.ts")
	if err != nil || len(sources) == 0 {
		return fmt.Errorf("no tests under test (%v)", err)
	}
	dir, err := os.MkdirTemp("", "page-tests")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var entries []api.EntryPoint
	for _, source := range sources {
		entries = append(entries, api.EntryPoint{InputPath: source, OutputPath: strings.TrimSuffix(filepath.Base(source), ".ts")})
	}
	build := options(entries...)
	build.Outdir, build.Write, build.Platform = dir, true, api.PlatformNode
	build.OutExtension = map[string]string{".js": ".mjs"}
	build.Define = map[string]string{"LICENCES": `""`}
	if made := api.Build(build); len(made.Errors) > 0 {
		return errors.New("the tests cannot be bundled: see above")
	}
	bundled, err := filepath.Glob(filepath.Join(dir, "*.mjs"))
	if err != nil {
		return err
	}
	cmd := exec.Command("node", append([]string{"--test", "--test-reporter=spec"}, bundled...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
