package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The image of the program itself, run by what the machine has for it: as user 65532, on a root
// that cannot be written to, without any capability, it answers and drains.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program; run without -short")
	}
	if _, known := machines[runtime.GOARCH]; !known || runtime.GOOS != "linux" {
		t.Skip("there is no image for this machine")
	}
	dir := filepath.Join(t.TempDir(), "image")
	digest, err := commit().write(dir, []string{"linux/" + runtime.GOARCH + "=" + program(t, "../..", "./cmd/ossian", runtime.GOARCH)})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("skopeo", func(t *testing.T) {
		need(t, "skopeo")
		copied := filepath.Join(t.TempDir(), "copied")
		command(t, "skopeo", "copy", "--quiet", "--insecure-policy", "--preserve-digests", "oci:"+dir+":v1.2.3-"+runtime.GOARCH, "oci:"+copied+":v1.2.3")
		image := blob(t, dir, digest).Manifests[0].Digest
		if index, err := os.ReadFile(filepath.Join(copied, "index.json")); err != nil || !bytes.Contains(index, []byte(image)) {
			t.Errorf("the copy's index does not name %s: %s, %v", image, index, err)
		}
	})
	t.Run("runc", func(t *testing.T) {
		need(t, "umoci", "runc")
		if os.Getuid() != 0 {
			t.Skip("runc is asked for the user 65532, which only root may give")
		}
		bundle := filepath.Join(t.TempDir(), "bundle")
		command(t, "umoci", "unpack", "--image", dir+":v1.2.3-"+runtime.GOARCH, bundle)
		port := freePort(t)
		harden(t, filepath.Join(bundle, "config.json"), port)
		state := t.TempDir()
		container := exec.Command("runc", "--root", state, "run", "--bundle", bundle, "ossian-image-test")
		stop := func() { command(t, "runc", "--root", state, "kill", "ossian-image-test", "TERM") }
		answersAndDrains(t, container, port, stop)
		endsAtOnce(t, exec.Command("runc", "--root", state, "run", "--bundle", bundle, "ossian-image-test"), port, stop)
	})
	for name, test := range map[string]struct{ args, says []string }{
		"bubblewrap": {[]string{"--uid", "65532", "--gid", "65532", "--setenv", "HOME", "/home/ossian"}, []string{"mkdir /home/ossian"}},
		// A user that the image does not know, as some clusters choose one, no home, no /tmp.
		"bare": {[]string{"--uid", "1000620000", "--gid", "0"}, []string{"no home directory is set"}},
	} {
		t.Run(name, func(t *testing.T) {
			need(t, "bwrap", "tar")
			root := t.TempDir()
			command(t, "tar", "-xzf", filepath.Join(dir, "layer-"+runtime.GOARCH+".tar.gz"), "-C", root)
			for _, place := range []string{"proc", "dev"} { // others put these there themselves
				if err := os.Mkdir(filepath.Join(root, place), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if name == "bare" {
				if err := os.Remove(filepath.Join(root, "tmp")); err != nil {
					t.Fatal(err)
				}
			}
			port := freePort(t)
			container, stop := enclose(t, root, append(test.args, "--setenv", "container", "oci"), port)
			log := answersAndDrains(t, container, port, stop)
			for _, said := range test.says {
				if !strings.Contains(log, said) {
					t.Errorf("the log does not say %q", said)
				}
			}
		})
	}
}

// enclose returns bubblewrap with the image's program on a root that cannot be written to, and
// what tells the program to end.
func enclose(t *testing.T, root string, args []string, port string) (container *exec.Cmd, stop func()) {
	t.Helper()
	all := append([]string{"--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--unshare-all", "--share-net", "--cap-drop", "ALL",
		"--die-with-parent", "--info-fd", "3", "--clearenv", "--chdir", "/"}, args...)
	config := commit().config()
	all = append(append(append(all, config.Entrypoint...), config.Cmd...), "--port", port)
	told, info, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { told.Close() })
	container = exec.Command("bwrap", all...)
	container.ExtraFiles = []*os.File{info}
	return container, func() {
		info.Close()
		var child struct {
			Pid int `json:"child-pid"`
		}
		if err := json.NewDecoder(told).Decode(&child); err != nil {
			t.Fatal(err)
		}
		signalChildren(t, child.Pid)
	}
}

// need skips a test unless the machine has programs.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("there is no %s; Debian has packages umoci, skopeo, runc and bubblewrap", name)
		}
	}
}

func command(t *testing.T, args ...string) {
	t.Helper()
	if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, text)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// harden takes from a bundle's configuration what deploy/base takes from a pod, and lets it use
// the network of this machine, on which the test can ask it.
func harden(t *testing.T, path, port string) {
	t.Helper()
	text, err := os.ReadFile(path)
	var config map[string]any
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	process, linux := config["process"].(map[string]any), config["linux"].(map[string]any)
	if user := fmt.Sprint(process["user"]); user != "map[gid:65532 uid:65532]" {
		t.Errorf("the image's user is %s", user)
	}
	config["root"].(map[string]any)["readonly"] = true
	process["terminal"], process["noNewPrivileges"], process["capabilities"] = false, true, map[string]any{}
	process["args"] = append(process["args"].([]any), "--port", port)
	var namespaces []any
	for _, namespace := range linux["namespaces"].([]any) {
		if namespace.(map[string]any)["type"] != "network" {
			namespaces = append(namespaces, namespace)
		}
	}
	linux["namespaces"] = namespaces
	if text, err = json.Marshal(config); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// signalChildren sends SIGTERM to what the first process of a container has started.
func signalChildren(t *testing.T, first int) {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", first))
	if err != nil {
		t.Fatal(err)
	}
	for word := range strings.FieldsSeq(string(children)) {
		var pid int
		if _, err := fmt.Sscan(word, &pid); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
}

// start starts a container. text is what it has written, and what it wrote is shown where the test
// fails.
func start(t *testing.T, container *exec.Cmd) (ended <-chan error, text func() string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	container.Stdout, container.Stderr = log, log
	if err := container.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- container.Wait() }()
	text = func() string {
		written, err := os.ReadFile(log.Name())
		if err != nil {
			t.Error(err)
		}
		return string(written)
	}
	t.Cleanup(func() {
		_ = container.Process.Kill()
		if t.Failed() {
			t.Log(text())
		}
	})
	return done, text
}

// long is the request of an answer that takes its time.
const long = `{"messages":[{"role":"user","content":"Count."}],"stream":true,"ignore_eos":true,"n":%d,"max_tokens":%d}`

// answersAndDrains starts a container, asks it, and tells it to end while it answers. It returns
// what the container wrote.
func answersAndDrains(t *testing.T, container *exec.Cmd, port string, stop func()) string {
	t.Helper()
	ended, text := start(t, container)
	address := "http://127.0.0.1:" + port
	waitHealthy(t, address, ended)
	if answer := ask(t, address, `{"messages":[{"role":"user","content":"12+30"}],"temperature":0}`); !strings.Contains(answer, "42") {
		t.Errorf("12+30: %s", answer)
	}
	// An answer that has begun ends as it would have, whatever the server was told meanwhile.
	reply := post(t, address, fmt.Sprintf(long, 1, 400))
	defer reply.Body.Close()
	lines := bufio.NewReader(reply.Body)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	stop()
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") || strings.Contains(string(rest), `"error"`) {
		t.Errorf("the answer was cut: %v, …%.300s", err, rest[max(0, len(rest)-300):])
	}
	if err := <-ended; err != nil {
		t.Errorf("the container ended with %v", err)
	}
	for _, said := range []string{"draining", "responses are kept in memory only", "nobody outside this container reaches it"} {
		if !strings.Contains(text(), said) {
			t.Errorf("the log does not say %q", said)
		}
	}
	return text()
}

// endsAtOnce tells a container to end twice while it answers: the second time it does, with the
// status of a process that the signal has ended, although nothing ends the first process of a
// container that does not end itself.
func endsAtOnce(t *testing.T, container *exec.Cmd, port string, stop func()) {
	t.Helper()
	ended, text := start(t, container)
	address := "http://127.0.0.1:" + port
	waitHealthy(t, address, ended)
	reply := post(t, address, fmt.Sprintf(long, 64, 3900))
	defer reply.Body.Close()
	if _, err := bufio.NewReader(reply.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	stop()
	for !strings.Contains(text(), "SIGTERM ends at once") {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	err := <-ended
	if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != 143 {
		t.Errorf("ended with %v, status 143 expected", err)
	}
}

// waitHealthy returns when a request would be answered.
func waitHealthy(t *testing.T, address string, ended <-chan error) {
	t.Helper()
	for {
		select {
		case err := <-ended:
			t.Fatalf("the container ended before it was healthy: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		if reply, err := http.Get(address + "/health"); err == nil {
			reply.Body.Close()
			if reply.StatusCode == http.StatusOK {
				return
			}
		}
	}
}

func post(t *testing.T, address, body string) *http.Response {
	t.Helper()
	reply, err := http.Post(address+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func ask(t *testing.T, address, body string) string {
	t.Helper()
	reply := post(t, address, body)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Errorf("%s: %d %s %v", body, reply.StatusCode, text, err)
	}
	return string(text)
}
