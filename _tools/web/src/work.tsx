// What an answer did before it said something: reasoning and tool calls, folded into one line.

import { useState } from "preact/hooks";
import { type Answer, contentText, type Item } from "./answer";
import type { Run } from "./chats";
import { count, duration, shown, several } from "./format";
import { Icon } from "./icons";
import { Link } from "./markdown";
import { preferences } from "./preferences";

const working = new Set(["reasoning", "web_search_call", "code_interpreter_call", "mcp_call", "mcp_list_tools", "function_call", "custom_tool_call"]);

// isWork is whether an item belongs into the fold. Messages before the last are what a model says
// between its calls, and belong there, too.
export function isWork(item: Item): boolean {
  return working.has(item.type) || (item.type === "message" && item.phase === "commentary");
}

const LINE = 60;

function cut(text: string): string {
  const characters = [...text.replace(/\s+/g, " ").trim()];
  return shown(characters.length > LINE ? characters.slice(0, LINE - 1).join("") + "\u2026" : characters.join(""));
}

// now is what an item is doing, in a few words.
function now(item: Item, ms: number): string {
  const time = ms >= 1000 ? " " + Math.floor(ms / 1000) + " s" : "";
  switch (item.type) {
    case "reasoning":
      return "Reasoning" + time;
    case "web_search_call":
      if (item.action?.type === "open_page") return "Reading " + cut(item.action.url ?? "a page");
      if (item.action?.type === "find_in_page") return "Looking for " + cut(item.action.pattern ?? "");
      return item.action?.query ? "Searching: " + cut(item.action.query) : "Searching" + time;
    case "code_interpreter_call":
      return item.status === "interpreting" ? "Running Python" + time : "Writing Python" + time;
    case "mcp_call":
      return "Calling " + cut(`${item.server_label ?? ""} ${item.name ?? ""}`) + time;
    case "mcp_list_tools":
      return "Asking " + cut(item.server_label ?? "a server") + " for its tools";
    case "function_call":
    case "custom_tool_call":
      return "Calling " + cut(item.name ?? "a function");
  }
  return "Working" + time;
}

// summary is the line of a fold.
function summary(answer: Answer, work: [Item, number][], run: Run | undefined): string {
  const [item, place] = work[work.length - 1];
  const last = place === answer.items.length - 1;
  if (answer.state === "running" && last) {
    const began = answer.spans[place]?.[0] ?? 0;
    return now(item, run ? performance.now() - run.started - began : 0);
  }
  const calls = work.filter(([i]) => i.type.endsWith("_call")).length;
  const reasoning = answer.usage?.output_tokens_details?.reasoning_tokens;
  let ms = 0;
  for (const [, i] of work) ms += (answer.spans[i]?.[1] ?? 0) - (answer.spans[i]?.[0] ?? 0);
  const parts = [calls > 0 ? `Worked, ${several(calls, "tool call")}` : "Reasoned"];
  if (reasoning) parts.push(several(reasoning, "token"));
  if (ms >= 10) parts.push(duration(ms));
  return parts.join(" \u00b7 ");
}

export function Work({ answer, run }: { answer: Answer; run?: Run }) {
  const [open, setOpen] = useState(preferences.get().reasoning);
  const work = answer.items.map((item, i): [Item, number] => [item, i]).filter(([item]) => isWork(item) && (item.type !== "reasoning" || contentText(item) !== "" || answer.state === "running"));
  if (work.length === 0) return null;
  const last = answer.items[answer.items.length - 1];
  const active = answer.state === "running" && isWork(last);
  return (
    <>
    <details class="work" data-testid="work" open={open} onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <summary data-testid="work-line" class={active ? "active" : undefined}>
        <Icon name="right" />
        <span>{summary(answer, work, run)}</span>
      </summary>
      {open ? <div class="steps">{work.map(([item, i]) => <Step key={item.id ?? i} item={item} />)}</div> : null}
    </details>
    {active && !open && last.type === "reasoning" ? <Peek text={contentText(last)} /> : null}
    </>
  );
}

const PEEK = 400; // characters: more than the lines of a peek hold

// Peek is the end of a reasoning that is being written, so that a long one can be seen to go on.
// Who has it read aloud opens the fold.
function Peek({ text }: { text: string }) {
  const end = text.slice(-PEEK).replace(/^[\udc00-\udfff]/, "").replace(/\n\s*\n/g, "\n").trim();
  return end === "" ? null : <div class={text.length > 240 ? "peek long" : "peek"} data-testid="peek" aria-hidden="true"><p>{shown(end)}</p></div>;
}

function Step({ item }: { item: Item }) {
  switch (item.type) {
    case "reasoning":
      return <div class="reasoning" data-testid="reasoning">{shown(contentText(item))}</div>;
    case "message":
      return <div class="reasoning">{shown(contentText(item))}</div>;
    case "web_search_call":
      return <Search item={item} />;
    case "code_interpreter_call":
      return (
        <Call title="Python" item={item}>
          <Text label="Code" text={item.code} />
          {(item.outputs ?? []).map((output) => <Text label="Output" text={output.logs} />)}
        </Call>
      );
    case "mcp_call":
      return (
        <Call title={`${item.server_label ?? ""} \u00b7 ${item.name ?? ""}`} item={item}>
          <Text label="Arguments" text={pretty(item.arguments)} />
          <Text label="Output" text={textOf(item.output)} />
          <Text label="Error" text={textOf(item.error)} />
        </Call>
      );
    case "mcp_list_tools":
      return <Call title={`Tools of ${item.server_label ?? "a server"}`} item={item}><p>{several(item.tools?.length ?? 0, "tool")}</p><Text label="Error" text={textOf(item.error)} /></Call>;
  }
  return (
    <Call title={item.name ?? item.type} item={item}>
      <Text label="Arguments" text={pretty(item.arguments ?? item.input)} />
      <p class="faint">This page does not run functions; a program that uses the API would.</p>
    </Call>
  );
}

function Call({ title, item, children }: { title: string; item: Item; children?: preact.ComponentChildren }) {
  const status = item.status === "failed" ? "failed" : item.status === "completed" || !item.status ? "" : item.status.replace(/_/g, " ");
  return (
    <div class="call" role="group" aria-label={shown(title)}>
      <div class="call-head"><span>{shown(title)}</span>{status ? <span class={status === "failed" ? "failed" : "faint"}>{status}</span> : null}</div>
      {children}
    </div>
  );
}

function Search({ item }: { item: Item }) {
  const action = item.action;
  const sources = [...(action?.sources ?? []), ...(item.results ?? [])].filter((s) => s.url);
  const title = action?.type === "open_page" ? "Opened a page" : action?.type === "find_in_page" ? `Looked for "${action.pattern ?? ""}"` : "Web search";
  return (
    <Call title={title} item={item}>
      {(action?.queries ?? (action?.query ? [action.query] : [])).map((query) => <p class="query">{shown(query)}</p>)}
      {action?.url ? <p><Link address={action.url} label={action.url}>{shown(action.url)}</Link></p> : null}
      {sources.length > 0 ? <ul>{sources.slice(0, 50).map((s) => <li><Link address={s.url!} label={s.title || s.url!}>{shown(s.title || s.url!)}</Link></li>)}</ul> : null}
    </Call>
  );
}

const MOST = 20_000; // characters of an output that are drawn before somebody asks for more

function Text({ label, text }: { label: string; text?: string | null }) {
  const [all, setAll] = useState(false);
  if (!text) return null;
  const whole = all || text.length <= MOST;
  return (
    <>
      <div class="label">{label}</div>
      <pre tabIndex={0} aria-label={label}>{shown(whole ? text : text.slice(0, MOST))}</pre>
      {whole ? null : <button type="button" class="quiet more" onClick={() => setAll(true)}>Show all {count(text.length)} characters</button>}
    </>
  );
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

// pretty sets JSON on several lines. Text that is none stays as it is.
export function pretty(text: string | undefined): string {
  try {
    return JSON.stringify(JSON.parse(text ?? ""), null, 2);
  } catch {
    return text ?? "";
  }
}
