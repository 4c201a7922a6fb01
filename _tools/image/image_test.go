package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// commit is what the images of these tests are said to be made of.
func commit() *origin {
	return &origin{version: "v1.2.3", revision: "0123456789abcdef", source: "https://example.org/ossian", time: time.Date(2026, 11, 26, 6, 0, 0, 0, time.UTC), licence: "../../LICENSE"}
}

// program builds a package of a module for a processor of Linux.
func program(t *testing.T, dir, pkg, processor string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS=linux", "GOARCH="+processor)
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, text)
	}
	return out
}

// A manifest is what image-spec says that one is, as far as these tests read it.
type manifest struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Annotations map[string]string `json:"annotations"`
	Platform    struct{ OS, Architecture string }
	Config      *manifest   `json:"config"`
	Layers      []manifest  `json:"layers"`
	Manifests   []manifest  `json:"manifests"`
	OS          string      `json:"os"`
	Processor   string      `json:"architecture"`
	Created     time.Time   `json:"created"`
	Run         v1.Config   `json:"-"`
	History     []v1History `json:"history"`
}

type v1History struct{ Created time.Time }

// blob reads JSON of a layout by its digest.
func blob(t *testing.T, dir, digest string) (m manifest) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:")))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil {
		err = json.Unmarshal(text, &struct {
			Config *v1.Config `json:"config"`
		}{&m.Run})
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// An image is an index of one image for each processor, each of one layer, with the times of the
// commit, and the same programs give the same bytes again.
func TestImage(t *testing.T) {
	programs := []string{"linux/amd64=" + program(t, ".", ".", "amd64"), "linux/arm64=" + program(t, ".", ".", "arm64")}
	dir, again := filepath.Join(t.TempDir(), "image"), filepath.Join(t.TempDir(), "image")
	digest, err := commit().write(dir, programs)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one in the place of the first
		if second, err := commit().write(again, programs); err != nil || second != digest {
			t.Fatalf("built again: %s, %v; want %s", second, err, digest)
		}
	}
	same(t, dir, again)

	index := blob(t, dir, digest)
	if index.MediaType != "application/vnd.oci.image.index.v1+json" || len(index.Manifests) != 2 {
		t.Fatalf("index %+v", index)
	}
	for i, processor := range []string{"amd64", "arm64"} {
		described := index.Manifests[i]
		image := blob(t, dir, described.Digest)
		if described.Platform.OS != "linux" || described.Platform.Architecture != processor || len(image.Layers) != 1 {
			t.Errorf("%s: %+v with layers %+v", processor, described.Platform, image.Layers)
		}
		config := blob(t, dir, image.Config.Digest)
		if config.OS != "linux" || config.Processor != processor || !config.Created.Equal(commit().time) || len(config.History) != 1 || !config.History[0].Created.Equal(commit().time) {
			t.Errorf("config %+v", config)
		}
		if !reflect.DeepEqual(config.Run, commit().config()) {
			t.Errorf("config %+v, want %+v", config.Run, commit().config())
		}
		files := layer(t, filepath.Join(dir, "layer-"+processor+".tar.gz"))
		_, file, _ := strings.Cut(programs[i], "=")
		if want, err := os.ReadFile(file); err != nil || files["usr/local/bin/ossian"] != string(want) {
			t.Errorf("the layer for %s has not the program, %v", processor, err)
		}
		checkCertificates(t, files["etc/ssl/certs/ca-certificates.crt"])
	}
}

// same fails where two folders differ.
func same(t *testing.T, first, second string) {
	t.Helper()
	read := func(dir string) map[string]string {
		files := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			files[strings.TrimPrefix(path, dir)] = string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	a, b := read(first), read(second)
	if len(a) < 10 || !reflect.DeepEqual(a, b) {
		t.Errorf("two builds differ: %d and %d files", len(a), len(b))
	}
}

// layer reads a layer, checks whom its entries belong to, and returns its files.
func layer(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(unpacked); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(data)
		owner := map[string]int{"home/ossian/": user}[header.Name]
		if header.Uid != owner || header.Gid != owner || !header.ModTime.Equal(commit().time) || header.Mode&0o002 != 0 && header.Name != "tmp/" {
			t.Errorf("%s: %+v", header.Name, header)
		}
	}
	for _, name := range []string{"usr/local/bin/ossian", "etc/passwd", "home/ossian/", "models/", "tmp/", "etc/ssl/certs/ca-certificates.crt", "usr/share/licenses/ossian/LICENSE"} {
		if _, found := files[name]; !found {
			t.Errorf("the layer lacks %s", name)
		}
	}
	return files
}

// checkCertificates fails unless text is what a Go program takes for the system's authorities.
func checkCertificates(t *testing.T, text string) {
	t.Helper()
	count, now := 0, commit().time
	for rest := []byte(text); ; count++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !certificate.IsCA || certificate.NotBefore.After(now) {
			t.Errorf("certificate %d: %v", count, err)
		}
	}
	if count < 80 {
		t.Errorf("%d authorities", count)
	}
}

// What is no static program for the platform is refused, and so is a folder with other things.
func TestRefused(t *testing.T) {
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "letter"), []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	arm := program(t, ".", ".", "arm64")
	out := func() string { return filepath.Join(t.TempDir(), "image") }
	for name, test := range map[string]struct {
		out, says string
		programs  []string
	}{
		"no program":       {out(), "no program", nil},
		"another system":   {out(), "linux/PROCESSOR", []string{"darwin/arm64=" + arm}},
		"another machine":  {out(), "EM_AARCH64", []string{"linux/amd64=" + arm}},
		"no ELF":           {out(), "bad magic", []string{"linux/amd64=image_test.go"}},
		"a folder in use":  {foreign, "something else", []string{"linux/arm64=" + arm}},
		"a missing folder": {out(), "no such file", []string{"linux/arm64=" + arm + "/missing/x"}},
	} {
		if _, err := commit().write(test.out, test.programs); err == nil || !strings.Contains(err.Error(), test.says) && name != "a missing folder" {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
	if _, err := os.Stat(filepath.Join(foreign, "letter")); err != nil {
		t.Error(err)
	}
	shell, err := os.ReadFile("/bin/sh")
	if _, known := machines[runtime.GOARCH]; err != nil || !known {
		t.Skip("there is no shell to refuse")
	}
	if file, err := elf.Open("/bin/sh"); err == nil && file.Section(".interp") != nil {
		if err := static(shell, runtime.GOARCH); err == nil || !strings.Contains(err.Error(), "loader") {
			t.Errorf("a program with a loader: %v", err)
		}
	}
}

// deploy/Dockerfile says what the image is configured to, word by word.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	o := commit()
	got, want := dockerfile(t, string(text), map[string]string{"VERSION": o.version, "REVISION": o.revision, "SOURCE": o.source, "TARGETARCH": "amd64"}), o.config()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("deploy/Dockerfile\n%+v\nimage\n%+v", got, want)
	}
	for _, change := range [][2]string{{"65532:65532", "0:0"}, {`"serve"`, `"serve", "--insecure"`}, {"8000", "80"}, {"title=Ossian", "title=ossian"}, {"HOME=/home/ossian", "HOME=/"}} {
		changed := strings.ReplaceAll(string(text), change[0], change[1])
		if reflect.DeepEqual(dockerfile(t, changed, map[string]string{"VERSION": o.version, "REVISION": o.revision, "SOURCE": o.source}), want) {
			t.Errorf("%q in the place of %q: no difference found", change[1], change[0])
		}
	}
}

// dockerfile reads the instructions that deploy/Dockerfile uses; others fail.
func dockerfile(t *testing.T, text string, args map[string]string) v1.Config {
	t.Helper()
	config := v1.Config{ExposedPorts: map[string]struct{}{}, Labels: map[string]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		rest = os.Expand(rest, func(name string) string { return args[name] })
		switch key, value, _ := strings.Cut(rest, "="); word {
		case "FROM":
			if rest != "scratch" {
				t.Errorf("a base image: %s", rest)
			}
		case "ARG":
			if _, known := args[key]; !known && key != "TARGETARCH" {
				t.Errorf("argument %s", key)
			}
		case "ADD":
			if want := "layer-" + args["TARGETARCH"] + ".tar.gz /"; rest != want {
				t.Errorf("ADD %s, want %s", rest, want)
			}
		case "USER":
			config.User = rest
		case "ENV":
			config.Env = append(config.Env, rest)
		case "WORKDIR":
			config.WorkingDir = rest
		case "EXPOSE":
			config.ExposedPorts[rest] = struct{}{}
		case "LABEL":
			config.Labels[key] = value
		case "ENTRYPOINT", "CMD":
			into := map[string]*[]string{"ENTRYPOINT": &config.Entrypoint, "CMD": &config.Cmd}[word]
			if err := json.Unmarshal([]byte(rest), into); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		default:
			t.Errorf("instruction %s", fmt.Sprintf("%.40q", line))
		}
	}
	return config
}
