// Prompts that are kept for later: texts for the box, in this browser alone.

import { useState } from "preact/hooks";
import { Cell, useCell } from "./cell";
import { Dialog, IconButton } from "./controls";
import { several, shown } from "./format";
import { keepText, keptText } from "./kept";

const MOST = 200; // prompts
const LONGEST = 20_000; // characters of one

// known reads what was kept. What is no list of texts counts as none.
function known(): string[] {
  try {
    const given: unknown = JSON.parse(keptText("prompts") || "[]");
    return Array.isArray(given) ? [...new Set(given)].filter((text) => typeof text === "string" && text !== "" && text.length <= LONGEST).slice(0, MOST) : [];
  } catch {
    return [];
  }
}

const prompts = new Cell<string[]>(known());
// What another tab keeps is here, too.
addEventListener("storage", (event) => event.key === "ossian.prompts" && prompts.set(known()));

function keep(all: string[]): void {
  prompts.set(all);
  keepText("prompts", all.length > 0 ? JSON.stringify(all) : "");
}

// PromptsButton opens the list of prompts: one that is chosen goes into the box, and what is in the
// box can become one.
export function PromptsButton({ text, choose }: { text: string; choose: (prompt: string) => void }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <IconButton icon="bookmark" label="Kept prompts" testid="prompts" onClick={() => setOpen(true)} />
      {open ? (
        <PromptsDialog
          text={text.trim()}
          close={() => setOpen(false)}
          choose={(prompt) => {
            setOpen(false);
            choose(prompt);
          }}
        />
      ) : null}
    </>
  );
}

function PromptsDialog({ text, close, choose }: { text: string; close: () => void; choose: (prompt: string) => void }) {
  const all = useCell(prompts);
  const full = all.length >= MOST || text.length > LONGEST;
  return (
    <Dialog title="Kept prompts" onClose={close} testid="prompts-dialog">
      {all.length === 0 ? <p class="hint">None yet. Write one into the box and keep it here, for this browser.</p> : (
        <ul class="prompts">
          {all.map((prompt) => (
            <li key={prompt}>
              <button type="button" class="prompt" data-testid="prompt" onClick={() => choose(prompt)}>{shown(prompt.slice(0, 300))}</button>
              <IconButton icon="bin" label="Forget this prompt" testid="prompt-forget" onClick={() => keep(all.filter((p) => p !== prompt))} />
            </li>
          ))}
        </ul>
      )}
      {full ? <p class="hint">{several(MOST, "prompt")} of {several(LONGEST, "character")} are the most that is kept.</p> : null}
      <div class="actions">
        <button type="button" class="secondary" data-testid="prompt-keep" disabled={text === "" || full || all.includes(text)} onClick={() => keep([text, ...all])}>Keep what is in the box</button>
      </div>
    </Dialog>
  );
}
