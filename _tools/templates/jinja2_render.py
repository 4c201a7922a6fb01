"""Renders templates with the reference implementation.

usage: python jinja2_render.py TEMPLATES CONVERSATIONS.json OUT.jsonl

Uses the environment of transformers 5.23.0 on jinja2 3.1.6 (sandbox,
trim_blocks, lstrip_blocks, loop controls, its tojson) with a fixed clock.
"""
import datetime, json, pathlib, sys

import jinja2, transformers
from transformers.utils import chat_template_utils

assert (transformers.__version__, jinja2.__version__) == ("5.23.0", "3.1.6"), "pinned versions, see README.md"
NOW = datetime.datetime(2026, 11, 21, 12, 34, 56)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


chat_template_utils.datetime = Clock

templates, conversations, out = sys.argv[1:4]
variables = json.load(open(conversations, encoding="utf-8"))
with open(out, "w", encoding="utf-8") as f:
    for path in sorted(pathlib.Path(templates).glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for name, vars in variables.items():
            line = {"template": path.stem, "conversation": name}
            try:
                compiled = chat_template_utils._compile_jinja_template(source)
                line["text"] = compiled.render(**{"tools": None, "documents": None, "bos_token": "<|bos|>", "eos_token": "<|eos|>", **vars})
            except Exception as e:
                line["error"] = f"{type(e).__name__}: {e}"
            f.write(json.dumps(line) + "\n")
