import assert from "node:assert/strict";
import { test } from "node:test";
import { round, shownSpan } from "../src/live-chart";
import { saying, short, tallies, tiles, told, valueOf } from "../src/live-figures";
import { type Buckets, parse, quantile, since } from "../src/live-metrics";
import { columns, columnsOf, next, snapshotOf, sorted } from "../src/live-requests";
import { reportOf } from "../src/live-report";
import { INTERVAL, moment, moments, Ring, SPAN } from "../src/live-series";
import { limitOf, sections, written } from "../src/model-facts";
import { isOwn, requestID } from "../src/own";

test("text of metrics", () => {
  const read = parse(`# HELP a b
# TYPE vllm:x counter
vllm:x{model_name="a \\"b\\" \\\\ c\\nd, e=}",engine="0"} 12
plain 1.5e3
stamped{} 7 1700000000000
padded  { a = "b" , } 3
inf{le="+Inf"} +Inf
nan NaN
{no="name"} 1
broken{a="b} 1
broken{a=b} 1
no_value{a="b"}
bad one
exemplar_bucket{le="1"} 4 # {trace="x"} 0.5
`);
  assert.deepEqual(read.map((s) => [s.name, Object.fromEntries(s.labels), s.value]), [
    ["vllm:x", { model_name: 'a "b" \\ c\nd, e=}', engine: "0" }, 12],
    ["plain", {}, 1500],
    ["stamped", {}, 7],
    ["inf", { le: "+Inf" }, Infinity],
    ["exemplar_bucket", { le: "1" }, 4],
  ]);
});

// exact is how far from a quantile of the values themselves that of their buckets may be: it lies
// in the same bucket.
test("quantiles lie in the bucket that the values' own do", () => {
  const bounds = [0.001, 0.005, 0.01, 0.02, 0.04, 0.1, 0.5, 1, 10, Infinity];
  let state = 12345;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  for (let round = 0; round < 300; round++) {
    const values = Array.from({ length: 20 + Math.floor(random() * 200) }, () => Math.exp(-7 + 8 * random())).sort((a, b) => a - b);
    const counts = bounds.map((bound) => values.filter((v) => v <= bound).length);
    for (const q of [0.5, 0.95]) {
      const want = values[Math.ceil(q * values.length) - 1];
      const at = bounds.findIndex((bound) => want <= bound);
      const got = quantile({ bounds, counts }, q)!;
      assert.ok(got >= (at === 0 ? 0 : bounds[at - 1]) && got <= bounds[at], `${got} of ${want}`);
    }
  }
});

test("quantiles of few values, of those beyond the last bound, of nothing", () => {
  const few: Buckets = { bounds: [1, Infinity], counts: [19, 19] };
  assert.equal(quantile(few, 0.5), undefined);
  assert.equal(quantile({ bounds: [1, Infinity], counts: [20, 20] }, 0.5), 0.5);
  assert.equal(quantile({ bounds: [1, 2, Infinity], counts: [0, 0, 50] }, 0.95), 2);
  assert.equal(quantile({ bounds: [], counts: [] }, 0.5), undefined);
  assert.deepEqual(since({ bounds: [1, 2], counts: [5, 9] }, { bounds: [1, 2], counts: [2, 3] }).counts, [3, 6]);
  assert.deepEqual(since({ bounds: [1, 2], counts: [5, 9] }, { bounds: [1], counts: [2] }).counts, [5, 9]);
});

interface Load {
  tokens: number;
  prompt?: number;
  hits?: number;
  ttft?: number; // how many first tokens within 0.1 s
  running?: number;
}

// metrics are what a server tells after some load.
function metrics({ tokens, prompt = 0, hits = 0, ttft = 0, running = 0 }: Load): string {
  return `x:generation_tokens_total{model_name="m"} ${tokens}
x:prompt_tokens_total{model_name="m"} ${prompt}
x:prefix_cache_queries_total{model_name="m"} ${prompt}
x:prefix_cache_hits_total{model_name="m"} ${hits}
x:num_preemptions_total{model_name="m"} 0
x:num_requests_running{model_name="m"} ${running}
x:num_requests_waiting{model_name="m"} 0
x:kv_cache_usage_perc{model_name="m"} 0.25
x:request_success_total{finished_reason="stop",model_name="m"} ${ttft}
x:request_success_total{finished_reason="abort",model_name="m"} 0
x:admission_rejections_total{model_name="m",reason="queue_full"} 2
ossian_limit_refusals_total{limit="queue"} 0
http_requests_total{handler="/a",method="GET",status="2xx"} 9
http_requests_total{handler="/a",method="GET",status="4xx"} 3
http_requests_total{handler="/b",method="GET",status="4xx"} 4
x:time_to_first_token_seconds_bucket{model_name="m",le="0.05"} 0
x:time_to_first_token_seconds_bucket{model_name="m",le="0.1"} ${ttft}
x:time_to_first_token_seconds_bucket{model_name="m",le="+Inf"} ${ttft}
process_resident_memory_bytes 1048576
`;
}

function run(loads: Load[], at = (i: number) => i * INTERVAL): Ring {
  const ring = new Ring();
  loads.forEach((load, i) => ring.push(moment(metrics(load), at(i))));
  return ring;
}

test("rates, shares and quantiles of steady load", () => {
  const ring = run(Array.from({ length: 40 }, (_, i) => ({ tokens: 100 * i, prompt: 200 * i, hits: 50 * i, ttft: 4 * i, running: i % 3 })));
  const i = 39;
  assert.equal(ring.rate("generation_tokens_total", i), 50);
  assert.equal(ring.rate("prompt_tokens_total", i), 100);
  assert.equal(ring.share("prefix_cache_hits_total", "prefix_cache_queries_total", i), 0.25);
  assert.equal(ring.quantile("time_to_first_token_seconds", 0.5, i)!.toFixed(6), "0.075000");
  assert.equal(ring.quantile("time_to_first_token_seconds", 0.5, 4), null, "16 values are too few");
  assert.equal(ring.gauge("num_requests_running", i), 0);
  assert.equal(ring.grown("request_success_total stop"), 156);
  assert.equal(ring.rate("generation_tokens_total", 0), null);
  assert.deepEqual(ring.times().slice(-2), [-2, 0]);
});

test("a counter that falls begins a new series, and nothing is computed across it", () => {
  const ring = run([{ tokens: 1000, ttft: 50 }, { tokens: 1100, ttft: 55 }, { tokens: 10, ttft: 1 }, { tokens: 30, ttft: 1 }]);
  assert.deepEqual(ring.moments.map((m) => m.begins), [true, false, true, false]);
  assert.deepEqual(ring.series((i) => ring.rate("generation_tokens_total", i)), [null, 50, null, 10]);
  assert.equal(ring.grown("generation_tokens_total"), 120);
  // A restart that has counted more in one series and less in another is one, too.
  assert.equal(run([{ tokens: 5, prompt: 9 }, { tokens: 50, prompt: 8 }]).moments[1].begins, true);
  // A model that is being loaded has no series; when they come that is no restart, when they go it is.
  const loading = new Ring();
  for (const [i, text] of ["process_resident_memory_bytes 5\n", metrics({ tokens: 0 }), "process_resident_memory_bytes 5\n"].entries()) loading.push(moment(text, i * INTERVAL));
  assert.deepEqual(loading.moments.map((m) => m.begins), [true, false, true]);
});

test("a gap begins a new series, and what is old goes", () => {
  const gap = run([{ tokens: 0 }, { tokens: 100 }, { tokens: 9000 }, { tokens: 9100 }], (i) => i * INTERVAL + (i > 1 ? 60_000 : 0));
  assert.deepEqual(gap.series((i) => gap.rate("generation_tokens_total", i)), [null, 50, null, 50]);
  const long = run(Array.from({ length: 1000 }, (_, i) => ({ tokens: i })));
  assert.equal(long.moments.length, SPAN / INTERVAL + 1);
  assert.equal(long.moments[0].begins, false);
});

test("tiles say what the ring has", () => {
  const ring = run(Array.from({ length: 30 }, (_, i) => ({ tokens: 100 * i, prompt: 10 * i, ttft: 2 * i, running: 3 })));
  const by = new Map(tiles(ring).map((t) => [t.title, t]));
  const value = (title: string, line = 0) => valueOf(by.get(title)!, by.get(title)!.lines[line]);
  assert.deepEqual([value("Output"), value("Prompt"), value("Requests"), value("Requests", 1), value("KV cache"), value("Prefix hits"), value("Memory"), value("Preemptions"), value("Step")], ["50", "5", "3", "0", "25 %", "0 %", "1 MiB", "0", "\u2013"]);
  assert.deepEqual([value("Time to first token"), value("Time to first token", 1)], ["75 ms", "97.5 ms"]);
  assert.equal(told({ ...by.get("Step")!, floor: 0.0005 }, 0.0003), "< 500 \u00b5s", "within the first bucket nothing is told apart");
  assert.equal(by.get("Output")!.note, "2,900 in all");
  assert.equal(saying(by.get("Output")!), "Output, tokens/s, of the last 15 minutes: now 50, least 50, most 50.");
  assert.equal(saying(by.get("Step")!), "Step, of the last 15 minutes: p50 not known; p95 not known.");
  assert.deepEqual(tallies(ring).map((t) => [t.group, t.name, t.recent, t.all]), [["Ended", "stopped", 58, 58], ["Ended", "aborted", 0, 0], ["Refused", "the queue is full", 0, 2], ["Answered by HTTP", "4xx", 0, 7]]);
  assert.deepEqual(tiles(new Ring()).map((t) => t.lines.length), [1, 1, 2, 2, 2, 1, 1, 1, 2, 1]);
  assert.deepEqual([0.0000021, 0.0342, 0.9994, 2.34, 75].map(short), ["2.1 \u00b5s", "34.2 ms", "999 ms", "2.3 s", "75 s"]);
});

test("a server that guesses has tiles of its own", () => {
  const ring = new Ring();
  const at = (n: number) => metrics({ tokens: 10 * n }) + `x:spec_decode_num_drafts_total{model_name="m"} ${4 * n}
x:spec_decode_num_draft_tokens_total{model_name="m"} ${8 * n}
x:spec_decode_num_accepted_tokens_total{model_name="m"} ${6 * n}
x:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",position="1"} ${2 * n}
x:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",position="0"} ${4 * n}
x:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",position="10"} 0
`;
  for (let i = 0; i < 5; i++) ring.push(moment(at(i), i * INTERVAL));
  const [held, step] = tiles(ring).slice(-2);
  assert.deepEqual([held.title, valueOf(held, held.lines[0]), held.note], ["Guesses that held", "75 %", "of the last minute; by place 100, 50, 0 %"]);
  assert.deepEqual([step.title, valueOf(step, step.lines[0]), step.note], ["Tokens a step", "2.50", "where guessed; 24 guesses held in all"]);
  ring.push(moment(at(4), 5 * INTERVAL + 60_000)); // behind a break nothing is known yet
  assert.deepEqual(tiles(ring).slice(-2).map((t) => [valueOf(t, t.lines[0]), t.note]), [["\u2013", "of the last minute"], ["\u2013", "where guessed; 24 guesses held in all"]]);
  assert.ok(tiles(run([{ tokens: 1 }])).every((t) => t.title !== "Tokens a step"));
});

const event = JSON.stringify({
  time: 1, uptime: 60, gauges: {}, others: { queued: 1, running: 2, ended: 3 }, left_out: 4,
  requests: [
    { id: "b\u202e", route: "/v1/responses", model: "m", state: "decode", prompt_tokens: 10, done_tokens: 10, cached_tokens: 4, output_tokens: 7, ttft: 0.5, tokens_per_second: 12.25, age: 2, end: null },
    { id: "a", route: "/v1/responses", model: "m", state: "prefill", prompt_tokens: 1000, done_tokens: 456, cached_tokens: 0, output_tokens: 0, ttft: null, tokens_per_second: null, age: 1, end: null },
    { id: requestID(), route: "/v1/responses", model: "m", state: "ended", prompt_tokens: 5, done_tokens: 5, cached_tokens: 0, output_tokens: 90, ttft: 0.25, tokens_per_second: 300, age: 9, end: "stop" },
  ],
});

test("several models are told apart, and what is the server's belongs to each", () => {
  const of = (model: string, tokens: number) => metrics({ tokens, running: 1 }).replaceAll('"m"', `"${model}"`);
  const whole = of("one", 100) + of("two", 7).replace(/^(http|process|ossian)_.*\n/gm, "");
  const read = moments(whole, 0);
  assert.deepEqual([...read.keys()], ["", "one", "two"]);
  assert.deepEqual(["", "one", "two"].map((name) => read.get(name)!.counters.get("generation_tokens_total")), [107, 100, 7]);
  assert.deepEqual(["", "one", "two"].map((name) => read.get(name)!.gauges.get("num_requests_running")), [2, 1, 1]);
  assert.deepEqual(["", "one", "two"].map((name) => read.get(name)!.gauges.get("process_resident_memory_bytes")), [1048576, 1048576, 1048576]);
  assert.deepEqual([...moments(of("one", 100), 0).keys()], [""], "of one model there is nothing to choose");
  assert.deepEqual(columnsOf(true).map((c) => c.name).slice(1, 4), ["Route", "Model", "State"]);
  assert.ok(columnsOf(false).every((c) => c.name !== "Model"));
  const two = { version: "1", models: [{ id: "one" }, { id: "two", family: "f" }], tools: [] };
  assert.match(reportOf({ told: two, snapshot: undefined, tiles: [], tallies: [], page: "" }), /^Model: one; two, f$/m);
  assert.match(reportOf({ told: two, snapshot: snapshotOf(event), tiles: [], tallies: [], page: "", model: "two" }), /^Model: two, f$[^]*Request +Route +Model +State/m);
});

test("scales are round and hold their values", () => {
  assert.deepEqual([0.0007, 0.42, 1, 3.4, 724, 1840, 1].map((v) => +round(v, 1).toPrecision(6)), [0.0008, 0.6, 1, 4, 800, 2000, 1]);
  assert.equal(round(426.7 * 2 ** 20, 2 ** 20), 600 * 2 ** 20);
  for (let v = 1e-7; v < 1e9; v *= 1.37) assert.ok(round(v, 1) >= v * 0.999 && round(v, 1) <= 1.51 * v, String(v));
  assert.deepEqual([0, 100, 181, 400, 900].map(shownSpan), [180, 180, 360, 900, 900]);
});

test("rows of requests", () => {
  const { rows, others, leftOut } = snapshotOf(event);
  assert.deepEqual(rows.map((r) => columns.map((c) => c.cell(r)).slice(2)), [
    ["decode", "10", "4", "7", "0.50 s", "12", "2.0 s", "\u2013"],
    ["prefill 45 %", "1,000", "0", "0", "\u2013", "\u2013", "1.0 s", "\u2013"],
    ["ended", "5", "0", "90", "0.25 s", "300", "9.0 s", "stop"],
  ]);
  assert.deepEqual(rows.map((r) => r.own), [false, false, true]);
  assert.equal(columns[0].cell(rows[0]), "b\u27e8U+202E\u27e9");
  assert.deepEqual([others.running, leftOut], [2, 4]);
  assert.deepEqual(snapshotOf(`{"requests":[{}],"uptime":"x"}`).rows[0].ttft, null);
  assert.throws(() => snapshotOf("{"));
});

test("order of rows: a press sorts, another turns it round, a third undoes it", () => {
  const { rows } = snapshotOf(event);
  const ttft = columns.find((c) => c.name === "TTFT")!;
  let order = { column: "", down: false };
  const seen: string[] = [];
  for (let i = 0; i < 4; i++) {
    seen.push(sorted(rows, order).map((r) => r.output).join(" "));
    order = next(order, ttft);
  }
  assert.deepEqual(seen, ["7 0 90", "7 90 0", "90 7 0", "7 0 90"]);
  assert.deepEqual(sorted(rows, next({ column: "TTFT", down: true }, columns[0])).map((r) => r.output).slice(0, 2), [0, 7]);
});

test("ids of this browser", () => {
  const [one, other] = [requestID(), requestID()];
  assert.match(one, /^page-[0-9a-f]{16}-[0-9a-f]{16}$/);
  assert.ok(one !== other && isOwn(one) && isOwn(other) && !isOwn("req_x") && !isOwn(""));
});

test("the report has figures and ids", () => {
  const ring = run(Array.from({ length: 3 }, (_, i) => ({ tokens: 100 * i })));
  const text = reportOf({ told: { version: "1", models: [{ id: "m", family: "qwen3" }], tools: [], device: "cpu" }, snapshot: snapshotOf(event), tiles: tiles(ring), tallies: tallies(ring), page: "Browser 1" });
  assert.match(text, /^Ossian 1\nModel: m, qwen3\nDevice: cpu\nUp: 60 s\nBrowser: Browser 1\n/);
  assert.match(text, /Output \(tokens\/s\) +50 +50 +50\n/);
  assert.match(text, /Request +Route +State/);
  assert.match(reportOf({ told: undefined, snapshot: undefined, tiles: tiles(new Ring()), tallies: [], page: "" }), /Model: unknown/);
});

test("facts of the model", () => {
  const all = sections(
    { version: "1.2", uptime: 61, device: "cpu", auth: { required: true }, models: [{ id: "m", status: { value: "unloaded", failed: true }, family: "gpt-oss", parameters: 20914757184, quantization: null, memory: { planned: 3221225472, weights: 1610612736, kv_cache: 524288000 }, max_model_len: 4096, efforts: ["low", "high"], later: { a: 1 } }],
      tools: [{ type: "mcp", label: "x", available: false, reason: "not reached" }], limits: { "request-body": { value: 33554432, unit: "bytes" }, "body-read": { value: 30000, unit: "milliseconds" }, choices: { value: 128, unit: "number" }, later: "x" } },
    { data: [{ id: "m", object: "model", created: 1700000000, owned_by: "ossian", max_model_len: 4096 }] },
  );
  assert.equal(written(all), `m
  State: unloaded, could not be loaded
  Family: gpt-oss
  Parameters: 20.9B (20,914,757,184)
  Weights: \u2013
  Memory: 3 GiB planned: weights 1.5 GiB, keys and values up to 500 MiB
  Longest request: 4,096 tokens
  Reasoning efforts: low, high
  later: {"a":1}
  Created: 2023-11-14 22:13 UTC
  Owner: ossian

Server
  Version: 1.2
  Up for: 61 s
  Device: cpu
  Key: required

Tools that the server runs
  mcp x: off: not reached

Limits of a request
  request-body: 32 MiB
  body-read: 30 s
  choices: 128
  later: x
`);
  assert.equal(sections(undefined, null).length, 2);
  assert.equal(limitOf({ value: 600000, unit: "milliseconds" }), "10 min 0 s");
});
