import assert from "node:assert/strict";
import { test } from "node:test";
import { newAnswer, replayed } from "../src/answer";
import { fenced, type Message, requestOf, said, Tree } from "../src/tree";

let clock = 0;
function message(id: string, parent: string, role: Message["role"], more: Partial<Message> = {}): Message {
  return { id, conversation: "c", parent, created: ++clock, role, text: role === "question" ? id : "", files: [], approvals: [], ...more };
}
const answered = (text: string) => ({ ...newAnswer(), state: "completed" as const, items: [{ type: "message", status: "completed", role: "assistant", content: [{ type: "output_text", text }] }] });

test("branches", () => {
  const tree = new Tree([message("q1", "", "question"), message("a1", "q1", "answer", { answer: answered("x") }), message("q2", "a1", "question"), message("a2", "q1", "answer"), message("q1b", "", "question")]);
  assert.deepEqual(tree.siblings("a1"), ["a1", "a2"]);
  assert.deepEqual(tree.siblings("q1b"), ["q1", "q1b"]);
  assert.equal(tree.leafOf("a1"), "q2");
  assert.equal(tree.leafOf("q1"), "a2");
  assert.deepEqual(tree.path("q2").map((m) => m.id), ["q1", "a1", "q2"]);
  assert.deepEqual(tree.path("nobody"), []);
});

test("a tree without its root, or that goes in circles, still has a path", () => {
  const tree = new Tree([message("b", "lost", "question"), message("x", "y", "question"), message("y", "x", "question")]);
  assert.deepEqual(tree.path("b").map((m) => m.id), ["b"]);
  assert.deepEqual(tree.path("x").map((m) => m.id), ["y", "x"]);
});

test("a request has what was set and nothing else", () => {
  const path = [message("q", "", "question"), message("a", "q", "answer", { answer: answered("A") }), message("p", "a", "approval", { approvals: [{ request: "mcpr_1", approve: false, reason: "no", what: "s: t" }] })];
  assert.deepEqual(requestOf(path, {}, "m", replayed), {
    model: "m",
    input: [
      { type: "message", role: "user", content: [{ type: "input_text", text: "q" }] },
      { type: "message", status: "completed", role: "assistant", content: [{ type: "output_text", text: "A" }] },
      { type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: false, reason: "no" },
    ],
  });
  const full = requestOf([], { instructions: "i", effort: "low", temperature: 0, top_p: 0.5, top_k: 0, min_p: 0.1, seed: 7, max_output_tokens: 5, tools: ["web_search", "code_interpreter", "mcp:files"] }, "", replayed);
  assert.deepEqual(full.tools, [{ type: "web_search" }, { type: "code_interpreter", container: { type: "auto" } }, { type: "mcp", server_label: "files" }]);
  assert.deepEqual([full.temperature, full.top_k, full.reasoning, "model" in full], [0, 0, { effort: "low" }, false]);
});

test("files become blocks that their text cannot close", () => {
  assert.equal(fenced({ name: "a.md", text: "````\nx\n" }), "a.md:\n`````\n````\nx\n`````");
  assert.equal(fenced({ name: "n\n`x`", text: "" }).split("\n", 1)[0], "n  x :");
  assert.equal(said("", [{ name: "f", text: "t" }]), "f:\n```\nt\n```");
});
