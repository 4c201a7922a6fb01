"""Compares render results with the reference, pair by pair.

usage: python compare.py REFERENCE.jsonl OTHER.jsonl

A pair is equal if both give the same text or both fail. Prints every pair that
is not, then one line of totals.
"""
import json, sys


def load(path):
    return {(r["template"], r["conversation"]): r for r in map(json.loads, open(path, encoding="utf-8"))}


want, got = (load(p) for p in sys.argv[1:3])
assert want.keys() == got.keys(), "results are of different sets"
text = failed = 0
for key, w in want.items():
    g = got[key]
    if "text" in w and w["text"] == g.get("text"):
        text += 1
    elif "error" in w and "error" in g:
        failed += 1
    else:
        a, b = w.get("text", ""), g.get("text", "")
        i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        detail = w.get("error") or g.get("error") or f"at {i}: {a[i-20:i+30]!r} / {b[i-20:i+30]!r}"
        print("/".join(key), "reference fails:" if "error" in w else "other fails:" if "error" in g else "text differs", detail)
templates = len({t for t, _ in want})
print(f"{templates} templates, {len(want)} pairs: {text} equal texts, {failed} refused by both, {len(want) - text - failed} different")
