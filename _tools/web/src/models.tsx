// Several models of one server: which one answers, and what a question waits for whose model is
// not in memory.

import { useEffect, useState } from "preact/hooks";
import { info, keyState, type ModelInfo } from "./api";
import { Cell, useCell } from "./cell";
import { chats } from "./chats";
import { shown } from "./format";

// models are those of the server, as far as they are known.
export const models = new Cell<ModelInfo[]>([]);

async function look(): Promise<void> {
  await info(true).then((told) => models.set(told.models), () => {});
}

const states: Record<string, string> = { loading: "is being loaded", unloaded: "not in memory", unloading: "makes room" };

function labelOf(model: ModelInfo): string {
  const state = model.status?.failed ? "could not be loaded" : states[model.status?.value ?? ""];
  return shown(model.id) + (state ? ` \u2013 ${state}` : "");
}

// ModelMenu chooses the model of the chat that is open, or of the next one. Of a single model it is
// the name, once the chat has begun: before that it stands above.
export function ModelMenu() {
  const all = useCell(models);
  const open = useCell(chats.open);
  const draft = useCell(chats.draft);
  const ready = useCell(chats.ready);
  const key = useCell(keyState);
  useCell(chats.defaults);
  useEffect(() => {
    if (ready !== "unknown") void look();
  }, [ready, key]);
  if (all.length < 2) return open && all.length === 1 ? <span class="model-name" title="Model" data-testid="model-name">{shown(all[0].id)}</span> : null;
  const chosen = chats.settings().model ?? all[0].id;
  return (
    <select class="model-menu" aria-label="Model" title="Model" data-testid="model-menu" value={chosen} onFocus={() => void look()}
      onChange={(event) => chats.setSettings({ ...(open?.settings ?? draft), model: event.currentTarget.value })}>
      {all.some((m) => m.id === chosen) ? null : <option value={chosen}>{shown(chosen)} – not served here</option>}
      {all.map((m) => <option key={m.id} value={m.id}>{labelOf(m)}</option>)}
    </select>
  );
}

// EffortMenu chooses how long the model reasons in the chat that is open, or in the next one. A
// model without efforts has none.
export function EffortMenu() {
  const all = useCell(models);
  const open = useCell(chats.open);
  const draft = useCell(chats.draft);
  const below = useCell(chats.defaults).effort;
  const { model, effort } = chats.settings();
  const efforts = (all.find((m) => m.id === model) ?? all[0])?.efforts ?? [];
  if (efforts.length === 0) return null;
  const own = (open?.settings ?? draft).effort ?? "";
  const change = (next: string) => {
    const { effort: _, ...others } = open?.settings ?? draft;
    chats.setSettings(next === "" ? others : { ...others, effort: next });
  };
  return (
    <select class="model-menu" aria-label="Effort" title="How long the model reasons" data-testid="effort-menu" value={own} onChange={(event) => change(event.currentTarget.value)}>
      <option value="">Effort: {below ? shown(below) : "usual"}</option>
      {effort && !efforts.includes(effort) && own !== "" ? <option value={own}>Effort: {shown(own)}, not of this model</option> : null}
      {efforts.map((e) => <option key={e} value={e}>Effort: {shown(e)}</option>)}
    </select>
  );
}

const FIRST = 1000; // ms until the question what is waited for
const EACH = 2000; // ms between more of them

// useTurn says what a request waits for whose model is not in memory; "" = for something else.
export function useTurn(name: unknown): string {
  const [waits, setWaits] = useState("");
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      await look();
      const all = models.get();
      const state = all.find((m) => m.id === name)?.status?.value;
      setWaits(all.length < 2 || !state || state === "loaded" ? "" : state === "loading" ? `${name} is being loaded` : `Waiting for the turn of ${name}: another model is in memory`);
      if (all.length > 1 && timer !== undefined) timer = setTimeout(ask, EACH);
    };
    timer = setTimeout(ask, FIRST);
    return () => {
      clearTimeout(timer);
      timer = undefined;
    };
  }, [name]);
  return waits;
}
