// The chat: the path of messages that is shown, the box below it, and what is said before the
// first question.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Info, info, keyState } from "./api";
import { Box } from "./box";
import { useCell } from "./cell";
import { chats } from "./chats";
import { compact, shown } from "./format";
import { Icon } from "./icons";
import { MessageView } from "./message";
import { place } from "./places";

const FIRST = 10; // messages that are drawn in full at once
const EACH = 4; // more of them, whenever the browser has time
const NEAR = 80; // pixels from the end within which new text is followed

export function ChatView() {
  const at = useCell(place);
  const open = useCell(chats.open);
  useCell(chats.tree);
  const [, again] = useState(0);
  useEffect(() => chats.tree.follow(() => again((n) => n + 1)), []);
  const missing = useCell(chats.missing);
  const path = chats.path();
  useEffect(() => {
    document.title = open ? shown(open.title) + " \u00b7 Ossian" : "Ossian";
  }, [open, open?.title]);
  if (missing && at.id !== "") {
    return (
      <div class="page-text">
        <h1>This chat is not here</h1>
        <p>It may have been deleted, or it is in another browser: chats are kept where they were written.</p>
        <p><a href="#/">Begin a new one</a></p>
      </div>
    );
  }
  if (path.length === 0) {
    return (
      <div class="chat empty">
        <h1 class="sr">New chat</h1>
        <Welcome />
        <Box />
        <span class="space" />
      </div>
    );
  }
  return <Transcript key={open!.id} />;
}

function Transcript() {
  const open = useCell(chats.open);
  const [, again] = useState(0);
  useEffect(() => chats.tree.follow(() => again((n) => n + 1)), []);
  const tree = useCell(chats.tree);
  const path = chats.path();
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const [from, setFrom] = useState(Math.max(0, path.length - FIRST));
  const [away, setAway] = useState(false);
  const follow = useRef(true);

  // Older messages are drawn in full from the newest to the oldest while nothing else happens.
  useEffect(() => {
    if (from === 0) return undefined;
    const idle: typeof requestIdleCallback = globalThis.requestIdleCallback ?? ((f: any) => setTimeout(f, 30) as unknown as number);
    const cancel = globalThis.cancelIdleCallback ?? clearTimeout;
    const handle = idle(() => setFrom((n) => Math.max(0, n - EACH)));
    return () => cancel(handle);
  }, [from]);

  const toEnd = () => {
    follow.current = true;
    const s = scroller.current;
    if (s) s.scrollTop = s.scrollHeight; // it may be gone when the last change of size is told
  };
  useLayoutEffect(toEnd, [path.length, path[path.length - 1]?.id]);
  useEffect(() => {
    const observer = new ResizeObserver(() => follow.current && toEnd());
    observer.observe(content.current!);
    return () => observer.disconnect();
  }, []);
  const scrolled = () => {
    const s = scroller.current;
    if (!s) return;
    follow.current = s.scrollHeight - s.scrollTop - s.clientHeight < NEAR;
    setAway(!follow.current);
  };
  return (
    <div class="chat">
      <h1 class="sr">{shown(open?.title ?? "")}</h1>
      <div class="scroller" ref={scroller} onScroll={scrolled} tabIndex={0} role="region" aria-label="Conversation">
        <div class="transcript" ref={content}>
          {path.map((message, i) => <MessageView key={message.parent} message={message} siblings={tree.siblings(message.id)} rich={i >= from} last={i === path.length - 1} />)}
        </div>
      </div>
      <div class="below">
        {away ? <button type="button" class="to-end" aria-label="To the end" title="To the end" onClick={toEnd}><Icon name="down" /></button> : null}
        <Box />
      </div>
    </div>
  );
}

// What a model can be asked, for a beginning. The built-in one is small, and these are what it
// can do.
const small = ["12+30", "Hello!", "What can you do?"];
const large = ["Explain how a hash table works", "Write a haiku about the sea", "Compare TCP and UDP in a table"];

function useInfo(): Info | undefined {
  const [told, setTold] = useState<Info | undefined>();
  const ready = useCell(chats.ready);
  const key = useCell(keyState);
  useEffect(() => {
    if (ready === "unknown") return undefined;
    let current = true;
    info(true).then((i) => current && setTold(i), () => {});
    return () => {
      current = false;
    };
  }, [ready, key]);
  return told;
}

function Welcome() {
  const told = useInfo();
  const ready = useCell(chats.ready);
  useCell(chats.draft);
  const wanted = chats.settings().model;
  const model = told?.models.find((m) => m.id === wanted) ?? told?.models[0];
  const facts: string[] = [];
  if (model?.parameters) facts.push(compact(model.parameters) + " parameters");
  if (model?.quantization) facts.push(model.quantization);
  const context = model?.max_model_len ?? model?.context_window;
  if (context) facts.push(compact(context) + " tokens of context");
  const examples = !model || model.id.includes("tiny") ? small : large;
  return (
    <div class="welcome">
      <p class="greeting">{model ? shown(model.id) : "Ossian"}</p>
      <p class="facts">{ready === "loading" ? "The model is loading. You can write already." : ready === "gone" ? "The server does not answer." : facts.join(" \u00b7 ") || "A model on your own machine"}</p>
      <ul class="examples">
        {examples.map((example) => <li><button type="button" data-testid="example" onClick={() => void chats.ask(example, [])}>{example}</button></li>)}
      </ul>
    </div>
  );
}
