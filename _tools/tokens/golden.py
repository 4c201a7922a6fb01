"""Writes internal/token/testdata: strings.jsonl with reference ids and pieces, and the part of two vocabularies
that those strings use. Needs the files of fetch.sh; run from the repository root."""

import json
import pathlib
import random
import unicodedata

import tokenizers
from tokenizers import Regex, pre_tokenizers

import reference
import samples

OUT = pathlib.Path("internal/token/testdata")
COUNT = 2000
CONTRACTION = "'s|'t|'re|'ve|'m|'ll|'d"
GPT2 = CONTRACTION + r"| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:" + CONTRACTION + r")|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GOLDEN = ["Hello, world!", "I'll DON'T we'Re  it's", "  leading and   trailing   ", "a\n\n\nb\r\n\tc", "1234567 3.14159", "日本語テストA한국어",
          "naïve café — “quotes”", "e\u0301clair", "😀👩‍👩‍👧 ok", "func main() {\n\tfmt.Println(\"hi\")\n}\n", "http://x.y/a/b//c",
          "\u00a0\u3000x", "user\nHi /no_think", "assistant\n", "\n", "\n\n"]


def used_merges(codec, ranks, texts):
    """The merges that encoding texts performs: a vocabulary without the others gives the same ids."""
    used = set()
    pieces = {p for t in texts for p, _ in codec.pre_tokenizer.pre_tokenize_str(codec.normalizer.normalize_str(t) if codec.normalizer else t)}
    for piece in pieces:
        parts = list(piece)
        while len(parts) > 1:
            rank, i = min((ranks.get((a, b), len(ranks)), i) for i, (a, b) in enumerate(zip(parts, parts[1:])))
            if rank == len(ranks):
                break
            used.add(rank)
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return used


def write_cut(name, source, codec, texts):
    """Keeps single bytes, added tokens, the used merges and what they merge; ids stay."""
    data = json.loads(pathlib.Path(source).read_text())
    model = data["model"]
    merges = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    used = used_merges(codec, {m: i for i, m in enumerate(merges)}, texts)
    kept = {t for i in used for t in (*merges[i], "".join(merges[i]))} | {a["content"] for a in data["added_tokens"]}
    model["vocab"] = {t: i for t, i in model["vocab"].items() if len(t) == 1 or t in kept}
    model["merges"] = [m for i, m in enumerate(model["merges"]) if i in used]
    (OUT / name).write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")


def split(*steps):
    """The lengths of the pieces in bytes."""
    pre = pre_tokenizers.Sequence(list(steps))
    return lambda text: [len(text[a:b].encode()) for _, (a, b) in pre.pre_tokenize_str(text)]


def isolated(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def main():
    OUT.mkdir(exist_ok=True)
    pattern = lambda file: json.loads((reference.DIR / file).read_text())["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    pieces = {
        "o200k": split(isolated(pattern("gptoss.json"))), "qwen2": split(isolated(pattern("qwen3.json"))), "llama3": split(isolated(LLAMA3)),
        "gpt2": split(isolated(GPT2)), "smollm": split(pre_tokenizers.Digits(individual_digits=True), isolated(GPT2)),
    }
    texts = GOLDEN[:]
    r = random.Random(7)
    while len(texts) < COUNT:
        text = samples.sample(r, 4).decode(errors="replace")
        if len(text) < 50:
            texts.append(text)
    codecs = {"o200k": reference.Tiktoken(), "qwen3": reference.HuggingFace("qwen3", None, reference.DIR / "qwen3.json"),
              "smollm2": reference.HuggingFace("smollm2", None, reference.smollm2()[1])}
    write_cut("qwen3-cut.json", reference.DIR / "qwen3.json", codecs["qwen3"].codec, texts)
    write_cut("smollm2-cut.json", reference.DIR / "smollm2.json", codecs["smollm2"].codec, texts)
    ids = {name: codec.encode(texts) for name, codec in codecs.items()}
    with (OUT / "strings.jsonl").open("w") as f:
        for i, text in enumerate(texts):
            row = {"text": text, "ids": {n: ids[n][i] for n in ids}, "pieces": {n: p(text) for n, p in pieces.items()}}
            f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"tiktoken {reference.tiktoken.__version__}, tokenizers {tokenizers.__version__}, Unicode {unicodedata.unidata_version}")


if __name__ == "__main__":
    main()
