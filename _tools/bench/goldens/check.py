"""Checks that recordings say what the originals saw: times, texts and token counts of
every request, recomputed from recording.json, against the details in result.json.

    python check.py OUT
"""

import json
import os
import sys

from replay import CHOICES, ENDED, OUTPUT, REASONING, TEXT

TOKEN = {"vllm": CHOICES, "vllm-0.11": CHOICES, "vllm-rs": CHOICES, "lmdeploy": TEXT, "sglang": TEXT | REASONING}


def read(profile, chat, sample):
    """ttft, itl and the latency of one request, in seconds."""
    token = OUTPUT if profile == "vllm" and chat else TOKEN[profile]
    sent = before = last = sample.get("Sent", 0)
    ttft, itl = None, []
    for chunk in sample.get("Chunks", []):
        kind, at = chunk.get("Kind", 0), chunk["At"]
        data = profile == "vllm-0.11" and chat and kind != ENDED  # usage chunks end a chat there
        if kind & token:
            if ttft is None:
                ttft = at - sent
            else:
                itl.append((at - before) / 1e9)
        if kind & token or data:
            before = at
        if kind & token or data or profile in ("lmdeploy", "sglang"):
            last = at
    return (ttft or 0) / 1e9, itl, (last - sent) / 1e9


def near(got, want):
    if isinstance(want, list):
        return len(got) == len(want) and all(map(near, got, want))
    return abs(got - want) <= 1e-9


def main():
    out, bad, checked = sys.argv[1], 0, 0
    for profile in sorted(p for p in os.listdir(out) if os.path.isdir(os.path.join(out, p))):
        for trace in sorted(os.listdir(os.path.join(out, profile))):
            folder = os.path.join(out, profile, trace)
            with open(os.path.join(folder, "recording.json")) as f:
                recording = json.load(f)
            if not os.path.exists(os.path.join(folder, "result.json")):
                continue
            with open(os.path.join(folder, "result.json")) as f:
                result = json.load(f)
            chat = "chat" in recording["Setup"]["Backend"]
            for i, sample in enumerate(recording["Samples"]):
                ttft, itl, latency = read(profile, chat, sample)
                failed = "Err" in sample
                for key, value in (("ttfts", ttft), ("itls", itl), ("latencies", 0 if failed else latency),
                                   ("start_times", sample.get("Sent", 0) / 1e9),
                                   ("queue_times", (sample.get("Sent", 0) - sample.get("Released", 0)) / 1e9)):
                    if key in result:
                        checked += 1
                        if not near(value, result[key][i]):
                            bad += 1
                            print(profile, trace, i, key, value, result[key][i])
                text = "" if failed else sample.get("Text", "")
                for key, value in (("generated_texts", text), ("errors", sample.get("Err", ""))):
                    reasoning = profile == "sglang" and sample.get("Thought")  # one text of both there
                    if key in result and not reasoning:
                        checked += 1
                        if value != result[key][i]:
                            bad += 1
                            print(profile, trace, i, key, repr(value), repr(result[key][i]))
    print(f"{checked} values checked, {bad} differ")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
