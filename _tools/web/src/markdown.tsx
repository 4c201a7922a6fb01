// Blocks of tokens as elements. Text is only ever the text of an element: there is no HTML here.
// Images are links, links go to the web or to mail, and what nests too deep is shown as it stands.

import type { Token, Tokens } from "marked";
import { Component, type ComponentChild } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Block, closedCode, Growing, type MathToken, MOST_DEPTH } from "./blocks";
import { CopyButton } from "./controls";
import { entities } from "./entities";
import { safeAddress, shown, several } from "./format";
import { highlighted, type Piece } from "./highlight";
import { drawMath } from "./math";

const ROWS = 200; // of a table or list that are drawn before somebody asks for more

// Marks of citations within a text: characters for private use that no text is let in with.
const CITE_OPEN = "\ue000";
const CITE_CLOSE = "\ue001";

export interface Source {
  url: string;
  title: string;
}

// cited replaces the spans of annotations by marks, and returns the sources in order.
export function cited(text: string, annotations: { type: string; start_index: number; end_index: number; url: string; title?: string }[]): { text: string; sources: Source[] } {
  const clean = text.replace(/[\ue000\ue001]/g, "\ufffd");
  const spans = annotations.filter((a) => a.type === "url_citation" && Number.isInteger(a.start_index) && Number.isInteger(a.end_index) && a.start_index <= a.end_index && safeAddress(a.url)).sort((a, b) => a.start_index - b.start_index);
  if (spans.length === 0) return { text: clean, sources: [] };
  const points = [...clean];
  const sources: Source[] = [];
  let made = "";
  let at = 0;
  for (const span of spans) {
    if (span.start_index < at || span.end_index > points.length) continue;
    let n = sources.findIndex((s) => s.url === span.url);
    if (n < 0) n = sources.push({ url: span.url, title: span.title ?? "" }) - 1;
    made += points.slice(at, span.start_index).join("") + CITE_OPEN + n + CITE_CLOSE;
    at = span.end_index;
  }
  return { text: made + points.slice(at).join(""), sources };
}

interface Context {
  sources: Source[];
  level?: number; // of the heading that a block is
}

// textNodes are a text with citations as numbered links.
function textNodes(text: string, context: Context): ComponentChild {
  if (!text.includes(CITE_OPEN)) return shown(text);
  return text.split(/(\ue000\d+\ue001)/).map((piece) => {
    const found = /^\ue000(\d+)\ue001$/.exec(piece);
    if (!found) return shown(piece);
    const source = context.sources[Number(found[1])];
    const url = source && safeAddress(source.url);
    if (!url) return null;
    return (
      <sup class="cite">
        <a href={url.href} target="_blank" rel="noopener noreferrer" title={shown(`${source.title} (${url.host})`)} aria-label={`Source ${Number(found[1]) + 1}, ${url.host}`}>
          {Number(found[1]) + 1}
        </a>
      </sup>
    );
  });
}

// Link is a link out of an answer: its host can be seen, in the text or behind it.
export function Link({ address, label, children }: { address: string; label: string; children: ComponentChild }) {
  const url = safeAddress(address);
  if (!url) return <span class="dead-link">{children}{label === address ? null : <span class="host"> ({shown(address.slice(0, 200))})</span>}</span>;
  const where = url.protocol === "mailto:" ? url.pathname : url.host;
  return (
    <>
      <a href={url.href} target="_blank" rel="noopener noreferrer">{children}</a>
      {label.toLowerCase().includes(where.toLowerCase()) ? null : <span class="host"> ({shown(where)})</span>}
    </>
  );
}

function inline(tokens: Token[] | undefined, context: Context, depth: number): ComponentChild {
  return tokens?.map((token) => inlineToken(token as Tokens.Generic, context, depth + 1));
}

function inlineToken(token: Tokens.Generic, context: Context, depth: number): ComponentChild {
  if (depth > MOST_DEPTH) return textNodes(token.raw, context);
  switch (token.type) {
    case "text":
      return token.tokens ? inline(token.tokens, context, depth) : textNodes(entities(token.text), context);
    case "escape":
      return textNodes(token.text, context);
    case "strong":
      return <strong>{inline(token.tokens, context, depth)}</strong>;
    case "em":
      return <em>{inline(token.tokens, context, depth)}</em>;
    case "del":
      return <del>{inline(token.tokens, context, depth)}</del>;
    case "codespan":
      return <code>{textNodes(token.text, context)}</code>;
    case "br":
      return <br />;
    case "math":
      return <Formula tex={token.text} display={token.display} raw={token.raw} />;
    case "link":
      return <Link address={entities(token.href)} label={token.text}>{inline(token.tokens, context, depth)}</Link>;
    case "image":
      return <Link address={entities(token.href)} label="">Image: {shown(token.text || "without a title")}</Link>;
    case "html":
      return /^<br\s*\/?>$/i.test(token.text) ? <br /> : <code class="markup">{textNodes(token.text, context)}</code>;
    case "checkbox":
      return null; // drawn with its item
  }
  return textNodes(token.raw, context);
}

function blocks(tokens: Token[], context: Context, depth: number): ComponentChild[] {
  return tokens.map((token) => block(token as Tokens.Generic, context, depth + 1, false));
}

function block(token: Tokens.Generic, context: Context, depth: number, open: boolean): ComponentChild {
  if (depth > MOST_DEPTH) return <p class="plain">{textNodes(token.raw, context)}</p>;
  switch (token.type) {
    case "space":
    case "def":
    case "checkbox": // drawn with its item
      return null;
    case "paragraph":
      return <p>{inline(token.tokens, context, depth)}</p>;
    case "text":
      return token.tokens ? inline(token.tokens, context, depth) : textNodes(entities(token.text), context);
    case "heading": {
      const Tag = `h${context.level ?? 3}` as "h3";
      return <Tag class={`heading-${token.depth}`}>{inline(token.tokens, context, depth)}</Tag>;
    }
    case "code":
      return <Code token={token as Tokens.Code} open={open} />;
    case "math":
      return <Formula tex={(token as unknown as MathToken).text} display raw={token.raw} />;
    case "blockquote":
      return <blockquote>{blocks(token.tokens ?? [], context, depth)}</blockquote>;
    case "hr":
      return <hr />;
    case "list":
      return <List token={token as Tokens.List} context={context} depth={depth} />;
    case "table":
      return <Table token={token as Tokens.Table} context={context} depth={depth} />;
    case "html":
      return <pre class="markup">{textNodes(token.text.replace(/\n$/, ""), context)}</pre>;
  }
  return token.tokens ? inlineToken(token, context, depth) : <p class="plain">{textNodes(token.raw, context)}</p>;
}

function More({ all, first, noun, onMore }: { all: number; first: number; noun: string; onMore: () => void }) {
  if (all <= first) return null;
  return <button type="button" class="quiet more" onClick={onMore}>Show more: {several(all - first, noun)} left</button>;
}

function List({ token, context, depth }: { token: Tokens.List; context: Context; depth: number }) {
  const [most, setMost] = useState(ROWS);
  const items = token.items.slice(0, most).map((item) => (
    <li class={item.task ? "task" : undefined}>
      {item.task ? <input type="checkbox" checked={item.checked} disabled aria-label={item.checked ? "done" : "not done"} /> : null}
      {item.loose ? blocks(item.tokens, context, depth) : item.tokens.map((t) => (t.type === "paragraph" ? inline((t as Tokens.Paragraph).tokens, context, depth) : block(t as Tokens.Generic, context, depth + 1, false)))}
    </li>
  ));
  return (
    <>
      {token.ordered ? <ol start={token.start === "" ? 1 : token.start}>{items}</ol> : <ul>{items}</ul>}
      <More all={token.items.length} first={most} noun="item" onMore={() => setMost(most * 5)} />
    </>
  );
}

function Table({ token, context, depth }: { token: Tokens.Table; context: Context; depth: number }) {
  const [most, setMost] = useState(ROWS);
  const cell = (Tag: "th" | "td") => (c: Tokens.TableCell) => <Tag class={c.align ? `align-${c.align}` : undefined} {...(Tag === "th" ? { scope: "col" } : {})}>{inline(c.tokens, context, depth)}</Tag>;
  return (
    <>
      <div class="table" tabIndex={0} role="region" aria-label="Table">
        <table>
          <thead><tr>{token.header.map(cell("th"))}</tr></thead>
          <tbody>{token.rows.slice(0, most).map((row) => <tr>{row.map(cell("td"))}</tr>)}</tbody>
        </table>
      </div>
      <More all={token.rows.length} first={most} noun="row" onMore={() => setMost(most * 5)} />
    </>
  );
}

function Formula({ tex, display, raw }: { tex: string; display: boolean; raw: string }) {
  const place = useRef<HTMLElement>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let current = true;
    void drawMath(tex, display, place.current!).then((drawn) => current && setFailed(!drawn));
    return () => {
      current = false;
    };
  }, [tex, display]);
  if (failed) return <code class="tex" title="a formula that cannot be drawn">{shown(raw.trim())}</code>;
  return <span ref={place} class={display ? "math display" : "math"} key={tex}>{shown(tex)}</span>;
}

const CHUNK = 8192; // characters of one text node: a growing block changes the last one only

function chunks(text: string): string[] {
  const all: string[] = [];
  for (let at = 0; at < text.length; at += CHUNK) all.push(shown(text.slice(at, at + CHUNK)));
  return all;
}

function coloured(pieces: Piece[]): ComponentChild[] {
  return pieces.map((p) => (typeof p === "string" ? shown(p) : <span class={`code-${p.kind}`}>{coloured(p.pieces)}</span>));
}

function Code({ token, open }: { token: Tokens.Code; open: boolean }) {
  const [pieces, setPieces] = useState<Piece[] | undefined>();
  const language = (token.lang ?? "").trim();
  const complete = !open || closedCode(token);
  useEffect(() => {
    setPieces(undefined);
    if (!complete || language === "") return undefined;
    let current = true;
    void highlighted(token.text, language).then((made) => current && setPieces(made), () => {});
    return () => {
      current = false;
    };
  }, [token.text, language, complete]);
  return (
    <div class="code">
      <div class="code-head">
        <span>{shown(language.slice(0, 40)) || "text"}</span>
        <CopyButton text={() => token.text} label="Copy code" />
      </div>
      <pre tabIndex={0}><code>{pieces ? coloured(pieces) : chunks(token.text)}</code></pre>
    </div>
  );
}

interface BlockProps {
  block: Block;
  context: Context;
  open: boolean;
}

// levels are those of the headings among blocks. The page has h1 and h2; no level is left out on
// the way down, whatever the text does.
function levels(all: Block[]): number[] {
  let before = 2;
  return all.map(({ token }) => {
    if (token.type !== "heading") return 0;
    before = Math.min((token as Tokens.Heading).depth + 2, before + 1, 6);
    return before;
  });
}

// A block is drawn again only where it has changed.
class Drawn extends Component<BlockProps> {
  override shouldComponentUpdate(next: BlockProps): boolean {
    return next.block !== this.props.block || next.open !== this.props.open || next.context.level !== this.props.context.level || (next.context.sources.length !== this.props.context.sources.length && next.block.raw.includes(CITE_OPEN));
  }
  override render() {
    return block(this.props.block.token as Tokens.Generic, this.props.context, 0, this.props.open);
  }
}

// Markdown draws a text that may grow.
export function Markdown({ text, sources, growing }: { text: string; sources: Source[]; growing: boolean }) {
  const held = useRef<Growing | undefined>(undefined);
  const all = (held.current ??= new Growing()).update(text);
  const level = levels(all);
  return <>{all.map((b, i) => <Drawn key={i} block={b} context={{ sources, level: level[i] || undefined }} open={growing && i === all.length - 1} />)}</>;
}
