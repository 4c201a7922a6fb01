import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { apply, joined, newAnswer, replayed, textOf, unfinishedText } from "../src/answer";
import { Lines } from "../src/sse";

// The streams that the server's own tests hold it to, each to its end.
function streams(): any[][] {
  const all: any[][] = [];
  for (const { raw } of new Lines().push(readFileSync("../../internal/wire/response/testdata/response.golden", "utf8") + "\n\n")) {
    const event = JSON.parse(raw);
    if (event.type === "response.created") all.push([]);
    all[all.length - 1]?.push(event);
  }
  return all.filter((events) => /^response\.(completed|incomplete|failed)$/.test(events[events.length - 1].type));
}

test("events add up to the response that ends them", () => {
  assert.ok(streams().length > 0);
  for (const events of streams()) {
    const end = events[events.length - 1];
    const answer = newAnswer();
    for (const event of events.slice(0, -1)) apply(answer, event, 1);
    const strip = (items: any[]) => items.map(({ encrypted_content: _, ...item }) => ({ ...item, content: item.content?.map(({ logprobs: __, ...part }: any) => part) }));
    assert.deepEqual(strip(answer.items), strip(end.response.output));
    apply(answer, end, 2);
    assert.equal("response." + answer.state, end.type);
    assert.deepEqual(answer.usage, end.response.usage);
  }
});

test("hostile events change nothing and throw nothing", () => {
  const answer = newAnswer();
  const before = JSON.stringify(answer);
  for (const event of [null, 1, "x", [], {}, { type: 5 }, { type: "response.unknown" }, { type: "response.output_text.delta", output_index: 3, delta: "x" }, { type: "response.output_item.added", output_index: 1e9, item: { type: "message" } }, { type: "response.output_item.added", output_index: "__proto__", item: {} }, { type: "response.output_item.done", output_index: -1, item: null }]) {
    apply(answer, event as any, 1);
  }
  assert.equal(JSON.stringify(answer), before);
});

test("an answer that was cut goes back as far as it came", () => {
  const items = [
    { type: "reasoning", status: "completed", content: [{ type: "reasoning_text", text: "r" }] },
    { type: "mcp_call", status: "calling", name: "f" },
    { type: "message", status: "in_progress", content: [{ type: "output_text", text: "half" }] },
    { type: "message", status: "in_progress", content: [] },
  ];
  assert.deepEqual(replayed(items).map((i) => [i.type, i.status]), [["reasoning", "completed"], ["message", "incomplete"]]);
  assert.equal(textOf(items), "half");
});

test("progress and usage on the way", () => {
  const answer = newAnswer();
  const progress = { prompt_tokens: 10, cached_tokens: 2, done_tokens: 5, queued_before: 0 };
  assert.equal(apply(answer, { type: "response.ossian.progress", ...progress }, 1)!.done_tokens, 5);
  apply(answer, { type: "response.output_item.added", output_index: 0, item: { type: "message", content: [] } }, 2);
  apply(answer, { type: "response.output_text.delta", output_index: 0, content_index: 0, delta: "a", usage: { input_tokens: 10, output_tokens: 7 } }, 3);
  assert.deepEqual([answer.usage!.output_tokens, answer.first, answer.deltas], [7, 3, 1]);
});

test("fields of the wrong kind do not reach the views", () => {
  const answer = newAnswer();
  for (const item of [{ type: "message", content: "x" }, { type: "message", content: [{ type: "output_text", text: {} }] }, { type: "web_search_call", action: { type: "search", queries: 5 } }, { type: "mcp_call", name: {} }, null, 5]) {
    apply(answer, { type: "response.output_item.added", output_index: answer.items.length, item }, 1);
  }
  assert.deepEqual(answer.items.map((i) => i.type), Array(6).fill("unreadable"));
  apply(answer, { type: "response.failed", response: { error: { message: {}, code: 1 }, usage: { input_tokens: "many" }, model: [], output: [{ type: "message" }, 7] } }, 1);
  assert.deepEqual([answer.failure!.message, answer.failure!.code, answer.usage, answer.model, answer.items[1].type], ["the server ended the answer with an error", undefined, undefined, undefined, "unreadable"]);
  assert.deepEqual(replayed(answer.items), []);
});

test("the rest of an answer is joined to it, item by item", () => {
  const reasoning = { type: "reasoning", id: "r", status: "incomplete", content: [{ type: "reasoning_text", text: "I th" }] };
  const message = { type: "message", id: "m", status: "completed", content: [{ type: "output_text", text: "Yes." }] };
  const before = { ...newAnswer(), state: "stopped" as const, items: [reasoning], spans: { 0: [5, 9] as [number, number] }, first: 5, took: 10, deltas: 2 };
  const rest = { ...newAnswer(), state: "completed" as const, items: [{ ...reasoning, id: "s", status: "completed", content: [{ type: "reasoning_text", text: "ink." }] }, message], spans: { 0: [11, 12] as [number, number], 1: [12, 14] as [number, number] }, first: 11, took: 15, deltas: 3 };
  const whole = joined(before, rest);
  assert.deepEqual(whole.items, [{ ...reasoning, status: "completed", content: [{ type: "reasoning_text", text: "I think." }] }, message]);
  assert.deepEqual([whole.spans, whole.first, whole.took, whole.deltas, whole.state], [{ 0: [5, 12], 1: [12, 14] }, 5, 15, 5, "completed"]);
  // What begins with another item comes behind, and nothing changes before anything came.
  assert.deepEqual(joined(before, { ...rest, items: [message] }).items, [reasoning, message]);
  assert.deepEqual(joined(before, newAnswer()).items, [reasoning]);
  assert.deepEqual([before, { ...before, items: [] }, { ...before, state: "completed" as const }, { ...before, items: [{ type: "mcp_call" }] }].map(unfinishedText), [true, false, false, false]);
});
