// The text of GET /metrics to numbers, and what buckets of histograms say.

// A Sample is one line: name, labels, value.
export interface Sample {
  name: string;
  labels: Map<string, string>;
  value: number;
}

const escapes: Record<string, string> = { n: "\n", '"': '"', "\\": "\\" };

// labelsOf reads what stands between braces, from at on, and where it ends; nothing = it is damaged.
function labelsOf(line: string, at: number): [Map<string, string>, number] | undefined {
  const labels = new Map<string, string>();
  const label = /\s*(?:([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?|\})/y;
  label.lastIndex = at;
  for (;;) {
    const found = label.exec(line);
    if (!found) return undefined;
    if (found[1] === undefined) return [labels, label.lastIndex];
    labels.set(found[1], found[2].replace(/\\(.)/g, (whole, c) => escapes[c] ?? whole));
  }
}

function numberOf(text: string): number {
  if (/^[+-]?inf$/i.test(text)) return text[0] === "-" ? -Infinity : Infinity;
  return text === "" || /^nan$/i.test(text) ? NaN : Number(text);
}

// parse reads the text format of Prometheus. A line that makes no sense is left out: the others
// are true without it.
export function parse(text: string): Sample[] {
  const all: Sample[] = [];
  for (const line of text.split("\n")) {
    const name = /^[A-Za-z_:][A-Za-z0-9_:]*/.exec(line)?.[0];
    if (!name) continue; // comments and empty lines, too
    let labels = new Map<string, string>();
    let at = name.length;
    if (line[at] === "{") {
      const read = labelsOf(line, at + 1);
      if (!read) continue;
      [labels, at] = read;
    }
    const value = numberOf(line.slice(at).trim().split(/\s+/, 1)[0]);
    if (!Number.isNaN(value)) all.push({ name, labels, value });
  }
  return all;
}

// Buckets are those of a histogram: upper bounds, ascending, and how many values were at most that.
export interface Buckets {
  bounds: number[];
  counts: number[];
}

// since takes what was there before from buckets. Those of another shape count as none.
export function since(now: Buckets, before: Buckets | undefined): Buckets {
  if (!before || before.bounds.length !== now.bounds.length) return now;
  return { bounds: now.bounds, counts: now.counts.map((count, i) => count - before.counts[i]) };
}

// FEWEST is how many values a quantile needs to be told.
export const FEWEST = 20;

export function total(buckets: Buckets): number {
  return buckets.counts.at(-1) ?? 0;
}

// quantile is the value that a share q of all is below: values are taken to be spread evenly
// within their bucket, as Prometheus does it. What lies beyond the last bound is told as that
// bound. Nothing = there are too few.
export function quantile(buckets: Buckets, q: number): number | undefined {
  const all = total(buckets);
  if (!(all >= FEWEST)) return undefined;
  const rank = q * all;
  const at = buckets.counts.findIndex((count) => count >= rank);
  if (at < 0) return undefined;
  if (buckets.bounds[at] === Infinity) return buckets.bounds[at - 1];
  const below = at === 0 ? 0 : buckets.counts[at - 1];
  const from = at === 0 ? 0 : buckets.bounds[at - 1];
  const within = buckets.counts[at] - below;
  return within > 0 ? from + ((buckets.bounds[at] - from) * (rank - below)) / within : buckets.bounds[at];
}
