import assert from "node:assert/strict";
import { test } from "node:test";
import { type Block, Growing } from "../src/blocks";

const corpus = [
  "Hello!",
  "# Title\n\nText with *stress* and `code`.\n\n- a\n- b\n  - c\n\n1. one\n\n2. two\n",
  "```go\nfunc main() {\n}\n```\n\nafter\n",
  "~~~\nunfinished\n``` not the end",
  "| a | b |\n|---|--:|\n| 1 | 2 |\n| 3 | 4 |\n\nText\n===\n\n> quote\ngoes on\n\n***\n",
  "1. x\n   ```js\n   inside a list\n   ```\n2. y\n\n\n\nlast",
  "a\r\nb\r\n\r\nc\r\n",
  "$$\n\\frac{a}{b}\n$$\n\nand \\(x\\) and $y$ but $5 and $10\n\n\\[z\\]\n",
  "<div>\nraw *html*\n\n</div>\n\n[ref]: https://example.org\n\nsee [ref]\n",
  "\n\n\n",
  "- [x] done\n- [ ] open\n",
  "\ttab\n    code\n\nText\u202e\u0000",
];

// random is a small generator, so that a failure can be repeated (mulberry32).
function random(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const shape = (blocks: Block[]) => blocks.map((b) => [b.token.type, b.raw]);
const normal = (text: string) => text.replace(/\r\n?/g, "\n");

test("raw texts of the blocks are the text", () => {
  for (const text of corpus) assert.equal(new Growing().update(text).map((b) => b.raw).join(""), normal(text));
});

test("a text that grows ends as the blocks of the whole", () => {
  for (const text of [...corpus, corpus.join("\n\n")]) {
    for (let seed = 1; seed <= 20; seed++) {
      const next = random(seed);
      const growing = new Growing();
      let at = 0;
      while (at < text.length) {
        at = Math.min(text.length, at + 1 + Math.floor(next() * 12));
        growing.update(text.slice(0, at));
      }
      assert.deepEqual(shape(growing.update(text)), shape(new Growing().update(text)), JSON.stringify(text) + " seed " + seed);
    }
  }
});

test("blocks that are finished stay the same objects", () => {
  const growing = new Growing();
  const before = growing.update("# a\n\nb\n\nc\n\nd\n\ne");
  const after = growing.update("# a\n\nb\n\nc\n\nd\n\ne and more");
  assert.ok(before[0] === after[0] && before[2] === after[2]);
  assert.equal(growing.update("other").length, 1);
});

test("formulas and prices", () => {
  const maths = (text: string): string[] => {
    const found: string[] = [];
    const walk = (token: any) => {
      if (token.type === "math") found.push((token.display ? "D:" : "") + token.text);
      for (const inner of [...(token.tokens ?? []), ...(token.items ?? [])]) walk(inner);
    };
    for (const block of new Growing().update(text)) walk(block.token);
    return found;
  };
  for (const [text, want] of [
    ["a $x+1$ b", ["x+1"]],
    ["$5 and $10", []],
    ["from $5/month to $50/year", []],
    ["costs $100$", []],
    ["$HOME/$USER", []],
    ["$ x $", []],
    ["a \\(x\\) and \\[y\\]", ["x", "D:y"]],
    ["$$\na\n$$", ["D:a"]],
    ["text\n\\[\na\n\\]\nmore", ["D:a"]],
    ["`$x$`", []],
    ["```\n$x$\n```", []],
    ["$$unfinished", []],
  ] as const) assert.deepEqual(maths(text), want, text);
});

test("what would take long is kept as text", () => {
  const plain = (text: string) => new Growing().update(text).some((b) => b.token.type === "plain");
  assert.ok(plain("x".repeat(1_000_000)));
  assert.ok(plain("before\n\n" + "y ".repeat(30_000) + "\n\nafter"));
  assert.ok(plain("> ".repeat(500) + "deep"));
  assert.ok(plain("- ".repeat(500) + "deep"));
  assert.ok(plain("[".repeat(5000)));
  assert.ok(!plain("short\n\n> > > quote"));
  const code = new Growing().update("```\n" + "z".repeat(100_000));
  assert.deepEqual([code.length, code[0].token.type, code[0].open], [1, "code", true]);
});
