// What the live view shows of the last 15 minutes: a ring of what /metrics said, and the rates,
// shares and quantiles between any two of its moments.
//
// Invariant: nothing is computed across a break. There is one where a counter fell, for then the
// server was started anew, and where nothing was asked for a while: the tab was hidden, the machine
// asleep, the server gone. Time is the page's own, which no change of the clock moves.

import { type Buckets, parse, quantile, type Sample, since, total } from "./live-metrics";

export const INTERVAL = 2000; // ms between two moments
export const SPAN = 15 * 60 * 1000; // ms that are kept
const GAP = 3 * INTERVAL; // longer without an answer is a break
const SMOOTH = 10_000; // ms that a rate is about
const MOST_MODELS = 32; // that are told apart
const MINUTE = 60_000; // ms that quantiles and shares are about

// What is told of a moment. Counters and gauges have their names without the prefix that may be
// changed, and the labels that tell series apart here.
export interface Moment {
  at: number; // ms of performance.now
  begins: boolean; // behind a break
  counters: Map<string, number>;
  gauges: Map<string, number>;
  histograms: Map<string, Buckets>;
}

const counters = new Map<string, string>([ // name → label that tells its series apart
  ["prompt_tokens_total", ""], ["generation_tokens_total", ""], ["prefix_cache_queries_total", ""], ["prefix_cache_hits_total", ""],
  ["num_preemptions_total", ""], ["request_success_total", "finished_reason"], ["admission_rejections_total", "reason"],
  ["ossian_limit_refusals_total", "limit"], ["http_requests_total", "status"],
  ["spec_decode_num_drafts_total", ""], ["spec_decode_num_draft_tokens_total", ""], ["spec_decode_num_accepted_tokens_total", ""], ["spec_decode_num_accepted_tokens_per_pos_total", "position"],
]);
const gauges = new Set(["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "process_resident_memory_bytes"]);
const histograms = new Set(["time_to_first_token_seconds", "inter_token_latency_seconds", "ossian_step_seconds"]);

// moments reads what /metrics said: of all models under "", and where there are several of each one,
// to which what is the server's as a whole belongs, too.
export function moments(text: string, at: number): Map<string, Moment> {
  const samples = parse(text);
  const read = new Map([["", momentOf(samples, at)]]);
  const names = new Set(samples.map((s) => s.labels.get("model_name")).filter((name) => name !== undefined && name !== ""));
  if (names.size < 2) return read;
  for (const name of [...names].slice(0, MOST_MODELS)) read.set(name!, momentOf(samples.filter((s) => (s.labels.get("model_name") ?? name) === name), at));
  return read;
}

export const moment = (text: string, at: number): Moment => momentOf(parse(text), at);

// momentOf adds up series that differ in labels that tell none apart.
function momentOf(samples: Sample[], at: number): Moment {
  const read: Moment = { at, begins: false, counters: new Map(), gauges: new Map(), histograms: new Map() };
  const buckets = new Map<string, Map<number, number>>();
  const add = (into: Map<string, number>, name: string, value: number) => into.set(name, (into.get(name) ?? 0) + value);
  for (const { name: whole, labels, value } of samples) {
    const name = whole.slice(whole.indexOf(":") + 1);
    const label = counters.get(name);
    if (label !== undefined) add(read.counters, label ? `${name} ${labels.get(label) ?? ""}` : name, value);
    else if (gauges.has(name)) add(read.gauges, name, value);
    else if (name.endsWith("_bucket") && histograms.has(name.slice(0, -7))) {
      const bound = labels.get("le") === "+Inf" ? Infinity : Number(labels.get("le"));
      const of = buckets.get(name.slice(0, -7)) ?? new Map<number, number>();
      of.set(bound, (of.get(bound) ?? 0) + value);
      buckets.set(name.slice(0, -7), of);
    }
  }
  for (const [name, of] of buckets) {
    const bounds = [...of.keys()].filter((bound) => !Number.isNaN(bound)).sort((a, b) => a - b);
    read.histograms.set(name, { bounds, counts: bounds.map((bound) => of.get(bound)!) });
  }
  return read;
}

// fell is whether a counter is lower than it was.
function fell(now: Moment, before: Moment): boolean {
  for (const [name, value] of before.counters) if ((now.counters.get(name) ?? 0) < value) return true;
  for (const [name, of] of before.histograms) {
    const later = now.histograms.get(name);
    if (!later || total(later) < total(of)) return true;
  }
  return false;
}

// A Ring keeps the moments of SPAN.
export class Ring {
  moments: Moment[] = [];

  push(now: Moment): void {
    const before = this.moments.at(-1);
    now.begins = !before || now.at - before.at > GAP || fell(now, before);
    this.moments.push(now);
    while (now.at - this.moments[0].at > SPAN) this.moments.shift();
  }

  // before is the earliest moment that is no more than span before the i-th, with no break between;
  // the i-th itself where there is none.
  private before(i: number, span: number): Moment {
    let from = i;
    while (from > 0 && !this.moments[from].begins && this.moments[i].at - this.moments[from - 1].at <= span) from--;
    return this.moments[from];
  }

  // rate is a counter's growth in a second at the i-th moment, nothing at the first behind a break.
  rate(name: string, i: number): number | null {
    const now = this.moments[i];
    const from = this.before(i, SMOOTH);
    if (from === now) return null;
    return (((now.counters.get(name) ?? 0) - (from.counters.get(name) ?? 0)) * 1000) / (now.at - from.at);
  }

  // share is how much of one counter's growth another had, in the minute before; nothing where the
  // first did not grow.
  share(part: string, whole: string, i: number): number | null {
    const now = this.moments[i];
    const from = this.before(i, MINUTE);
    const grown = (name: string) => (now.counters.get(name) ?? 0) - (from.counters.get(name) ?? 0);
    return grown(whole) > 0 ? grown(part) / grown(whole) : null;
  }

  gauge(name: string, i: number): number | null {
    return this.moments[i].gauges.get(name) ?? null;
  }

  // quantile is that of a histogram's values in the minute before; nothing where they are few.
  quantile(name: string, q: number, i: number): number | null {
    const of = this.moments[i].histograms.get(name);
    if (!of) return null;
    const from = this.before(i, MINUTE);
    if (from === this.moments[i]) return null;
    return quantile(since(of, from.histograms.get(name)), q) ?? null;
  }

  // grown is a counter's growth in all that is kept, breaks left out.
  grown(name: string): number {
    let sum = 0;
    for (let i = 1; i < this.moments.length; i++) {
      if (!this.moments[i].begins) sum += (this.moments[i].counters.get(name) ?? 0) - (this.moments[i - 1].counters.get(name) ?? 0);
    }
    return sum;
  }

  // series is f of every moment, in order, with nothing at each break so that lines end there.
  series(f: (i: number) => number | null): (number | null)[] {
    return this.moments.map((m, i) => (m.begins ? null : f(i)));
  }

  // times are those of the moments, in seconds before the latest.
  times(): number[] {
    const last = this.moments.at(-1)?.at ?? 0;
    return this.moments.map((m) => (m.at - last) / 1000);
  }

  // names are the series of a counter that is told apart by a label: [label, name].
  names(counter: string): [string, string][] {
    const last = this.moments.at(-1);
    if (!last) return [];
    return [...last.counters.keys()].filter((name) => name.startsWith(counter + " ")).map((name) => [name.slice(counter.length + 1), name]);
  }
}
