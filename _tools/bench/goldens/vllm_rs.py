"""Runs the traces through vLLM's compiled client: profile vllm-rs.

    python vllm_rs.py CLIENT OUT

CLIENT is the program vllm/vllm-rs of vLLM's wheel. It cannot be given another clock, so it
measures a server on the loopback interface that plays the traces in real time, and the
recordings are made from the details of its own results. Every run gives other times.
"""

import asyncio
import contextlib
import datetime
import json
import os
import sys
import tempfile

import replay
import traces
from vllm_python import ramp_up, traffic, write

VERSION = "vllm-rs of vllm 0.33.0"
TOKENIZER = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
             "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "w": 1}, "unk_token": "[UNK]"}}


class Player:
    """Plays the traces over HTTP. The first word of a prompt is its number."""

    def __init__(self, trace):
        self.trace, self.metrics_read = trace, 0

    async def connection(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                length = next((int(h.split(":")[1]) for h in head if h.lower().startswith("content-length:")), 0)
                body = await reader.readexactly(length)
                if head[0].startswith("POST /v1/"):
                    if not await self.answer(json.loads(body), writer):
                        return
                else:
                    await self.counters(head[0], writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def counters(self, line, writer):
        text = b""
        if self.trace.counters and line.startswith("GET /metrics"):
            text = self.trace.counters[min(self.metrics_read, 1)].encode()
            self.metrics_read += 1
        status = "200 OK" if text else "404 Not Found"
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text)
        await writer.drain()

    async def answer(self, body, writer):
        """Answers one request; False = the connection is broken then."""
        prompt = body["prompt"] if "prompt" in body else body["messages"][0]["content"][0]["text"]
        script = self.trace.requests[int(prompt.split()[0])].script
        await asyncio.sleep(script.head / 1e9)
        if script.refused:
            return False
        if script.status != 200:
            writer.write(f"HTTP/1.1 {script.status} {script.reason}\r\n"
                         f"content-length: {len(script.body)}\r\n\r\n{script.body}".encode())
            await writer.drain()
            return True
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for gap, data in script.reads:
            await asyncio.sleep(gap / 1e9)
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()
        await asyncio.sleep(script.tail / 1e9)
        if script.reset:
            writer.transport.abort()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def arguments(trace):
    """The command line, as given to the original."""
    out = ["bench", "serve", "--backend", "openai-chat" if trace.chat else "openai", "--model", "org/m",
           "--tokenizer", "words", "--dataset-name", "custom", "--dataset-path", "prompts.jsonl", "--custom-output-len", "-1",
           "--disable-shuffle", "--num-prompts", str(len(trace.requests)), "--seed", "7", "--ignore-eos", "--disable-tqdm",
           "--save-result", "--save-detailed", "--percentile-metrics", metrics(trace),
           "--metric-percentiles", trace.percentiles, "--burstiness", str(trace.burstiness)]
    return out + traffic(trace) + ramp_up(trace)


def metrics(trace):
    return ",".join(m for m in trace.metrics.split(",") if m in ("ttft", "tpot", "itl", "e2el"))


def events(script):
    """Kind, text, reasoning, finish and usage of each message of a script."""
    for part in b"".join(data for _, data in script.reads).split(b"\n\n"):
        if part == b"data: [DONE]":
            yield replay.ENDED, "", "", "", None
        elif part.startswith(b"data: {"):
            yield replay.decode(json.loads(part[6:]))
        elif part.startswith(b"data: "):
            return


def sample(i, request, result):
    """The bench.Sample of request i: the original's times, put to the events of the script."""
    sent = round(result["start_times"][i] * 1e9)
    out = {"Index": i, "Scheduled": sent, "Released": sent, "Sent": sent, "Chunks": [], "Text": "", "Thought": "",
           "Counts": {"Prompt": -1, "Completion": -1, "Cached": -1, "Reasoning": -1}, "Finish": "",
           "Status": 0 if request.script.refused else request.script.status}
    gaps = iter([result["ttfts"][i], *result["itls"][i]])
    at = sent
    for kind, text, thought, finish, usage in events(request.script):
        if kind & replay.CHOICES:
            gap = next(gaps, None)
            if gap is None:
                break
            at += round(gap * 1e9)
        else:
            at += 60_000
        out["Chunks"].append({"At": at, "Lag": -1, "Tokens": -1, "Kind": kind})
        out["Text"], out["Thought"], out["Finish"] = out["Text"] + text, out["Thought"] + thought, finish or out["Finish"]
        if usage:
            out["Counts"].update({"Prompt": usage["prompt_tokens"], "Completion": usage["completion_tokens"]})
    if next(gaps, None) is not None and not result["errors"][i]:
        raise SystemExit(f"request {i}: more gaps than events")
    out["Done"] = at + 60_000
    return out


class Recorded:
    """What replay.recording wants of a server."""

    def __init__(self, samples, began):
        self.samples, self.probes, self.zero = dict(enumerate(samples)), [], began - replay.WALL


async def measure(client, trace, folder, argv):
    server = await asyncio.start_server(Player(trace).connection, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "RUST_LOG": "error"}
    process = await asyncio.create_subprocess_exec(
        client, *argv, "--base-url", f"http://127.0.0.1:{port}", cwd=folder, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    try:
        printed, complaints = await asyncio.wait_for(process.communicate(), 120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        server.close()
    if process.returncode != 0:
        raise SystemExit(complaints.decode()[-2000:])
    return printed.decode()


def run(client, name, out):
    trace = traces.make(name, "vllm-rs")
    argv = arguments(trace)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "words"))
        with open(os.path.join(folder, "words", "tokenizer.json"), "w") as f:
            json.dump(TOKENIZER, f)
        with open(os.path.join(folder, "prompts.jsonl"), "w") as f:
            for i, request in enumerate(trace.requests):
                prompt = " ".join([str(i)] + ["w"] * (request.prompt_len - 1))
                f.write(json.dumps({"prompt": prompt, "output_tokens": request.output_len}) + "\n")
        printed = asyncio.run(measure(client, trace, folder, argv))
        file, = (n for n in os.listdir(folder) if n not in ("words", "prompts.jsonl"))
        with open(os.path.join(folder, file)) as f:
            saved = f.read()
    result = json.loads(saved)
    ended = datetime.datetime.fromisoformat(result["date"].replace("Z", "+00:00"))
    began = round(ended.timestamp() * 1e9) + 500_000_000 - round(result["duration"] * 1e9)
    server = Recorded([sample(i, r, result) for i, r in enumerate(trace.requests)], began)
    trace.metrics = metrics(trace)
    settings = replay.setup(trace, "vllm-rs", argv[3], "custom", 7,
                            "http://127.0.0.1/v1/" + ("chat/completions" if trace.chat else "completions"), argv)
    recorded = replay.recording(server, trace, settings, result["duration"], result["errors"])
    report, steady = blocks(printed)
    write(out, "vllm-rs", name, {"tool": VERSION, "argv": argv, "file": file}, recorded, report, "result.json", saved)
    if steady:
        with open(os.path.join(out, "vllm-rs", name, "steady.txt"), "w", newline="") as f:
            f.write(steady)


def blocks(printed):
    """The report, and what follows it: the report on the steady state."""
    start = printed.index("=" * 17 + " Serving Benchmark Result ")
    end = printed.index("\n" + "=" * 60 + "\n", start) + 62
    return printed[start:end], printed[end:]


def main():
    client, out = sys.argv[1:]
    for name in traces.MAKERS:
        run(os.path.abspath(client), name, out)
        print("vllm-rs", name)


if __name__ == "__main__":
    main()
