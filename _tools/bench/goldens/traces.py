"""Traces: what a server does with each request, drawn from a seed. A trace holds no
times of the client; a replay adds those. Every gap is a whole number of nanoseconds and
none is round, so that no printed figure lies on the edge of two roundings and no event on
the edge of two seconds."""

import json
import random
from dataclasses import dataclass, field

MS = 1_000_000  # nanoseconds
WORDS = " token|ing| stream| of| words|ed| and|s| café| 🙂| then| more".split("|")
DONE = b"data: [DONE]\n\n"


@dataclass
class Script:
    """One answer: reads are (gap before it in ns, bytes)."""

    status: int = 200
    reason: str = "OK"
    body: str = ""
    head: int = 2 * MS  # until the status line
    reads: list = field(default_factory=list)
    tail: int = MS  # from the last read to the end
    reset: bool = False  # the end is a broken connection
    refused: bool = False


@dataclass
class Request:
    prompt_len: int
    output_len: int
    script: Script


@dataclass
class Trace:
    name: str
    chat: bool
    requests: list
    rate: float = float("inf")
    burstiness: float = 1.0
    concurrency: int | None = None
    metrics: str = "ttft,tpot,itl"
    percentiles: str = "99"
    goodput: list = field(default_factory=list)  # "ttft:300", milliseconds
    metadata: list = field(default_factory=list)
    label: str | None = None
    detailed: bool = True
    tokenizer: bool = True
    ramp: tuple | None = None  # strategy, start, end
    probe_rate: float = 0
    probes: list = field(default_factory=list)
    counters: tuple = ()  # GET /metrics before and after


class Style:
    """What differs between the servers that the profiles are made for."""

    def __init__(self, profile):
        self.lines = profile in ("lmdeploy", "sglang")  # reads line by line, sends no stream_options
        self.profile = profile

    def usage(self, chat):
        """Where usage comes: in a chunk of its own, in the last chunk, or nowhere."""
        if not self.lines:
            return "own"
        if chat:
            return "own" if self.profile == "sglang" else "last"
        return "last" if self.profile == "sglang" else "none"


def message(data):
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def completion(text, finish=None, usage=None):
    return {"id": "cmpl-1", "object": "text_completion", "created": 1768471200, "model": "m",
            "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": finish}], "usage": usage}


def chat(delta, finish=None, usage=None):
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1768471200, "model": "m",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}], "usage": usage}


def counts(prompt, completion_tokens):
    return {"prompt_tokens": prompt, "completion_tokens": completion_tokens,
            "total_tokens": prompt + completion_tokens}


def usage_only(prompt, n):
    return {"id": "cmpl-1", "object": "text_completion", "created": 1768471200, "model": "m",
            "choices": [], "usage": counts(prompt, n)}


def texts(rng, n, per_chunk):
    """n tokens as the texts of chunks that carry one to per_chunk of them."""
    out = []
    while n > 0:
        take = min(n, rng.randint(1, per_chunk))
        out.append("".join(rng.choice(WORDS) for _ in range(take)))
        n -= take
    return out


def paced(rng, messages, first, gap, end):
    """Each message in a read of its own; the last ones follow at once, as servers send them."""
    reads, wait = [], rng.randrange(*first)
    for i, m in enumerate(messages):
        reads.append((wait, m))
        last = i + 2 >= len(messages)
        wait = rng.randrange(20_011, 180_007) if last else rng.randrange(*gap)
    return Script(head=rng.randrange(1 * MS, 4 * MS), reads=reads, tail=rng.randrange(*end))


FIRST, GAP, END = (40 * MS, 420 * MS), (9 * MS, 95 * MS), (41_003, 310_009)


def completions(rng, style, prompt, n, per_chunk=1, usage=None, shown=0, blank=False):
    """A completion of n tokens; shown is what the server counts as prompt tokens."""
    usage = usage or style.usage(False)
    parts = texts(rng, n, per_chunk)
    if blank and len(parts) > 2:
        parts[1] = ""  # a token that decodes to nothing
    full = counts(shown or prompt, n)
    messages = []
    for i, part in enumerate(parts):
        last = i + 1 == len(parts)
        messages.append(message(completion(part, "length" if last else None, full if last and usage == "last" else None)))
    if usage == "own":
        messages.append(message(usage_only(shown or prompt, n)))
    return paced(rng, messages + [DONE], FIRST, GAP, END)


def chats(rng, style, prompt, n, thoughts=0):
    """A chat: role chunk, reasoning, content, an empty delta with the reason."""
    usage, shown = style.usage(True), prompt + 11  # the template adds tokens
    messages = [message(chat({"role": "assistant", "content": ""}))]
    key = "reasoning_content" if style.lines else "reasoning"
    messages += [message(chat({key: rng.choice(WORDS)})) for _ in range(thoughts)]
    for i in range(n - thoughts):
        empty = i == 2 and not style.lines
        messages.append(message(chat({"content": "" if empty else rng.choice(WORDS)})))
    full = counts(shown, n)
    messages.append(message(chat({}, "stop", full if usage == "last" else None)))
    if usage == "own":
        messages.append(message(usage_only(shown, n)))
    return paced(rng, messages + [DONE], FIRST, GAP, END)


def steady(rng, style):
    reqs = []
    for i in range(11):
        prompt, n = rng.randint(20, 400), rng.randint(5, 11)
        reqs.append(Request(prompt, n, completions(rng, style, prompt, n, shown=prompt + (i % 3 == 0), blank=i == 4)))
    label = '{engine="0",model_name="m"}'
    position = '{engine="0",model_name="m",position="%d"}'

    def counters(drafts, tokens, accepted, positions, hits, queries):
        lines = ["# HELP vllm:spec_decode_num_drafts_total Number of drafts.",
                 "# TYPE vllm:spec_decode_num_drafts_total counter",
                 f"vllm:spec_decode_num_drafts_total{label} {drafts}.0",
                 f"vllm:spec_decode_num_drafts_created{label} 1.768e+09",
                 f"vllm:spec_decode_num_draft_tokens_total{label} {tokens}.0",
                 f"vllm:spec_decode_num_accepted_tokens_total{label} {accepted}.0"]
        lines += [f"vllm:spec_decode_num_accepted_tokens_per_pos_total{position % k} {v}.0" for k, v in enumerate(positions)]
        lines += [f"vllm:prefix_cache_queries_total{label} {queries}.0", f"vllm:prefix_cache_hits_total{label} {hits}.0"]
        return "\n".join(lines) + "\n"

    return Trace("steady", False, reqs, concurrency=4, label="trial", metadata=["version=0.33.0", "tp=2"],
                 metrics="ttft,tpot,itl,e2el,client_queue_time", percentiles="50,99",
                 counters=(counters(7, 21, 9, [5, 3, 1], 16, 2000), counters(60, 180, 77, [48, 21, 8], 16, 5127)))


def chat_trace(rng, style):
    reqs = []
    for i in range(9):
        prompt, n = rng.randint(8, 90), rng.randint(6, 12)
        reqs.append(Request(prompt, n, chats(rng, style, prompt, n, thoughts=i % 4)))
    if style.profile == "vllm-0.11":  # counts as a success there
        reqs[5] = Request(33, 9, Script(reads=[(3_000_017, DONE)], tail=50_021))
    return Trace("chat", True, reqs, rate=6.5)


def failures(rng, style):
    reqs = []
    for _ in range(20):
        prompt, n = rng.randint(10, 300), rng.randint(3, 9)
        reqs.append(Request(prompt, n, completions(rng, style, prompt, n)))
    reqs[3].script = Script(status=503, reason="Service Unavailable", body="overloaded", head=1_500_041)
    reqs[6].script.reset = True  # in the middle of the stream
    del reqs[6].script.reads[3:]
    reqs[9].script = Script(refused=True, head=700_027)
    if not style.lines:  # line by line, these are no failures
        reqs[12].script = Script(reads=[(9_000_061, DONE)], tail=60_013)
    reqs[16].script.reads[2] = (5_000_087, b"data: oops\n\n")
    return Trace("failures", False, reqs, rate=21.0, concurrency=3,
                 metrics="ttft,tpot,itl,e2el,client_queue_time,e2el_including_client_queue",
                 goodput=["ttft:330", "tpot:62", "e2el:700"])


def short(rng, style):
    """Outputs of a token or two, and no usage."""
    reqs = []
    for i in range(8):
        prompt, n = rng.randint(4, 40), 1 if i % 4 else 2
        reqs.append(Request(prompt, n, completions(rng, style, prompt, n, usage="none")))
    return Trace("short", False, reqs, metrics="ttft,tpot,itl,e2el", detailed=False, tokenizer=style.profile != "vllm")


def chunks(rng, style):
    """Several tokens in a chunk, several chunks in a read, chunks over several reads."""
    reqs = []
    for i in range(9):
        prompt, n = rng.randint(10, 600), rng.randint(14, 34)
        usage = "none" if i % 3 == 2 else None
        script = completions(rng, style, prompt, n, per_chunk=5, usage=usage)
        repack(rng, script, style)
        reqs.append(Request(prompt, n, script))
    return Trace("chunks", False, reqs, rate=9.0, burstiness=1.0 if style.lines else 0.5,
                 metrics="ttft,tpot,itl,e2el", percentiles="25,50,90,99.9")


def repack(rng, script, style):
    out, held = [], b""
    for i, (gap, data) in enumerate(script.reads):
        data = held + data
        held = b""
        draw = rng.random()
        if draw < 0.25 and i + 1 < len(script.reads):
            held = data  # joins the next read
            continue
        if draw < 0.5 and b'"object"' in data:
            at = data.rindex(b'"object"') + 4
            if "🙂".encode() in data and style.profile == "vllm":
                at = data.index("🙂".encode()) + 2  # within a character
            out += [(gap, data[:at]), (rng.randrange(300_007, 900_001), data[at:])]
            continue
        if draw < 0.7 and not style.lines:
            out += [(gap, data[:-2]), (rng.randrange(300_007, 900_001), data[-2:])]  # the blank line comes late
            continue
        if draw < 0.8 and style.profile == "vllm":  # 0.11 loses the message behind a ping
            out.append((gap // 2, b": ping\n\n"))
        out.append((gap, data))
    script.reads = out


def ramp(rng, style):
    reqs = []
    for _ in range(10):
        prompt, n = rng.randint(10, 50), rng.randint(2, 5)
        reqs.append(Request(prompt, n, completions(rng, style, prompt, n)))
    probes = [completions(rng, style, 1, 1) for _ in range(40)]
    probes[2] = Script(status=503, reason="Service Unavailable", head=1_200_049)
    return Trace("ramp", False, reqs, ramp=("exponential", 2, 17), detailed=False,
                 probe_rate=4.0 if style.profile == "vllm" else 0, probes=probes)


def none(rng, style):
    """No request succeeds."""
    return Trace("none", False, [Request(10, 5, Script(status=500, reason="Internal Server Error", body="no", head=h))
                                 for h in (1_000_003, 2_000_029, 1_700_023)])


MAKERS = {"steady": steady, "chat": chat_trace, "failures": failures, "short": short, "chunks": chunks,
          "ramp": ramp, "none": none}


def make(name, profile):
    trace = MAKERS[name](random.Random(f"{name} 5"), Style(profile))
    if profile == "lmdeploy":
        trace.concurrency = None  # its client has no bound
    return trace
