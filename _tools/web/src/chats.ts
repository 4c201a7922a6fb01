// The conversations of the page: what is open, what is being answered, and what the other tabs
// are told. Views read cells and call methods; nothing here draws.
//
// Invariant: an answer is run by one tab, its owner; other tabs show it and leave it alone. The
// page never sends a question twice by itself.

import { type Answer, apply, approvalsWanted, joined, newAnswer, type Progress, replayed, textOf } from "./answer";
import { Failure, info, post, request } from "./api";
import { Cell } from "./cell";
import { titleOf, wordCount } from "./format";
import { keepText, keptText } from "./kept";
import { eventsOf } from "./sse";
import { rescued, store, trouble, unusable, write } from "./store";
import { read, renamed, type Transfer, written } from "./transfer";
import { type Approval, type Attachment, type Conversation, type Message, requestOf, type Sampling, Tree } from "./tree";

const tab = newId();

export function newId(): string {
  const random = crypto.getRandomValues(new Uint8Array(12));
  return Date.now().toString(36) + "-" + [...random].map((b) => b.toString(36).padStart(2, "0")).join("");
}

// A Run is an answer while this tab makes it, and what the developer view shows of it later.
export interface Run {
  request: Record<string, unknown>;
  events: string[]; // as they came
  held: number; // characters of them
  dropped: number; // events that were not kept
  started: number; // performance.now, less the time that what it goes on from has taken
  spent: number; // ms of that
  abort: AbortController;
  progress?: Progress;
  active: boolean;
  note: string; // what it waits for
  resume?: number; // performance.now at which it tries again
}

const MOST_EVENTS = 2_000_000; // characters of one answer's events kept for the developer view
const MOST_HELD = 8_000_000; // and of all answers together
const BROKEN = -1; // status of answers whose stream is not what it should be
const WRITE_EACH = 1000; // ms between writes of a growing answer
const STALE = 4000; // ms after which an answer that no tab tells of is nobody's

export type Ready = "unknown" | "ready" | "loading" | "gone";

class Chats {
  readonly list = new Cell<Conversation[]>([]);
  readonly open = new Cell<Conversation | undefined>(undefined);
  readonly tree = new Cell<Tree>(new Tree());
  readonly missing = new Cell(false); // the conversation of the address is not there
  readonly growing = new Cell(0); // changes while an answer grows, up to once a frame
  readonly activity = new Cell(0); // changes when an answer begins, waits or ends, in any tab
  readonly fault = new Cell<{ param: string; message: string } | undefined>(undefined); // of the settings that were sent last
  readonly defaults = new Cell<Sampling>({});
  readonly said = new Cell(""); // for the live region
  readonly ready = new Cell<Ready>("unknown");
  readonly loaded = new Cell(false);
  readonly draft = new Cell<Sampling>({}); // settings of a chat that has not begun
  readonly runs = new Map<string, Run>(); // by id of the answer
  private removed = new Set<string>(); // ids of conversations: what still runs in them is dropped
  private unkept = new Set<string>(); // ids of conversations that are not all in the database: their trees stay
  private wasReady = false;
  private heard = new Map<string, number>(); // performance.now at which another tab told of an answer
  private channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel("ossian");
  private trees = new Map<string, Tree>(); // of conversations that are open or being answered
  private turn = 0; // of what is shown: what is read for an earlier one comes too late
  private frame = 0;
  private asked = false;
  private shown!: () => void;
  private readonly begun = new Promise<void>((resolve) => (this.shown = resolve)); // until the first conversation is shown, or a new one

  async start(): Promise<void> {
    this.channel?.addEventListener("message", (event) => this.hear(event.data));
    addEventListener("pagehide", () => this.leave());
    const kept = await store();
    try {
      this.list.set(sorted(await kept.conversations()));
      this.defaults.set({ ...(await kept.defaults()), ...this.defaults.get() }); // somebody may have been quicker
    } catch (error) {
      trouble.set(`The conversations in this browser cannot be read: ${(error as Error).message}.`);
    }
    this.loaded.set(true);
    void this.watchReady();
  }

  // show opens a conversation, "" = a new one.
  async show(id: string): Promise<void> {
    await this.find(id);
    this.shown();
  }

  private async find(id: string): Promise<void> {
    const turn = ++this.turn;
    const conversation = this.list.get().find((c) => c.id === id);
    this.missing.set(id !== "" && !conversation && this.loaded.get());
    if (!conversation) {
      this.open.set(undefined);
      this.tree.set(new Tree());
      return;
    }
    const tree = await this.treeOf(id);
    if (turn !== this.turn) return;
    this.open.set(conversation);
    this.tree.set(tree);
    this.findStale(conversation, tree);
  }

  private async treeOf(id: string): Promise<Tree> {
    let tree = this.trees.get(id);
    if (!tree) {
      tree = new Tree(await (await store()).messages(id).catch(() => []));
      const quicker = this.trees.get(id); // it may have been read twice at once
      if (quicker) return quicker;
      for (const other of this.trees.keys()) {
        if (!this.running(other) && !this.unkept.has(other) && other !== this.open.get()?.id) this.trees.delete(other);
      }
      this.trees.set(id, tree);
    }
    return tree;
  }

  // findStale ends answers whose tab is gone: one that lives tells of them each second.
  private findStale(conversation: Conversation, tree: Tree): void {
    const open = tree.path(conversation.leaf).filter((m) => m.answer?.state === "running" && m.owner !== tab);
    if (open.length === 0) return;
    this.tell({ kind: "who", ids: open.map((m) => m.id) });
    const asked = performance.now();
    setTimeout(async () => {
      // It may have ended, with nobody left to tell of it here.
      const kept = new Map((await (await store()).messages(conversation.id).catch(() => [])).map((m) => [m.id, m]));
      for (const { id } of open) {
        const message = tree.messages.get(id);
        if (message?.answer?.state !== "running" || this.runs.has(id)) continue;
        const ended = kept.get(id);
        if (ended && ended.answer?.state !== "running") {
          tree.add(ended);
          if (this.tree.get() === tree) this.tree.tell();
          this.act();
        } else if ((this.heard.get(id) ?? 0) < asked) {
          message.answer.state = "stopped";
          this.change(conversation, message);
        }
      }
    }, STALE);
  }

  // foreign is whether another tab is answering here.
  foreign(): boolean {
    return this.path().some((m) => m.answer?.state === "running" && !this.runs.get(m.id)?.active);
  }

  path(): Message[] {
    const open = this.open.get();
    return open ? this.tree.get().path(open.leaf) : [];
  }

  // running is the answer that this tab is making in a conversation.
  running(conversation: string | undefined): Message | undefined {
    if (conversation === undefined) return undefined;
    for (const [id, run] of this.runs) {
      if (!run.active) continue;
      const message = this.trees.get(conversation)?.messages.get(id);
      if (message) return message;
    }
    return undefined;
  }

  // ask sends a question behind the path that is shown, or as a sibling of another.
  async ask(text: string, files: Attachment[], insteadOf?: Message): Promise<void> {
    await this.begun; // else what is read from the database later would stand in for the question
    let conversation = this.open.get();
    this.turn++;
    if (!conversation) {
      conversation = { id: newId(), title: titleOf(text || files[0]?.name || ""), created: Date.now(), changed: Date.now(), leaf: "", settings: { ...this.draft.get() }, allowed: [] };
      this.draft.set({});
      this.trees.set(conversation.id, new Tree());
      this.open.set(conversation);
      this.tree.set(this.trees.get(conversation.id)!);
      this.missing.set(false);
      location.hash = "#/c/" + conversation.id;
    }
    const parent = insteadOf ? insteadOf.parent : conversation.leaf;
    const question: Message = { id: newId(), conversation: conversation.id, parent, created: Date.now(), role: "question", text, files, approvals: [] };
    this.change(conversation, question, question.id);
    await this.answer(conversation, question.id);
  }

  // again makes an answer anew, as a sibling.
  async again(message: Message, change?: Change): Promise<void> {
    const conversation = this.open.get();
    if (!conversation || this.running(conversation.id)) return;
    document.querySelector<HTMLElement>("[data-testid=box]")?.focus(); // the button is gone while it is made
    await this.answer(conversation, message.parent, change);
  }

  // decide answers requests for approval and goes on.
  async decide(approvals: Approval[], allow: string[] = []): Promise<void> {
    const conversation = this.open.get();
    if (!conversation) return;
    conversation.allowed = [...new Set([...conversation.allowed, ...allow])];
    const message: Message = { id: newId(), conversation: conversation.id, parent: conversation.leaf, created: Date.now(), role: "approval", text: "", files: [], approvals };
    this.change(conversation, message, message.id);
    await this.answer(conversation, message.id);
  }

  stop(): void {
    const message = this.running(this.open.get()?.id);
    if (message) this.runs.get(message.id)?.abort.abort();
  }

  // settings are those of the conversation that is open, over the defaults.
  settings(): Sampling {
    return { ...this.defaults.get(), ...(this.open.get()?.settings ?? this.draft.get()) };
  }

  setSettings(settings: Sampling): void {
    const open = this.open.get();
    if (!open) {
      this.draft.set(settings);
      return;
    }
    open.settings = settings;
    this.change(open);
  }

  async setDefaults(settings: Sampling): Promise<void> {
    this.defaults.set(settings);
    await (await store()).setDefaults(settings).catch(() => trouble.set("The settings could not be kept."));
  }

  // body is the request for an answer behind a path.
  async body(path: Message[], extra: Sampling & { truncation?: string } = {}): Promise<Record<string, unknown>> {
    const { truncation, ...settings } = { ...this.settings(), ...extra };
    const model = settings.model ?? (await info().catch(() => undefined))?.models[0]?.id ?? "";
    const body = requestOf(path, settings, model, replayed);
    if (truncation) body.truncation = truncation;
    return body;
  }

  // context is that of the model that answers, in tokens; 0 = unknown.
  async context(): Promise<number> {
    const told = await info().catch(() => undefined);
    const wanted = this.settings().model;
    const model = told?.models.find((m) => m.id === wanted) ?? told?.models[0];
    return model?.max_model_len ?? model?.context_window ?? 0;
  }

  private async answer(conversation: Conversation, parent: string, change: Change = {}): Promise<void> {
    const message: Message = { id: newId(), conversation: conversation.id, parent, created: Date.now(), role: "answer", text: "", files: [], approvals: [], answer: newAnswer() };
    await this.make(conversation, message, parent, change);
  }

  // goOn has an answer that was cut written on from where it ends.
  async goOn(message: Message): Promise<void> {
    const conversation = this.open.get();
    if (!conversation || this.running(conversation.id)) return;
    document.querySelector<HTMLElement>("[data-testid=box]")?.focus(); // as for again
    const before = { ...message.answer!, usage: message.answer!.usage ?? counted(message.answer!) };
    Object.assign(message.answer!, { state: "running", reason: undefined, failure: undefined, took: undefined });
    await this.make(conversation, message, message.id, {}, before);
  }

  // make has the server write an answer behind a path, into a message: anew, or on from what was there before.
  private async make(conversation: Conversation, message: Message, leaf: string, change: Change, before?: Answer): Promise<void> {
    const tree = await this.treeOf(conversation.id);
    const spent = before?.took ?? 0;
    const run: Run = { request: {}, events: [], held: 0, dropped: 0, started: performance.now() - spent, spent, abort: new AbortController(), active: true, note: "" };
    message.owner = tab;
    this.runs.set(message.id, run);
    this.fault.set(undefined);
    this.change(conversation, message, message.id);
    this.act();
    this.said.set("Answering");
    this.askToKeep();
    const saving = setInterval(() => this.change(conversation, message), WRITE_EACH);
    try {
      const wanted = await this.body(tree.path(leaf), change);
      run.request = { ...wanted, ...(before ? { continue_final_message: true } : {}), store: false, stream: true };
      await this.waitReady(run);
      await this.stream(run, message.answer!, before);
    } catch (error) {
      fail(message.answer!, run, error);
    } finally {
      clearInterval(saving);
      run.active = false;
      run.note = "";
      settle(message.answer!, run);
      this.forgetEvents();
      this.change(conversation, message);
      this.act();
      this.said.set(endOf(message.answer!));
      const { param, message: text } = message.answer!.failure ?? {};
      if (param) this.fault.set({ param, message: text! });
    }
    this.autoApprove(conversation, message);
  }

  // autoApprove goes on where all that was asked for is allowed in this conversation.
  private autoApprove(conversation: Conversation, message: Message): void {
    const wanted = approvalsWanted(message.answer!.items);
    if (message.answer!.state !== "completed" || wanted.length === 0 || conversation.leaf !== message.id || this.open.get() !== conversation) return;
    if (!wanted.every((item) => conversation.allowed.includes(toolName(item)))) return;
    void this.decide(wanted.map((item) => ({ request: item.id ?? "", approve: true, what: toolName(item) })));
  }

  private async stream(run: Run, into: Answer, before?: Answer): Promise<void> {
    const answer = before ? newAnswer() : into;
    const options = { stream_options: { continuous_usage_stats: true, prompt_progress: true } };
    const reply = await this.sent(run, { ...run.request, ...options });
    for await (const { raw, cut } of eventsOf(reply.body!)) {
      this.keepEvent(run, raw);
      if (raw === "[DONE]") continue;
      let event;
      try {
        event = JSON.parse(raw);
      } catch {
        if (cut) continue; // the end of this loop says what became of the rest
        throw new Failure("the server sent an event that cannot be read", BROKEN);
      }
      run.progress = apply(answer, event, performance.now() - run.started) ?? run.progress;
      if (before) Object.assign(into, joined(before, answer));
      this.grow();
      if (answer.state !== "running") return; // what comes behind the end is not part of it
    }
    throw new Failure("the answer broke off before its end", BROKEN);
  }

  // sent sends the request. A server that says when to come back is asked once more then,
  // unless the user stops that.
  private async sent(run: Run, body: unknown): Promise<Response> {
    run.started = performance.now() - run.spent;
    try {
      return await post("/v1/responses", body, run.abort.signal);
    } catch (error) {
      if (!(error instanceof Failure) || error.retryAfter === 0 || ![429, 503].includes(error.status)) throw error;
      run.note = error.message;
      await this.pause(run, Math.min(error.retryAfter, 600) * 1000);
      run.note = "";
      run.started = performance.now() - run.spent;
      return await post("/v1/responses", body, run.abort.signal);
    }
  }

  // pause waits, and ends early with the run.
  private pause(run: Run, ms: number): Promise<void> {
    run.resume = performance.now() + ms;
    this.act();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, ms);
      run.abort.signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(run.abort.signal.reason);
      });
    }).then(() => {
      run.resume = undefined;
    });
  }

  // waitReady waits for a model that is still being loaded.
  private async waitReady(run: Run): Promise<void> {
    while (this.ready.get() === "loading") {
      run.note = "The model is loading; the question is sent when it is ready";
      await this.pause(run, 500);
      run.started = performance.now() - run.spent;
    }
    run.note = "";
  }

  // watchReady asks whether the server answers, more and more rarely while it does not.
  private async watchReady(): Promise<void> {
    for (let wait = 1000; ; wait = Math.min(wait * 1.6, 10_000)) {
      const state = await readiness();
      this.ready.set(state === "loading" && this.wasReady ? "gone" : state);
      if (state === "ready") {
        this.wasReady = true;
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  // lost begins to watch for a server that did not answer.
  lost(): void {
    if (this.ready.get() !== "ready") return;
    this.ready.set("gone");
    void this.watchReady();
  }

  private keepEvent(run: Run, raw: string): void {
    if (run.held + raw.length > MOST_EVENTS) {
      run.dropped++;
      return;
    }
    run.events.push(raw);
    run.held += raw.length;
  }

  // forgetEvents drops events of the oldest answers where all are too many.
  private forgetEvents(): void {
    let held = 0;
    for (const run of [...this.runs.values()].reverse()) {
      held += run.held;
      if (held <= MOST_HELD || run.active) continue;
      run.dropped += run.events.length;
      run.events = [];
      run.held = 0;
    }
  }

  private act(): void {
    this.activity.set(this.activity.get() + 1);
    this.growing.set(this.growing.get() + 1);
  }

  // grow has views drawn at most once a frame; a hidden tab draws when it is seen again.
  private grow(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.growing.set(this.growing.get() + 1);
    });
  }

  // change keeps a conversation and a message of it, and tells the other tabs.
  change(conversation: Conversation, message?: Message, leaf?: string): void {
    if (this.removed.has(conversation.id)) return;
    if (message) conversation.changed = Date.now();
    if (leaf !== undefined) conversation.leaf = leaf;
    if (message) this.trees.get(conversation.id)?.add(message);
    this.list.set(sorted([conversation, ...this.list.get().filter((c) => c.id !== conversation.id)]));
    if (this.open.get()?.id === conversation.id) this.tree.tell();
    this.open.tell();
    void write([conversation], message ? [message] : []).then((kept) => kept || this.unkept.add(conversation.id));
    this.tell({ kind: "changed", conversation, message });
  }

  // select shows the branch that a message is in.
  select(id: string): void {
    const open = this.open.get();
    if (open) this.change(open, undefined, this.tree.get().leafOf(id));
  }

  rename(conversation: Conversation, title: string): void {
    conversation.title = title.trim().slice(0, 200) || conversation.title;
    this.change(conversation);
  }

  pin(conversation: Conversation, pinned: boolean): void {
    conversation.pinned = pinned || undefined;
    this.change(conversation);
  }

  async remove(ids: string[]): Promise<void> {
    const kept = await store();
    for (const id of ids) {
      this.drop(id);
      await kept.remove(id).catch((error) => trouble.set(`It could not be deleted: ${(error as Error).message}.`));
      keepText("box." + id, "");
      this.tell({ kind: "removed", id });
    }
    this.list.set(this.list.get().filter((c) => !ids.includes(c.id)));
    if (ids.includes(this.open.get()?.id ?? "")) location.hash = "#/";
  }

  // drop ends what runs in a conversation that is no more, and reports whether something did.
  private drop(id: string): boolean {
    const running = this.running(id);
    this.removed.add(id);
    if (running) this.runs.get(running.id)?.abort.abort();
    this.trees.delete(id);
    return running !== undefined;
  }

  // branch copies the path to a message into a conversation of its own.
  async branch(message: Message): Promise<void> {
    const open = this.open.get();
    if (!open) return;
    const path = this.tree.get().path(message.id);
    const source = { ...open, leaf: message.id, title: open.title, created: Date.now(), changed: Date.now() };
    const copy = renamed({ conversations: [source], messages: path.map(({ owner: _, ...m }) => structuredClone(m)) }, newId);
    await this.take(copy);
    location.hash = "#/c/" + copy.conversations[0].id;
  }

  private async take(all: Transfer): Promise<void> {
    const kept = await write(all.conversations, all.messages);
    for (const { id } of kept ? [] : all.conversations) {
      this.unkept.add(id);
      this.trees.set(id, new Tree(all.messages.filter((m) => m.conversation === id)));
    }
    this.list.set(sorted([...all.conversations, ...this.list.get()]));
    for (const conversation of all.conversations) this.tell({ kind: "changed", conversation });
  }

  // exported is the file of one conversation or of all.
  async exported(id?: string): Promise<string> {
    if (unusable && id === undefined) return written(await rescued());
    const kept = await store();
    const conversations = this.list.get().filter((c) => id === undefined || c.id === id);
    const ids = new Set(conversations.map((c) => c.id));
    // What could not be written is in memory, and newer.
    const messages = new Map((await kept.messages(id).catch(() => [])).map((m) => [m.id, m]));
    for (const tree of this.trees.values()) for (const message of tree.messages.values()) messages.set(message.id, message);
    return written({ conversations, messages: [...messages.values()].filter((m) => ids.has(m.conversation)) });
  }

  // imported adds what a file has, under new ids, and returns how many conversations that are.
  async imported(content: string): Promise<number> {
    const all = renamed(read(content), newId);
    await this.take(all);
    return all.conversations.length;
  }

  // search returns the ids of conversations that have a text in title, questions or answers.
  async search(text: string): Promise<Set<string>> {
    const wanted = text.trim().toLowerCase();
    const found = new Set(this.list.get().filter((c) => c.title.toLowerCase().includes(wanted)).map((c) => c.id));
    for (const message of await (await store()).messages().catch(() => [])) {
      if (found.has(message.conversation)) continue;
      const said = message.role === "answer" ? textOf(message.answer?.items ?? []) : message.text;
      if (said.toLowerCase().includes(wanted)) found.add(message.conversation);
    }
    return found;
  }

  private tell(what: Told): void {
    try {
      this.channel?.postMessage(what);
    } catch {
      // what cannot be cloned is told with the next change
    }
  }

  private hear(what: Told): void {
    switch (what.kind) {
      case "who":
        for (const id of what.ids) {
          const message = this.runs.get(id)?.active ? [...this.trees.values()].map((t) => t.messages.get(id)).find((m) => m) : undefined;
          const conversation = this.list.get().find((c) => c.id === message?.conversation);
          if (message && conversation) this.tell({ kind: "changed", conversation, message });
        }
        return;
      case "removed":
        // What was written of a running answer since is removed as well.
        if (this.drop(what.id)) void store().then((kept) => kept.remove(what.id)).catch(() => {});
        this.list.set(this.list.get().filter((c) => c.id !== what.id));
        if (this.open.get()?.id === what.id) location.hash = "#/";
        return;
      case "changed":
        if (this.removed.has(what.conversation.id)) return; // it was told by a tab that did not know yet
        if (what.message) this.heard.set(what.message.id, performance.now());
        if (what.message && !this.runs.get(what.message.id)?.active) this.trees.get(what.conversation.id)?.add(what.message);
        this.hearOf(what.conversation);
    }
  }

  // hearOf takes over what another tab has changed in a conversation. Its object stays the same:
  // an answer that is made here holds on to it.
  private hearOf(told: Conversation): void {
    const known = this.list.get().find((c) => c.id === told.id);
    if (known) Object.assign(known, told);
    this.list.set(sorted(known ? [...this.list.get()] : [told, ...this.list.get()]));
    if (this.open.get()?.id !== told.id) return;
    this.open.tell();
    this.tree.tell();
    this.activity.set(this.activity.get() + 1);
  }

  // leave ends what this tab is making, and keeps what came.
  private leave(): void {
    for (const [id, run] of this.runs) {
      if (!run.active) continue;
      run.abort.abort();
      for (const [conversation, tree] of this.trees) {
        const message = tree.messages.get(id);
        const of = this.list.get().find((c) => c.id === conversation);
        if (!message?.answer || !of) continue;
        message.answer.state = "stopped";
        this.change(of, message);
      }
    }
  }

  // askToKeep asks the browser, once, not to drop conversations when room is short.
  private askToKeep(): void {
    if (this.asked || keptText("persist") !== "") return;
    this.asked = true;
    keepText("persist", "asked");
    navigator.storage?.persist?.().catch(() => {});
  }
}

// A Change is what one request has otherwise than the settings say.
type Change = Partial<Sampling> & { truncation?: string };

type Told = { kind: "changed"; conversation: Conversation; message?: Message } | { kind: "removed"; id: string } | { kind: "who"; ids: string[] };

// sorted has pinned conversations first, then the newest.
function sorted(list: Conversation[]): Conversation[] {
  return list.sort((a, b) => Number(b.pinned ?? false) - Number(a.pinned ?? false) || b.changed - a.changed);
}

// toolName is how a tool that wants approval is remembered.
export function toolName(item: { server_label?: string; name?: string }): string {
  return `${item.server_label ?? ""}: ${item.name ?? ""}`;
}

// readiness asks /ready, which needs no key and starts no work.
async function readiness(): Promise<Ready> {
  try {
    await request("/ready");
    return "ready";
  } catch (error) {
    return error instanceof Failure && error.status !== 0 ? "loading" : "gone";
  }
}

function fail(answer: Answer, run: Run, error: unknown): void {
  if (run.abort.signal.aborted) {
    answer.state = "stopped";
    return;
  }
  answer.state = "failed";
  if (error instanceof Failure) {
    answer.failure = { message: error.message, code: error.code || undefined, param: error.param || undefined, status: error.status };
    if (error.status === 0) chats.lost();
  } else {
    answer.failure = { message: "the connection to the server was lost", status: 0 };
    chats.lost();
  }
}

// counted is the usage of an answer whose end, which says it, never came.
function counted(answer: Answer): Answer["usage"] {
  return { input_tokens: 0, output_tokens: answer.deltas };
}

// settle fills in what an answer that has ended has to have.
function settle(answer: Answer, run: Run): void {
  if (answer.state === "running") answer.state = "stopped";
  answer.took ??= performance.now() - run.started;
}

function endOf(answer: Answer): string {
  switch (answer.state) {
    case "completed":
      return approvalsWanted(answer.items).length > 0 ? "A tool waits for your approval" : `Done, ${wordCount(textOf(answer.items))} words`;
    case "incomplete":
      return "The answer is incomplete";
    case "stopped":
      return "Stopped";
  }
  return `Failed: ${answer.failure?.message ?? "unknown error"}`;
}

export const chats = new Chats();
