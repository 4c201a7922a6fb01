"""Runs the traces through vLLM's own Python client: profiles vllm and vllm-0.11.

    python vllm_python.py PROFILE SOURCES OUT

SOURCES is the folder that holds the package vllm (vllm/benchmarks unpacked from a wheel).
"""

import argparse
import asyncio
import contextlib
import io
import json
import os
import sys
import tempfile
import types
from dataclasses import dataclass

import numpy
import replay
import traces

VERSIONS = {"vllm": "vllm 0.33.0", "vllm-0.11": "vllm 0.11.0"}


@dataclass
class SampleRequest:
    """The fields of the original's data sets that its client reads."""

    prompt: str
    prompt_len: int
    expected_output_len: int
    request_id: str
    multi_modal_data: object = None
    lora_request: object = None
    request_overrides: object = None
    chat_messages: object = None
    timestamp: object = None


def load(sources, current):
    """Imports vllm.benchmarks.serve with everything heavy around it stubbed. current is
    the list whose only element is the server of the trace that runs."""
    sys.path.insert(0, sources)
    replay.stub("vllm", "vllm.utils", "vllm.utils.argparse_utils", "vllm.utils.gc_utils", "vllm.utils.network_utils",
                "vllm.tokenizers", "vllm.logger", "vllm.transformers_utils", "vllm.transformers_utils.tokenizer", "transformers")
    sys.modules["vllm"].__path__ = [os.path.join(sources, "vllm")]
    sys.modules["vllm.utils.argparse_utils"].FlexibleArgumentParser = argparse.ArgumentParser
    sys.modules["vllm.utils.gc_utils"].freeze_gc_heap = lambda: None
    sys.modules["vllm.utils.network_utils"].join_host_port = lambda host, port: f"{host}:{port}"
    for name in ("vllm.tokenizers", "vllm.transformers_utils.tokenizer"):
        sys.modules[name].get_tokenizer = lambda *_, **__: replay.Words()
    datasets = types.ModuleType("vllm.benchmarks.datasets")
    datasets.SampleRequest = SampleRequest

    def add_dataset_parser(parser):
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--num-prompts", type=int, default=1000)
        parser.add_argument("--dataset-name", default="random")
        parser.add_argument("--dataset-path")
        parser.set_defaults(trust_remote_code=False)

    def get_samples(args, tokenizer):
        return [SampleRequest(str(i), r.prompt_len, r.output_len, f"bench-{i}")
                for i, r in enumerate(current[0].trace.requests)]

    datasets.add_dataset_parser, datasets.get_samples = add_dataset_parser, get_samples
    sys.modules[datasets.__name__] = datasets
    replay.stub_aiohttp(lambda: current[0])
    import vllm.benchmarks.lib.endpoint_request_func as endpoint
    import vllm.benchmarks.serve as serve
    return serve, endpoint


def arguments(trace, profile):
    """The command line, as given to the original."""
    out = ["--backend", "openai-chat" if trace.chat else "openai", "--model", "org/m", "--tokenizer", "words",
           "--endpoint", "/v1/chat/completions" if trace.chat else "/v1/completions", "--dataset-name", "custom",
           "--num-prompts", str(len(trace.requests)), "--seed", "7", "--ignore-eos", "--disable-tqdm",
           "--ready-check-timeout-sec", "0", "--percentile-metrics", trace.metrics,
           "--metric-percentiles", trace.percentiles, "--burstiness", str(trace.burstiness), "--save-result"]
    if not trace.tokenizer:
        out.append("--skip-tokenizer-init")
    out += traffic(trace)
    if trace.detailed:
        out.append("--save-detailed")
    out += ramp_up(trace)
    if trace.probe_rate:
        out += ["--probe-request-rate", str(trace.probe_rate)]
    return out


def traffic(trace):
    """The flags that both of vLLM's clients have, where the trace wants them."""
    out = []
    if trace.rate != float("inf"):
        out += ["--request-rate", str(trace.rate)]
    if trace.concurrency:
        out += ["--max-concurrency", str(trace.concurrency)]
    if trace.goodput:
        out += ["--goodput", *trace.goodput]
    if trace.metadata:
        out += ["--metadata", *trace.metadata]
    if trace.label:
        out += ["--label", trace.label]
    return out


def ramp_up(trace):
    if not trace.ramp:
        return []
    strategy, start, end = trace.ramp
    return ["--ramp-up-strategy", strategy, "--ramp-up-start-rps", str(start), "--ramp-up-end-rps", str(end)]


def run(modules, current, profile, name, out):
    serve, endpoint = modules
    trace = traces.make(name, profile)
    clock = replay.Clock()
    dates = replay.Dates(clock)
    server = replay.Server(trace, profile, clock)
    current[:] = [server]
    for module in modules:
        module.time = clock
    serve.datetime = dates
    numpy.random.seed(0)
    asyncio.set_event_loop_policy(replay.Policy(clock))
    original, calculate, errors = serve.get_request, serve.calculate_metrics, []

    async def get_request(requests, *args):
        server.begin()
        async for request, rate in original(requests, *args):
            server.released(int(request.prompt))
            yield request, rate

    def calculate_metrics(*args, **kwargs):
        errors[:] = [o.error for o in kwargs["outputs"]]
        return calculate(*args, **kwargs)

    parser = argparse.ArgumentParser()
    serve.add_cli_args(parser)
    argv = arguments(trace, profile)
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        serve.get_request, serve.calculate_metrics = get_request, calculate_metrics
        try:
            result = serve.main(parser.parse_args(argv + ["--result-dir", folder]))
        finally:
            serve.get_request, serve.calculate_metrics = original, calculate
        file, = os.listdir(folder)
        with open(os.path.join(folder, file)) as f:
            saved = f.read()
    settings = replay.setup(trace, profile, "openai-chat" if trace.chat else "openai", "custom", 7,
                            "http://127.0.0.1:8000/v1/" + ("chat/completions" if trace.chat else "completions"), argv)
    steps = [(e["rps"], dates.seen[e["timestamp"]]) for e in result.get("rps_change_events", [])]
    golden = {"tool": VERSIONS[profile], "argv": argv, "file": file}
    write(out, profile, name, golden, replay.recording(server, trace, settings, result["duration"], errors, steps),
          replay.report_block(printed.getvalue()), "result.json", replay.plain_errors(saved, errors) + "\n")


def write(out, profile, name, golden, recorded, console, file, result):
    folder = os.path.join(out, profile, name)
    os.makedirs(folder, exist_ok=True)
    for path, text in (("args.json", json.dumps(golden, indent=1) + "\n"), ("recording.json", recorded),
                       ("console.txt", console), (file, result)):
        with open(os.path.join(folder, path), "w", newline="") as f:
            f.write(text)


def main():
    profile, sources, out = sys.argv[1:]
    current = []
    modules = load(os.path.abspath(sources), current)
    for name in traces.MAKERS:
        run(modules, current, profile, name, out)
        print(profile, name)


if __name__ == "__main__":
    main()
