"""Writes pchip.json: the roots that scipy finds on its PchipInterpolator.

    python3 pchip.py   # scipy 1.17.1, numpy 2.4.6
"""
import json
import pathlib

import numpy as np
from scipy.interpolate import PchipInterpolator

rng = np.random.default_rng(7)
cases = []


def add(x, y):
    roots = PchipInterpolator(x, y, extrapolate=False).solve()
    roots = [float(r) for r in roots if np.isfinite(r)]
    cases.append({"x": [float(v) for v in x], "y": [float(v) for v in y], "root": min(roots) if roots else None})


add([1, 100], [-31, 68])
add([1, 32, 100], [-31, 0, 68])
add([1, 50, 100], [1, 2, 3])
add([1, 2, 3, 4], [-3, -2, 0, 0])
add([1, 10, 20, 65536], [-400, -390, -2, 60000])
add([1, 4, 434, 65536], [-400, -399, 700, 90000])
add([1, 2, 3, 4, 5], [-5, 3, -3, 3, 5])
add([1, 2], [5, -5])
for _ in range(40):
    n = int(rng.integers(2, 12))
    x = np.cumsum(rng.integers(1, 5000, n))
    y = np.cumsum(rng.lognormal(0, 2, n)) - rng.lognormal(1, 1)
    if rng.random() < 0.3:
        y = y + rng.normal(0, 3, n)
    add(x, y)
pathlib.Path(__file__).with_name("pchip.json").write_text(
    "[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
