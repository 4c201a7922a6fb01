// Questions, answers and approvals as they are shown, with what can be done with each.

import { Component, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Answer, approvalsWanted, contentText, type Item, outputTokens, textOf, unfinishedText, writingTime } from "./answer";
import { Box } from "./box";
import { useCell } from "./cell";
import { chats, type Run, toolName } from "./chats";
import { CopyButton, IconButton, textField } from "./controls";
import { DeveloperView } from "./developer";
import { bytes, count, duration, rate, several, shown } from "./format";
import { Icon } from "./icons";
import { cited, Link, Markdown, type Source } from "./markdown";
import { models, useTurn } from "./models";
import { keyDialog, place, settingsAt } from "./places";
import { type Message, said, type Sampling } from "./tree";
import { isWork, pretty, Work } from "./work";

interface Props {
  message: Message;
  siblings: string[];
  rich: boolean; // Markdown is drawn; else the text as it is
  last: boolean;
}

// A MessageView is drawn again only where it may have changed.
export class MessageView extends Component<Props, { broken?: boolean }> {
  private drawn = "";

  private signature(props: Props): string {
    return [props.message.answer?.state, props.siblings.join(), props.rich, props.last].join(" ");
  }
  override shouldComponentUpdate(next: Props, state: { broken?: boolean }): boolean {
    return state.broken !== this.state.broken || next.message !== this.props.message || next.message.answer?.state === "running" || this.signature(next) !== this.drawn;
  }
  // What cannot be drawn must not take the page with it.
  override componentDidCatch(): void {
    this.setState({ broken: true });
  }
  override render(props: Props, state: { broken?: boolean }) {
    if (state.broken) return <article class="answer"><p class="note" role="alert">This message cannot be shown. Its text:</p><div class="raw">{shown(props.message.text || textOf(props.message.answer?.items ?? []))}</div></article>;
    this.drawn = this.signature(props);
    const { message } = props;
    if (message.role === "question") return <QuestionView {...props} />;
    if (message.role === "approval") return <Decisions message={message} />;
    return <AnswerView {...props} />;
  }
}

function Branches({ message, siblings }: { message: Message; siblings: string[] }) {
  if (siblings.length < 2) return null;
  const at = siblings.indexOf(message.id);
  return (
    <span class="branches" role="group" aria-label="Versions">
      <IconButton icon="left" label="Previous version" testid="branch-prev" off={at === 0} onClick={() => chats.select(siblings[at - 1])} />
      <span data-testid="branch-count">{at + 1}/{siblings.length}</span>
      <IconButton icon="right" label="Next version" testid="branch-next" off={at === siblings.length - 1} onClick={() => chats.select(siblings[at + 1])} />
    </span>
  );
}

function QuestionView({ message, siblings }: Props) {
  const [editing, setEditing] = useState(false);
  const busy = useBusy();
  useEffect(() => {
    const edit = (event: Event) => (event as CustomEvent).detail === message.id && setEditing(true);
    addEventListener("edit-question", edit);
    return () => removeEventListener("edit-question", edit);
  }, [message.id]);
  if (editing) {
    return (
      <article class="question editing" aria-label="Your question">
        <Box
          edit={message}
          onDone={(text, files) => {
            setEditing(false);
            if (text !== undefined) void chats.ask(text, files!, message);
          }}
        />
      </article>
    );
  }
  return (
    <article class="question" aria-label="Your question">
      <h2 class="sr">Question</h2>
      <div class="bubble">
        {message.files.length > 0 ? <Files files={message.files} /> : null}
        <div class="said">{shown(message.text)}</div>
      </div>
      <footer class="tools">
        <Branches message={message} siblings={siblings} />
        <IconButton icon="pencil" label="Edit" testid="edit" disabled={busy} onClick={() => setEditing(true)} />
        <CopyButton text={() => said(message.text, message.files)} label="Copy" />
      </footer>
    </article>
  );
}

function Files({ files }: { files: Message["files"] }) {
  return <ul class="chips">{files.map((file) => <li class="chip"><Icon name="text" /><span>{shown(file.name)}</span><span class="faint">{bytes(file.text.length)}</span></li>)}</ul>;
}

function Decisions({ message }: { message: Message }) {
  return (
    <div class="decisions">
      {message.approvals.map((a) => <p>{a.approve ? "Allowed" : "Declined"}: {shown(a.what)}{a.reason ? ` \u2014 ${shown(a.reason)}` : ""}</p>)}
    </div>
  );
}

function useBusy(): boolean {
  useCell(chats.activity);
  return chats.running(chats.open.get()?.id) !== undefined || chats.foreign();
}

// useSlowly has a growing answer drawn: each frame, or where that takes long more rarely.
function useSlowly(active: boolean, size: () => number): void {
  const [, again] = useState(0);
  const at = useRef({ last: 0, cost: 0, timer: 0 });
  const began = performance.now();
  useEffect(() => {
    at.current.cost = performance.now() - began;
    at.current.last = performance.now();
  });
  useEffect(() => {
    if (!active) return undefined;
    const held = at.current;
    const stop = chats.growing.follow(() => {
      if (held.timer !== 0) return;
      const pause = Math.max(size() > 50_000 ? 100 : 0, held.cost * 4) - (performance.now() - held.last);
      if (pause <= 0) again((n) => n + 1);
      else
        held.timer = setTimeout(() => {
          held.timer = 0;
          again((n) => n + 1);
        }, pause) as unknown as number;
    });
    return () => {
      stop();
      clearTimeout(held.timer);
      held.timer = 0;
    };
  }, [active]);
}

// useSeconds has something drawn each second while time goes on without events.
function useSeconds(active: boolean): void {
  const [, again] = useState(0);
  useEffect(() => {
    if (!active) return undefined;
    const timer = setInterval(() => again((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [active]);
}

function AnswerView({ message, siblings, rich, last }: Props) {
  const answer = message.answer!;
  const run = chats.runs.get(message.id);
  const running = answer.state === "running";
  const [raw, setRaw] = useState(false);
  const [developer, setDeveloper] = useState(false);
  const size = () => answer.items.reduce((n, item) => n + contentText(item).length, 0);
  useSlowly(running, size);
  useSeconds(running);
  const messages = answer.items.filter((item) => item.type === "message" && !isWork(item));
  const sources: Source[] = [];
  const body = messages.map((item, i) => {
    const text = contentText(item);
    if (raw || !rich) return <div class="raw" key={i}>{shown(text)}</div>;
    const made = cited(text, (item.content ?? []).flatMap((part) => part.annotations ?? []));
    sources.push(...made.sources);
    return <Markdown key={i} text={made.text} sources={made.sources} growing={running} />;
  });
  return (
    <article class={running ? "answer running" : "answer"} data-testid="answer" data-state={answer.state} aria-label="Answer" aria-busy={running}>
      <h2 class="sr">Answer</h2>
      <Work answer={answer} run={run} />
      {body.length > 0 ? <div class="prose">{body}</div> : null}
      {running ? <Waiting answer={answer} run={run} foreign={!run?.active} /> : null}
      <Sources sources={sources} />
      {last && !running ? <Approvals message={message} /> : null}
      <Ending message={message} last={last} />
      <footer class="tools">
        <Branches message={message} siblings={siblings} />
        {running ? null : (
          <>
            <CopyButton text={() => textOf(answer.items)} label="Copy as Markdown" testid="copy" />
            <Regenerate message={message} />
            <IconButton icon="text" label={raw ? "Show formatted" : "Show raw text"} pressed={raw} onClick={() => setRaw(!raw)} />
            <IconButton icon="branch" label="Branch to new chat" onClick={() => void chats.branch(message)} />
          </>
        )}
        <IconButton icon="code" label="Developer view" pressed={developer} testid="developer" onClick={() => setDeveloper(!developer)} />
        <Figures answer={answer} run={run} />
      </footer>
      {developer ? <DeveloperView message={message} run={run} /> : null}
    </article>
  );
}

function Regenerate({ message }: { message: Message }) {
  return <IconButton icon="again" label="Regenerate" testid="regenerate" disabled={useBusy()} onClick={() => void chats.again(message)} />;
}

// Waiting says what an answer waits for before its first token.
function Waiting({ answer, run, foreign }: { answer: Answer; run?: Run; foreign: boolean }) {
  if (foreign) return <p class="waiting">Being answered in another tab</p>;
  if (run?.note) {
    const left = Math.max(0, Math.ceil(((run.resume ?? 0) - performance.now()) / 1000));
    return (
      <p class="waiting" data-testid={chats.ready.get() === "loading" ? "waiting" : "error"}>
        {shown(capital(run.note).replace(/\.$/, ""))}{run.resume && chats.ready.get() === "ready" ? `. Trying again in ${left} s` : ""}{" "}
        <button type="button" class="quiet" onClick={() => run.abort.abort()}>Do not wait</button>
      </p>
    );
  }
  if (answer.items.length > 0) return null;
  const p = run?.progress;
  if (p && p.queued_before > 0) return <p class="waiting">Waiting behind {several(p.queued_before, "request")}</p>;
  if (p && p.prompt_tokens > 0) {
    return (
      <p class="waiting">
        <progress max={p.prompt_tokens} value={p.done_tokens} aria-label="Prompt" /> Reading the prompt: {count(p.done_tokens)} of {several(p.prompt_tokens, "token")}
      </p>
    );
  }
  return <Turn model={run?.request.model} />;
}

// Turn is what is shown while nothing is known: of a model that is not in memory why.
function Turn({ model }: { model: unknown }) {
  const waits = useTurn(model);
  const dots = <span class="dots" aria-hidden="true"><i /><i /><i /></span>;
  return waits ? <p class="waiting" data-testid="turn">{shown(waits)} {dots}</p> : <p class="waiting" aria-hidden="true">{dots}</p>;
}

// Figures are the numbers below an answer: while it is written, too.
function Figures({ answer, run }: { answer: Answer; run?: Run }) {
  const named = useCell(models).length > 1;
  const running = answer.state === "running";
  const tokens = outputTokens(answer);
  if (tokens === 0 && (running || answer.took === undefined)) return null;
  const time = writingTime(answer, run && running ? performance.now() - run.started : undefined);
  const cached = answer.usage?.input_tokens_details?.cached_tokens;
    const end: Record<string, string> = { completed: "complete", incomplete: "incomplete", failed: "failed", stopped: "stopped", running: "" };
  const all: [string, string][] = [
    ["Model", named && answer.model ? shown(answer.model) : ""],
    ["Tokens written", several(tokens, "token")],
    ["Speed", tokens > 1 && time > 0 ? rate(tokens - 1, time) : ""],
    ["Time to first token", answer.first !== undefined ? "TTFT " + duration(answer.first) : ""],
    ["Tokens read, and of these from the cache", answer.usage && !running ? `${count(answer.usage.input_tokens)} in${cached ? ` (${count(cached)} cached)` : ""}` : ""],
    ["Time", !running && answer.took !== undefined ? duration(answer.took) : ""],
    ["End", end[answer.state]],
  ];
  return <span class="tally" data-testid="tokens">{all.filter(([, text]) => text !== "").map(([title, text]) => <span title={title}>{text}</span>)}</span>;
}

function Sources({ sources }: { sources: Source[] }) {
  if (sources.length === 0) return null;
  return (
    <section class="sources" data-testid="sources" aria-label="Sources">
      <h3>Sources</h3>
      <ol>{sources.map((s) => <li><Link address={s.url} label={s.title || s.url}>{shown(s.title || s.url)}</Link></li>)}</ol>
    </section>
  );
}

// Ending says in words why an answer is not complete, with what can be done.
function Ending({ message, last }: { message: Message; last: boolean }) {
  const answer = message.answer!;
  const busy = useBusy();
  if (answer.truncated && answer.state === "completed") return <p class="note">{several(answer.truncated, "older turn")} of this chat did not fit and {answer.truncated === 1 ? "was" : "were"} left out.</p>;
  const further = last && unfinishedText(answer) ? <button type="button" class="secondary" data-testid="continue" disabled={busy} onClick={() => void chats.goOn(message)}>Continue</button> : null;
  if (answer.state === "stopped") return <p class="note">Stopped. {further}</p>;
  const retry = (label: string, change?: Partial<Sampling> & { truncation?: string }) => <button type="button" class="secondary" data-testid="retry" disabled={busy} onClick={() => void chats.again(message, change)}>{label}</button>;
  if (answer.state === "incomplete") {
    const limit = chats.settings().max_output_tokens;
    return (
      <div class="trouble" role="note" data-testid="error">
        <p>{answer.reason === "max_output_tokens" ? "The answer ends here because it reached the limit of its length." : `The answer is incomplete${answer.reason ? ": " + shown(answer.reason.replace(/_/g, " ")) : ""}.`}</p>
        <div class="actions">{further}{limit ? retry(`Raise the limit to ${count(limit * 4)} tokens and regenerate`, { max_output_tokens: limit * 4 }) : retry("Regenerate")}</div>
      </div>
    );
  }
  if (answer.state !== "failed") return null;
  return <Failed message={message} last={last} further={further} retry={retry} />;
}

function Failed({ message, last, further, retry }: { message: Message; last: boolean; further: ComponentChildren; retry: (label: string, change?: { truncation?: string }) => ComponentChildren }) {
  const answer = message.answer!;
  const failure = answer.failure ?? { message: "the answer failed" };
  const where = settingsAt(failure.param);
  const full = failure.code === "context_length_exceeded";
  const words: Record<number, string> = { 0: "Connection lost", 401: "The server wants a key", 403: "The server does not allow this", 404: "Not found", 413: "Too large for the server", 429: "The server is busy", 503: "The server cannot answer now", [-1]: "The answer broke off" };
  return (
    <div class="trouble failed" role="alert" data-testid="error">
      <p><strong>{full ? "The context is full" : words[failure.status ?? 1] ?? "The answer failed"}.</strong> {failure.status === 0 ? "What came so far is kept; nothing is sent again by itself." : shown(capital(failure.message))}</p>
      {last ? (
        <div class="actions">
          {failure.status === 401 ? <button type="button" class="secondary" onClick={() => keyDialog.set(true)}>Enter a key</button> : null}
          {full ? null : further}
          {full ? retry("Drop the oldest turns and retry", { truncation: "auto" }) : retry("Retry")}
          {full ? <NewWithLast message={message} /> : null}
          {where ? <a class="button secondary" href="#/settings">Change {where}</a> : null}
          {failure.status === 404 ? <a class="button secondary" href="#/settings">Choose another model</a> : null}
        </div>
      ) : null}
    </div>
  );
}

// NewWithLast begins a chat whose box holds the last answer.
function NewWithLast({ message }: { message: Message }) {
  const path = chats.tree.get().path(message.parent);
  const before = path.filter((m) => m.answer && textOf(m.answer.items) !== "").pop();
  if (!before) return null;
  const begin = () => place.set({ view: "chat", id: "", path: "", fill: textOf(before.answer!.items) });
  return <button type="button" class="secondary" onClick={begin}>New chat with the last answer</button>;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

// Approvals asks, for each call that wants it, whether it may be made. Focus begins on what does
// nothing, but not where somebody is writing: the next space would decide.
function Approvals({ message }: { message: Message }) {
  const wanted = approvalsWanted(message.answer!.items);
  const open = chats.open.get();
  if (wanted.length === 0 || message.answer!.state !== "completed" || open?.leaf !== message.id) return null;
  return <ApprovalCards key={message.id} wanted={wanted} />;
}

function ApprovalCards({ wanted }: { wanted: Item[] }) {
  const decline = useRef<HTMLButtonElement>(null);
  const [decided, setDecided] = useState<Record<string, { approve: boolean; reason?: string; always: boolean }>>({});
  const [reason, setReason] = useState("");
  const open = wanted.find((item) => !(item.id! in decided));
  useEffect(() => {
    if (!textField()?.value) decline.current?.focus();
  }, [open?.id]);
  if (!open) return null;
  const decide = (approve: boolean, always = false) => {
    const next = { ...decided, [open.id!]: { approve, always, ...(reason && !approve ? { reason } : {}) } };
    setDecided(next);
    setReason("");
    if (!wanted.every((item) => item.id! in next)) return;
    const allow = wanted.filter((item) => next[item.id!].always).map(toolName);
    void chats.decide(wanted.map((item) => ({ request: item.id!, approve: next[item.id!].approve, reason: next[item.id!].reason, what: toolName(item) })), allow);
  };
  return (
    <section class="approval" aria-label="Approval">
      <h3>Allow this call?</h3>
      <p><strong>{shown(open.name ?? "")}</strong> of <strong>{shown(open.server_label ?? "")}</strong>, with:</p>
      <pre tabIndex={0}>{shown(pretty(open.arguments))}</pre>
      <label class="reason">Reason, if declined <input type="text" value={reason} onInput={(event) => setReason(event.currentTarget.value)} /></label>
      <div class="actions">
        <button type="button" class="secondary" ref={decline} data-testid="approval-decline" onClick={() => decide(false)}>Decline</button>
        <button type="button" class="secondary" data-testid="approval-allow" onClick={() => decide(true)}>Allow once</button>
        <button type="button" class="secondary" data-testid="approval-always" onClick={() => decide(true, true)}>Allow in this conversation</button>
      </div>
    </section>
  );
}
