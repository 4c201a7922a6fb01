"""The mixture of conversations. Everything is a pure function of a seed and a
split: training never sees a word, form or pair of numbers of the other split
where an ability is meant to generalise."""
import argparse
import dataclasses
import json
import random

import arithmetic
import copied
import shapes
import talk
import tools
from harmony import CHATGPT, IDENTITY, Group, branch_text, developer, prompt_text, system

EFFORTS = ("low", "medium", "high")
INSTRUCTIONS = {
    "train": ["Be brief.", "Be polite.", "Answer in English.", "You are a helpful assistant.", "Help the user.", "You help people at work.", "Use the tools when they fit.", "Be kind and short.",
              "You are {n}.", "Your name is {n}.", "You work for {n}.", "Never talk about {w}.", "You know all about {w} and {w}.", "Call the user {n}.", "The code is {x}.", "You live in {n}. {w}, {w}."],
    "heldout": ["Be short and helpful.", "You are a polite assistant.", "Answer the user.", "You come from {n}.", "Do not mention {w}."],
}
# Share of groups by what they share. Training has more of what is learned last.
KINDS = {
    "train": {"arithmetic": 12, "tools": 56, "json_format": 8, "json": 8, "recall": 6, "talk": 8, "repeat": 3},
    "heldout": {"arithmetic": 21, "tools": 45, "json_format": 7, "json": 7, "recall": 8, "talk": 9, "repeat": 3},
}
GRIDS = 0.25  # share of the toolboxes of training that are a tools.grid; they are only called
ABILITIES = ("arithmetic", "tools", "results", "json", "recall", "about", "small", "beyond")


def head(r, effort, with_tools=False):
    date = f"20{r.randint(24, 34)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}" if r.random() < 0.9 else ""
    return system(effort, IDENTITY if r.random() < 0.75 else CHATGPT, date, with_tools)


def instructions(r, split):
    if r.random() >= 0.2:
        return ""
    return r.choice(INSTRUCTIONS[split]).format(n=copied.name(r, split), w=copied.word(r, split), x=copied.text(r, split))


def pick_effort(r):
    return r.choices(EFFORTS, (30, 45, 25))[0]


def simple(r, split, effort, kind, with_tools=False):
    if kind == "arithmetic":
        b = arithmetic.branch(r, split, effort)
        if r.random() < 0.1:
            b.context = talk.between(r, split) + b.context
        return b
    if kind == "repeat":
        return talk.repeat_branch(r, split, effort)
    if kind == "json":
        return shapes.branch(r, split, effort)
    if kind == "recall":
        return talk.recall_branch(r, split, effort) if r.random() < 0.8 else talk.tell_branch(r, split, effort)
    return talk.short_branch(r, split, effort, r.choices(("small", "beyond", "about"), (20, 0 if with_tools else 45, 35))[0])


def tool_branch(r, split, effort, box):
    x = r.random()
    if x < 0.64:
        b = tools.call_branch(r, split, effort, box)
        if r.random() < 0.1:
            b.context = talk.between(r, split) + b.context
        return b
    if x < 0.88:
        return tools.answer_branch(r, split, effort, box)
    if x < 0.94:
        return tools.decline_branch(r, split, effort, box)
    return simple(r, split, effort, r.choice(("arithmetic", "recall", "talk")), with_tools=True)


def group(r, split, size=6):
    """size conversations with the same system and developer messages."""
    kind = r.choices(list(KINDS[split]), list(KINDS[split].values()))[0]
    effort = pick_effort(r)
    if kind == "tools" and split == "train" and r.random() < GRIDS:
        box = tools.grid(r)
        prefix = [head(r, effort, True), tools.developer_message(box, instructions(r, split))]
        calls = [tools.call_branch(r, split, effort, box) for _ in range(2 * size)]
        return Group(prefix, [dataclasses.replace(b, detail="grid") for b in calls])
    if kind == "tools":
        box = tools.toolbox(r, split)
        prefix = [head(r, effort, True), tools.developer_message(box, instructions(r, split))]
        return Group(prefix, [tool_branch(r, split, effort, box) for _ in range(size)])
    if kind == "json_format":
        text, branches = shapes.with_format(r, split, effort, size - 1)
        return Group([head(r, effort), shapes.developer_message(r, text, instructions(r, split))], branches)
    prefix = [head(r, effort)]
    said = instructions(r, split)
    if said:
        prefix.append(developer(said))
    return Group(prefix, [simple(r, split, effort, kind) for _ in range(size)])


def groups(seed, split, start=0):
    """An endless stream; the n-th group depends on seed, split and n alone."""
    n = start
    while True:
        yield group(random.Random(f"{seed}/{split}/{n}"), split)
        n += 1


def items(seed, per_ability, split="heldout"):
    """Evaluation: (prompt text, Branch) until every ability has per_ability of them."""
    left = dict.fromkeys(ABILITIES, per_ability)
    for g in groups(seed, split):
        for b in g.branches:
            if left.get(b.ability, 0) > 0:
                left[b.ability] -= 1
                given, _ = branch_text(b)
                yield prompt_text(g) + given, b
        if not any(left.values()):
            return


def record(prompt, b):
    """One line for the evaluation command."""
    m = b.target[-1]
    out = {"ability": b.ability, "detail": b.detail, "prompt": prompt, "channel": m.channel, "want": m.text, "end": m.end}
    if m.to:
        out["to"] = m.to
    if m.to or b.ability == "json":
        out["json"] = True
    return out


def main():
    p = argparse.ArgumentParser(description="Write items of the evaluation as JSON lines.")
    p.add_argument("--split", choices=("heldout", "train"), default="heldout", help="train shows what is hard even with the words and forms of training")
    p.add_argument("--seed", type=int, default=20261121)
    p.add_argument("--per-ability", type=int, default=625)
    p.add_argument("--out", required=True)
    o = p.parse_args()
    with open(o.out, "w", encoding="utf-8") as f:
        for prompt, b in items(o.seed, o.per_ability, o.split):
            f.write(json.dumps(record(prompt, b), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
