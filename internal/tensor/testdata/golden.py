"""Writes blocks.json: random blocks of every quantised type and their values as
the PyPI package gguf 0.19.0 (numpy 2.4.6) decodes them.

    pip install gguf==0.19.0 numpy==2.4.6 && python golden.py > blocks.json
"""
import json
import sys

import gguf
import numpy as np

rng = np.random.default_rng(7)
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "MXFP4": [], "Q5_0": [0], "Q5_1": [0, 2], "IQ4_NL": [0]}
cases = []
for name, halves in HALVES.items():
    qtype = gguf.GGMLQuantizationType[name]
    _, size = gguf.GGML_QUANT_SIZES[qtype]
    blocks = rng.integers(0, 256, (4, size), dtype=np.uint8)
    for at in halves:  # finite scales, one subnormal
        d = (rng.standard_normal(4) * [1e-6, 1e-2, 1, 100]).astype(np.float16)
        blocks[:, at:at + 2] = d.view(np.uint8).reshape(4, 2)
    if name == "MXFP4":
        blocks[:, 0] = [0, 1, 120, 250]
    floats = gguf.dequantize(blocks.reshape(-1), qtype).astype("<f4")
    cases.append({"type": name, "data": blocks.tobytes().hex(), "floats": floats.tobytes().hex()})
json.dump({"origin": __doc__.strip(), "cases": cases}, sys.stdout, indent=1)
print()
