//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hangs serves MCP on standard input and output: a shop whose price never comes. It tells in a file
// of its folder that it was asked, and that it has ended.
func hangs(dir string) {
	note := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			panic(err)
		}
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var message struct {
			ID     *json.RawMessage
			Method string
			Params struct {
				Version string `json:"protocolVersion"`
			}
		}
		if json.Unmarshal(lines.Bytes(), &message) != nil || message.ID == nil {
			continue
		}
		reply := `"error":{"code":-32601,"message":"unknown method"}`
		switch message.Method {
		case "initialize":
			reply = fmt.Sprintf(`"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"shop","version":"1"}}`, message.Params.Version)
		case "tools/list":
			reply = `"result":{"tools":[{"name":"price","description":"The price of an instrument.","inputSchema":{"type":"object","required":["item"],"properties":{"item":{"type":"string","enum":["harp","flute"]}}}}]}`
		case "tools/call":
			note("asked")
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", *message.ID, reply)
	}
	note("ended")
}

// TestToolTerminated: a server that gets SIGTERM while a tool runs waits for its drain time, tells
// its client that the answer has failed, and leaves nothing running.
func TestToolTerminated(t *testing.T) {
	dir := t.TempDir()
	p := serveProcess(t, "--threads", "1", "--drain-timeout", "1s", "--tool-server", "stdio:"+os.Args[0]+" "+hangsArgument+" "+dir)
	p.ready()
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	read := make(chan string, 1)
	go func() {
		res, err := http.Post(p.url+"/v1/responses", "application/json", strings.NewReader(`{"input":"What is the price of a harp?","temperature":0,"stream":true,"tools":[{"type":"mcp","server_label":"shop"}]}`))
		if err != nil {
			read <- err.Error()
			return
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		read <- fmt.Sprint(string(text), err)
	}()
	p.eventually(time.Minute, "the tool is asked", func() bool { return there("asked") })
	p.quit(p.terminate)
	if text := <-read; !strings.Contains(text, "event: response.failed") || !strings.HasSuffix(text, "<nil>") {
		t.Errorf("the stream ends with\n%s", text)
	}
	for end := time.Now().Add(time.Minute); !there("ended"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the command goes on")
		}
	}
	if err := syscall.Kill(p.Process.Pid, 0); err == nil {
		t.Error("the server goes on")
	}
}
