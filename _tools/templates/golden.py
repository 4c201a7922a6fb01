"""Writes internal/jinja/testdata/golden from the templates and conversations there.

usage: npm install && python golden.py

Every golden file is what jinja2 gives; MANIFEST.txt says for each whether the
second implementation, @huggingface/jinja, gives the same.
"""
import json, pathlib, shutil, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parents[1] / "internal/jinja/testdata"


def results(*command):
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "out.jsonl"
        subprocess.run([*command, DATA / "templates", DATA / "conversations.json", out], check=True)
        return [json.loads(line) for line in open(out, encoding="utf-8")]


def main():
    reference = results(sys.executable, HERE / "jinja2_render.py")
    second = results("node", HERE / "hf_render.mjs")
    golden = DATA / "golden"
    shutil.rmtree(golden, ignore_errors=True)
    manifest = [
        "# Golden prompts, written by _tools/templates/golden.py: do not edit.",
        "# NAME.txt is the text jinja2 3.1.6 renders in the environment of transformers 5.23.0;",
        "# NAME.refused holds the error it gives instead. Clock: 2026-11-21 12:34:56.",
        "# Last column: what @huggingface/jinja 0.5.11 does (same, refused, other text).",
    ]
    for want, other in zip(reference, second):
        folder = golden / want["template"]
        folder.mkdir(parents=True, exist_ok=True)
        if "text" in want:
            name = want["conversation"] + ".txt"
            (folder / name).write_text(want["text"], encoding="utf-8", newline="")
            verdict = "same" if other.get("text") == want["text"] else "refused" if "error" in other else "other text"
        else:
            name = want["conversation"] + ".refused"
            (folder / name).write_text(want["error"] + "\n", encoding="utf-8")
            verdict = "same" if "error" in other else "other text"
        manifest.append(f"{want['template']}/{name}\t{verdict}")
    (golden / "MANIFEST.txt").write_text("\n".join(manifest) + "\n")


main()
