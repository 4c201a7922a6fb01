"""Runs the python and js examples of documents against a live server; prints one line per example.

usage: documents.py URL NODE FILE...
URL is a server of ossian-tiny without a key; it stands for http://127.0.0.1:8000. NODE is a folder
with the package openai in node_modules. An output behind an example is compared.
"""

import pathlib
import subprocess
import sys

url, node, *files = sys.argv[1:]


def blocks(text):
    """The fenced blocks: line of the fence, what stands behind it, text."""
    found, begin = [], None
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("```"):
            if begin is None:
                begin = i
            else:
                found.append((begin + 1, lines[begin][3:], "\n".join(lines[begin + 1 : i]) + "\n"))
                begin = None
    return found


def run(kind, text):
    """What an example writes."""
    text = text.replace("http://127.0.0.1:8000", url)
    if kind == "python":
        command = [sys.executable, "-"]
    else:
        program = pathlib.Path(node, "document.mjs")  # beside node_modules, where its imports are looked for
        program.write_text(text)
        command, text = ["node", str(program)], ""
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


def main():
    failed = examples = 0
    for name in files:
        all_ = blocks(pathlib.Path(name).read_text())
        for i, (line, kind, text) in enumerate(all_):
            if kind not in ("python", "js"):
                continue
            examples += 1
            done = run(kind, text)
            want = next((t for _, k, t in all_[i + 1 : i + 2] if k == "text"), None)
            good = done.returncode == 0 and done.stdout.strip() and want in (None, done.stdout)
            print("documents", f"{name}:{line}", kind, "pass" if good else "fail", flush=True)
            if not good:
                failed += 1
                print(f"status {done.returncode}, expected {want!r}, found {done.stdout!r}\n{done.stderr}", file=sys.stderr)
    if examples < 5:
        sys.exit(f"{examples} examples found in {files}")
    return failed > 0


sys.exit(main())
