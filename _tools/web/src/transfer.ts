// Conversations as one JSON file: written whole, and read only where all of it is right.

import type { Annotation, Answer, Item, Part, Usage } from "./answer";
import type { Approval, Attachment, Conversation, Message, Sampling } from "./tree";

export const VERSION = 1;
export const MOST = 100 * 1024 * 1024; // bytes of a file

export interface Transfer {
  conversations: Conversation[];
  messages: Message[];
}

// written is the file of conversations and their messages.
export function written(all: Transfer): string {
  return JSON.stringify({ format: "ossian-chats", version: VERSION, conversations: all.conversations, messages: all.messages.map(({ owner: _, ...message }) => message) });
}

// A Fault is where a file is not what it should be.
export class Fault extends Error {}

type Reader<T> = (value: unknown, at: string) => T;

function fault(at: string, expected: string): never {
  throw new Fault(`${at || "the file"}: ${expected} expected`);
}

function object(value: unknown, at: string): Record<string, unknown> {
  if (value === null || typeof value !== "object" || Array.isArray(value)) fault(at, "an object");
  return value as Record<string, unknown>;
}

function text(most: number): Reader<string> {
  return (value, at) => {
    if (typeof value !== "string") fault(at, "a text");
    if (value.length > most) fault(at, `a text of at most ${most} characters`);
    return value;
  };
}

function number(value: unknown, at: string): number {
  if (typeof value !== "number" || !Number.isFinite(value)) fault(at, "a number");
  return value;
}

function truth(value: unknown, at: string): boolean {
  if (typeof value !== "boolean") fault(at, "true or false");
  return value;
}

function list<T>(most: number, read: Reader<T>): Reader<T[]> {
  return (value, at) => {
    if (!Array.isArray(value)) fault(at, "a list");
    if (value.length > most) fault(at, `at most ${most} entries`);
    return value.map((entry, i) => read(entry, `${at}[${i}]`));
  };
}

function optional<T>(value: unknown, at: string, read: Reader<T>): T | undefined {
  return value === undefined || value === null ? undefined : read(value, at);
}

function oneOf<T extends string>(...allowed: T[]): Reader<T> {
  return (value, at) => {
    if (!allowed.includes(value as T)) fault(at, allowed.join(" or "));
    return value as T;
  };
}

const long = text(20_000_000);
const short = text(1000);

// identifier keeps ids to characters that mean nothing in an address or a selector.
function identifier(value: unknown, at: string): string {
  if (typeof value !== "string" || !/^[A-Za-z0-9_-]{1,64}$/.test(value)) fault(at, "an id of letters, digits, - and _");
  return value;
}

const numbers = ["temperature", "top_p", "top_k", "min_p", "seed", "max_output_tokens"] as const;

export function sampling(value: unknown, at: string): Sampling {
  const given = object(value, at);
  const read: Sampling = {};
  for (const name of numbers) {
    const n = optional(given[name], `${at}.${name}`, number);
    if (n !== undefined) read[name] = n;
  }
  for (const name of ["instructions", "effort", "model"] as const) {
    const t = optional(given[name], `${at}.${name}`, name === "instructions" ? long : short);
    if (t !== undefined) read[name] = t;
  }
  const tools = optional(given.tools, `${at}.tools`, list(100, short));
  if (tools) read.tools = tools;
  return read;
}

function conversation(value: unknown, at: string): Conversation {
  const given = object(value, at);
  return {
    id: identifier(given.id, `${at}.id`),
    title: short(given.title, `${at}.title`),
    created: number(given.created, `${at}.created`),
    changed: number(given.changed, `${at}.changed`),
    leaf: given.leaf === "" ? "" : identifier(given.leaf, `${at}.leaf`),
    settings: sampling(given.settings ?? {}, `${at}.settings`),
    ...(optional(given.pinned, `${at}.pinned`, truth) ? { pinned: true } : {}),
    allowed: [], // what one browser has allowed, another has not
  };
}

function attachment(value: unknown, at: string): Attachment {
  const given = object(value, at);
  return { name: short(given.name, `${at}.name`), text: long(given.text, `${at}.text`) };
}

function approval(value: unknown, at: string): Approval {
  const given = object(value, at);
  return {
    request: short(given.request, `${at}.request`),
    approve: truth(given.approve, `${at}.approve`),
    reason: optional(given.reason, `${at}.reason`, long),
    what: short(given.what, `${at}.what`),
  };
}

export function part(value: unknown, at: string): Part {
  const given = object(value, at);
  short(given.type, `${at}.type`);
  optional(given.text, `${at}.text`, long);
  optional(given.refusal, `${at}.refusal`, long);
  optional(given.annotations, `${at}.annotations`, list(10_000, annotation));
  return given as unknown as Part;
}

export function annotation(value: unknown, at: string): Annotation {
  const given = object(value, at);
  short(given.type, `${at}.type`);
  for (const name of ["start_index", "end_index"]) optional(given[name], `${at}.${name}`, number);
  for (const name of ["url", "title"]) optional(given[name], `${at}.${name}`, text(10_000));
  return given as unknown as Annotation;
}

function named(value: unknown, at: string): unknown {
  const given = object(value, at);
  for (const name of ["name", "description", "url", "title", "type", "logs"]) optional(given[name], `${at}.${name}`, long);
  return given;
}

// item reads what views look at; other fields go back to the server as they are.
export function item(value: unknown, at: string): Item {
  const given = object(value, at);
  short(given.type, `${at}.type`);
  for (const name of ["id", "status", "role", "phase", "name", "server_label"]) optional(given[name], `${at}.${name}`, short);
  for (const name of ["arguments", "input", "code"]) optional(given[name], `${at}.${name}`, long);
  optional(given.content, `${at}.content`, list(1000, part));
  for (const name of ["outputs", "tools", "results"]) optional(given[name], `${at}.${name}`, list(10_000, named));
  const action = optional(given.action, `${at}.action`, object);
  if (action) {
    for (const name of ["type", "query", "url", "pattern"]) optional(action[name], `${at}.action.${name}`, text(100_000));
    optional(action.queries, `${at}.action.queries`, list(1000, text(100_000)));
    optional(action.sources, `${at}.action.sources`, list(10_000, named));
  }
  return given as unknown as Item;
}

export function usage(value: unknown, at: string): Usage {
  const given = object(value, at);
  number(given.input_tokens, `${at}.input_tokens`);
  number(given.output_tokens, `${at}.output_tokens`);
  for (const name of ["input_tokens_details", "output_tokens_details"]) {
    for (const [field, n] of Object.entries(optional(given[name], `${at}.${name}`, object) ?? {})) {
      if (/^(cached|reasoning)_tokens$/.test(field)) number(n, `${at}.${name}.${field}`);
    }
  }
  return given as unknown as Usage;
}

function answer(value: unknown, at: string): Answer {
  const given = object(value, at);
  const state = oneOf("running", "completed", "incomplete", "failed", "stopped")(given.state, `${at}.state`);
  const failed = optional(given.failure, `${at}.failure`, object);
  const used = optional(given.usage, `${at}.usage`, usage);
  const spans: Answer["spans"] = {};
  for (const [place, span] of Object.entries(optional(given.spans, `${at}.spans`, object) ?? {})) {
    const [from, to] = list(2, number)(span, `${at}.spans.${place}`);
    if (!/^\d{1,6}$/.test(place) || to === undefined) fault(`${at}.spans`, "two times for each item");
    spans[Number(place)] = [from, to];
  }
  return {
    state: state === "running" ? "stopped" : state,
    items: list(100_000, item)(given.items, `${at}.items`),
    spans,
    deltas: optional(given.deltas, `${at}.deltas`, number) ?? 0,
    reason: optional(given.reason, `${at}.reason`, short),
    model: optional(given.model, `${at}.model`, short),
    first: optional(given.first, `${at}.first`, number),
    took: optional(given.took, `${at}.took`, number),
    truncated: optional(given.truncated, `${at}.truncated`, number),
    usage: used,
    failure: failed && {
      message: long(failed.message, `${at}.failure.message`),
      code: optional(failed.code, `${at}.failure.code`, short),
      param: optional(failed.param, `${at}.failure.param`, short),
      status: optional(failed.status, `${at}.failure.status`, number),
    },
  };
}

function message(value: unknown, at: string): Message {
  const given = object(value, at);
  const role = oneOf("question", "answer", "approval")(given.role, `${at}.role`);
  return {
    id: identifier(given.id, `${at}.id`),
    conversation: identifier(given.conversation, `${at}.conversation`),
    parent: given.parent === "" ? "" : identifier(given.parent, `${at}.parent`),
    created: number(given.created, `${at}.created`),
    role,
    text: long(given.text, `${at}.text`),
    files: list(1000, attachment)(given.files ?? [], `${at}.files`),
    approvals: list(1000, approval)(given.approvals ?? [], `${at}.approvals`),
    ...(role === "answer" ? { answer: answer(given.answer, `${at}.answer`) } : {}),
  };
}

// read reads a file, whole or not at all: a Fault says where the first thing is wrong.
export function read(content: string): Transfer {
  let given: unknown;
  try {
    given = JSON.parse(content);
  } catch (error) {
    throw new Fault(`not JSON: ${(error as Error).message}`);
  }
  const file = object(given, "");
  if (file.format !== "ossian-chats") fault("format", '"ossian-chats"');
  if (file.version !== VERSION) fault("version", `${VERSION}, by this page,`);
  const conversations = list(100_000, conversation)(file.conversations, "conversations");
  const messages = list(1_000_000, message)(file.messages, "messages");
  related(conversations, messages);
  return { conversations, messages };
}

// related checks that every message belongs to a conversation and stands behind one of it, that
// no id occurs twice, and that nothing goes round in circles.
function related(conversations: Conversation[], messages: Message[]): void {
  const known = new Map<string, Conversation>();
  conversations.forEach((c, i) => {
    if (known.has(c.id)) fault(`conversations[${i}].id`, "an id that no other has");
    known.set(c.id, c);
  });
  const byId = new Map<string, Message>();
  messages.forEach((m, i) => {
    if (byId.has(m.id)) fault(`messages[${i}].id`, "an id that no other has");
    if (!known.has(m.conversation)) fault(`messages[${i}].conversation`, "the id of a conversation of the file");
    byId.set(m.id, m);
  });
  const ends = new Set<string>(); // messages that are known to lead to a first one
  messages.forEach((m, i) => {
    const way = new Set<string>();
    for (let at = m; at.parent !== "" && !ends.has(at.id); ) {
      const parent = byId.get(at.parent);
      if (!parent || parent.conversation !== m.conversation) fault(`messages[${i}].parent`, "the id of a message of the same conversation");
      way.add(at.id);
      if (way.has(parent.id)) fault(`messages[${i}].parent`, "a message that does not stand behind this one");
      at = parent;
    }
    for (const id of way) ends.add(id);
    ends.add(m.id);
  });
  conversations.forEach((c, i) => {
    if (c.leaf !== "" && byId.get(c.leaf)?.conversation !== c.id) fault(`conversations[${i}].leaf`, "the id of a message of this conversation");
  });
}

// sound returns what a reader makes of a value, or nothing where the value is not what it should
// be: what a server sends is read with the same care as a file.
export function sound<T>(value: unknown, read: Reader<T>): T | undefined {
  try {
    return read(value, "");
  } catch {
    return undefined;
  }
}

// renamed gives everything new ids, so that an import adds and never overwrites.
export function renamed(all: Transfer, newId: () => string): Transfer {
  const ids = new Map<string, string>([["", ""]]);
  for (const entry of [...all.conversations, ...all.messages]) ids.set(entry.id, newId());
  const to = (id: string): string => ids.get(id) ?? "";
  return {
    conversations: all.conversations.map((c) => ({ ...c, id: to(c.id), leaf: to(c.leaf) })),
    messages: all.messages.map((m) => ({ ...m, id: to(m.id), conversation: to(m.conversation), parent: to(m.parent) })),
  };
}
