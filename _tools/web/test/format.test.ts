import assert from "node:assert/strict";
import { test } from "node:test";
import { curl } from "../src/developer";
import { entities } from "../src/entities";
import { bytes, compact, count, duration, rate, safeAddress, several, shown, titleOf } from "../src/format";
import { placeOf, settingsAt } from "../src/places";
import { Lines } from "../src/sse";

test("numbers", () => {
  assert.deepEqual([count(1234567), compact(131072), compact(20.9e9), compact(999), several(1, "token"), several(2, "token")], ["1,234,567", "131k", "20.9B", "999", "1 token", "2 tokens"]);
  assert.deepEqual([0, 350, 1234, 9_940, 12_000, 200_000, 7_260_000, NaN, -1].map(duration), ["0.00 s", "0.35 s", "1.2 s", "9.9 s", "12 s", "3 min 20 s", "2 h 1 min", "\u2013", "\u2013"]);
  assert.deepEqual([rate(10, 2000), rate(1000, 1000), rate(1, 0), rate(NaN, 1)], ["5.0 tokens/s", "1,000 tokens/s", "\u2013", "\u2013"]);
  assert.deepEqual([bytes(1), bytes(2048), bytes(3 * 1024 * 1024)], ["1 byte", "2 KiB", "3 MiB"]);
});

test("characters that hide or reorder text are shown as symbols", () => {
  assert.equal(shown("a\tb\nc"), "a\tb\nc");
  assert.equal(shown("\u0000\u001b\u007f\u009b"), "\u2400\u241b\u2421\u27e8U+009B\u27e9");
  for (const c of "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u200b\u2028\u2029\ufeff\u{e0041}") assert.match(shown(c), /^\u27e8U\+[0-9A-F]+\u27e9$/);
  assert.equal(shown("\u{1f468}\u200d\u{1f469} \u0627\u05d0"), "\u{1f468}\u200d\u{1f469} \u0627\u05d0");
});

test("links go to the web and to mail", () => {
  for (const good of ["https://a.b/c", "http://a", "mailto:a@b"]) assert.ok(safeAddress(good), good);
  for (const bad of ["javascript:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)", "data:text/html,x", "file:///etc/passwd", "vbscript:x", "blob:https://a/b", "/relative", "//host", "", "about:blank", "filesystem:x"]) assert.equal(safeAddress(bad), undefined, bad);
});

test("character references", () => {
  assert.equal(entities("&lt;b&gt; &amp;amp; &#65;&#x41; &nbsp;| &constructor; &#0; &#xD800; &#xE000; &#9999999;"), "<b> &amp; AA \u00a0| &constructor; \ufffd \ufffd \ufffd \ufffd");
});

test("titles", () => {
  assert.equal(titleOf("  one\ntwo"), "one");
  assert.equal([...titleOf("\u{1f600}".repeat(200))].length, 80);
  assert.equal(titleOf(" \n "), "New chat");
});

test("fragments: a link may fill the box", () => {
  assert.deepEqual(placeOf("#q=a%20b+c"), { view: "chat", id: "", path: "", fill: "a b c" });
  assert.deepEqual(placeOf("#/?q=%zz"), { view: "chat", id: "", path: "", fill: "%zz" });
  assert.deepEqual(placeOf("#/c/x-1"), { view: "chat", id: "x-1", path: "" });
  assert.equal(placeOf("#/c/../x").view, "other");
  assert.equal(placeOf("").view, "chat");
  assert.equal(placeOf("#/settings").view, "settings");
  assert.equal(settingsAt("tools[0].type"), "the tools");
  assert.equal(settingsAt("input[3]"), undefined);
});

test("events, however they are cut", () => {
  const text = ": ping\r\n\r\nevent: a\ndata: {\"x\":\ndata: 1}\n\ndata:2\r\n\r\nid: 5\n\ndata: cut";
  for (let size = 1; size < text.length; size++) {
    const lines = new Lines();
    const got: string[] = [];
    for (let at = 0; at < text.length; at += size) got.push(...lines.push(text.slice(at, at + size)).map((e) => e.raw));
    assert.deepEqual(got, ['{"x":\n1}', "2"], "in pieces of " + size);
    assert.equal(lines.left(), "data: cut");
  }
});

test("a command says what a shell must not change", () => {
  assert.ok(curl({ a: "it's $(x) `y`" }, "http://h").endsWith(`-d '{"a":"it'\\''s $(x) \`y\`"}'`));
});
