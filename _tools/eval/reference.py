"""Runs the published evaluation of gpt-oss itself, by both of its samplers, against Ossian, and
compares what it asked, was answered and scored with `ossian eval` on the same data.

Usage: reference.py OSSIAN, the program. Data of the form of both data sets are made here: words and
numbers to repeat, which ossian-tiny does often enough to be right sometimes. Temperature is 0, so
that both get the same answers. The reference asks an empty answer of Chat again for ever, so data
that have one are made anew.
"""
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request

import pandas

from gpt_oss.evals import __main__ as reference
from gpt_oss.evals import aime_eval, gpqa_eval

ROWS = {"gpqa": 6, "aime25": 10}


def data(folder, seed):
    r = random.Random(seed)
    rows = []
    for _ in range(ROWS["gpqa"]):
        options = r.sample(range(100), 4)
        rows.append({"Question": f"Say: {r.choice('ABCD')}", "Correct Answer": options[0], "Incorrect Answer 1": options[1], "Incorrect Answer 2": options[2], "Incorrect Answer 3": options[3]})
    pandas.DataFrame(rows).to_csv(f"{folder}/gpqa.csv", index=False)
    for name in ("I", "II"):
        with open(f"{folder}/aime2025-{name}.jsonl", "w") as f:
            for _ in range(ROWS["aime25"] // 2):
                n = r.randrange(100, 1000)
                f.write(json.dumps({"question": f"Repeat: {n}", "answer": str(n)}) + "\n")


def run_reference(folder, base, sampler):
    """{task: (score, [(prompt, answer)])}"""
    read_csv, read_json = pandas.read_csv, pandas.read_json
    gpqa_eval.pandas = type("P", (), {"read_csv": staticmethod(lambda address: read_csv(f"{folder}/gpqa.csv"))})
    aime_eval.pandas = type("P", (), {"read_json": staticmethod(lambda address, lines: read_json(f"{folder}/{address.rsplit('/', 1)[1]}", lines=lines))})
    sys.argv = ["evals", "--model", "ossian-tiny", "--reasoning-effort", "low", "--sampler", sampler, "--base-url", base + "/v1", "--eval", "gpqa,aime25", "--temperature", "0", "--n-threads", "64"]
    began = time.time()
    reference.main()
    out = {}
    for task in ROWS:
        name = max(glob.glob(f"/tmp/{task}_ossian-tiny-low_temp0.0_*_allresults.json"), key=os.path.getmtime)
        if os.path.getmtime(name) < began:
            sys.exit(f"the reference wrote no results of {task}")
        result = json.load(open(name))
        out[task] = result["score"], sorted((c[0]["content"], c[-1]["content"]) for c in result["convos"])
    return out


def run_ossian(program, folder, base, api):
    out = tempfile.mkdtemp(dir=folder)
    subprocess.run([program, "eval", "gpqa", "aime25", "--base-url", base, "--dataset", f"gpqa={folder}/gpqa.csv", "--dataset", f"aime25={folder}/aime2025-I.jsonl", "--dataset",
                    f"aime25={folder}/aime2025-II.jsonl", "--any-data", "--api", api, "--reasoning-effort", "low", "--temperature", "0", "--concurrency", "64", "--keep-text", "--out", out],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    scores = {run["task"]: run for run in json.load(open(f"{out}/result.json"))["runs"]}
    texts = {task: [] for task in ROWS}
    for line in open(f"{out}/texts.jsonl"):
        one = json.loads(line)
        if "task" in one:
            texts[one["task"]].append((one["prompt"], one["answer"]))
    return {task: (scores[task]["reference"]["mean"], sorted(texts[task])) for task in ROWS}


def main():
    os.environ["OPENAI_API_KEY"] = "none"
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([program, "serve", "--port", "0", "--max-model-len", "512", "--max-queue", "4096", "--no-access-log", "--log-level", "warn"], stderr=subprocess.PIPE, text=True)
        try:
            base = server.stderr.readline().split()[-1]
            while True:
                try:
                    urllib.request.urlopen(base + "/ready")
                    break
                except OSError:
                    time.sleep(0.1)
            for seed in range(100):
                data(folder, seed)
                ours = run_ossian(program, folder, base, "chat")
                print(f"data {seed}: " + ", ".join(f"{task} {score:.3f}, {sum(not answer for _, answer in texts)} empty" for task, (score, texts) in ours.items()), flush=True)
                if all(score > 0 and all(answer for _, answer in texts) for score, texts in ours.values()):
                    break
            else:
                sys.exit("no data to which every answer has a text")
            lines, differ = [], 0
            for sampler, api in (("responses", "responses"), ("chat_completions", "chat")):
                theirs, ours = run_reference(folder, base, sampler), run_ossian(program, folder, base, api)
                for task in ROWS:
                    same = sum(a == b for a, b in zip(theirs[task][1], ours[task][1]))
                    ok = len(theirs[task][1]) == len(ours[task][1]) == same == 8 * ROWS[task] and abs(theirs[task][0] - ours[task][0]) < 1e-12
                    differ += not ok
                    lines.append(f"{task}, {api}: {len(theirs[task][1])} answers, {same} the same; reference {theirs[task][0]:.6f}, ossian eval {ours[task][0]:.6f}: {'equal' if ok else 'THEY DIFFER'}")
            print("\n".join(lines))
        finally:
            server.terminate()
            server.wait()
    sys.exit(differ > 0)


main()
