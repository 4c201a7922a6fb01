"""Results of the profile lmdeploy. No registry carries lmdeploy's client (it is in no
package), so these come from an independent program that follows the rules which bench.md 4
sets down for it. They prove that two programs read those rules alike, not what the
original prints.

    python lmdeploy_rules.py OUT
"""

import csv
import io
import json
import statistics
import sys

import numpy
import replay
import traces
from vllm_python import write

SEED = 7
COLUMNS = ("backend dataset_name sharegpt_output_len random_input_len random_output_len random_range_ratio request_rate "
           "completed total_input_tokens total_output_tokens duration request_throughput input_throughput "
           "output_throughput mean_e2e_latency_ms mean_ttft_ms mean_tpot_ms mean_itl_ms").split()


class Failed(Exception):
    pass


class Player:
    """Walks through the reads of one script with a clock of its own."""

    def __init__(self, server, start):
        self.ns, self.zero = start, 0
        self.samples, self.probes = {}, []
        self.server = server

    def now(self):
        return self.ns


def lines(script, player, recorder):
    """The lines of a stream, with the time of the read that completed each."""
    held = b""
    for gap, data in script.reads:
        player.ns += gap
        recorder.read(data)
        *whole, held = (held + data).split(b"\n")
        for line in whole:
            if line.strip():
                yield player.ns, line.strip().removeprefix(b"data: ")
    player.ns += script.tail
    if script.reset:
        raise Failed("aiohttp.client_exceptions.ClientPayloadError: Response payload is not completed")


def play(script, request, chat, start, sample):
    """One request: what the client measures of it."""
    player = Player(None, start)
    recorder = replay.Recorder(player, sample, None)
    sample.update({"Scheduled": start, "Released": start, "Sent": start})
    player.ns += script.head
    recorder.status(script)
    out = {"ok": False, "error": "", "ttft": 0.0, "itl": [], "text": "", "tokens": 0}
    try:
        if script.refused:
            raise Failed("aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host 127.0.0.1:8000")
        if script.status != 200:
            raise Failed(script.reason + (": " + script.body if chat else ""))
        tokens, text, last, latency = request.output_len, "", None, 0.0
        for at, line in lines(script, player, recorder):
            latency = (at - start) / 1e9
            if line == b"[DONE]":
                continue
            try:
                data = json.loads(line)
            except json.JSONDecodeError as e:
                raise Failed(f"json.decoder.JSONDecodeError: {e}") from e
            choice = data["choices"][0]
            piece = choice["delta"].get("content") if chat else choice["text"]
            if chat and data.get("usage"):
                tokens = data["usage"]["completion_tokens"]
            if not piece:
                continue
            if last is None:
                out["ttft"] = (at - start) / 1e9
            else:
                out["itl"].append((at - last) / 1e9)
            last, text = at, text + piece
        out.update(ok=True, latency=latency, text=text, tokens=tokens)
    except Failed as e:
        out["error"] = str(e)
    if not script.refused:
        player.ns += 37_003
    recorder.done()
    return out, player.ns


def milliseconds(values):
    """mean, median and 99th percentile; of nothing 0."""
    values = values or [0.0]
    return statistics.fmean(values) * 1000, statistics.median(values) * 1000, float(numpy.percentile(values, 99)) * 1000


def row(label, value):
    if isinstance(value, float):
        value = f"{value:.2f}"
    return label.ljust(40) + " " + str(value).ljust(10) + "\n"


def section(title, fill):
    left = (50 - len(title)) // 2
    return fill * left + title + fill * (50 - len(title) - left) + "\n"


def report(trace, backend, total):
    text = "\n" + section(" Serving Benchmark Result ", "=")
    text += row("Backend:", backend)
    text += row("Traffic request rate:", str(trace.rate))
    text += row("Successful requests:", total["completed"])
    text += row("Benchmark duration (s):", total["duration"])
    text += row("Total input tokens:", total["total_input_tokens"])
    text += row("Total input text tokens:", total["total_input_tokens"])
    text += row("Total input vision tokens:", 0)
    text += row("Total generated tokens:", total["total_output_tokens"])
    text += row("Total generated tokens (retokenized):", total["retokenized"])
    text += row("Request throughput (req/s):", total["request_throughput"])
    text += row("Input token throughput (tok/s):", total["input_throughput"])
    text += row("Output token throughput (tok/s):", total["output_throughput"])
    text += section("End-to-End Latency", "-")
    text += row("Mean E2E Latency (ms):", total["e2e"][0]) + row("Median E2E Latency (ms):", total["e2e"][1])
    for title, name in (("Time to First Token", "TTFT"), ("Time per Output Token (excl. 1st token)", "TPOT"),
                        ("Inter-token Latency", "ITL")):
        mean, median, p99 = total[name.lower()]
        text += section(title, "-") + row(f"Mean {name} (ms):", mean) + row(f"Median {name} (ms):", median)
        text += row(f"P99 {name} (ms):", p99)
    return text + "=" * 50 + "\n"


def run(name, out):
    trace = traces.make(name, "lmdeploy")
    rng = numpy.random.RandomState(SEED)
    samples, results, start, end = [], [], 0, 0
    for i, request in enumerate(trace.requests):
        sample = {"Index": i}
        result, done = play(request.script, request, trace.chat, start, sample)
        samples.append(sample)
        results.append(result)
        end = max(end, done)
        if trace.rate != float("inf"):
            start += round(rng.exponential(1 / trace.rate) * 1e9)
            end = max(end, start)  # it sleeps behind the last one too
    seconds = end / 1e9
    good = [(r, q) for r, q in zip(results, trace.requests) if r["ok"]]
    e2e = [r["latency"] for r, _ in good]
    tokens_in, tokens_out = sum(q.prompt_len for _, q in good), sum(r["tokens"] for r, _ in good)
    backend = "lmdeploy-chat" if trace.chat else "lmdeploy"
    total = {
        "backend": backend, "dataset_name": "random", "sharegpt_output_len": None, "random_input_len": 400,
        "random_output_len": 40, "random_range_ratio": 0.0, "request_rate": trace.rate, "completed": len(good),
        "total_input_tokens": tokens_in, "total_output_tokens": tokens_out, "duration": seconds,
        "retokenized": sum(len(r["text"].split()) for r, _ in good), "request_throughput": len(good) / seconds,
        "input_throughput": tokens_in / seconds, "output_throughput": tokens_out / seconds,
        "e2e": milliseconds(e2e) if e2e else (float("nan"),) * 3,
        "ttft": milliseconds([r["ttft"] for r, _ in good]),
        "tpot": milliseconds([(r["latency"] - r["ttft"]) / (r["tokens"] - 1) for r, _ in good if r["tokens"] > 1]),
        "itl": milliseconds([gap for r, _ in good for gap in r["itl"]]),
    }
    total.update({"mean_e2e_latency_ms": total["e2e"][0], "mean_ttft_ms": total["ttft"][0],
                  "mean_tpot_ms": total["tpot"][0], "mean_itl_ms": total["itl"][0]})
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(COLUMNS)
    writer.writerow([total[c] for c in COLUMNS])
    url = "http://127.0.0.1:23333/v1/" + ("chat/completions" if trace.chat else "completions")
    argv = ["--backend", backend, "--dataset-name", "random", "--random-input-len", "400", "--random-output-len", "40",
            "--num-prompts", str(len(trace.requests)), "--seed", str(SEED), "--request-rate", str(trace.rate)]
    settings = replay.setup(trace, "lmdeploy", backend, "random", SEED, url, argv)
    server = Player(None, 0)
    server.samples = dict(enumerate(samples))
    recorded = replay.recording(server, trace, settings, seconds, [r["error"] for r in results])
    file = f"{backend}_0115_{len(trace.requests)}_400_40.jsonl"
    golden = {"tool": "bench.md 4.1 (independent program, not the original)", "argv": argv, "file": file}
    write(out, "lmdeploy", name, golden, recorded, report(trace, backend, total), "result.csv", table.getvalue())


def main():
    for name in traces.MAKERS:
        if name != "ramp":
            run(name, sys.argv[1])
            print("lmdeploy", name)


if __name__ == "__main__":
    main()
