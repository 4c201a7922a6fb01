// The box: what is asked next, with files. It is a component of its own, so that a key press
// draws nothing else, however long the conversation is.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { post } from "./api";
import { useCell } from "./cell";
import { chats } from "./chats";
import { textField } from "./controls";
import { bytes, compact, count, shown } from "./format";
import { Icon } from "./icons";
import { keepText, keptText } from "./kept";
import { EffortMenu, ModelMenu } from "./models";
import { place } from "./places";
import { preferences, touch } from "./preferences";
import { PromptsButton } from "./prompts";
import type { Attachment, Message } from "./tree";

const MOST = 256 * 1024; // bytes of a file

// readFile reads a text file, or says why not.
async function readFile(file: File): Promise<Attachment | string> {
  if (file.size > MOST) return `${file.name} has ${bytes(file.size)}; at most ${bytes(MOST)} fit`;
  if (/^image\//.test(file.type)) return `${file.name} is an image; the model reads text`;
  if (file.type === "application/pdf") return `${file.name} is a PDF; the model reads text`;
  const content = await file.arrayBuffer().then((read) => new Uint8Array(read), () => undefined);
  if (!content) return `${file.name} cannot be read`; // a folder, or it is gone
  if (content.includes(0)) return `${file.name} is a binary file; the model reads text`;
  try {
    return { name: file.name, text: new TextDecoder("utf-8", { fatal: true }).decode(content) };
  } catch {
    return `${file.name} is not UTF-8 text`;
  }
}

interface Props {
  edit?: Message; // a question that is edited, in place
  onDone?: (text?: string, files?: Attachment[]) => void;
}

export function Box({ edit, onDone }: Props) {
  const open = useCell(chats.open);
  useCell(chats.activity);
  const kept = "box." + (edit ? "edit." + edit.id : open?.id ?? "new");
  const [text, setText] = useState(() => (edit ? edit.text : keptText(kept)));
  const [files, setFiles] = useState<Attachment[]>(edit?.files ?? []);
  const [refused, setRefused] = useState<string[]>([]);
  const [over, setOver] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const at = useCell(place);
  const running = chats.running(open?.id) !== undefined;
  const foreign = chats.foreign();

  useEffect(() => {
    if (!edit) setText(keptText(kept));
  }, [kept]);
  useEffect(() => {
    if (edit || open || at.fill === undefined) return; // it is for a new chat
    change(at.fill);
    history.replaceState(null, "", "#/");
    place.set({ ...at, fill: undefined });
    area.current?.focus();
  }, [at.fill, open]);
  useLayoutEffect(() => grow(area.current), [text]);
  useEffect(() => {
    if (edit || !(touch || textField())) area.current?.focus({ preventScroll: true });
  }, []);

  const change = (next: string) => {
    setText(next);
    if (!edit) keepText(kept, next);
  };
  const add = async (list: FileList | File[]) => {
    const read = await Promise.all([...list].map(readFile));
    setFiles((all) => [...all, ...read.filter((r): r is Attachment => typeof r !== "string")]);
    setRefused(read.filter((r): r is string => typeof r === "string"));
  };
  // Files may be dropped anywhere: a browser would else leave the page and show them.
  useEffect(() => {
    if (edit) return undefined;
    const drag = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(event.type === "dragover");
      if (event.type === "drop") void add(event.dataTransfer.files);
    };
    const leave = (event: DragEvent) => event.relatedTarget === null && setOver(false);
    addEventListener("dragover", drag);
    addEventListener("drop", drag);
    addEventListener("dragleave", leave);
    return () => {
      removeEventListener("dragover", drag);
      removeEventListener("drop", drag);
      removeEventListener("dragleave", leave);
    };
  }, []);
  const empty = text.trim() === "" && files.length === 0;
  const send = () => {
    if (empty || running || foreign) return;
    const sent = text.trim();
    setRefused([]);
    if (edit) {
      onDone!(sent, files);
      return;
    }
    change("");
    setFiles([]);
    back();
    void chats.ask(sent, files);
  };
  // back gives the focus to the text: the button that has it is about to go.
  const back = () => touch || area.current?.focus();
  const stop = (event: MouseEvent) => {
    back();
    if (event.detail <= 1) chats.stop(); // else it is the second click of two, and the first one has sent
  };
  const key = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const wantsLine = preferences.get().enter === "line" ? !(event.ctrlKey || event.metaKey) : event.shiftKey;
    if (event.key === "Enter" && !wantsLine) {
      event.preventDefault();
      send();
    } else if (event.key === "Escape" && edit) {
      event.stopPropagation();
      onDone!();
    } else if (event.key === "ArrowUp" && text === "" && !edit) {
      const last = chats.path().filter((m) => m.role === "question").pop();
      if (!last || running) return;
      event.preventDefault();
      dispatchEvent(new CustomEvent("edit-question", { detail: last.id }));
    }
  };
  return (
    <form
      class={over ? "box over" : "box"}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {files.length > 0 ? (
        <ul class="chips" data-testid="chips">
          {files.map((file, i) => (
            <li class="chip">
              <Icon name="text" />
              <span>{shown(file.name)}</span>
              <button type="button" aria-label={`Remove ${shown(file.name)}`} onClick={() => setFiles(files.filter((_, j) => j !== i))}><Icon name="close" /></button>
            </li>
          ))}
        </ul>
      ) : null}
      {refused.map((reason) => <p class="refused" role="alert">{shown(reason)}</p>)}
      <textarea
        ref={area}
        rows={1}
        value={text}
        data-testid={edit ? "edit-box" : "box"}
        aria-label={edit ? "Edit the question" : "Question"}
        placeholder={foreign ? "Another tab is answering here" : "Ask something"}
        onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={key}
        onPaste={(event) => {
          const pasted = [...(event.clipboardData?.files ?? [])];
          if (pasted.length === 0) return;
          event.preventDefault();
          void add(pasted);
        }}
      />
      <div class="box-row">
        <input ref={picker} type="file" multiple hidden onChange={(event) => {
          void add([...event.currentTarget.files!]);
          event.currentTarget.value = "";
        }} />
        <button type="button" class="icon-button" aria-label="Attach text files" title="Attach text files" data-testid="attach" onClick={() => picker.current!.click()}><Icon name="clip" /></button>
        {edit ? null : (
          <PromptsButton text={text} choose={(prompt) => {
            change(text.trim() === "" ? prompt : prompt + "\n\n" + text);
            setTimeout(() => area.current?.focus()); // the dialog gives the focus to its button first
          }} />
        )}
        {edit ? null : <ModelMenu />}
        {edit ? null : <EffortMenu />}
        {edit ? null : <Context text={text} files={files} />}
        <span class="space" />
        {edit ? <button type="button" class="secondary" onClick={() => onDone!()}>Cancel</button> : null}
        {running && !edit ? (
          <button key="stop" type="button" class="send" aria-label="Stop" title="Stop (Esc)" data-testid="stop" onClick={stop}><Icon name="stop" /></button>
        ) : (
          <button key="send" type="submit" class="send" aria-label="Send" title="Send" data-testid={edit ? "edit-send" : "send"} disabled={empty || running || foreign}><Icon name="send" /></button>
        )}
      </div>
    </form>
  );
}

// grow sets the height to that of the text, up to what the style allows.
function grow(area: HTMLTextAreaElement | null): void {
  if (!area || CSS.supports("field-sizing", "content")) return;
  area.style.height = "auto";
  area.style.height = area.scrollHeight + "px";
}

const PAUSE = 500; // ms after the last key

// Context counts prompt and history against the context, half a second after the last key.
function Context({ text, files }: { text: string; files: Attachment[] }) {
  const [counted, setCounted] = useState<{ tokens: number; of: number } | undefined>();
  const open = useCell(chats.open);
  const leaf = open?.leaf ?? "";
  const running = chats.running(open?.id) !== undefined;
  const ready = useCell(chats.ready);
  useEffect(() => {
    if (running || ready !== "ready") return undefined;
    if (text.trim() === "" && leaf === "" && files.length === 0) {
      setCounted(undefined);
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      const question: Message = { id: "", conversation: "", parent: "", created: 0, role: "question", text, files, approvals: [] };
      try {
        const path = text.trim() === "" && files.length === 0 ? chats.path() : [...chats.path(), question];
        const answer = await post("/v1/responses/input_tokens", await chats.body(path), abort.signal, true);
        const tokens = Number((await answer.json()).input_tokens);
        const of = await chats.context();
        if (!abort.signal.aborted && tokens >= 0) setCounted({ tokens, of });
      } catch {
        if (!abort.signal.aborted) setCounted(undefined); // sending says what is wrong
      }
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text, leaf, files, running, ready]);
  if (!counted) return null;
  const share = counted.of > 0 ? counted.tokens / counted.of : 0;
  return (
    <span class={share > 0.9 ? "context full" : "context"} data-testid="context" title={counted.of > 0 ? `${count(counted.tokens)} of ${count(counted.of)} tokens of context` : "tokens of prompt and history"}>
      {compact(counted.tokens)}{counted.of > 0 ? ` / ${compact(counted.of)}` : ""}<span> tokens</span>
    </span>
  );
}
