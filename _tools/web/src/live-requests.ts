// Rows of GET /requests: read, sorted, written.

import { count, duration, shown } from "./format";
import { isOwn } from "./own";

export interface Row {
  id: string;
  route: string;
  model: string;
  state: string;
  prompt: number;
  done: number;
  cached: number;
  output: number;
  ttft: number | null; // seconds, as age
  rate: number | null; // tokens a second
  age: number;
  end: string | null;
  own: boolean; // sent by this browser
}

export interface Snapshot {
  uptime: number; // seconds
  rows: Row[];
  others: { queued: number; running: number; ended: number };
  leftOut: number;
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const number = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);
const perhaps = (value: unknown): number | null => (typeof value === "number" && Number.isFinite(value) ? value : null);

// snapshotOf reads the data of an event. What is missing is nothing, or 0.
export function snapshotOf(raw: string): Snapshot {
  const told = JSON.parse(raw);
  const requests: Record<string, unknown>[] = Array.isArray(told?.requests) ? told.requests : [];
  return {
    uptime: number(told?.uptime),
    rows: requests.map((r) => ({
      id: text(r.id), route: text(r.route), model: text(r.model), state: text(r.state), prompt: number(r.prompt_tokens), done: number(r.done_tokens), cached: number(r.cached_tokens),
      output: number(r.output_tokens), ttft: perhaps(r.ttft), rate: perhaps(r.tokens_per_second), age: number(r.age), end: typeof r.end === "string" ? r.end : null, own: isOwn(text(r.id)),
    })),
    others: { queued: number(told?.others?.queued), running: number(told?.others?.running), ended: number(told?.others?.ended) },
    leftOut: number(told?.left_out),
  };
}

// A Column says what it is called, what stands in it, and what it is sorted by.
export interface Column {
  name: string;
  numeric: boolean;
  value: (row: Row) => string | number | null;
  cell: (row: Row) => string;
}

const seconds = (s: number | null): string => (s === null ? "\u2013" : duration(s * 1000));

// stateOf is a state in a word or two.
export function stateOf(row: Row): string {
  if (row.state === "prefill" && row.prompt > 0) return `prefill ${Math.floor((100 * row.done) / row.prompt)} %`;
  return row.state;
}

const states = ["decode", "tools", "prefill", "queued", "ended"];

export const columns: Column[] = [
  { name: "Request", numeric: false, value: (r) => r.id, cell: (r) => shown(r.id) },
  { name: "Route", numeric: false, value: (r) => r.route, cell: (r) => shown(r.route) },
  { name: "State", numeric: false, value: (r) => states.indexOf(r.state), cell: stateOf },
  { name: "Prompt", numeric: true, value: (r) => r.prompt, cell: (r) => count(r.prompt) },
  { name: "Cached", numeric: true, value: (r) => r.cached, cell: (r) => count(r.cached) },
  { name: "Output", numeric: true, value: (r) => r.output, cell: (r) => count(r.output) },
  { name: "TTFT", numeric: true, value: (r) => r.ttft, cell: (r) => seconds(r.ttft) },
  { name: "Tokens/s", numeric: true, value: (r) => r.rate, cell: (r) => (r.rate === null ? "\u2013" : r.rate < 10 ? r.rate.toFixed(1) : count(r.rate)) },
  { name: "Time", numeric: true, value: (r) => r.age, cell: (r) => seconds(r.age) },
  { name: "End", numeric: false, value: (r) => r.end, cell: (r) => shown(r.end ?? "\u2013") },
];

// columnsOf are the columns of a table; of one model it goes without saying.
export function columnsOf(several: boolean): Column[] {
  const model: Column = { name: "Model", numeric: false, value: (r) => r.model, cell: (r) => shown(r.model) };
  return several ? columns.toSpliced(2, 0, model) : columns;
}

export interface Order {
  column: string; // "" = as the server sends them: those that go on, then those that ended last
  down: boolean; // largest first
}

// sorted puts rows in order; what has no value comes last, and equals stay as they came.
export function sorted(rows: Row[], order: Order): Row[] {
  const column = columnsOf(true).find((c) => c.name === order.column);
  if (!column) return rows;
  return [...rows].sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0);
    const less = typeof x === "number" ? x - (y as number) : x < y ? -1 : x > y ? 1 : 0;
    return order.down ? -less : less;
  });
}

// next is the order that a press on a column's head leads to: one way, the other, none.
export function next(order: Order, column: Column): Order {
  if (order.column !== column.name) return { column: column.name, down: column.numeric };
  if (order.down === column.numeric) return { column: column.name, down: !column.numeric };
  return { column: "", down: false };
}
