"""Runs the traces through sglang's own Python client: profile sglang.

    python sglang_python.py SOURCES OUT

SOURCES is the folder that holds the package sglang (sglang/benchmark unpacked from a
wheel). msgspec and orjson must be importable.
"""

import asyncio
import contextlib
import io
import os
import sys
import tempfile
import types
from dataclasses import dataclass, field

import numpy
import replay
import traces
from vllm_python import write

VERSION = "sglang 0.5.23"


@dataclass
class DatasetRow:
    """The fields of the original's data sets that its client reads."""

    prompt: str
    prompt_len: int
    output_len: int
    text_prompt_len: int
    vision_prompt_len: int = 0
    image_data: object = None
    timestamp: object = None
    routing_key: object = None
    extra_request_body: dict = field(default_factory=dict)


def load(sources, current):
    """Imports sglang.benchmark.serving with everything heavy around it stubbed."""
    sys.path.insert(0, sources)
    replay.stub("sglang", "sglang.srt", "sglang.srt.utils", "sglang.srt.disaggregation", "sglang.srt.disaggregation.utils",
                "sglang.srt.utils.network", "transformers", "requests", "sglang.benchmark.datasets",
                "sglang.benchmark.datasets.mooncake", "sglang.benchmark.utils")
    sys.modules["sglang"].__path__ = [os.path.join(sources, "sglang")]
    sys.modules["sglang.srt.utils.network"].resolve_base_url = lambda url, host, port: url or f"http://{host}:{port}"
    datasets = sys.modules["sglang.benchmark.datasets"]
    datasets.DatasetRow = DatasetRow
    datasets.get_dataset = lambda *_: [DatasetRow(str(i), r.prompt_len, r.output_len, r.prompt_len)
                                       for i, r in enumerate(current[0].trace.requests)]
    utils = sys.modules["sglang.benchmark.utils"]
    utils.get_tokenizer = lambda *_: replay.Words()
    utils.remove_prefix = lambda text, prefix: text.removeprefix(prefix)
    utils.set_ulimit = lambda: None
    sys.modules["requests"].get = lambda *_, **__: types.SimpleNamespace(status_code=404)
    replay.stub_aiohttp(lambda: current[0])
    import sglang.benchmark.serving as serving
    serving.check_chat_template = lambda _: True
    return serving


def arguments(trace):
    """The command line, as given to the original."""
    out = ["--backend", "sglang-oai-chat" if trace.chat else "sglang-oai", "--model", "org/m", "--tokenizer", "words",
           "--host", "127.0.0.1", "--port", "30000", "--dataset-name", "random", "--random-input-len", "400",
           "--random-output-len", "40", "--num-prompts", str(len(trace.requests)), "--seed", "7", "--disable-tqdm",
           "--ready-check-timeout-sec", "0"]
    if trace.rate != float("inf"):
        out += ["--request-rate", str(trace.rate)]
    if trace.concurrency:
        out += ["--max-concurrency", str(trace.concurrency)]
    if trace.goodput:
        out += ["--goodput", *trace.goodput]
    if trace.detailed:
        out.append("--output-details")
    return out


def parse(serving, argv):
    """Lets the original parse the command line, and keeps it from running."""
    kept = []
    run, sys.argv = serving.run_benchmark, ["serving", *argv]
    serving.run_benchmark = kept.append
    try:
        serving.cli_main()
    finally:
        serving.run_benchmark = run
    return kept[0]


def run(serving, current, name, out):
    trace = traces.make(name, "sglang")
    clock = replay.Clock()
    server = replay.Server(trace, "sglang", clock)
    current[:] = [server]
    serving.time, serving.datetime = clock, replay.Dates(clock)
    asyncio.set_event_loop_policy(replay.Policy(clock))
    argv = arguments(trace)
    args = parse(serving, argv)
    server.warm = args.warmup_requests
    original = serving.get_request

    async def get_request(requests, *more):
        server.begin()
        async for request in original(requests, *more):
            server.released(int(request.prompt))
            yield request

    printed = io.StringIO()
    serving.get_request = get_request
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
            home = os.getcwd()
            os.chdir(folder)
            try:
                result = serving.run_benchmark(args)
            finally:
                os.chdir(home)
            file, = os.listdir(folder)
            with open(os.path.join(folder, file)) as f:
                saved = f.read()
    finally:
        serving.get_request = original
    backend = argv[1]
    settings = replay.setup(trace, "sglang", backend, "random", 7,
                            "http://127.0.0.1:30000/v1/" + ("chat/completions" if trace.chat else "completions"), argv)
    recorded = replay.recording(server, trace, settings, result["duration"], result["errors"])
    write(out, "sglang", name, {"tool": VERSION, "argv": argv, "file": file}, recorded,
          replay.report_block(printed.getvalue()), "result.json", replay.plain_errors(saved, result["errors"]))


def main():
    sources, out = sys.argv[1:]
    numpy.random.seed(0)
    current = []
    serving = load(os.path.abspath(sources), current)
    for name in traces.MAKERS:
        if name not in ("ramp", "none"):  # it has no ramp, and crashes when no request succeeds
            run(serving, current, name, out)
            print("sglang", name)


if __name__ == "__main__":
    main()
