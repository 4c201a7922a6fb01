"""Rewrites internal/jinja/testdata/snippets.jsonl with the reference's results.

usage: python snippets.py

Each line is {"source": ..., "text" or "error": ...}; to add a case, append a
line with a source and run this. Same environment as jinja2_render.py.
"""
import json, pathlib

import jinja2, transformers
from transformers.utils import chat_template_utils

assert (transformers.__version__, jinja2.__version__) == ("5.23.0", "3.1.6"), "pinned versions, see README.md"
FILE = pathlib.Path(__file__).resolve().parents[2] / "internal/jinja/testdata/snippets.jsonl"
VARS = {
    "s": "Hello, wörld", "n": 7, "f": 2.5, "none": None, "l": [3, 1, 2], "e": [], "t": True,
    "d": {"b": 1, "a": [1, {"x": None}], "items": "hidden"},
    "u": [{"name": "Bob", "age": 30, "tag": {"k": "x"}}, {"name": "alice", "age": 25, "tag": {"k": "y"}}, {"name": "Carl", "age": 30}],
}
lines = []
for line in FILE.read_text(encoding="utf-8").splitlines():
    source = json.loads(line)["source"]
    result = {"source": source}
    try:
        result["text"] = chat_template_utils._compile_jinja_template(source).render(**VARS)
    except Exception as e:
        result["error"] = f"{type(e).__name__}: {e}"
    lines.append(json.dumps(result, ensure_ascii=False))
FILE.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
