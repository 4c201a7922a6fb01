// The dialogs for the key and for the list of keyboard shortcuts.

import { useRef, useState } from "preact/hooks";
import { keyState, setKey, tryKey } from "./api";
import { useCell } from "./cell";
import { Dialog } from "./controls";
import { keyDialog, shortcutsDialog } from "./places";
import { shown } from "./format";

// KeyDialog asks for a key where the server wants one. It is tried before it is kept. Once it was
// dismissed it is away until somebody asks for it, or another key is refused.
export function KeyDialog() {
  const state = useCell(keyState);
  const open = useCell(keyDialog);
  const [remember, setRemember] = useState(false);
  const [wrong, setWrong] = useState("");
  const [away, setAway] = useState(false);
  const turn = useRef(0); // of the tries: only the newest counts, and none that was dismissed
  const wanted = state === "wanted" || state === "refused";
  if (away && !wanted) setAway(false);
  if (!open && (away || !wanted)) return null;
  const close = () => {
    turn.current++;
    setWrong("");
    keyDialog.set(false);
    setAway(wanted);
  };
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const value = String(new FormData(event.currentTarget as HTMLFormElement).get("key") ?? "").trim();
    if (!/^[\x21-\x7e]+$/.test(value)) {
      setWrong("A key has visible ASCII characters only.");
      return;
    }
    const mine = ++turn.current;
    const refused = await tryKey(value);
    if (mine !== turn.current) return;
    if (refused?.status === 401) {
      setWrong("This is not one of the server's keys.");
      return;
    }
    setKey(value, remember);
    if (refused?.status === 403) {
      keyDialog.set(true); // the key is kept: nothing but this keeps the dialog open
      setWrong(`The key is right, but ${refused.message}`);
      return;
    }
    setWrong("");
    keyDialog.set(false);
  };
  return (
    <Dialog title="A key, please" onClose={close} testid="key-dialog">
      <form onSubmit={submit}>
        <p>{state === "refused" ? "The key that was sent is not one of this server's." : "This server answers only with a key. Whoever runs it can give you one."}</p>
        <label class="field">
          <span class="field-label">Key</span>
          <input type="password" name="key" autocomplete="off" spellcheck={false} data-focus data-testid="key-input" aria-invalid={wrong !== ""} />
        </label>
        {wrong ? <p class="wrong" role="alert" data-testid="key-wrong">{shown(wrong)}</p> : null}
        <label class="check"><input type="checkbox" checked={remember} data-testid="key-remember" onChange={(event) => setRemember(event.currentTarget.checked)} />Remember on this computer</label>
        <p class="hint">Else it is forgotten with this tab. It is sent to this server and to nobody else.</p>
        <div class="actions"><button type="submit" class="primary" data-testid="key-save">Use this key</button></div>
      </form>
    </Dialog>
  );
}

const shortcuts: [string, string][] = [
  ["Enter", "send, or a new line where the settings say so"],
  ["Shift+Enter", "a new line"],
  ["Esc", "stop the answer"],
  ["\u2191 in an empty box", "edit the last question"],
  ["Ctrl/\u2318+Shift+O", "new chat"],
  ["Ctrl/\u2318+K", "search chats"],
  ["?", "this list"],
];

export function Shortcuts() {
  if (!useCell(shortcutsDialog)) return null;
  return (
    <Dialog title="Shortcuts" onClose={() => shortcutsDialog.set(false)} testid="shortcuts">
      <dl class="shortcuts">{shortcuts.map(([keys, what]) => <div><dt><kbd>{keys}</kbd></dt><dd>{what}</dd></div>)}</dl>
    </Dialog>
  );
}
