"""Prints numpy.json: statistics of small samples as numpy 2 computes them."""
import json
import numpy as np

rng = np.random.default_rng(5)
samples = [[1.5], [1, 2], [3, 1, 2], list(rng.exponential(0.02, 7)), list(rng.exponential(0.02, 100)),
           list(rng.normal(5, 1, 661)), [0.1] * 10, [1e-9, 1e9, 3.3, -4]]
print(json.dumps([{
    "X": [float(v) for v in x], "Mean": float(np.mean(x)), "Std": float(np.std(x)),
    "Percentiles": {p: float(np.percentile(x, float(p))) for p in ["0", "1", "10", "25", "50", "75", "90", "95", "99", "99.9", "100"]},
} for x in samples]))
