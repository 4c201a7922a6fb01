// The figures of the live view: what each tile shows, drawn from the ring.

import { bytes, compact, count, duration } from "./format";
import type { Ring } from "./live-series";

const none = "\u2013";

export interface Line {
  name: string; // "" where a tile has one line
  values: (number | null)[]; // one for each moment
}

export interface Tile {
  title: string;
  lines: Line[];
  write: (value: number) => string;
  unit: string; // said behind the values
  note: string; // below them
  most?: number; // of the scale; left out = what the values need
  scale?: number; // what the scale is told in; left out = 1
  floor?: number; // below it values are not told apart: the first bound of a histogram
}

const whole = (n: number): string => (n < 10 && n % 1 !== 0 ? n.toFixed(1) : compact(n));
const memory = (n: number): string => (n < 100 * 2 ** 20 ? bytes(n) : n < 10 * 2 ** 30 ? `${count(n / 2 ** 20)} MiB` : `${+(n / 2 ** 30).toPrecision(3)} GiB`);
const percent = (n: number): string => `${Math.round(100 * n)} %`;

// short writes seconds in few characters.
export function short(s: number): string {
  if (s < 0.001) return `${+(s * 1e6).toPrecision(2)} \u00b5s`;
  if (s < 1) return `${+(s * 1000).toPrecision(3)} ms`;
  return duration(s * 1000);
}

// tiles are all figures of the ring.
export function tiles(ring: Ring): Tile[] {
  const last = ring.moments.at(-1);
  const sum = (name: string): string => (last ? count(last.counters.get(name) ?? 0) : none);
  const one = (f: (i: number) => number | null): Line[] => [{ name: "", values: ring.series(f) }];
  const both = (name: string): Line[] => [0.5, 0.95].map((q) => ({ name: q === 0.5 ? "p50" : "p95", values: ring.series((i) => ring.quantile(name, q, i)) }));
  const floor = (name: string): number | undefined => last?.histograms.get(name)?.bounds[0];
  const gauge = (name: string): (number | null)[] => ring.series((i) => ring.gauge(name, i));
  return [
    { title: "Output", lines: one((i) => ring.rate("generation_tokens_total", i)), write: whole, unit: "tokens/s", note: `${sum("generation_tokens_total")} in all` },
    { title: "Prompt", lines: one((i) => ring.rate("prompt_tokens_total", i)), write: whole, unit: "tokens/s", note: `${sum("prompt_tokens_total")} in all` },
    { title: "Time to first token", lines: both("time_to_first_token_seconds"), write: short, unit: "", note: "of the last minute", floor: floor("time_to_first_token_seconds") },
    { title: "Inter-token latency", lines: both("inter_token_latency_seconds"), write: short, unit: "", note: "of the last minute", floor: floor("inter_token_latency_seconds") },
    { title: "Requests", lines: [{ name: "running", values: gauge("num_requests_running") }, { name: "waiting", values: gauge("num_requests_waiting") }], write: whole, unit: "", note: "sequences in the batch, in the queue" },
    { title: "KV cache", lines: one((i) => ring.gauge("kv_cache_usage_perc", i)), write: percent, unit: "", note: "blocks that requests hold", most: 1 },
    { title: "Prefix hits", lines: one((i) => ring.share("prefix_cache_hits_total", "prefix_cache_queries_total", i)), write: percent, unit: "", note: `of the last minute; ${sum("prefix_cache_hits_total")} tokens in all`, most: 1 },
    { title: "Preemptions", lines: one((i) => ring.rate("num_preemptions_total", i)), write: whole, unit: "a second", note: `${sum("num_preemptions_total")} in all` },
    { title: "Step", lines: both("ossian_step_seconds"), write: short, unit: "", note: "of the last minute", floor: floor("ossian_step_seconds") },
    { title: "Memory", lines: one((i) => ring.gauge("process_resident_memory_bytes", i)), write: memory, unit: "", note: "resident, of the server", scale: 2 ** 20 },
    ...guesses(ring),
  ];
}

const PLACES = 8; // of a step whose guesses are told apart

// guesses are the tiles of a server that guesses, none of another: what share of its guesses held, in
// which places of a step, and how many tokens a step with guesses gave.
function guesses(ring: Ring): Tile[] {
  const [rows, held] = ["spec_decode_num_drafts_total", "spec_decode_num_accepted_tokens_total"];
  const last = ring.moments.at(-1);
  if (!last?.counters.has(rows)) return [];
  const at = (i: number, part: string, whole: string) => ring.share(part, whole, i);
  const series = (f: (i: number) => number | null): Line[] => [{ name: "", values: ring.series(f) }];
  const places = ring.names("spec_decode_num_accepted_tokens_per_pos_total").sort(([a], [b]) => Number(a) - Number(b)).slice(0, PLACES);
  const shares = places.map(([, name]) => at(ring.moments.length - 1, name, rows)).filter((v) => v !== null).map((v) => Math.round(100 * v));
  return [
    { title: "Guesses that held", lines: series((i) => at(i, held, "spec_decode_num_draft_tokens_total")), write: percent, unit: "", note: shares.length > 0 ? `of the last minute; by place ${shares.join(", ")} %` : "of the last minute", most: 1 },
    { title: "Tokens a step", lines: series((i) => { const more = at(i, held, rows); return more === null ? null : 1 + more; }), write: (n) => n.toFixed(2), unit: "", note: `where guessed; ${count(last.counters.get(held) ?? 0)} guesses held in all` },
  ];
}

export const latest = (line: Line): number | null => line.values.at(-1) ?? null;

// told is a value as it is shown.
export function told(tile: Tile, value: number): string {
  return tile.floor !== undefined && value < tile.floor ? `< ${tile.write(tile.floor)}` : tile.write(value);
}

// valueOf is a line's latest value as it is shown.
export function valueOf(tile: Tile, line: Line): string {
  const value = latest(line);
  return value === null ? none : told(tile, value);
}

// Extent is what a line did in all that is kept.
export function extent(line: Line): { least: number; most: number } | undefined {
  const values = line.values.filter((v) => v !== null);
  return values.length > 0 ? { least: Math.min(...values), most: Math.max(...values) } : undefined;
}

// saying is a tile in words, for those who do not see its chart.
export function saying(tile: Tile): string {
  const parts = tile.lines.map((line) => {
    const was = extent(line);
    const name = line.name ? line.name + " " : "";
    if (!was) return `${name}not known`;
    return `${name}now ${valueOf(tile, line)}, least ${told(tile, was.least)}, most ${told(tile, was.most)}`;
  });
  return `${tile.title}${tile.unit ? ", " + tile.unit : ""}, of the last 15 minutes: ${parts.join("; ")}.`;
}

export interface Tally {
  group: string;
  name: string;
  all: number; // since the server started
  recent: number; // in what is kept
}

const ends: Record<string, string> = { stop: "stopped", length: "at the length limit", abort: "aborted", error: "failed" };
const refusals: Record<string, string> = { queue_full: "the queue is full", queue_tokens: "too many tokens wait", too_long: "the prompt is too long", draining: "the server drains", queue_timeout: "waited too long" };

// inOrder puts names that have a place first.
function inOrder(names: [string, string][], places: string[]): [string, string][] {
  const place = (label: string) => (places.includes(label) ? places.indexOf(label) : places.length);
  return names.sort(([a], [b]) => place(a) - place(b));
}

// tallies are counts by reason: ends, refusals, HTTP errors. A reason that has not come up is
// told of ends only.
export function tallies(ring: Ring): Tally[] {
  const last = ring.moments.at(-1);
  if (!last) return [];
  const of = (group: string, counter: string, words: Record<string, string>): Tally[] =>
    inOrder(ring.names(counter), Object.keys(words)).map(([label, name]) => ({ group, name: words[label] ?? label, all: last.counters.get(name) ?? 0, recent: ring.grown(name) }));
  return [
    ...of("Ended", "request_success_total", ends),
    ...of("Refused", "admission_rejections_total", refusals).filter((t) => t.all > 0),
    ...of("Refused by a limit", "ossian_limit_refusals_total", {}).filter((t) => t.all > 0),
    ...of("Answered by HTTP", "http_requests_total", {}).filter((t) => /^[45]xx$/.test(t.name)),
  ];
}
