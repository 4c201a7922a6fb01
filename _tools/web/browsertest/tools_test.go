package browsertest

import (
	"fmt"
	"strings"
	"testing"
)

// Items as ossian's built-in tools make them.
var (
	searched = object{"type": "web_search_call", "id": "ws_1", "status": "completed", "action": object{"type": "search", "query": "load factor", "queries": []any{"load factor"},
		"sources": []any{object{"type": "url", "url": "https://go.dev/blog/maps", "title": "Go maps in action"}}}}
	computed = object{"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "container_id": "c", "code": "print(2**10)", "outputs": []any{object{"type": "logs", "logs": "1024\n"}}}
	listed   = object{"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "files", "tools": []any{object{"name": "read", "input_schema": object{}}, object{"name": "delete", "input_schema": object{}}}}
	called   = object{"type": "mcp_call", "id": "mcp_1", "status": "completed", "server_label": "files", "name": "read", "arguments": `{"path":"/a"}`, "output": "content of a", "error": nil}
	failed   = object{"type": "mcp_call", "id": "mcp_2", "status": "failed", "server_label": "files", "name": "read", "arguments": `{"path":"/b"}`, "output": nil, "error": object{"type": "mcp_tool_execution_error", "content": []any{object{"type": "text", "text": "no such file"}}}}
	foreign  = object{"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "call_1", "name": "weather", "arguments": `{"city":"Oslo"}`}
	wanted   = object{"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "files", "name": "delete", "arguments": `{"path":"/tmp/x","force":true}`}
)

func TestTools(t *testing.T) {
	s := newScript(t)
	next := make(chan bool)
	s.answers(func(_ int, _ object, e *events) {
		e.reasoning("I look it up.")
		at := e.begin(object{"type": "web_search_call", "id": "ws_1", "status": "in_progress", "action": object{"type": "search", "query": "load factor"}})
		e.send("response.web_search_call.searching", object{"output_index": at})
		<-next
		e.done(at, searched)
		at = e.begin(object{"type": "code_interpreter_call", "id": "ci_1", "status": "in_progress", "code": ""})
		e.send("response.code_interpreter_call_code.delta", object{"output_index": at, "delta": "print(2**10)"})
		e.send("response.code_interpreter_call.interpreting", object{"output_index": at})
		<-next
		e.done(at, computed)
		e.call(listed, "in_progress", "completed")
		e.call(called, "in_progress", "completed")
		e.call(failed, "in_progress", "failed")
		e.call(foreign)
		e.message("It is 0.75【1†L3】.", object{"type": "url_citation", "start_index": 10, "end_index": 16, "url": "https://go.dev/blog/maps", "title": "Go maps in action"})
		e.end("completed", nil)
	})
	b := open(t, s.URL, "")
	b.ask("What load factor is usual?")
	b.says("work-line", "Searching: load factor")
	next <- true
	b.says("work-line", "Running Python")
	next <- true
	b.state("completed")
	b.says("work-line", "Worked, 5 tool calls")
	b.click("work-line")
	for _, text := range []string{"I look it up.", "load factor", "Go maps in action", "print(2**10)", "1024", "Tools of files", "2 tools", "content of a", "no such file", "failed", "weather", "does not run functions"} {
		b.says("work", text)
	}
	b.says("sources", "Go maps in action (go.dev)")
	link := get[[]string](b, `(() => { const a = document.querySelector("[data-testid=sources] a"); return [a.href, a.rel]; })()`)
	if link[0] != "https://go.dev/blog/maps" || !strings.Contains(link[1], "noopener") || !strings.Contains(link[1], "noreferrer") {
		t.Errorf("the source is the link %q", link)
	}
	b.until(`document.querySelector("[data-testid=answer] .prose a[href='https://go.dev/blog/maps']")`)
}

// An answer is stopped while a tool runs: what came is kept and can be gone on from.
func TestStopDuringTool(t *testing.T) {
	s := newScript(t)
	s.answers(func(turn int, _ object, e *events) {
		if turn > 0 {
			e.message("Yes.")
			e.end("completed", nil)
			return
		}
		e.call(searched, "in_progress", "searching", "completed")
		at := e.begin(object{"type": "code_interpreter_call", "id": "ci_1", "status": "in_progress", "code": "while True: pass"})
		e.send("response.code_interpreter_call.interpreting", object{"output_index": at})
		e.hold()
	})
	b := open(t, s.URL, "")
	b.ask("Loop")
	b.says("work-line", "Running Python")
	b.click("stop")
	b.state("stopped")
	b.click("work-line")
	b.says("work", "while True: pass")
	b.ask("Go on")
	b.state("completed")
	input := s.asked()[1]["input"].([]any)
	for _, item := range input {
		if item.(object)["type"] == "code_interpreter_call" {
			t.Error("a call without a result is sent back")
		}
	}
	if len(input) != 3 {
		t.Errorf("%d items are sent back: question, search, question expected", len(input))
	}
}

func TestApproval(t *testing.T) {
	for _, c := range []struct {
		button, reason, shown string
		again                 bool // the next request is allowed without asking
	}{
		{"approval-decline", "not this file", "Declined: files: delete", false},
		{"approval-allow", "", "Allowed: files: delete", false},
		{"approval-always", "", "Allowed: files: delete", true},
	} {
		t.Run(c.button, func(t *testing.T) {
			s := newScript(t)
			s.answers(func(turn int, body object, e *events) {
				if turn%2 == 0 {
					item := object{}
					for name, value := range wanted {
						item[name] = value
					}
					item["id"] = fmt.Sprintf("mcpr_%d", turn)
					e.call(item)
				} else {
					e.message("Understood.")
				}
				e.end("completed", nil)
			})
			b := open(t, s.URL, "")
			b.ask("Delete it")
			b.has("approval-decline")
			b.until(`document.activeElement?.dataset.testid === "approval-decline"`)
			b.until(`document.querySelector(".approval")?.textContent.includes('"/tmp/x"')`)
			// No key of the box reaches the buttons that allow.
			b.run(focus("box"))
			b.press("\r")
			if len(s.asked()) != 1 {
				t.Fatal("Enter in the box decides")
			}
			if c.reason != "" {
				b.clickOn(".approval input")
				b.press(c.reason)
			}
			b.click(c.button)
			b.state("completed")
			b.until(`[...document.querySelectorAll("[data-testid=answer]")].at(-1).textContent.includes("Understood.")`)
			input := s.asked()[1]["input"].([]any)
			decision := input[len(input)-1].(object)
			if decision["type"] != "mcp_approval_response" || decision["approval_request_id"] != "mcpr_0" || decision["approve"] != (c.button != "approval-decline") {
				t.Errorf("the page sends %v", decision)
			}
			if reason, _ := decision["reason"].(string); reason != c.reason {
				t.Errorf("reason %q", reason)
			}
			b.until("document.querySelector('.decisions')?.textContent.includes(" + quoted(c.shown) + ")")
			b.ask("And again")
			b.until(`document.querySelectorAll("article.question").length === 2`)
			if c.again {
				b.until(`document.querySelectorAll(".decisions").length === 2`)
				b.state("completed")
			} else {
				b.has("approval-decline")
			}
		})
	}
}
