// What /info and /v1/models say, as sections of names and values. Fields that this page does not
// know are shown as they came, so that a newer server loses nothing.

import { bytes, compact, count, duration, shown } from "./format";

export interface Section {
  title: string;
  rows: [string, string][];
}

type Fields = Record<string, unknown>;

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

const names: Record<string, string> = {
  id: "Name", family: "Family", parameters: "Parameters", quantization: "Weights", max_model_len: "Longest request", context_window: "Context", efforts: "Reasoning efforts", capabilities: "Capabilities",
  version: "Version", uptime: "Up for", device: "Device", auth: "Key", owned_by: "Owner", created: "Created", root: "Loaded from", parent: "Parent", memory: "Memory", status: "State",
};

// planned writes the bytes that were planned for a model, and of what.
function planned(memory: Fields): string {
  const part = (name: string) => (typeof memory[name] === "number" ? bytes(memory[name]) : "?");
  return `${part("planned")} planned: weights ${part("weights")}, keys and values up to ${part("kv_cache")}`;
}

// valueOf writes one value.
export function valueOf(name: string, value: unknown): string {
  if (value === null || value === undefined || value === "") return "\u2013";
  if (name === "parameters" && typeof value === "number") return `${compact(value)} (${count(value)})`;
  if ((name === "max_model_len" || name === "context_window") && typeof value === "number") return `${count(value)} tokens`;
  if (name === "uptime" && typeof value === "number") return duration(value * 1000);
  if (name === "created" && typeof value === "number") return new Date(value * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";
  if (name === "auth" && isFields(value)) return value.required ? "required" : "not required";
  if (name === "memory" && isFields(value)) return planned(value);
  if (name === "status" && isFields(value) && typeof value.value === "string") return shown(value.value) + (value.failed === true ? ", could not be loaded" : "");
  if (Array.isArray(value)) return value.length === 0 ? "none" : shown(value.map((v) => (typeof v === "string" ? v : JSON.stringify(v))).join(", "));
  if (typeof value === "number") return count(value);
  return shown(typeof value === "string" ? value : JSON.stringify(value));
}

function rows(of: Fields, left: string[]): [string, string][] {
  return Object.entries(of).filter(([name]) => !left.includes(name)).map(([name, value]) => [names[name] ?? shown(name), valueOf(name, value)]);
}

// limitOf writes a limit in its unit.
export function limitOf(limit: unknown): string {
  if (!isFields(limit) || typeof limit.value !== "number") return valueOf("", limit);
  return limit.unit === "milliseconds" ? duration(limit.value) : limit.unit === "bytes" ? bytes(limit.value) : count(limit.value);
}

// sections are those of the view. told is the reply of /info, listed that of /v1/models.
export function sections(told: unknown, listed: unknown): Section[] {
  const all: Section[] = [];
  const server = isFields(told) ? told : {};
  const cards: Fields[] = isFields(listed) && Array.isArray(listed.data) ? listed.data.filter(isFields) : [];
  const models = (Array.isArray(server.models) ? server.models : []).filter(isFields);
  for (const model of models.length > 0 ? models : cards) {
    const card = cards.find((c) => c.id === model.id) ?? {};
    all.push({ title: shown(String(model.id ?? "model")), rows: rows({ ...model, ...Object.fromEntries(Object.entries(card).filter(([name]) => !(name in model))) }, ["id", "object", "permission"]) });
  }
  all.push({ title: "Server", rows: rows(server, ["models", "tools", "limits"]) });
  const tools = (Array.isArray(server.tools) ? server.tools : []).filter(isFields);
  all.push({
    title: "Tools that the server runs",
    rows: tools.length === 0 ? [["None", "the server was started without tools"]] : tools.map((t) => [shown([t.type, t.label !== t.type ? t.label : ""].filter(Boolean).join(" ")), t.available ? "available" : `off: ${shown(String(t.reason ?? "no reason is given"))}`]),
  });
  if (isFields(server.limits)) all.push({ title: "Limits of a request", rows: Object.entries(server.limits).map(([name, value]) => [shown(name), limitOf(value)]) });
  return all;
}

// written is sections as text.
export function written(all: Section[]): string {
  return all.map(({ title, rows }) => [title, ...rows.map(([name, value]) => `  ${name}: ${value}`)].join("\n")).join("\n\n") + "\n";
}
