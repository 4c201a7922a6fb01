// What a response's events make of an answer. What is sent is checked as it comes, so that views
// need not doubt it. Unknown items are kept as they are and not drawn;
// unknown events change nothing.

import { annotation, item as readItem, part as readPart, sound, usage } from "./transfer";

export interface Annotation {
  type: string;
  start_index: number; // in Unicode code points
  end_index: number;
  url: string;
  title?: string;
}

export interface Part {
  type: string;
  text?: string;
  refusal?: string;
  annotations?: Annotation[];
}

// An Item is one of a response's output. Fields depend on its type; what the API has and the page
// does not show stays in it, for it is sent back.
export interface Item {
  type: string;
  id?: string;
  status?: string;
  role?: string;
  phase?: string;
  content?: Part[];
  name?: string;
  server_label?: string;
  arguments?: string;
  input?: string;
  code?: string;
  output?: unknown;
  error?: unknown;
  outputs?: { type: string; logs?: string }[] | null;
  action?: { type: string; query?: string; queries?: string[]; url?: string; pattern?: string; sources?: { url?: string; title?: string }[] };
  results?: { url?: string; title?: string }[];
  tools?: { name: string; description?: string }[];
  [field: string]: unknown;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  input_tokens_details?: { cached_tokens?: number };
  output_tokens_details?: { reasoning_tokens?: number };
}

export interface Progress {
  prompt_tokens: number;
  cached_tokens: number;
  done_tokens: number;
  queued_before: number;
}

export type State = "running" | "completed" | "incomplete" | "failed" | "stopped";

// An Answer is what came so far.
export interface Answer {
  state: State;
  items: Item[];
  spans: Record<number, [number, number]>; // of items, by place: begin and end in ms since the request
  reason?: string; // incomplete
  failure?: { message: string; code?: string; param?: string; status?: number };
  model?: string;
  usage?: Usage;
  truncated?: number; // turns that were left out
  first?: number; // ms from request to the first token
  took?: number; // ms from request to the end
  deltas: number; // pieces of text so far: tokens, where the server says nothing better
  server?: Record<string, unknown>; // settings as the server has used them
}

export function newAnswer(): Answer {
  return { state: "running", items: [], spans: {}, deltas: 0 };
}

interface Event {
  type?: unknown;
  [field: string]: any;
}

// Events that add text to a field of an item, or set it.
const fields: Record<string, keyof Item> = {
  function_call_arguments: "arguments",
  mcp_call_arguments: "arguments",
  custom_tool_call_input: "input",
  code_interpreter_call_code: "code",
};
const phases = /^response\.(?:web_search_call|code_interpreter_call|mcp_call|mcp_list_tools)\.(in_progress|searching|interpreting|calling|completed|failed)$/;
const edits = /^response\.(\w+)\.(delta|done)$/;

// apply changes an answer by one event that came at ms since the request. It returns what the
// event says about the prompt, if that.
export function apply(answer: Answer, event: Event, ms: number): Progress | undefined {
  if (event === null || typeof event !== "object" || typeof event.type !== "string") return undefined;
  if (event.usage) answer.usage = sound(event.usage, usage) ?? answer.usage;
  const type = event.type;
  const item: Item | undefined = answer.items[event.output_index];
  switch (type) {
    case "response.created":
    case "response.in_progress":
      answer.model = nameOf(event.response?.model) ?? answer.model;
      return undefined;
    case "response.ossian.progress":
      return progressOf(event);
    case "response.output_item.added":
    case "response.output_item.done":
      if (!isPlace(event.output_index, answer.items.length)) return undefined;
      answer.items[event.output_index] = itemOf(event.item);
      answer.spans[event.output_index] = [type.endsWith("done") ? answer.spans[event.output_index]?.[0] ?? ms : ms, ms];
      return undefined;
    case "response.completed":
    case "response.incomplete":
    case "response.failed":
      finish(answer, type.slice("response.".length) as State, event.response, ms);
      return undefined;
    case "error":
      answer.state = "failed";
      answer.failure = failureOf(event.error ?? event);
      answer.took = ms;
      return undefined;
  }
  if (!item) return undefined;
  if (answer.spans[event.output_index]) answer.spans[event.output_index][1] = ms;
  const phase = phases.exec(type);
  if (phase) {
    item.status = phase[1];
    return undefined;
  }
  applyToItem(answer, item, type, event, ms);
  return undefined;
}

function applyToItem(answer: Answer, item: Item, type: string, event: Event, ms: number): void {
  const content = (item.content ??= []);
  switch (type) {
    case "response.content_part.added":
    case "response.content_part.done":
      if (isPlace(event.content_index, content.length)) content[event.content_index] = sound(event.part, readPart) ?? { type: "unreadable" };
      return;
    case "response.output_text.annotation.added": {
      const part = content[event.content_index];
      const read = sound(event.annotation, annotation);
      if (part && read) (part.annotations ??= []).push(read);
      return;
    }
  }
  const edit = edits.exec(type);
  if (!edit) return;
  const [, what, how] = edit;
  if (how === "delta" && typeof event.delta === "string") {
    answer.first ??= ms;
    answer.deltas++;
  }
  if (what in fields) {
    const field = fields[what];
    const whole = event[field as string];
    if (how === "delta") item[field] = String(item[field] ?? "") + String(event.delta ?? "");
    else if (typeof whole === "string") item[field] = whole;
    return;
  }
  if (what !== "output_text" && what !== "reasoning_text" && what !== "refusal") return;
  if (!isPlace(event.content_index, content.length)) return;
  const part = (content[event.content_index] ??= { type: what, text: "" });
  const field = what === "refusal" ? "refusal" : "text";
  if (how === "delta") part[field] = (part[field] ?? "") + String(event.delta ?? "");
  else if (typeof event[field] === "string") part[field] = event[field];
}

function finish(answer: Answer, state: State, response: any, ms: number): void {
  answer.state = state;
  answer.took = ms;
  if (!response || typeof response !== "object") return;
  if (Array.isArray(response.output) && response.output.length > 0) answer.items = response.output.map(itemOf);
  answer.model = nameOf(response.model) ?? answer.model;
  answer.usage = sound(response.usage, usage) ?? answer.usage;
  answer.reason = nameOf(response.incomplete_details?.reason);
  answer.truncated = Number.isInteger(response.truncated_turns) && response.truncated_turns > 0 ? response.truncated_turns : undefined;
  answer.server = { temperature: response.temperature, top_p: response.top_p, effort: response.reasoning?.effort, max_output_tokens: response.max_output_tokens };
  if (response.error) answer.failure = failureOf(response.error);
}

// itemOf is an item as it was sent, or, where it cannot be read, one that no view knows.
function itemOf(value: unknown): Item {
  return sound(value, readItem) ?? { type: "unreadable" };
}

function nameOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function failureOf(error: any): NonNullable<Answer["failure"]> {
  return { message: nameOf(error?.message) ?? "the server ended the answer with an error", code: nameOf(error?.code), param: nameOf(error?.param) };
}

function progressOf(event: Event): Progress {
  const of = (name: string): number => (Number.isFinite(event[name]) ? event[name] : 0);
  return { prompt_tokens: of("prompt_tokens"), cached_tokens: of("cached_tokens"), done_tokens: of("done_tokens"), queued_before: of("queued_before") };
}

// isPlace keeps hostile indices from making holes.
function isPlace(index: unknown, length: number): index is number {
  return Number.isInteger(index) && (index as number) >= 0 && (index as number) <= length;
}

// textOf is what an answer says to the reader: its messages.
export function textOf(items: Item[]): string {
  const texts: string[] = [];
  for (const item of items) {
    if (item.type !== "message") continue;
    const text = (item.content ?? []).map((part) => part.text ?? part.refusal ?? "").join("");
    if (text !== "") texts.push(text);
  }
  return texts.join("\n\n");
}

// contentText is all text of one item.
export function contentText(item: Item): string {
  return (item.content ?? []).map((part) => part.text ?? part.refusal ?? "").join("");
}

// outputTokens is how many tokens were written so far: the server's number where it says one.
export function outputTokens(answer: Answer): number {
  return answer.usage?.output_tokens ?? answer.deltas;
}

const AT_ONCE = 30; // ms

// writingTime is how long the answer was written at, in ms, since the first token. Where all came
// at once that says nothing, and the time since the request counts.
export function writingTime(answer: Answer, now?: number): number {
  const end = answer.took ?? now ?? 0;
  const since = end - (answer.first ?? 0);
  return answer.took !== undefined && since < AT_ONCE ? end : since;
}

const unfinished = new Set(["in_progress", "searching", "interpreting", "calling"]);

// replayed are the items of an answer as they go into the next request. Calls that never ended
// have no result that a model could read, and the start of a text is a text.
export function replayed(items: Item[]): Item[] {
  return items
    .filter((item) => item.type !== "unreadable")
    .filter((item) => item.type === "message" || item.type === "reasoning" || !unfinished.has(item.status ?? ""))
    .filter((item) => item.type !== "message" || contentText(item) !== "")
    .map((item) => (unfinished.has(item.status ?? "") ? { ...item, status: "incomplete" } : item));
}

// approvalsWanted are the requests of an answer that nobody has answered.
export function approvalsWanted(items: Item[]): Item[] {
  return items.filter((item) => item.type === "mcp_approval_request");
}

// unfinishedText is whether an answer ends within a text that can be gone on with: a message, or
// reasoning behind which nothing was said.
export function unfinishedText(answer: Answer): boolean {
  const last = answer.items[answer.items.length - 1];
  return answer.state !== "running" && answer.state !== "completed" && (last?.type === "message" || last?.type === "reasoning") && contentText(last) !== "";
}

// joined is an answer with what a request to go on has added: the first item is the rest of the
// last one if both are of one type. Times of the rest count on from those of the answer; tokens add up.
export function joined(before: Answer, rest: Answer): Answer {
  const items = [...before.items];
  const spans = { ...before.spans };
  const last = items.length - 1;
  const same = rest.items.length > 0 && rest.items[0].type === items[last].type;
  rest.items.forEach((item, i) => {
    const place = last + i + (same ? 0 : 1);
    items[place] = same && i === 0 ? lengthened(items[last], item) : item;
    spans[place] = [(same && i === 0 ? spans[place] : rest.spans[i])?.[0] ?? 0, rest.spans[i]?.[1] ?? 0];
  });
  return { ...rest, items, spans, model: rest.model ?? before.model, usage: together(before.usage, rest.usage), first: before.first ?? rest.first, took: rest.took, deltas: before.deltas + rest.deltas, truncated: rest.truncated ?? before.truncated, server: rest.server ?? before.server };
}

// lengthened is an item with the text of its rest. Places of citations count code points.
function lengthened(item: Item, rest: Item): Item {
  const text = contentText(item);
  const [part, ...others] = rest.content ?? [];
  if (!part) return { ...item, status: rest.status };
  const by = part.annotations?.length ? [...text].length : 0;
  const moved = (part.annotations ?? []).map((a) => ({ ...a, start_index: a.start_index + by, end_index: a.end_index + by }));
  const annotations = [...(item.content ?? []).flatMap((p) => p.annotations ?? []), ...moved];
  const field = part.refusal !== undefined ? "refusal" : "text";
  return { ...item, status: rest.status, content: [{ ...part, [field]: text + (part[field] ?? ""), ...(part.annotations ? { annotations } : {}) }, ...others] };
}

function together(a: Usage | undefined, b: Usage | undefined): Usage | undefined {
  if (!a || !b) return a ?? b;
  const sum = (of: (u: Usage) => number | undefined) => (of(a) ?? 0) + (of(b) ?? 0);
  return {
    input_tokens: sum((u) => u.input_tokens),
    output_tokens: sum((u) => u.output_tokens),
    input_tokens_details: { cached_tokens: sum((u) => u.input_tokens_details?.cached_tokens) },
    output_tokens_details: { reasoning_tokens: sum((u) => u.output_tokens_details?.reasoning_tokens) },
  };
}
