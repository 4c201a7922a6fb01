// Markdown as blocks of tokens, lexed while the text grows: blocks that are finished are kept as
// they are, and only what is behind them is lexed again. Pure: no DOM.
//
// Invariant: the raw texts of the blocks that are kept are the beginning of the text, so nothing a
// model wrote is lost; and the work for one more character is bounded, whatever the text is.

import { Lexer, type Token, type Tokens } from "marked";

export interface Block {
  token: Token;
  raw: string;
  open: boolean; // may still grow
}

export interface MathToken {
  type: "math";
  raw: string;
  text: string; // TeX
  display: boolean;
}

export const MOST_DEPTH = 50; // of quotes, lists and emphasis; what is deeper is text
const LONG = 20_000; // characters in one paragraph that is still lexed for emphasis and links

const blockMath = /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n|$)/;
const inlineMath = /^(?:\$\$([^\n]+?)\$\$|\\\((.+?)\\\)|\\\[(.+?)\\\])/s;
const dollarMath = /^\$([^\s$](?:[^$\n]*[^\s$\\])?)\$(?![0-9A-Za-z])/;

function math(raw: string, text: string, display: boolean): MathToken {
  return { type: "math", raw, text: text.trim(), display };
}

function lexBlockMath(src: string): MathToken | undefined {
  const found = blockMath.exec(src);
  return found ? math(found[0], found[1] ?? found[2], true) : undefined;
}

// lexInlineMath takes $…$ only where it is no price: not digits alone, no space inside the ends.
function lexInlineMath(src: string): MathToken | undefined {
  const found = inlineMath.exec(src);
  if (found) return math(found[0], found[1] ?? found[2] ?? found[3], found[2] === undefined);
  const dollar = dollarMath.exec(src);
  if (dollar && !/^[\d.,\s]+$/.test(dollar[1])) return math(dollar[0], dollar[1], false);
  return undefined;
}

function startOf(pattern: RegExp): (src: string) => number | undefined {
  return (src) => {
    const at = src.search(pattern);
    return at < 0 ? undefined : at;
  };
}

const lexing: any = {
  gfm: true,
  breaks: true,
  extensions: {
    block: [lexBlockMath],
    startBlock: [startOf(/(?<=\n) {0,3}(?:\$\$|\\\[)/)],
    inline: [lexInlineMath],
    startInline: [startOf(/\$|\\[([]/)],
    renderers: {},
    childTokens: {},
  },
};

// Fences at the beginning of a line alone: indented ones may belong to a list.
const fence = /^(`{3,}|~{3,})([^\n]*)(?:\n|$)/;

// lexFence takes a code block without asking the lexer: it may be long, and it may be unfinished.
function lexFence(src: string): Tokens.Code | undefined {
  const opened = fence.exec(src);
  if (!opened || (opened[1][0] === "`" && opened[2].includes("`"))) return undefined;
  const mark = opened[1];
  const closing = new RegExp(`^ {0,3}${mark[0] === "~" ? "~" : "`"}{${mark.length},}[ \\t]*(?:\\n|$)`, "m");
  const body = src.slice(opened[0].length);
  const closed = closing.exec(body);
  const text = closed ? body.slice(0, closed.index) : body;
  const raw = closed ? src.slice(0, opened[0].length + closed.index + closed[0].length) : src;
  return { type: "code", raw, lang: opened[2].trim(), text: text.replace(/\n$/, ""), codeBlockStyle: closed ? undefined : ("open" as never) };
}

// closedCode is whether a code token has its end.
export function closedCode(token: Tokens.Code): boolean {
  return (token.codeBlockStyle as string) !== "open";
}

// tooDeep finds a line whose quotes or lists nest deeper than is lexed.
function tooDeep(src: string): boolean {
  return /^(?:[ \t]*(?:>|[-*+]|\d+[.)])[ \t]?){50}/m.test(src) || /^[ \t]{200}[ \t]*(?:[-*+]|\d+[.)]) /m.test(src) || /[[*_~(]{200}/.test(src);
}

function plain(raw: string): Block {
  return { token: { type: "plain", raw, text: raw } as Tokens.Generic, raw, open: false };
}

// longParagraph is whether a text begins with a line that is too long to be lexed.
function longParagraph(src: string): boolean {
  const line = src.slice(0, LONG + 1);
  return line.length > LONG && !line.includes("\n");
}

// lex returns the blocks of a text; the last may be open.
function lex(src: string): Block[] {
  const blocks: Block[] = [];
  let rest = src;
  while (rest !== "") {
    const code = lexFence(rest);
    if (code) {
      blocks.push({ token: code, raw: code.raw, open: !closedCode(code) });
      rest = rest.slice(code.raw.length);
      continue;
    }
    if (longParagraph(rest)) {
      const line = rest.indexOf("\n");
      const end = line < 0 ? rest.length : line + 1;
      for (let at = 0; at < end; at += LONG) blocks.push(plain(rest.slice(at, Math.min(at + LONG, end))));
      rest = rest.slice(end);
      continue;
    }
    const end = nextSpecial(rest);
    const part = rest.slice(0, end);
    if (tooDeep(part)) blocks.push(plain(part));
    else blocks.push(...lexed(part));
    rest = rest.slice(end);
  }
  return blocks;
}

// nextSpecial is where the lexer's part of a text ends: before a fence or a very long line that
// stand at the beginning of a line.
function nextSpecial(src: string): number {
  const special = /\n(?=`{3}|~{3})/g;
  special.lastIndex = 1;
  const at = special.exec(src);
  let end = at ? at.index + 1 : src.length;
  for (let line = src.indexOf("\n") + 1; line > 0 && line < end; line = src.indexOf("\n", line) + 1) {
    const next = src.indexOf("\n", line);
    if ((next < 0 ? end : next) - line > LONG) end = line;
  }
  return end === 0 ? src.length : end;
}

// lexed are the blocks of a text by marked. Should it fail, the text is shown as it is.
function lexed(src: string): Block[] {
  try {
    return new Lexer(lexing).lex(src).map((token) => ({ token, raw: token.raw, open: false }));
  } catch {
    return [plain(src)];
  }
}

// A Growing text and its blocks.
export class Growing {
  private done: Block[] = [];
  private ended = 0; // characters in them
  private source = "";
  private blocks: Block[] = [];

  // update returns the blocks of a text. Blocks that have not changed are the same objects.
  update(given: string): Block[] {
    const text = given.includes("\r") ? given.replace(/\r\n?/g, "\n") : given;
    if (text === this.source) return this.blocks;
    if (!text.startsWith(this.source.slice(0, this.ended))) {
      this.done = [];
      this.ended = 0;
    }
    this.source = text;
    const tail = lex(text.slice(this.ended));
    this.settle(tail);
    this.blocks = this.keepSame([...this.done, ...tail]);
    return this.blocks;
  }

  // settle moves blocks that can change no more. The last two may: a list goes on behind what
  // looked like the paragraph after it.
  private settle(tail: Block[]): void {
    const solid = tail.map((block, i) => (block.token.type === "space" ? -1 : i)).filter((i) => i >= 0);
    for (let ready = solid.length > 2 ? solid[solid.length - 2] : 0; ready > 0; ready--) {
      if (!this.source.startsWith(tail[0].raw, this.ended)) return; // raw as the lexer has mended it
      this.ended += tail[0].raw.length;
      this.done.push(tail.shift()!);
    }
  }

  private keepSame(next: Block[]): Block[] {
    return next.map((block, i) => {
      const old = this.blocks[i];
      return old && old.raw === block.raw && old.token.type === block.token.type && old.open === block.open ? old : block;
    });
  }
}
