"""Compares package token with the reference encoders. See README.md; run from the repository root."""

import argparse
import base64
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import reference
import samples


def ours(binary, spec, lines, *flags):
    vocab = ["-vocab", spec] if spec else []
    run = subprocess.run([binary, *vocab, *flags], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    return run.stdout.split("\n")[:-1]


def encode(binary, spec, texts, *flags):
    out = ours(binary, spec, [base64.b64encode(t).decode() for t in texts], *flags)
    return [[int(x) for x in line.split()] for line in out]


def report(name, inputs, got, want):
    bad = [i for i in range(len(want)) if got[i] != want[i]]
    for i in bad[:5]:
        print(f"  {inputs[i]!r}\n    token     {got[i]}\n    reference {want[i]}")
    print(f"{name}: {len(want)} compared, {len(bad)} different", flush=True)
    return len(bad) + abs(len(got) - len(want))


def strings(args, names):
    r = random.Random(args.seed)
    if args.files:
        files = sorted(p for p in pathlib.Path(args.files).rglob("*") if p.suffix in (".py", ".md", ".txt", ".po", ".rst") and p.is_file())
        plain = [p.read_bytes() for p in files[:args.n]]
    else:
        plain = [samples.sample(r) for _ in range(args.n)]
    marked = []
    for _ in range(args.n // 10):
        parts = [r.choice((samples.fragment(r), r.choice(names), r.choice(names)[:-1])) for _ in range(r.randint(1, 9))]
        marked.append("".join(parts).encode())
    return plain, marked


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--n", type=int, default=100_000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", help="one vocabulary")
    p.add_argument("--files", help="compare text files below this folder instead of generated strings")
    args = p.parse_args()
    different = 0
    with tempfile.TemporaryDirectory() as tmp:
        binary = tmp + "/encode"
        subprocess.run(["go", "build", "-o", binary, "./_tools/tokens/encode"], check=True)
        for ref in reference.all():
            if args.only and ref.name != args.only:
                continue
            start = time.time()
            plain, marked = strings(args, ref.added)
            text = [t.decode(errors="replace") for t in plain]
            clean = [i for i, t in enumerate(text) if not any(a in t for a in ref.added)]
            plain, text = [plain[i] for i in clean], [text[i] for i in clean]
            want = ref.encode(text)
            different += report(f"{ref.name} text", text, encode(binary, ref.spec, plain), want)
            print(f"  {sum(map(len, plain))} bytes, {sum(map(len, want))} ids, {time.time()-start:.0f} s")
            text = [t.decode() for t in marked]
            different += report(f"{ref.name} markup", text, encode(binary, ref.spec, marked, "-markup"), ref.encode(text))
            if getattr(ref, "old", 0):
                print(f"  {ref.old} of these normalised by unicodedata, see reference.py")
            r = random.Random(args.seed)
            ids = [[r.randrange(ref.size) for _ in range(r.randint(0, 12))] for _ in range(args.n // 10)]
            got = ours(binary, ref.spec, [" ".join(map(str, x)) for x in ids], "-decode")
            different += report(f"{ref.name} decode", ids, [base64.b64decode(x).decode() for x in got], [ref.decode(x) for x in ids])
    sys.exit(different != 0)


if __name__ == "__main__":
    main()
