// Command mcp checks a server of the Model Context Protocol with Ossian's client, and prints a row
// of a table.
//
//	go run ./_tools/mcp NAME ADDRESS plain|browser|python
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"ossian/internal/limits"
	"ossian/internal/tools"
	"ossian/internal/tools/mcp"
)

// columns are the checks, in the order of the table.
var columns = []string{"list", "call", "failure", "misuse", "progress", "apart"}

func main() {
	if len(os.Args) == 1 {
		fmt.Println("| server | spoken | " + strings.Join(columns, " | ") + " | first list | conversation of one call |\n|" + strings.Repeat("---|", len(columns)+4))
		return
	}
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: mcp [NAME ADDRESS plain|browser|python]")
		os.Exit(2)
	}
	if !row(os.Args[1], os.Args[2], os.Args[3]) {
		os.Exit(1)
	}
}

// current are the limits in force.
var current atomic.Pointer[limits.Set]

func init() { current.Store(limits.Defaults()) }

// hurry sets a time for calls that is shorter than the tool steps takes.
func hurry() {
	set := limits.Defaults()
	set[limits.ToolTime] = 600
	current.Store(set)
}

// row runs the checks of a kind of server and reports whether all hold.
func row(name, address, kind string) bool {
	began := time.Now()
	server, err := mcp.New(mcp.Options{Address: address, Stdio: true, Limits: current.Load})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return false
	}
	defer server.Close()
	var space tools.Namespace
	for range 10 {
		if space, err = server.Namespace(context.Background()); err == nil {
			break
		}
	}
	listed := time.Since(began)
	if err != nil {
		fmt.Printf("| %s | %v |\n", name, err)
		return false
	}
	checks := map[string]func(*mcp.Server, tools.Namespace) map[string]string{"plain": plain, "browser": browser, "python": python}
	results, good := checks[kind](server, space), true
	cells := make([]string, len(columns))
	for i, column := range columns {
		cells[i] = "–"
		if why, checked := results[column]; checked && why == "" {
			cells[i] = "pass"
		} else if checked {
			cells[i], good = "FAIL", false
			fmt.Fprintf(os.Stderr, "%s: %s: %s\n", name, column, why)
		}
	}
	took := time.Now()
	session := server.Open(tools.Chain{ID: "timed"})
	session.Call(context.Background(), tools.Call{Tool: firstTool(space), Arguments: "{}"})
	session.Close()
	fmt.Printf("| %s | %s | %s | %.0f ms | %.0f ms |\n", name, server.Status().Backend, strings.Join(cells, " | "), listed.Seconds()*1e3, time.Since(took).Seconds()*1e3)
	return good
}

func firstTool(space tools.Namespace) string {
	if len(space.Tools) == 0 {
		return ""
	}
	return space.Tools[0].Name
}

// want says what is wrong with a result, "" = nothing is.
func want(got tools.Result, outcome tools.Outcome, texts ...string) string {
	if got.Outcome != outcome {
		return fmt.Sprintf("%v %q, not %v", got.Outcome, got.Text, outcome)
	}
	for _, text := range texts {
		if !strings.Contains(got.Text, text) {
			return fmt.Sprintf("%q without %q", got.Text, text)
		}
	}
	return ""
}

func call(session tools.Session, tool, arguments string) tools.Result {
	return session.Call(context.Background(), tools.Call{Tool: tool, Arguments: arguments})
}

// plain checks the servers of this folder.
func plain(server *mcp.Server, space tools.Namespace) map[string]string {
	session := server.Open(tools.Chain{ID: "one"})
	defer session.Close()
	results := map[string]string{
		"call":    want(call(session, "add", `{"a": 2, "b": 3}`), tools.Done, "5"),
		"failure": want(call(session, "fail", ""), tools.Failed, "no such city"),
		"list":    "no tool find whose limit is a list of types",
	}
	if got := call(session, "find", `{"text": "ä"}`); want(got, tools.Done) != "" || got.Text != "ä None" {
		results["call"] = fmt.Sprintf("find: %v %q", got.Outcome, got.Text)
	}
	for _, tool := range space.Tools {
		if tool.Name == "find" && strings.Contains(string(tool.Parameters), `"limit":{"type":["`) && space.Name == "plain" && space.Description == "Plain tools." && len(space.Tools) == 4 {
			results["list"] = ""
		}
	}
	if got := call(session, "nothing", "{}"); got.Outcome == tools.Done || got.Failure == nil {
		results["misuse"] = fmt.Sprintf("an unknown tool: %+v", got)
	} else {
		results["misuse"] = ""
	}
	hurry()
	defer current.Store(limits.Defaults())
	if got := call(session, "steps", "{}"); got.Outcome != tools.TimedOut { // servers that answer with JSON have no way to tell
		results["progress"] = want(got, tools.Done, "at last")
	}
	return results
}

// browser checks the reference's browser: its functions, and that conversations are apart.
func browser(server *mcp.Server, space tools.Namespace) map[string]string {
	one, two := server.Open(tools.Chain{ID: "one"}), server.Open(tools.Chain{ID: "two"})
	defer one.Close()
	defer two.Close()
	results := map[string]string{"list": "", "call": want(call(one, "search", `{"query": "pages"}`), tools.Done, "[0] pages", "【0†A†example.com】")}
	if space.Name != "browser" || len(space.Tools) != 3 || !strings.HasSuffix(space.Description, "sources=web") {
		results["list"] = fmt.Sprintf("%s %q %d", space.Name, space.Description, len(space.Tools))
	}
	if why := want(call(one, "open", `{"id": 0}`), tools.Done, "[1] A", "First page."); results["call"] == "" {
		results["call"] = why
	}
	results["failure"] = want(call(one, "find", `{"pattern": "x", "cursor": 9}`), tools.Done, "out of range")
	results["misuse"] = want(call(one, "open", `{"cursor": "x"}`), tools.Failed, "cursor")
	results["apart"] = want(call(two, "open", `{"cursor": 0}`), tools.Done, "No pages to access!")
	return results
}

// python checks the reference's interpreter: one that is called itself, with code.
func python(server *mcp.Server, space tools.Namespace) map[string]string {
	session := server.Open(tools.Chain{ID: "one"})
	defer session.Close()
	results := map[string]string{"list": "", "call": want(call(session, "", "print(6 * 7)"), tools.Done, "42")}
	if space.Name != "python" || len(space.Tools) != 0 || len(server.Listed()) != 1 {
		results["list"] = fmt.Sprintf("%s with %d tools", space.Name, len(space.Tools))
	}
	results["failure"] = want(call(session, "", "1/0"), tools.Done, "ZeroDivisionError")
	return results
}
