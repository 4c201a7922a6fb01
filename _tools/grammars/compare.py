"""Prints two files of results beside each other.

usage: compare.py OURS PEER
"""

import json
import sys

SHARES = (0.5, 0.9, 0.99, 0.999, 1)


def load(path):
    with open(path) as f:
        return {r["name"]: r for r in map(json.loads, f)}


def at(values, share):
    values = sorted(values)
    return values[int((len(values) - 1) * share)] / 1e6 if values else float("nan")


def main():
    both = {"ossian": load(sys.argv[1]), "llguidance": load(sys.argv[2])}
    names = [n for n in both["ossian"] if all(not r[n].get("error") for r in both.values())]
    total = len(both["ossian"])
    print(f"{total} schemas, {len(names)} compiled by both")
    print("| | compiled | masks that fail | keywords ignored | valid texts refused | others taken |")
    print("|---|---|---|---|---|---|")
    for who, results in both.items():
        good = [r for r in results.values() if not r.get("error")]
        print(f"| {who} | {len(good)} ({100 * len(good) / total:.1f} %) | {sum(bool(r.get('failed')) for r in good)} | {sum(bool(r.get('ignored')) for r in good)}"
              f" | {sum(r['refused'] for r in good)} | {sum(r['taken'] for r in good)} |")
    print("\nms, of schemas that both compile")
    print("| | " + " | ".join(f"p{100 * s:g}" for s in SHARES) + " |")
    print("|---" * (len(SHARES) + 1) + "|")
    for what, pick in {
        "compile": lambda r: [r["compile"]],
        "mask": lambda r: r["masks"] or [],
        "mask and step": lambda r: [m + s for m, s in zip(r["masks"] or [], r["steps"] or [])],
    }.items():
        for who, results in both.items():
            values = [v for n in names for v in pick(results[n])]
            print(f"| {what}, {who} | " + " | ".join(f"{at(values, s):.3f}" for s in SHARES) + " |")


if __name__ == "__main__":
    main()
