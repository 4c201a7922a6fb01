"""A clock that only the replay moves, an HTTP session that answers from a trace, and the
recording that the benchmark under test would have made of the same events."""

import asyncio
import contextlib
import datetime as real_datetime
import json
import selectors
import sys
import types

from traces import DONE

WALL = 1768471200_000000000  # 2026-01-15 10:00:00 UTC, in ns: when the measured run begins
MONOTONIC = 0  # where the monotonic clock stands then; 0 costs the floats of the originals no digits


class Clock:
    """Time in whole nanoseconds. It also stands in for the module time."""

    def __init__(self):
        self.ns = 0

    def perf_counter(self):
        return (MONOTONIC + self.ns) / 1e9

    monotonic = perf_counter

    def time(self):
        return (WALL + self.ns) / 1e9

    def sleep(self, seconds):
        self.ns += round(seconds * 1e9)


class Dates:
    """Stands in for datetime.datetime; remembers the nanoseconds behind each text."""

    def __init__(self, clock):
        self.clock, self.seen = clock, {}

    def now(self):
        ns = WALL + self.clock.ns
        at = real_datetime.datetime.fromtimestamp(ns // 10**9, real_datetime.timezone.utc).replace(tzinfo=None)
        at = at.replace(microsecond=ns % 10**9 // 1000)
        self.seen[at.isoformat()] = ns
        return at


class Loop(asyncio.SelectorEventLoop):
    """Sleeps by moving the clock."""

    def __init__(self, clock):
        self.clock = clock
        super().__init__(Selector(self))
        self._clock_resolution = 1e-9

    def time(self):
        return self.clock.ns / 1e9


class Selector(selectors.SelectSelector):
    def __init__(self, loop):
        super().__init__()
        self.loop = loop

    def select(self, timeout=None):
        if timeout is None:
            raise RuntimeError("the replay waits for nothing")
        if timeout > 0:
            self.loop.clock.ns = max(self.loop.clock.ns, round(self.loop._scheduled[0]._when * 1e9))
        return []


class Policy(asyncio.DefaultEventLoopPolicy):
    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def new_event_loop(self):
        return Loop(self.clock)


class ClientError(Exception):
    pass


class ClientConnectorError(ClientError):
    pass


class ClientPayloadError(ClientError):
    pass


async def pause(ns):
    await asyncio.sleep(ns / 1e9)


class Server:
    """Answers requests from a trace, and records them. The request is found by its
    prompt, which is its number; "warm" is the number before the measured run."""

    def __init__(self, trace, profile, clock):
        self.trace, self.profile, self.clock = trace, profile, clock
        self.warm, self.zero = 0, None
        self.samples, self.probes, self.bodies = {}, [], []
        self.metrics_read = 0

    def begin(self):
        self.zero = self.clock.ns

    def now(self):
        return self.clock.ns - self.zero

    def released(self, index):
        self.samples[index] = {"Index": index, "Scheduled": self.now(), "Released": self.now()}

    def open(self, body):
        prompt = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
        if isinstance(prompt, list):
            prompt = prompt[0]["text"]
        if prompt == "Hi":
            probe = {"Sent": self.now(), "Done": self.now()}
            self.probes.append(probe)
            return self.trace.probes[len(self.probes) - 1], Recorder(self, {"Sent": self.now()}, probe)
        index = int(prompt)
        script = self.trace.requests[index].script
        if self.warm > 0:
            self.warm -= 1
            return script, None
        self.bodies.append(body)
        sample = self.samples[index]
        sample["Sent"] = self.now()
        return script, Recorder(self, sample, None)

    def post(self, url=None, json=None, headers=None, **_):
        return Answer(self, json)

    def get(self, url, **_):
        self.metrics_read += 1
        text = ""
        if self.trace.counters:  # vLLM's client reads twice before and twice after
            text = self.trace.counters[0 if self.metrics_read <= 2 else 1]
        return Answer(self, None, text)


class Answer:
    def __init__(self, server, body, text=None):
        self.server, self.body, self.plain = server, body, text
        self.content = self
        self.status, self.reason = 200, "OK"
        if text == "":
            self.status, self.reason = 404, "Not Found"

    async def __aenter__(self):
        if self.body is None:
            return self
        self.script, self.recorder = self.server.open(self.body)
        await pause(self.script.head)
        self.status, self.reason = self.script.status, self.script.reason
        if self.recorder:
            self.recorder.status(self.script)
        if self.script.refused:
            if self.recorder:
                self.recorder.done()
            raise ClientConnectorError("Cannot connect to host 127.0.0.1:8000")
        return self

    async def __aexit__(self, *_):
        if self.body is None:
            return
        await pause(37_003)  # the connection goes back to its pool; the slot is free a little later
        if self.recorder:
            self.recorder.done()

    async def text(self):
        return self.plain if self.body is None else self.script.body

    async def iter_any(self):
        for gap, data in self.script.reads:
            await pause(gap)
            if self.recorder:
                self.recorder.read(data)
            yield data
        await pause(self.script.tail)
        if self.script.reset:
            raise ClientPayloadError("Response payload is not completed")

    async def __aiter__(self):
        held = b""
        async for data in self.iter_any():
            held += data
            while b"\n" in held:
                line, held = held.split(b"\n", 1)
                yield line + b"\n"


# The bits of bench.Kind.
CHOICES, TEXT, REASONING, USAGE, ENDED, OUTPUT = 1, 2, 4, 8, 16, 32


def decode(data):
    """Reads one event: kind, visible text, reasoning, finish_reason, usage."""
    kind, text, thought, finish = 0, "", "", ""
    for choice in (data.get("choices") or [])[:1]:
        delta = choice.get("delta")
        kind |= CHOICES
        text = (choice.get("text") if delta is None else delta.get("content")) or ""
        thought = (delta or {}).get("reasoning") or (delta or {}).get("reasoning_content") or ""
        finish = choice.get("finish_reason") or ""
        # vLLM counts a chat chunk when it brings something, or an empty content and no role.
        brings = delta is None or text or delta.get("reasoning") or delta.get("tool_calls")
        if brings or (delta.get("content") == "" and "role" not in delta):
            kind |= OUTPUT
    kind |= TEXT if text else 0
    kind |= REASONING if thought else 0
    kind |= USAGE if data.get("usage") else 0
    return kind, text, thought, finish, data.get("usage")


class Recorder:
    """Writes the bench.Sample of one request, by the rules of bench.md 1.5."""

    def __init__(self, server, sample, probe):
        self.server, self.sample, self.probe = server, sample, probe
        self.held, self.broken = b"", False
        self.text = self.thought = self.finish = ""
        self.chunks, self.counts = [], {"Prompt": -1, "Completion": -1, "Cached": -1, "Reasoning": -1}

    def status(self, script):
        self.sample["Status"] = 0 if script.refused else script.status

    def read(self, data):
        self.held += data
        while b"\n\n" in self.held:
            event, self.held = self.held.split(b"\n\n", 1)
            self.event(event)
        with contextlib.suppress(ValueError):  # the blank line may come later
            if self.held.startswith(b"data: ") and (self.held == DONE[:-2] or json.loads(self.held[6:]) is not None):
                self.event(self.held)
                self.held = b""

    def event(self, event):
        if self.broken or not event.startswith(b"data: "):
            return
        chunk = {"At": self.server.now(), "Lag": -1, "Tokens": -1, "Kind": ENDED}
        if event != DONE[:-2]:
            try:
                kind, text, thought, finish, usage = decode(json.loads(event[6:]))
            except ValueError:
                self.broken = True
                return
            chunk["Kind"] = kind
            self.text, self.thought = self.text + text, self.thought + thought
            self.finish = finish or self.finish
            if usage:
                self.counts["Prompt"], self.counts["Completion"] = usage["prompt_tokens"], usage["completion_tokens"]
            if self.probe is not None and kind & CHOICES:
                self.probe["Done"] = chunk["At"]
        self.chunks.append(chunk)

    def done(self):
        self.sample.update({"Done": self.server.now(), "Chunks": self.chunks, "Counts": self.counts, "Text": self.text,
                            "Thought": self.thought, "Finish": self.finish})
        if self.probe is not None and self.sample["Status"] != 200:
            self.probe.update({"Done": self.server.now(), "Err": "Service Unavailable"})


class Words:
    """The tokenizer of the goldens: a token is a run of characters without white space."""

    def encode(self, text, add_special_tokens=True):
        return text.split()

    def __call__(self, text, add_special_tokens=True):
        return types.SimpleNamespace(input_ids=text.split())


class Stub(types.ModuleType):
    """A module whose every name is an empty class."""

    def __init__(self, name):
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *a, **k: None})


def stub(*names):
    for name in names:
        sys.modules[name] = Stub(name)
        parent, _, leaf = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], leaf, sys.modules[name])


def stub_aiohttp(server_of):
    """An aiohttp whose sessions are the server that server_of returns."""

    class Session:
        def __init__(self, *_, **__):
            self.post, self.get = server_of().post, server_of().get

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            pass

        async def close(self):
            pass

    stub("aiohttp")
    module = sys.modules["aiohttp"]
    module.ClientSession = Session
    for kind in (ClientError, ClientConnectorError, ClientPayloadError):
        kind.__module__ = "aiohttp.client_exceptions"
        setattr(module, kind.__name__, kind)


def compact(value):
    """Leaves out what Go's zero values say anyway."""
    if isinstance(value, dict):
        return {k: compact(v) for k, v in value.items() if v not in ("", None, []) and not (v == 0 and k != "Rate")}
    if isinstance(value, list):
        return [compact(v) for v in value]
    return value


def last_line(error):
    """The last line of a traceback; any other error as it is."""
    return error.rstrip("\n").rsplit("\n", 1)[-1] if error.startswith("Traceback") else error


def plain_errors(text, errors):
    """Replaces tracebacks in the JSON text, which name the files of this machine, by their last line."""
    for error in errors:
        text = text.replace(json.dumps(error), json.dumps(last_line(error)))
    return text


def report_block(out):
    """The report within what a tool printed, with the empty line before it if it prints one."""
    start = out.index(" Serving Benchmark Result ")
    start = out.rindex("\n", 0, start) + 1
    if out[:start].endswith("\n\n"):
        start -= 1
    end = out.index("\n" + "=" * 50 + "\n", start)
    return out[start:end + 52]


def moment(ns):
    at = real_datetime.datetime.fromtimestamp(ns // 10**9, real_datetime.timezone.utc)
    fraction = f".{ns % 10**9:09d}".rstrip("0").rstrip(".")
    return at.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


PROFILES = ["vllm", "vllm-rs", "vllm-0.11", "lmdeploy", "sglang"]


def setup(trace, profile, backend, dataset, seed, url, argv):
    """The bench.Setup. JSON has no infinity: Rate 0 stands for it."""
    strategy, start, end = trace.ramp or ("", 0, 0)
    inf = float("inf")
    return {
        "Profile": PROFILES.index(profile), "Backend": backend, "Dialect": "sglang" if profile == "sglang" else "vllm",
        "URL": url, "Model": "org/m", "ModelID": "org/m", "Tokenizer": "words" if trace.tokenizer else "",
        "Dataset": dataset, "Label": trace.label or "", "Seed": seed,
        "Metadata": [dict(zip(("Key", "Value"), m.split("=", 1))) for m in trace.metadata],
        "Arrivals": {"Rate": 0 if trace.rate == inf else trace.rate, "Burstiness": trace.burstiness,
                     "Concurrency": trace.concurrency or 0, "Ramp": {"Strategy": strategy, "Start": start, "End": end}},
        "IgnoreEOS": True, "Stream": True, "Percentiles": [float(p) for p in trace.percentiles.split(",")],
        "Metrics": trace.metrics.split(","),
        "Goodput": [{"Metric": g.split(":")[0], "Limit": int(g.split(":")[1]) * 1_000_000} for g in trace.goodput],
        "Args": argv,
    }


def series(text):
    """The counters of an exposition, by series."""
    out = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            out[name] = float(value)
    return out


def recording(server, trace, settings, duration, errors, steps=()):
    samples = []
    for i, request in enumerate(trace.requests):
        sample = server.samples[i]
        sample.update({"Input": request.prompt_len, "Asked": request.output_len, "Err": last_line(errors[i])})
        samples.append(sample)
    out = {"Setup": settings, "Began": moment(WALL + server.zero), "Duration": round(duration * 1e9),
           "Samples": samples, "Probes": server.probes, "RateSteps": [{"Rate": rate, "At": moment(at)} for rate, at in steps]}
    if trace.counters:
        out["Before"], out["After"] = map(series, trace.counters)
    return json.dumps(compact(out), ensure_ascii=False, separators=(",", ":")) + "\n"
