"""Writes the golden files of internal/eval with the reference itself, the package gpt-oss.

Usage: golden.py DIR, where DIR is internal/eval. All data is made here: questions, options and
answers of the shape that the data sets have, none of theirs.
"""
import gzip
import hashlib
import json
import os
import random
import sys

import numpy as np
import pandas
from scipy import stats

from gpt_oss.evals import aime_eval, gpqa_eval
from gpt_oss.evals.abcd_grader import extract_abcd

# What a text of an answer is put together from: the reference's own cases (the remarks beside its
# patterns), what models write, and what is near to a pattern and is none.
PIECES = [
    "**Answer:** A", "*Answers* – B", "Answer: (C)", "Answers: (B)", "Answer: C", "Answers – D", "Option B", "Choice: C", "\\boxed{A}",
    "\\boxed{\\text{A } 2.08\\times10^{-6}\\,\\mathrm{m}}", "\\boxed{\\textbf{C}}", "\\boxed{\\text{ D }}", "(A)", "[B]", "( C )", "*A*", "**B**", "_C_", "__D__",
    "\\textbf{C is it}", "**D) some text**", "**A) it** x", "A", "B.", "C)", "**D**", "D – because", "The correct option is D", "Answer: A is tempting but wrong.",
    "Option A is wrong; Option B is right.", "Both mechanisms apply", "Dipole", "\\boxed{\\text{Carbon}}", "\\boxed{\\text{070}}", "\\boxed{70^\\circ}", "\\boxed{1{,}234}",
    "5 of 3", "answer b", "ANSWER: c", "Anſwer: a", "answerA", "Answers a", "Answers:\u00a0d", "éAnswer: B", "_Answer: B", "9Answer: A", "option\u2003-\u2003c", "optıon d", "CHOİCE a", "Optional",
    "(a)", "x(A)", "(A)x", "((B))", "[ C]", "**A**x", "x**A**", "***A***", "**A*", "_A_b", "**A)**", "** B) tail__", "**C) a*b**", "the answer is", "ANSWER IS D", "Answer is: D",
    "\\boxed{}", "\\boxed{ }", "\\boxed{B", "boxed{42}", "\\boxed{x=42}", "\\boxed{1,2,3}", "\\framebox{7}", "framebox{}", "\\boxed{12}\\boxed{}", "\\boxed{ 0_7 }", "\\boxed{1__2}", "\\boxed{+5}", "\\boxed{-0}",
    "\\boxed{-12}", "\\boxed{٣٤}", "\\boxed{12\n}", "\\boxed{4\u00a0}", "\\boxed{3.0}", "\\boxed{²}", "so 0042 then", "007", "x１２", "1_000", "٣", "no digits", "\\boxed{a{b}c}", "\\fbox{3}", "boxed {3}",
    "\x1c A", "\x0bB", "Answer:\x0bC", "A\u0301", "Á", "\u200bA", "a", "e", "", " ", "\t", "\r", "–", "-", ":", ".", "*", "**", "_", "$", "\\(", "\\)", "I", "Because A and C", "D'accord", "C++", "Ångström", "答え: B", "Answer：A", "**Answer**: **C**",
    "**Answer: D**", "__Answer:__ b", "Answer **B**", "Answer:**C**", "* Answer: A", "> Answer: B", "1. Answer: C", "Final answer: (D)", "final answer - a", "Answer:(b)", "Answer(c)", "answer (d", "Choice\nA", "Option\n\nB", "Options A", "Option: Ab", "Option A2", "Choice C_", "Choice D-",
]
JOINS = ["", " ", "\n", "\n\n", ". ", ", ", "  ", "\t", "\r\n", " and ", "*", "\n  "]


def texts(count):
    r = random.Random(20260701)
    out = list(PIECES)
    while len(out) < count:
        n = r.choice((1, 2, 2, 3, 3, 4, 6))
        text = r.choice(("", "", "", " ", "\n", "**"))
        for _ in range(n):
            piece = r.choice(PIECES)
            if r.random() < 0.15 and piece:  # one character other, gone or twice
                i = r.randrange(len(piece))
                piece = piece[:i] + r.choice(("", piece[i] * 2, r.choice("ABCDabcd*_()[]{}\\:-– \n,0123456789é"))) + piece[i + 1:]
            text += piece + r.choice(JOINS)
        out.append(text)
    return out


def integer(text):
    try:  # as AIME25Eval does
        return str(int(aime_eval.extract_boxed_text(text)))
    except (ValueError, TypeError):
        return ""


def write(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with gzip.GzipFile(path, "wb", mtime=0) as f:
        f.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


class Sampler:
    """Keeps what the reference asks."""

    def __init__(self):
        self.prompts = []

    def _pack_message(self, content, role):
        return {"role": role, "content": content}

    def __call__(self, messages):
        self.prompts.append(messages)
        return type("Response", (), {"response_text": "", "actual_queried_message_list": messages})


def synthetic(r, words):
    text = " ".join("".join(r.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(r.randrange(2, 9))) for _ in range(words))
    return text + r.choice(("", "?", " {x}", "\nsecond line", "\r\nthird, \"quoted\"", "  ", " – é𝛼 $\\frac{1}{2}$"))


def gpqa_rows():
    r = random.Random(1)
    rows = []
    for i in range(198):
        options = [synthetic(r, r.randrange(1, 4)) + f" #{k}" for k in range(4)]
        if i % 50 == 7:
            options[2] = options[0]  # equal texts: the first counts
        rows.append({"Record ID": f"rec{i}", "Question": synthetic(r, 20), "Correct Answer": options[0],
                     "Incorrect Answer 1": options[1], "Incorrect Answer 2": options[2], "Incorrect Answer 3": options[3], "Note": ""})
    return rows


def aime_rows():
    r = random.Random(2)
    return [[{"question": synthetic(r, 25), "answer": r.choice((str(r.randrange(1000)), f"{r.randrange(1000)}^\\circ", f"{r.randrange(100):03d}"))} for _ in range(15)] for _ in "ab"]


def entries(evaluation, sampler, run):
    """Everything the reference asks, one after another."""
    os.environ["debug"] = "1"  # no threads
    run(sampler)
    return [m[0]["content"] for m in sampler.prompts]


def golden_prompts(folder):
    rows = gpqa_rows()
    os.makedirs(folder, exist_ok=True)
    csv = os.path.join(folder, "gpqa.csv")
    with open(csv, "w", encoding="utf-8", newline="") as f:
        pandas.DataFrame(rows).to_csv(f, index=False, lineterminator="\r\n")
    halves = aime_rows()
    for name, half in zip(("aime-I.jsonl", "aime-II.jsonl"), halves):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write("".join(json.dumps(row) + "\n" for row in half))
    read_csv, read_json = pandas.read_csv, pandas.read_json
    gpqa_eval.pandas.read_csv = lambda address: read_csv(csv)
    jsonl = {"aime2025-I.jsonl": "aime-I.jsonl", "aime2025-II.jsonl": "aime-II.jsonl"}
    aime_eval.pandas.read_json = lambda address, lines: read_json(os.path.join(folder, jsonl[address.rsplit("/", 1)[1]]), lines=lines)
    out = {}
    for name, make in (("gpqa", gpqa_eval.GPQAEval), ("aime25", aime_eval.AIME25Eval)):
        for label, options in (("", {"n_repeats": 8}), (" examples 20", {"n_repeats": 1, "num_examples": 20}), (" examples 3", {"n_repeats": 1, "num_examples": 3})):
            evaluation = make(**options)
            prompts = entries(evaluation, s := Sampler(), evaluation)
            if name == "gpqa":
                right = []
                for row in evaluation.examples:
                    choices = [[row["Correct Answer"], row["Incorrect Answer 1"], row["Incorrect Answer 2"], row["Incorrect Answer 3"]][i] for i in row["permutation"]]
                    right.append("ABCD"[choices.index(row["Correct Answer"])])
                order = ["".join(map(str, row["permutation"])) for row in evaluation.examples]
            else:
                right, order = [str(int(row["answer"])) for row in evaluation.examples], []
            out[name + label] = {"right": right, "order": order, "sha256": [hashlib.sha256(p.encode()).hexdigest()[:16] for p in prompts], "first": prompts[0]}
    write(os.path.join(folder, "prompts.json.gz"), out)


def golden_statistics(folder):
    """Intervals and tests by numpy and scipy."""
    r = np.random.default_rng(5)
    cases = []
    for q, repeats in ((5, 1), (30, 1), (30, 4), (30, 8), (198, 1), (198, 8), (12, 2)):
        p = r.beta(2, 1, q)
        wins = r.binomial(repeats, p)
        other = r.binomial(repeats, np.clip(p + r.normal(0.1, 0.1, q), 0, 1))
        share, second = wins / repeats, other / repeats
        case = {"repeats": repeats, "wins": wins.tolist(), "other": other.tolist(), "mean": float(share.mean())}
        if repeats > 1:
            case["s_run"] = float(np.sqrt((share * (1 - share) / (repeats - 1)).sum()) / q)
        case["s_questions"] = float(share.std(ddof=1) / np.sqrt(q))
        if share.std() > 0:
            low, high = stats.t.interval(0.95, q - 1, share.mean(), stats.sem(share))
            case["t"] = [float(low), float(high)]
        if repeats == 1:
            interval = stats.binomtest(int(wins.sum()), q).proportion_ci(0.95, "wilson")
            case["wilson"] = [float(interval.low), float(interval.high)]
        case["pass"], case["agree"] = float((wins > 0).mean()), float(((wins == 0) | (wins == repeats)).mean())
        d = second - share
        case["difference"], case["s_paired"] = float(d.mean()), float(d.std(ddof=1) / np.sqrt(q))
        case["least"] = float((stats.t.ppf(0.975, q - 1) + stats.t.ppf(0.8, q - 1)) * case["s_paired"])
        nonzero = d[d != 0]
        if 2 <= len(nonzero) <= 16:  # exact: all 2^n signs
            case["p"] = float(stats.permutation_test((nonzero,), lambda x, axis=-1: np.abs(x.sum(axis=axis)), permutation_type="samples", alternative="greater", n_resamples=np.inf).pvalue)
        cases.append(case)
    write(os.path.join(folder, "statistics.json.gz"), cases)


def main():
    folder = sys.argv[1]
    write(os.path.join(folder, "score/testdata/reference.json.gz"), [[t, extract_abcd(t), integer(t)] for t in texts(4000)])
    golden_prompts(os.path.join(folder, "task/testdata"))
    golden_statistics(os.path.join(folder, "testdata"))


main()
