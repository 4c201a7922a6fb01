"""Makes tokenizer.json: a byte-level BPE vocabulary for the generated text."""
import argparse
import collections
import itertools
import json
import pathlib
import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import data
from harmony import CONTROLS, branch_text, prompt_text
from words import FRAME_WORDS, FUNCTION_WORDS

PATTERN = (  # of o200k, byte for byte as internal/token knows it
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
VOCAB = 2048  # at most, control tokens included
MERGES = 700  # of lower-case letters, and as many with a capital first; whole pieces take what is left
WHOLE = FUNCTION_WORDS | FRAME_WORDS
CONTROL = re.compile("(" + "|".join(map(re.escape, CONTROLS)) + ")")


def corpus(groups=12000, seed=7):
    """Text between control tokens, training split only."""
    for g in itertools.islice(data.groups(seed, "train"), groups):
        for text in [prompt_text(g)] + ["".join(branch_text(b)) for b in g.branches]:
            yield from (s for s in CONTROL.split(text) if s and s not in CONTROLS)


def count_pieces():
    split = pre_tokenizers.Split(Regex(PATTERN), "isolated")
    count, cache = collections.Counter(), {}
    for text in corpus():
        if text not in cache and len(cache) < 50000:
            cache[text] = [p for p, _ in split.pre_tokenize_str(text)]
        count.update(cache.get(text) or [p for p, _ in split.pre_tokenize_str(text)])
    return count


def capitalised(token):
    return token[0].upper() + token[1:]


def letter_merges(count):
    """(vocabulary, merges) of letters only, for words that are copied: those of whole_pieces
    do not count. A piece of a word that is always followed by the same one is known by
    heart, and then other words that begin alike are not copied. No merge takes in a space, a digit, a
    quotation mark or an underscore, so a word has the same tokens in a sentence, in an
    identifier and in JSON, and numbers are digits. Merges are learned from lower case,
    and each stands once more with a capital first letter: a capitalised word is divided
    as it is in lower case, and only its first token is another one. So what is copied
    looks the same on both sides."""
    words = collections.Counter()
    for piece, n in count.items():
        for w in re.findall("[A-Za-z]+", piece):
            if w.lower() not in WHOLE:
                words[w.lower()] += n
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=256 + MERGES, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    # Square roots, or else the words of the templates would take every merge.
    bpe.train_from_iterator((w for w in sorted(words) for _ in range(int(words[w] ** 0.5))), trainer)
    model = json.loads(bpe.to_str())["model"]
    vocab, merges = model["vocab"], []
    for left, right in model["merges"]:
        merges += [(left, right), (capitalised(left), right)]
        vocab.setdefault(capitalised(left + right), len(vocab))
    return vocab, merges


def whole_pieces(count, vocab, room):
    """The commonest pieces of templates and of punctuation that merges do not make.
    ignore_merges finds them. A word that could be part of a name or a value is not among
    them: it would have one token after a space or with a capital and others after an
    underscore or a quotation mark."""
    alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    out = []
    for piece, n in sorted(count.items(), key=lambda c: (-c[1], c[0])):
        word = re.sub(r"[^\w]|_", "", piece).lower()
        if len(piece) < 2 or word and word not in WHOLE or any(c.isdigit() for c in piece) or n < 40:
            continue
        coded = alphabet.pre_tokenize_str(piece)[0][0]
        if coded not in vocab:
            out.append(coded)
        if len(out) == room:
            break
    return out


def build():
    count = count_pieces()
    vocab, merges = letter_merges(count)
    for piece in whole_pieces(count, vocab, VOCAB - len(CONTROLS) - len(vocab)):
        vocab[piece] = len(vocab)
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(c, special=True, normalized=False) for c in CONTROLS])
    return t


class Encoder:
    """Turns text into ids, control tokens by name; remembers what it has seen often."""

    def __init__(self, path):
        self.tokenizer = Tokenizer.from_file(str(path))
        self.control = {c: self.tokenizer.token_to_id(c) for c in CONTROLS}
        self.cache = {}

    def __call__(self, text):
        out = []
        for s in CONTROL.split(text):
            if s in self.control:
                out.append(self.control[s])
            elif s:
                ids = self.cache.get(s)
                if ids is None:
                    ids = self.tokenizer.encode(s, add_special_tokens=False).ids
                    if len(self.cache) < 20000:
                        self.cache[s] = ids
                out += ids
        return out

    def pieces(self):
        """The tokens that are lower-case letters."""
        return sorted(t for t in self.tokenizer.get_vocab() if t.isascii() and t.isalpha() and t.islower())

    def lower_case(self):
        """The id of every token, or of the lower-case one for those that are capitalised."""
        vocab = self.tokenizer.get_vocab()
        lower = lambda t: t[0].lower() + t[1:] if t.isascii() and t.isalpha() and t == capitalised(t.lower()) else t
        return [vocab.get(lower(t), i) for t, i in sorted(vocab.items(), key=lambda v: v[1])]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True, help="directory for tokenizer.json")
    o = p.parse_args()
    t, out = build(), pathlib.Path(o.out)
    out.mkdir(parents=True, exist_ok=True)
    t.save(str(out / "tokenizer.json"), pretty=False)
    print(f"{t.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
