"""Checks that the spellings which internal/token/split.go treats as one pattern split alike in the reference's
regular expression engine. Run from the repository root."""

import pathlib
import random
import re
import sys

from tokenizers import Regex, pre_tokenizers

import samples

SOURCE = pathlib.Path("internal/token/split.go")


def spellings():
    """Yields the patterns of each case of patternScanner."""
    text = SOURCE.read_text()
    consts = {name: "".join(re.findall("`(.*)`", value)) for name, value in re.findall(r"(pattern\w+)\s*= ((?:`.*` \+\n\s*)*`.*`)", text)}
    body = text[text.index("func patternScanner"):text.index("return nil")]
    for group in body.split("case ")[1:]:
        yield [consts[name] for name in re.findall(r"pattern\w+", group)] + re.findall("`(.*)`", group)


def main():
    r = random.Random(3)
    texts = [samples.sample(r).decode(errors="replace") for _ in range(20_000)]
    different = 0
    for first, *others in spellings():
        split = lambda pattern: pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str
        for other in others:
            a, b = split(first), split(other)
            bad = [t for t in texts if a(t) != b(t)]
            different += len(bad)
            print(f"{other}\n  = {first}\n  on {len(texts)} strings, {len(bad)} different {bad[:1]}")
    sys.exit(different != 0)


if __name__ == "__main__":
    main()
