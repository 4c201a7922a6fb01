"""Makes the goldens of internal/bench/dataset.

    python dataset_goldens.py CURRENT OLD TOKENIZER OUT

CURRENT and OLD are folders that hold the package vllm, of which vllm/benchmarks is
enough: 0.33.0 from a wheel and 0.11.0 from its source archive. TOKENIZER is the
tokenizer.json of gpt-oss. OUT is internal/bench/dataset/testdata.

rng.json comes from CPython's random and numpy. In sets.json the rows of vLLM come from
its own classes, the others from the few lines below that follow bench.md 4.
"""

import hashlib
import importlib
import json
import os
import random
import sys
from unittest.mock import MagicMock

import numpy as np
from tokenizers import Tokenizer


def digest(values):
    return hashlib.sha256(",".join(map(str, values)).encode()).hexdigest()[:16]


# --- generators


def python_rng(seed):
    random.seed(seed)
    row = {"seed": seed, "u32": [random.getrandbits(32) for _ in range(3)]}
    random.seed(seed)
    row["random"] = [random.random() for _ in range(3)]
    row["choice"] = [random.choice(range(n)) for n in (1, 2, 7, 1000, 94145)]
    row["choices"] = random.choices(range(200018), k=4)
    for n in (12, 1000):
        random.seed(seed)
        order = list(range(n))
        random.shuffle(order)
        row[f"shuffle{n}"] = order if n == 12 else digest(order)
    return row


def legacy_rng(seed):
    def fresh(draw):
        np.random.seed(seed)
        return draw()

    def reals(draw):
        values = fresh(lambda: draw(1000))
        return {"first": values[:3].tolist(), "sum": float(values.sum())}

    return {
        "seed": seed,
        "uniform": fresh(lambda: np.random.random_sample(3).tolist()),
        "exponential": reals(lambda n: np.random.exponential(0.25, n)),
        "gamma": [
            reals(lambda n: np.random.gamma(shape, 2.5, n)) | {"shape": shape}
            for shape in (0.05, 0.5, 0.99, 1, 1.01, 2, 10)
        ],
        "randint": fresh(lambda: np.random.randint(512, 1025, 6).tolist()),
        "randint1000": digest(fresh(lambda: np.random.randint(0, 199998, 1000))),
        "permutation": digest(fresh(lambda: np.random.RandomState(seed).choice(1000, 700, replace=False))),
        "sample": digest(fresh(lambda: np.random.RandomState(seed).choice(1000, 1200, replace=True))),
    }


def pcg_rng(seed):
    g = np.random.default_rng(seed)
    row = {"seed": seed, "u64": [str(v) for v in g.bit_generator.random_raw(2)]}
    g = np.random.default_rng(seed)
    row["integers"] = g.integers(512, 1537, 5).tolist() + g.integers(7, 8, 3).tolist() + g.integers(64, 193, 4).tolist()
    g = np.random.default_rng(seed)
    row["integers1000"] = digest(g.integers(0, 199998, 1000))
    row["wide1000"] = digest(g.integers(0, 2**32 - 2, 1000))
    return row


def generators():
    return {
        "origin": f"_tools/bench/dataset_goldens.py: CPython {sys.version.split()[0]}, numpy {np.__version__}",
        "python": [python_rng(s) for s in (0, 1, 42, 2**32 - 1, 2**32 + 5, 2**62 + 12345, -7, -(2**33))],
        "legacy": [legacy_rng(s) for s in (0, 1, 42, 2**32 - 1)],
        "pcg": [pcg_rng(s) for s in (0, 1, 42, 2**32 + 5, 2**63 - 1)],
    }


# --- the tokenizer and the packages, as the originals see them


class Wrapped:
    """The part of a Hugging Face tokenizer that data sets use."""

    vocab_size = 199998
    all_special_ids = list(range(199998, 200019))

    def __init__(self, path):
        self.inner = Tokenizer.from_file(path)

    def num_special_tokens_to_add(self):
        return 0

    def decode(self, ids):
        return self.inner.decode([int(i) for i in ids], skip_special_tokens=False)

    def encode(self, text, add_special_tokens=True):
        return self.inner.encode(text, add_special_tokens=add_special_tokens).ids

    def __call__(self, text):
        return MagicMock(input_ids=self.encode(text))

    def apply_chat_template(self, messages, add_generation_prompt, tokenize):
        return "<|start|>user<|message|>" + messages[0]["content"] + "<|end|><|start|>assistant"


class Frame:
    """What CustomDataset asks of pandas."""

    def __init__(self, path_or_buf, lines):
        with open(path_or_buf) as f:
            self.rows = [json.loads(line) for line in f]
        self.columns = list(self.rows[0])

    def iterrows(self):
        return ((i, MagicMock(to_dict=lambda row=row: dict(row))) for i, row in enumerate(self.rows))


def load(folder, *names):
    """Imports modules of a vLLM without the packages that it needs elsewhere."""
    for name in [n for n in sys.modules if n.split(".")[0] == "vllm"]:
        del sys.modules[name]
    root = os.path.join(folder, "vllm")
    for name in ("vllm", "vllm.benchmarks"):
        sys.modules[name] = module = type(sys)(name)
        module.__path__ = [os.path.join(root, *name.split(".")[1:])]
    missing = ("PIL", "pybase64", "datasets", "librosa", "soundfile", "transformers", "vllm.inputs", "vllm.lora",
               "vllm.lora.request", "vllm.lora.utils", "vllm.multimodal", "vllm.multimodal.audio", "vllm.multimodal.image",
               "vllm.multimodal.utils", "vllm.tokenizers", "vllm.transformers_utils", "vllm.transformers_utils.tokenizer",
               "vllm.transformers_utils.repo_utils", "vllm.utils", "vllm.utils.argparse_utils", "vllm.utils.import_utils",
               "vllm.utils.mistral")
    sys.modules.update({name: MagicMock() for name in missing})
    sys.modules["pandas"] = MagicMock(read_json=Frame)
    return [importlib.import_module(name) for name in names]


# --- rules of lmdeploy and sglang (bench.md 4)


def lengths(longest, ratio, n):
    return np.random.randint(max(int(longest * ratio), 1), longest + 1, size=n).tolist()


def conversations(path):
    with open(path) as f:
        entries = [e for e in json.load(f) if len(e.get("conversations", e.get("conversation", []))) >= 2]
    pairs = [e.get("conversations", e.get("conversation")) for e in entries]
    return [(p[0]["value"], p[1]["value"]) for p in pairs]


def text_random(tok, path, seed, n, longest_in, longest_out, ratio, raw):
    random.seed(seed)
    np.random.seed(seed)
    inputs, outputs = lengths(longest_in, ratio, n), lengths(longest_out, ratio, n)
    rows = []
    if raw:
        offsets = np.random.randint(0, tok.vocab_size, size=n)
        for i in range(n):
            ids = [(int(offsets[i]) + i + j) % tok.vocab_size for j in range(inputs[i])]
            rows.append((tok.decode(ids), inputs[i], outputs[i], ""))
        return rows
    pairs = conversations(path)
    random.shuffle(pairs)
    for prompt, _ in pairs:
        i = len(rows)
        ids = tok.encode(prompt)
        if i == n:
            break
        if ids:
            ids = (ids * (inputs[i] // len(ids) + 1))[: inputs[i]]
            rows.append((tok.decode(ids), inputs[i], outputs[i], ""))
    return rows


def text_sharegpt(tok, path, seed, n, keeps, fixed=None):
    random.seed(seed)
    pairs = conversations(path)
    random.shuffle(pairs)
    rows = []
    for prompt, answer in pairs:
        a, b = len(tok.encode(prompt)), fixed or len(tok.encode(answer))
        if len(rows) < n and keeps(a, b):
            rows.append((prompt, a, b, ""))
    return rows


def shared_prefix(tok, seed, groups, each, system, question, out):
    random.seed(seed)

    def text(n):
        return tok.decode(random.choices(range(tok.vocab_size), k=n))

    systems = [text(system) for _ in range(groups)]
    questions = [text(question) for _ in range(groups * each)]
    prompts = [f"{systems[i // each]}\n\n{q}" for i, q in enumerate(questions)]
    rows = [(p, len(tok.encode(p)), out, "") for p in prompts]
    random.shuffle(rows)
    return rows


def burst(tok, path, seed, n):
    with open(path) as f:
        table = [line.strip().split(",") for line in f][1:]
    table = [row for row in table if row[1] == "GPT-4" and int(row[3]) > 0]
    # pandas.DataFrame.sample draws like this.
    order = np.random.RandomState(seed).choice(len(table), size=n, replace=n > len(table))
    rows = []
    for i, k in enumerate(order):
        count = int(table[k][2])
        rows.append((tok.decode([(i + j) % tok.vocab_size for j in range(count)]), count, int(table[k][3]), str(i)))
    return rows


# --- input files


WORDS = """the a of model token prompt answer time server stream cache block while under between every length number
please write explain how why what list code function returns value error test file read line poem summer winter rose
naïve café 東京 привет 😀 don't it's 3.14159 1234567 http://x.y/a https://example.org {"key": [1, 2]} \t\t x=y; //""".split(" ")


def words(g, n):
    return " ".join(g.choice(WORDS) for _ in range(n))


def write_inputs(out):
    g = random.Random(2026)
    entries = []
    for i in range(60):
        turns = g.choice((0, 1, 2, 2, 2, 3, 6))
        sizes = [g.choice((1, 2, 3, 5, 20, 80, 300, 900)) for _ in range(turns)]
        speakers = ("human", "gpt")
        turn = [{"from": speakers[k % 2], "value": words(g, size)} for k, size in enumerate(sizes)]
        if turns and i % 9 == 0:
            turn[0]["value"] = ["", "<|start|>user<|message|>spelled out<|end|>", "ok"][i // 9 % 3]
        entries.append({"id": f"e{i}", ("conversation" if i % 13 == 5 else "conversations"): turn})
    entries.append({"id": "none"})
    with open(f"{out}/sharegpt.json", "w") as f:
        json.dump(entries, f, ensure_ascii=False, indent=0)
    with open(f"{out}/custom.jsonl", "w") as f:
        for i in range(12):
            f.write(json.dumps({"prompt": "12345" if i == 3 else words(g, 3 + i), "output_tokens": 10 * i + 1}) + "\n")
    with open(f"{out}/poem.txt", "w") as f:
        for _ in range(40):
            f.write(words(g, 9).replace("\t", "").replace("\n", " ") + "\n")
    with open(f"{out}/burst.csv", "w") as f:
        f.write("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n")
        for i in range(30):
            a, b = g.randrange(1, 400), g.choice((0, 5, 77, 300))
            f.write(f"{i * 5},{g.choice(('GPT-4', 'GPT-4', 'ChatGPT'))},{a},{b},{a + b},Conversation log\n")


# --- goldens of data sets


def sets(current, old, tok, out):
    found = {}

    def add(name, rows):
        text = "".join(f"{p}\0{a} {b} {i}\n" for p, a, b, i in rows)
        found[name] = {
            "count": len(rows),
            "input": sum(r[1] for r in rows),
            "output": sum(r[2] for r in rows),
            "hash": hashlib.sha256(text.encode()).hexdigest()[:16],
            "first": rows[0][0][:40],
        }

    def take(requests):
        return [(r.prompt, r.prompt_len, r.expected_output_len, r.request_id or "") for r in requests]

    sharegpt = f"{out}/sharegpt.json"
    (m,) = load(current, "vllm.benchmarks.datasets.datasets")
    for name, seed, options in (
        ("plain", 0, dict(input_len=100, output_len=20)),
        ("ranges", 7, dict(input_len=100, output_len=20, range_ratio=0.5)),
        ("two ranges", 42, dict(input_len=50, output_len=300, range_ratio={"input": 0.9, "output": 0.1})),
        ("prefix", 3, dict(input_len=30, output_len=20, prefix_len=200)),
        ("big seed", 2**32 + 5, dict(input_len=1, output_len=1)),
    ):
        add(f"random {name}", take(m.RandomDataset(random_seed=seed).sample(tok, 40, **options)))
    for n in (10, 80):
        add(f"sharegpt {n}", take(m.ShareGPTDataset(dataset_path=sharegpt, random_seed=5).sample(tok, n)))
    add("sharegpt fixed", take(m.ShareGPTDataset(dataset_path=sharegpt, random_seed=5).sample(tok, 80, output_len=2, no_oversample=True)))
    add("sharegpt in order", take(m.ShareGPTDataset(dataset_path=sharegpt, disable_shuffle=True).sample(tok, 20)))
    custom = m.CustomDataset(dataset_path=f"{out}/custom.jsonl", random_seed=9)
    add("custom", take(custom.sample(tok, 8, output_len=256, skip_chat_template=True)))
    custom = m.CustomDataset(dataset_path=f"{out}/custom.jsonl", random_seed=9)
    add("custom all, rows' lengths", take(custom.sample(tok, 0, output_len=-1, skip_chat_template=True)))
    custom = m.CustomDataset(dataset_path=f"{out}/custom.jsonl", random_seed=9)
    add("custom too few", take(custom.sample(tok, 20, output_len=5)))
    repeated = dict(prefix_len=60, suffix_len=40, num_prefixes=3, output_len=9)
    add("prefix_repetition", take(m.PrefixRepetitionRandomDataset(random_seed=11).sample(tok, 20, **repeated)))
    arrivals = np.random.gamma(0.5, 1, 3).tolist()

    (m,) = load(old, "vllm.benchmarks.datasets")
    for name, options in (("plain", {}), ("ranges and prefix", dict(range_ratio=0.5, prefix_len=30))):
        add(f"old random {name}", take(m.RandomDataset(random_seed=7).sample(tok, 40, input_len=100, output_len=20, **options)))
    add("old prefix_repetition", take(m.PrefixRepetitionRandomDataset(random_seed=11).sample(tok, 20, **repeated)))
    sonnet = dict(input_len=400, output_len=30, prefix_len=150)
    for name, formatted in (("sonnet rendered", True), ("sonnet plain", False)):
        random.seed(6)
        add(name, take(m.SonnetDataset(dataset_path=f"{out}/poem.txt").sample(tok, 10, return_prompt_formatted=formatted, **sonnet)))

    add("lmdeploy random", text_random(tok, sharegpt, 1, 20, 64, 32, 0.25, False))
    add("sglang random-ids", text_random(tok, sharegpt, 1, 20, 64, 32, 1.0, True))
    after = np.random.exponential(1, 2).tolist()
    add("lmdeploy sharegpt", text_sharegpt(tok, sharegpt, 1, 30, lambda a, b: a >= 4 and b >= 4 and a <= 1024 and a + b <= 2048))
    add("lmdeploy sharegpt fixed", text_sharegpt(tok, sharegpt, 1, 30, lambda a, b: a >= 4 and a <= 1024, 1500))
    add("sglang sharegpt", text_sharegpt(tok, sharegpt, 1, 50, lambda a, b: a >= 2 and b >= 2 and a + b <= 1000))
    add("sglang shared prefix", shared_prefix(tok, 1, 3, 4, 50, 20, 8))
    for n in (9, 60):
        add(f"burstgpt {n}", burst(tok, f"{out}/burst.csv", 4, n))
    return {
        "origin": "_tools/bench/dataset_goldens.py: vllm 0.33.0 and 0.11.0, tokenizers of gpt-oss; hash: SHA-256 of prompt NUL input SP output SP id LF",
        "sets": found,
        "gamma after prefix_repetition": arrivals,
        "exponential after random-ids": after,
    }


def main():
    current, old, tokenizer, out = sys.argv[1:]
    write_inputs(out)
    made = {"rng": generators(), "sets": sets(current, old, Wrapped(tokenizer), out)}
    for name, value in made.items():
        with open(f"{out}/{name}.json", "w") as f:
            json.dump(value, f, indent=1, ensure_ascii=False)
            f.write("\n")


main()
