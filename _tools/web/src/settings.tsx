// Settings: of the chat that is open or of all chats, of the page, keys, and what can be done with
// all chats. What is left empty is the server's to choose and is not sent.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Info, info, key, keyState, setKey } from "./api";
import { useCell } from "./cell";
import { chats } from "./chats";
import { confirmed, save } from "./controls";
import { several, shown } from "./format";
import { keyDialog } from "./places";
import { prefer, preferences } from "./preferences";
import { MOST } from "./transfer";
import type { Sampling } from "./tree";

type NumberName = "temperature" | "top_p" | "top_k" | "min_p" | "seed" | "max_output_tokens";

const numbers: { name: NumberName; label: string; hint: string; min: number; max: number; step: string }[] = [
  { name: "temperature", label: "Temperature", hint: "0 always takes the likeliest token", min: 0, max: 2, step: "any" },
  { name: "top_p", label: "Top-p", hint: "share of probability to choose from", min: 0, max: 1, step: "any" },
  { name: "top_k", label: "Top-k", hint: "tokens to choose from; 0 = all", min: 0, max: 1_000_000, step: "1" },
  { name: "min_p", label: "Min-p", hint: "least probability, of the likeliest token's", min: 0, max: 1, step: "any" },
  { name: "seed", label: "Seed", hint: "the same seed gives the same answer", min: -9007199254740991, max: 9007199254740991, step: "1" },
  { name: "max_output_tokens", label: "Output limit", hint: "tokens of an answer, reasoning included", min: 1, max: 10_000_000, step: "1" },
];

export function SettingsView() {
  const open = useCell(chats.open);
  const defaults = useCell(chats.defaults);
  const draft = useCell(chats.draft);
  const [all, setAll] = useState(!open);
  useEffect(() => {
    document.title = "Settings \u00b7 Ossian";
  }, []);
  const [told, setTold] = useState<Info | undefined>();
  const kept = useCell(keyState);
  useEffect(() => {
    info().then(setTold, () => {});
  }, [kept]);
  const settings = all ? defaults : open?.settings ?? draft;
  const change = (next: Sampling) => {
    for (const name of Object.keys(next) as (keyof Sampling)[]) if (next[name] === undefined || next[name] === "") delete next[name];
    if (all) void chats.setDefaults(next);
    else chats.setSettings(next);
  };
  return (
    <div class="page-text settings" data-testid="settings-view">
      <h1>Settings</h1>
      <section>
        <h2>Answers</h2>
        <div class="choice" role="radiogroup" aria-label="Settings of">
          <label><input type="radio" name="scope" checked={!all} onChange={() => setAll(false)} />{open ? "This chat" : "The next chat"}</label>
          <label><input type="radio" name="scope" checked={all} onChange={() => setAll(true)} />All chats</label>
        </div>
        <Answers key={String(all)} settings={settings} below={all ? {} : defaults} told={told} change={change} />
      </section>
      <Page />
      <Keys />
      <Data />
      <About told={told} />
    </div>
  );
}

function Answers({ settings, below, told, change }: { settings: Sampling; below: Sampling; told?: Info; change: (next: Sampling) => void }) {
  const model = told?.models.find((m) => m.id === settings.model) ?? told?.models[0];
  const server = chats.path().filter((m) => m.answer?.server).pop()?.answer?.server ?? {};
  const efforts = model?.efforts ?? ["low", "medium", "high"];
  const usual = (name: keyof Sampling): string => {
    if (below[name] !== undefined) return `${below[name]} (all chats)`;
    const of = server[name];
    return of !== undefined && of !== null ? `server's value: ${of}` : "server's value";
  };
  return (
    <>
      {told && told.models.length > 1 ? (
        <Field label="Model" hint="" param="model">
          <select value={settings.model ?? ""} onChange={(event) => change({ ...settings, model: event.currentTarget.value })}>
            <option value="">{below.model ?? told.models[0].id}</option>
            {told.models.map((m) => <option value={m.id}>{shown(m.id)}</option>)}
          </select>
        </Field>
      ) : null}
      <Field label="Instructions" hint="what the model is told before every chat" param="instructions">
        <textarea rows={3} data-testid="instructions" value={settings.instructions ?? ""} placeholder={below.instructions ?? "none"} onInput={(event) => change({ ...settings, instructions: event.currentTarget.value })} />
      </Field>
      {efforts.length === 0 ? null : <Field label="Effort" hint="how long the model reasons" param="reasoning">
        <select data-testid="effort" value={settings.effort ?? ""} onChange={(event) => change({ ...settings, effort: event.currentTarget.value })}>
          <option value="">{usual("effort")}</option>
          {efforts.map((effort) => <option value={effort}>{shown(effort)}</option>)}
        </select>
      </Field>}
      <div class="grid">
        {numbers.map((n) => (
          <Field key={n.name} label={n.label} hint={n.hint} param={n.name}>
            <NumberField name={n.name} min={n.min} max={n.max} step={n.step} value={settings[n.name]} placeholder={usual(n.name)} change={(value) => change({ ...settings, [n.name]: value })} />
          </Field>
        ))}
      </div>
      <Tools settings={settings} below={below} told={told} change={change} />
    </>
  );
}

// Field is a setting with its name. What the server said about its param stands below it.
function Field({ label, hint, param, children }: { label: string; hint: string; param?: string; children: preact.ComponentChildren }) {
  const fault = useCell(chats.fault);
  const wrong = fault && param && fault.param.split(/[.[]/, 1)[0] === param ? fault.message : "";
  return (
    <label class="field">
      <span class="field-label">{label}</span>
      {children}
      {wrong ? <span class="wrong" role="alert">{shown(wrong)}</span> : null}
      {hint ? <span class="hint">{hint}</span> : null}
    </label>
  );
}

interface NumberFieldProps {
  name: NumberName;
  min: number;
  max: number;
  step: string;
  value?: number;
  placeholder: string;
  change: (value: number | undefined) => void;
}

// A NumberField is left alone while it has the focus: "0." on the way to "0.7" is no number that
// could be written back.
function NumberField({ name, min, max, step, value, placeholder, change }: NumberFieldProps) {
  const [wrong, setWrong] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const write = () => {
    if (field.current) field.current.value = String(value ?? ""); // it may be gone when it loses the focus
  };
  useLayoutEffect(() => {
    if (document.activeElement !== field.current) write();
  }, [value]);
  return (
    <>
      <input
        ref={field}
        type="number"
        data-testid={"setting-" + name}
        min={min}
        max={max}
        step={step}
        placeholder={placeholder}
        onBlur={() => wrong || write()}
        aria-invalid={wrong !== ""}
        onInput={(event) => {
          const field = event.currentTarget;
          const valid = field.validity.valid;
          setWrong(valid ? "" : field.validationMessage || `${min} to ${max} expected`);
          if (valid) change(field.value === "" ? undefined : Number(field.value));
        }}
      />
      {wrong ? <span class="wrong" role="alert">{wrong}</span> : null}
    </>
  );
}

function Tools({ settings, below, told, change }: { settings: Sampling; below: Sampling; told?: Info; change: (next: Sampling) => void }) {
  const tools = told?.tools ?? [];
  if (tools.length === 0) return null;
  const chosen = settings.tools ?? below.tools ?? [];
  const nameOf = (tool: Info["tools"][number]) => (tool.type === "mcp" ? "mcp:" + (tool.label ?? "") : tool.type);
  return (
    <fieldset class="field">
      <legend class="field-label">Tools</legend>
      {tools.map((tool) => {
        const name = nameOf(tool);
        const toggle = (on: boolean) => change({ ...settings, tools: on ? [...chosen, name] : chosen.filter((t) => t !== name) });
        return (
          <label class="check">
            <input type="checkbox" checked={tool.available && chosen.includes(name)} disabled={!tool.available} onChange={(event) => toggle(event.currentTarget.checked)} />
            {shown(tool.label ?? tool.type)}
            {tool.available ? null : <span class="hint">{shown(tool.reason ?? "not available")}</span>}
          </label>
        );
      })}
    </fieldset>
  );
}

function Page() {
  const p = useCell(preferences);
  return (
    <section>
      <h2>Page</h2>
      <div class="grid">
        <Field label="Theme" hint="">
          <select value={p.theme} onChange={(event) => prefer({ theme: event.currentTarget.value as typeof p.theme })}>
            <option value="system">as the system</option>
            <option value="light">light</option>
            <option value="dark">dark</option>
          </select>
        </Field>
        <Field label="Size of text" hint="">
          <select value={p.size} onChange={(event) => prefer({ size: event.currentTarget.value as typeof p.size })}>
            <option value="small">small</option>
            <option value="normal">normal</option>
            <option value="large">large</option>
            <option value="larger">larger</option>
          </select>
        </Field>
        <Field label="Enter" hint={p.enter === "send" ? "Shift+Enter begins a line" : "Ctrl+Enter or the button sends"}>
          <select value={p.enter} onChange={(event) => prefer({ enter: event.currentTarget.value as typeof p.enter })}>
            <option value="send">sends</option>
            <option value="line">begins a new line</option>
          </select>
        </Field>
        <Field label="Reasoning and tool calls" hint="">
          <select value={p.reasoning ? "open" : "closed"} onChange={(event) => prefer({ reasoning: event.currentTarget.value === "open" })}>
            <option value="closed">folded</option>
            <option value="open">shown</option>
          </select>
        </Field>
      </div>
    </section>
  );
}

function Keys() {
  useCell(keyState);
  const has = key() !== "";
  return (
    <section>
      <h2>Key</h2>
      <p>{has ? "A key is kept in this browser and sent to this server only." : "No key is kept here. A server that wants one asks for it."}</p>
      <div class="actions">
        <button type="button" class="secondary" data-testid="key-change" onClick={() => keyDialog.set(true)}>{has ? "Change the key" : "Enter a key"}</button>
        {has ? <button type="button" class="secondary" data-testid="key-forget" onClick={() => setKey("", false)}>Forget the key</button> : null}
      </div>
    </section>
  );
}

function Data() {
  const list = useCell(chats.list);
  const picker = useRef<HTMLInputElement>(null);
  const [told, setTold] = useState("");
  const importFile = async (file: File | undefined) => {
    if (!file) return;
    try {
      if (file.size > MOST) throw new Error("the file is larger than 100 MB");
      setTold(`${several(await chats.imported(await file.text()), "chat")} imported.`);
    } catch (error) {
      setTold(`Nothing was imported. ${(error as Error).message}.`);
    }
  };
  const removeAll = async () => {
    if (await confirmed("Delete all chats?", `${several(list.length, "chat")} in this browser cannot be brought back. An export keeps them.`, "Delete all")) {
      await chats.remove(list.map((c) => c.id));
    }
  };
  return (
    <section>
      <h2>Chats</h2>
      <p>{several(list.length, "chat")}, in this browser only. The server keeps none of them.</p>
      <div class="actions">
        <button type="button" class="secondary" data-testid="export" onClick={() => chats.exported().then((text) => save("ossian-chats.json", text))}>Export all</button>
        <button type="button" class="secondary" data-testid="import" onClick={() => picker.current!.click()}>Import</button>
        <button type="button" class="secondary" data-testid="delete-all" disabled={list.length === 0} onClick={removeAll}>Delete all</button>
        <input ref={picker} type="file" accept=".json,application/json" hidden data-testid="import-file" onChange={(event) => {
          void importFile(event.currentTarget.files?.[0]);
          event.currentTarget.value = "";
        }} />
      </div>
      {told ? <p role="status" data-testid="import-result">{shown(told)}</p> : null}
    </section>
  );
}

function About({ told }: { told?: Info }) {
  const [texts, setTexts] = useState("");
  const load = async () => {
    if (texts === "") setTexts(await (await fetch(LICENCES)).text().catch(() => "The licences could not be loaded."));
  };
  return (
    <section>
      <h2>About</h2>
      <p>Ossian{told?.version ? " " + shown(told.version) : ""}. This page asks nobody but this server.</p>
      <details onToggle={load}>
        <summary>Licences of what this page is made with</summary>
        <pre class="licences" tabIndex={0}>{texts}</pre>
      </details>
    </section>
  );
}
