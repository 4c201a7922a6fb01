import assert from "node:assert/strict";
import { test } from "node:test";
import { newAnswer } from "../src/answer";
import { Fault, read, renamed, written } from "../src/transfer";
import type { Conversation, Message } from "../src/tree";

const conversation: Conversation = { id: "c1", title: "T", created: 1, changed: 2, leaf: "m2", pinned: true, settings: { temperature: 0.5, tools: ["web_search"] }, allowed: ["files: delete"] };
const messages: Message[] = [
  { id: "m1", conversation: "c1", parent: "", created: 1, role: "question", text: "q", files: [{ name: "f", text: "t" }], approvals: [] },
  { id: "m2", conversation: "c1", parent: "m1", created: 2, role: "answer", text: "", files: [], approvals: [], owner: "tab", answer: { ...newAnswer(), items: [{ type: "message", content: [{ type: "output_text", text: "a", annotations: [] }] }], spans: { 0: [1, 2] }, usage: { input_tokens: 1, output_tokens: 2 } } },
];
const file = () => JSON.parse(written({ conversations: [conversation], messages }));

test("what is written can be read", () => {
  const back = read(written({ conversations: [conversation], messages }));
  assert.deepEqual(back.conversations, [{ ...conversation, allowed: [] }]);
  assert.equal(back.messages[1].answer!.state, "stopped");
  assert.equal("owner" in back.messages[1], false);
  assert.deepEqual(read(written(back)), back);
});

test("a file with a fault is refused whole, with its place", () => {
  const cases: [(f: any) => unknown, string][] = [
    [() => [], "the file: an object"],
    [(f) => (f.version = 2), "version"],
    [(f) => (f.format = "x"), "format"],
    [(f) => (f.conversations[0].id = "../x"), "conversations[0].id"],
    [(f) => (f.conversations[0].title = 5), "conversations[0].title"],
    [(f) => (f.conversations[0].pinned = 1), "conversations[0].pinned"],
    [(f) => (f.conversations[0].leaf = "nobody"), "conversations[0].leaf"],
    [(f) => (f.conversations[0].settings.temperature = "hot"), "conversations[0].settings.temperature"],
    [(f) => f.conversations.push(f.conversations[0]), "conversations[1].id"],
    [(f) => (f.messages[1].parent = "nobody"), "messages[1].parent"],
    [(f) => (f.messages[0].parent = "m2"), "messages[0].parent"],
    [(f) => (f.messages[0].conversation = "c2"), "messages[0].conversation"],
    [(f) => (f.messages[0].role = "system"), "messages[0].role"],
    [(f) => (f.messages[0].files = [{ name: "f" }]), "messages[0].files[0].text"],
    [(f) => delete f.messages[1].answer, "messages[1].answer"],
    [(f) => (f.messages[1].answer.items = {}), "messages[1].answer.items"],
    [(f) => (f.messages[1].answer.items[0].content = "x"), "messages[1].answer.items[0].content"],
    [(f) => (f.messages[1].answer.items[0].content[0].text = {}), "messages[1].answer.items[0].content[0].text"],
    [(f) => (f.messages[1].answer.items[0].content[0].annotations = [{ type: "url_citation", url: 1 }]), "annotations[0].url"],
    [(f) => (f.messages[1].answer.items[0].outputs = [5]), "outputs[0]"],
    [(f) => (f.messages[1].answer.spans = { x: [1, 2] }), "spans"],
    [(f) => (f.messages[1].answer.usage = { input_tokens: "1" }), "usage.input_tokens"],
    [(f) => (f.messages[1].created = null), "messages[1].created"],
  ];
  for (const [spoil, place] of cases) {
    const given = file();
    const spoilt = spoil(given);
    const text = JSON.stringify(Array.isArray(spoilt) && spoilt.length === 0 ? spoilt : given);
    assert.throws(() => read(text), (error: Error) => error instanceof Fault && error.message.includes(place), place);
  }
  assert.throws(() => read("{"), Fault);
});

test("prototypes are no names", () => {
  const text = written({ conversations: [], messages: [] }).replace("{", '{"__proto__":{"polluted":1},');
  read(text);
  assert.equal(({} as any).polluted, undefined);
});

test("an import has ids of its own", () => {
  let n = 0;
  const made = renamed({ conversations: [conversation], messages }, () => "n" + n++);
  assert.deepEqual(made.conversations[0].leaf, made.messages[1].id);
  assert.deepEqual(made.messages[1].parent, made.messages[0].id);
  assert.equal(made.messages[0].parent, "");
  assert.ok(made.messages.every((m) => m.conversation === made.conversations[0].id && m.id !== "m1"));
});

test("a long chain is read without delay and without recursion", () => {
  const many: Message[] = [];
  for (let i = 0; i < 20_000; i++) many.push({ ...messages[0], id: "m" + i, parent: i === 0 ? "" : "m" + (i - 1) });
  assert.equal(read(written({ conversations: [{ ...conversation, leaf: "m19999" }], messages: many.reverse() })).messages.length, 20_000);
});
