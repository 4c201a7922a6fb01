"""Writes vllm.json: what the sweeps of vLLM 0.33.0 do with the same settings.

    python3 origin.py FOLDER   # FOLDER has vllm/benchmarks/sweep of that package; pandas 3.1.1, scipy 1.17.1, Python 3.11

The package's own code runs; only servers and clients are replaced: a client writes a
result that follows from its command. The search of serve_sla, which 0.33.0 no longer
has, is its rule (bench.md 3.5) around scipy's interpolator.
"""
import argparse
import contextlib
import io
import json
import pathlib
import shlex
import sys
import tempfile
import types

from scipy.interpolate import PchipInterpolator

root = pathlib.Path(sys.argv[1]) / "vllm"


def stub(name, path=None, **members):
    module = types.ModuleType(name)
    if path:
        module.__path__ = [str(path)]
    module.__dict__.update(members)
    sys.modules[name] = module


stub("vllm", root)
stub("vllm.benchmarks", root / "benchmarks")
stub("vllm.benchmarks.datasets", DEFAULT_NUM_PROMPTS=1000)
stub("vllm.utils", root / "utils")
stub("vllm.utils.argparse_utils", FlexibleArgumentParser=argparse.ArgumentParser)
stub("vllm.utils.import_utils", PlaceholderModule=object)
stub("requests")
from vllm.benchmarks.sweep import serve, serve_workload  # noqa: E402
from vllm.benchmarks.sweep.param_sweep import ParameterSweep, ParameterSweepItem  # noqa: E402
from vllm.benchmarks.sweep.utils import sanitize_filename  # noqa: E402

COMMAND = "vllm serve m --max-num-seqs 3 --max_model_len 4 --enable-x --compilation-config.a 1 --port 8000 --last"


def command(text):
    item = ParameterSweepItem.from_record(json.loads(text))
    return {
        "params": text,
        "command": item.apply_to_cmd(shlex.split(COMMAND)),
        "name": item.name,
        "file": sanitize_filename("SERVE--" + item.name),
        "has": item.has_param("request_rate"),
    }


commands = [command(t) for t in (
    "{}",
    '{"max_num_seqs": 16}',
    '{"max-num-seqs": 16, "max-model-len": 2048}',
    '{"enable_x": false, "enable_y": true, "no_z": false}',
    '{"compilation_config.a": 2, "compilation_config.b_c": true, "a.b": false}',
    '{"config": {"a": [1, 2.50, null, true], "b": {"c": "\\u00e9\\n\\"\\u007f"}}}',
    '{"list": [1, 2.0, "a", "it\'s", null, true, {"k": "v\\t"}], "none": null}',
    '{"small": 1e-5, "large": 1E16, "half": 0.5, "one": 1.0, "int": 12345678901234567890, "minus": -0}',
    '{"_benchmark_name": "a/b..c", "x": 1}',
    '{"model": "org/name", "s": "with space", "q": "\'quoted\'"}',
    '{"request-rate": 5}',
    '{"dup": 1, "other": 2, "dup": 3}',
)]


def result(n, cmd):
    def flag(name, otherwise):
        return float(cmd[cmd.index(name) + 1]) if name in cmd else otherwise
    load = flag("--max-concurrency", flag("--request-rate", 1.0))
    rate = 8 * load / (load + 6)
    out = {"date": "20260101-000000", "label": None, "num_prompts": 5, "request_rate": "inf", "max_concurrency": None,
           "latencies": [0.25, 1e-05], "text": 'a, "b"\n\u00e9', "completed": n, "rtfx": 0.0, "request_throughput": rate,
           "mean_e2el_ms": 1000 * load / rate, "goodput": None if n % 2 else 1}
    if n > 2:
        out["late"] = n
    return out


class Server:
    def __init__(self, commands, written, root):
        self.commands, self.written, self.root = commands, written, root

    def run_subcommand(self, cmd):
        folder = pathlib.Path(cmd[cmd.index("--result-dir") + 1])
        path = folder / cmd[cmd.index("--result-filename") + 1]
        name = str(path.relative_to(self.root))
        out = result(len(self.written), cmd)
        self.written[name] = json.dumps(out)
        self.commands.append([w.replace(str(self.root), "DIR") for w in cmd])
        path.write_text(json.dumps(out))

    def after_bench(self):
        self.commands.append(["RESET"])


def experiment(explore):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "e"
        commands, written = [], {}

        @contextlib.contextmanager
        def run_server(serve_cmd, after_bench_cmd, *, serve_overrides, **rest):
            commands.append(["SERVER", *serve_overrides.apply_to_cmd(serve_cmd)])
            yield Server(commands, written, root)

        serve.run_server = run_server
        with contextlib.redirect_stdout(io.StringIO()):
            explore(root)
        files = {str(p.relative_to(root)): p.read_text() for p in sorted(root.rglob("*")) if p.is_file()}
        return {"commands": commands, "written": written, "files": files}


GRID = dict(
    serve_cmd=["vllm", "serve", "m"], bench_cmd=["vllm", "bench", "serve", "--num-prompts", "40"], after_bench_cmd=[],
    show_stdout=False, server_ready_timeout=300, dry_run=False,
)


def run_serve(folder):
    serve.run_combs(
        **GRID, experiment_dir=folder, num_runs=2, warmup_num_prompts=3,
        serve_params=ParameterSweep.from_records([{"max_num_seqs": 2}, {"max_num_seqs": 4, "config": {"a": [1]}}]),
        bench_params=ParameterSweep.read_from_dict({"two": {"max_concurrency": 2}, "four": {"max_concurrency": 4.0, "eos": True}}),
        link_vars=[("max_num_seqs", "max_concurrency")])


def run_workload(variable):
    return lambda folder: serve_workload.explore_combs_workloads(
        **GRID, experiment_dir=folder, num_runs=1, warmup_num_prompts=0, continue_on_error=False, link_vars=[],
        serve_params=ParameterSweep.from_records([{}]), bench_params=ParameterSweep.from_records([{"random_input_len": 8}]),
        workload_var=variable, workload_iters=6)


def trials(name, margin):
    tried = {}
    order = []
    while True:
        passing = max((v for v, m in tried.items() if m <= 0), default=1)
        failing = min((v for v, m in tried.items() if m > 0), default=65536)
        if failing - passing <= 1:
            return {"name": name, "values": order, "margins": [tried[v] for v in order]}
        if len(tried) == 0:
            value = 65536
        elif len(tried) == 1:
            value = 1
        else:
            x, y = zip(*sorted(tried.items()))
            value = int(next(iter(PchipInterpolator(x, y, extrapolate=False).solve())))
            if value in tried:
                value += 1
        tried[value] = float(margin(value))
        order.append(value)


json.dump({
    "base": shlex.split(COMMAND),
    "commands": commands,
    "serve": experiment(run_serve),
    "rate": experiment(run_workload("request_rate")),
    "concurrency": experiment(run_workload("max_concurrency")),
    "trials": [
        trials("linear", lambda v: v - 32.5),
        trials("square", lambda v: v * v / 100 - 400),
        trials("root", lambda v: v ** 0.5 - 20.1),
        trials("always", lambda v: -1.0),
        trials("never", lambda v: 1.0),
        trials("low", lambda v: v - 1.5),
    ],
    "split": [{"text": t, "words": shlex.split(t)} for t in (
        "a b  c", "a 'b c' d", 'a "b \\" \\\\ \\n c" d', "a\\ b 'c\\d'", "a'b'\"c\" ''", "x --y='{\"a\": 1}' # no comment")],
}, pathlib.Path(__file__).with_name("vllm.json").open("w"), indent=1)
