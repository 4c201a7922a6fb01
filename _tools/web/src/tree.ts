// A conversation is a tree of messages: editing a question or making an answer again adds a
// sibling. One path from the root to a leaf is shown.

import type { Answer, Item } from "./answer";

export interface Attachment {
  name: string;
  text: string;
}

// Sampling is what may be asked of the server; what is absent is left to it.
export interface Sampling {
  instructions?: string;
  effort?: string;
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  seed?: number;
  max_output_tokens?: number;
  tools?: string[]; // types of built-in tools
  model?: string;
}

export interface Approval {
  request: string; // id of the mcp_approval_request
  approve: boolean;
  reason?: string;
  what: string; // server and tool, for the reader
}

export interface Message {
  id: string;
  conversation: string;
  parent: string; // "" = the first
  created: number; // ms
  role: "question" | "answer" | "approval";
  text: string; // question
  files: Attachment[]; // question
  approvals: Approval[]; // approval
  answer?: Answer; // answer
  owner?: string; // tab that runs the answer
}

export interface Conversation {
  id: string;
  title: string;
  created: number;
  changed: number;
  leaf: string; // "" = empty
  settings: Sampling;
  pinned?: boolean; // it stands above the others
  allowed: string[]; // tools that need no further approval here
}

export class Tree {
  readonly messages = new Map<string, Message>();
  private children = new Map<string, string[]>();

  constructor(messages: Iterable<Message> = []) {
    for (const message of [...messages].sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1))) this.add(message);
  }

  // add adds a message or replaces the one of its id.
  add(message: Message): void {
    if (!this.messages.has(message.id)) {
      const siblings = this.children.get(message.parent);
      if (siblings) siblings.push(message.id);
      else this.children.set(message.parent, [message.id]);
    }
    this.messages.set(message.id, message);
  }

  // path are the messages from the first to leaf. A parent that is not there begins the path.
  path(leaf: string): Message[] {
    const path: Message[] = [];
    const seen = new Set<string>();
    for (let at = this.messages.get(leaf); at && !seen.has(at.id); at = this.messages.get(at.parent)) {
      seen.add(at.id);
      path.push(at);
    }
    return path.reverse();
  }

  // siblings are the ids that a message may be replaced by, itself among them.
  siblings(id: string): string[] {
    const message = this.messages.get(id);
    return (message && this.children.get(message.parent)) ?? [];
  }

  // leafOf is the newest leaf below a message.
  leafOf(id: string): string {
    for (;;) {
      const below = this.children.get(id);
      if (!below || below.length === 0) return id;
      id = below[below.length - 1];
    }
  }
}

const fences = /^`{3,}/gm;

// fenced is a file as part of a question: its name and its text in a code block.
export function fenced(file: Attachment): string {
  let longest = 2;
  for (const run of file.text.match(fences) ?? []) longest = Math.max(longest, run.length);
  const fence = "`".repeat(longest + 1);
  return `${file.name.replace(/[\r\n`]/g, " ")}:\n${fence}\n${file.text.replace(/\n$/, "")}\n${fence}`;
}

// said is a question as the model reads it.
export function said(text: string, files: Attachment[]): string {
  return [...files.map(fenced), text].filter((part) => part !== "").join("\n\n");
}

// inputOf are the items of a request whose history is path.
export function inputOf(path: Message[], replay: (items: Item[]) => Item[]): unknown[] {
  const input: unknown[] = [];
  for (const message of path) {
    if (message.role === "question") {
      input.push({ type: "message", role: "user", content: [{ type: "input_text", text: said(message.text, message.files) }] });
    } else if (message.role === "answer") {
      input.push(...replay(message.answer?.items ?? []));
    } else {
      for (const approval of message.approvals) {
        input.push({ type: "mcp_approval_response", approval_request_id: approval.request, approve: approval.approve, ...(approval.reason ? { reason: approval.reason } : {}) });
      }
    }
  }
  return input;
}

// requestOf is the request for the answer behind path. Only what was set is in it.
export function requestOf(path: Message[], settings: Sampling, model: string, replay: (items: Item[]) => Item[]): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  if (model !== "") body.model = model;
  if (settings.instructions) body.instructions = settings.instructions;
  body.input = inputOf(path, replay);
  for (const name of ["temperature", "top_p", "top_k", "min_p", "seed", "max_output_tokens"] as const) {
    if (settings[name] !== undefined) body[name] = settings[name];
  }
  if (settings.effort) body.reasoning = { effort: settings.effort };
  if (settings.tools && settings.tools.length > 0) {
    body.tools = settings.tools.map(toolOf);
    body.include = ["code_interpreter_call.outputs", "web_search_call.action.sources"];
  }
  return body;
}

// toolOf is a built-in tool as a request names it. One of MCP is "mcp:LABEL".
function toolOf(type: string): Record<string, unknown> {
  if (type.startsWith("mcp:")) return { type: "mcp", server_label: type.slice(4) };
  if (type === "code_interpreter") return { type, container: { type: "auto" } };
  return { type };
}
