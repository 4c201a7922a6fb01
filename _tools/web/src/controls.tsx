// Buttons, dialogs and questions that all views share.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Cell, useCell } from "./cell";
import { Icon, type IconName } from "./icons";

interface IconButtonProps {
  icon: IconName;
  label: string;
  onClick: () => void;
  testid?: string;
  disabled?: boolean;
  off?: boolean; // as disabled, but it keeps the focus
  pressed?: boolean;
}

export function IconButton({ icon, label, onClick, testid, disabled, off, pressed }: IconButtonProps) {
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} aria-disabled={off} onClick={() => !off && onClick()} data-testid={testid} disabled={disabled} aria-pressed={pressed}>
      <Icon name={icon} />
    </button>
  );
}

// copyText copies, also where a page without TLS may not use the clipboard's own interface.
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "off-screen";
    const focused = document.activeElement as HTMLElement | null;
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    focused?.focus();
    return copied;
  }
}

// CopyButton says for a moment that it has copied.
export function CopyButton({ text, label, testid }: { text: () => string | Promise<string>; label: string; testid?: string }) {
  const [state, setState] = useState<"" | "Copied" | "Could not copy">("");
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    setState((await copyText(await text())) ? "Copied" : "Could not copy");
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setState(""), 1600) as unknown as number;
  };
  return (
    <>
      <IconButton icon={state === "Copied" ? "check" : "copy"} label={state || label} onClick={copy} testid={testid} />
      <span class="sr" role="status">{state}</span>
    </>
  );
}

// textField is the one that has the focus: nothing takes it from who is writing.
export function textField(): HTMLInputElement | undefined {
  const at = document.activeElement;
  return at?.matches("textarea, input:not([type=checkbox], [type=radio])") ? (at as HTMLInputElement) : undefined;
}

// Dialog holds the focus while it is open, and gives it back.
export function Dialog({ title, onClose, children, testid, wide }: { title: string; onClose: () => void; children: ComponentChildren; testid?: string; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => { // at once: a key that comes now is for the dialog
    const before = document.activeElement as HTMLElement | null;
    element.current!.showModal();
    element.current!.querySelector<HTMLElement>("[data-focus]")?.focus();
    // Until the dialog is out of the document, which it is after this turn, nothing behind it can
    // take the focus.
    return () => queueMicrotask(() => before?.focus?.());
  }, []);
  return (
    <dialog ref={element} class={wide ? "wide" : undefined} data-testid={testid} aria-labelledby="dialog-title" onClose={onClose} onClick={(event) => event.target === element.current && element.current!.close()}>
      <div class="dialog">
        <header>
          <h2 id="dialog-title">{title}</h2>
          <IconButton icon="close" label="Close" onClick={() => element.current!.close()} />
        </header>
        {children}
      </div>
    </dialog>
  );
}

interface Question {
  title: string;
  text: string;
  action: string;
  answer: (yes: boolean) => void;
}

const asked = new Cell<Question | undefined>(undefined);

// confirmed asks before something is done that cannot be undone.
export function confirmed(title: string, text: string, action: string): Promise<boolean> {
  return new Promise((resolve) => asked.set({ title, text, action, answer: resolve }));
}

export function Confirm() {
  const question = useCell(asked);
  if (!question) return null;
  const answer = (yes: boolean) => {
    asked.set(undefined);
    question.answer(yes);
  };
  return (
    <Dialog title={question.title} onClose={() => answer(false)} testid="confirm">
      <p>{question.text}</p>
      <div class="actions">
        <button type="button" class="secondary" data-focus onClick={() => answer(false)}>Cancel</button>
        <button type="button" class="danger" data-testid="confirm-yes" onClick={() => answer(true)}>{question.action}</button>
      </div>
    </Dialog>
  );
}

// save has the browser save a text as a file.
export function save(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// useNarrow is whether the sidebar is a drawer.
export function useNarrow(): boolean {
  const [query] = useState(() => matchMedia("(max-width: 47.99rem)"));
  const [narrow, setNarrow] = useState(query.matches);
  useEffect(() => {
    const changed = () => setNarrow(query.matches);
    query.addEventListener("change", changed);
    changed(); // between drawing and following
    return () => query.removeEventListener("change", changed);
  }, []);
  return narrow;
}
