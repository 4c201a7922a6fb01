"""The reference encoders on the vocabularies that fetch.sh puts into models/tokens."""

import base64
import json
import pathlib
import re
import unicodedata

import gguf
import tiktoken
import tokenizers

DIR = pathlib.Path("models/tokens")


class Tiktoken:
    """o200k_harmony; our side uses the built-in copy."""

    name, spec = "o200k", None

    def __init__(self):
        ranks = {}
        for line in (DIR / "o200k_base.tiktoken").read_bytes().splitlines():
            word, rank = line.split()
            ranks[base64.b64decode(word)] = int(rank)
        added = json.loads((DIR / "gptoss.json").read_text())["added_tokens"]
        special = {a["content"]: a["id"] for a in added}
        pattern = json.loads((DIR / "gptoss.json").read_text())["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
        self.codec = tiktoken.Encoding("o200k_harmony", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
        self.added, self.size = list(special), 200019

    def encode(self, texts):
        return self.codec.encode_batch(texts, num_threads=2, allowed_special="all")

    def decode(self, ids):
        return self.codec.decode(ids)


class HuggingFace:
    """A tokenizer.json. The NFC of the reference knows Unicode 9 and misplaces the 98 marks
    added since; texts with those are normalised here and counted in old."""

    def __init__(self, name, spec, file):
        self.name, self.spec = name, str(spec)
        data = json.loads(pathlib.Path(file).read_text())
        self.codec = tokenizers.Tokenizer.from_str(json.dumps(data))
        self.nfc = data["normalizer"] is not None
        data["normalizer"] = None
        self.bare = tokenizers.Tokenizer.from_str(json.dumps(data))
        self.added = [a["content"] for a in data["added_tokens"]]
        self.split = re.compile("(" + "|".join(map(re.escape, sorted(self.added, key=len, reverse=True))) + ")")
        self.size = self.codec.get_vocab_size()
        self.old = 0

    def encode(self, texts):
        ids = [e.ids for e in self.codec.encode_batch(texts, add_special_tokens=False)]
        if self.nfc:
            for i, text in enumerate(texts):
                parts = self.split.split(text)
                right = [unicodedata.normalize("NFC", p) for p in parts]
                if right != [self.codec.normalizer.normalize_str(p) for p in parts]:
                    self.old += 1
                    ids[i] = self.bare.encode("".join(right), add_special_tokens=False).ids
        return ids

    def decode(self, ids):
        return self.codec.decode(ids, skip_special_tokens=False)


def smollm2():
    """Writes the vocabulary of the GGUF file next to it as token.Vocab and as tokenizer.json."""
    fields = gguf.GGUFReader(DIR / "smollm2.gguf").fields
    get = lambda key: fields["tokenizer.ggml." + key].contents()
    vocab = {"Model": get("model"), "Pre": get("pre"), "Tokens": get("tokens"), "Types": get("token_type"), "Merges": get("merges"),
             "BOS": get("bos_token_id"), "EOS": get("eos_token_id"), "AddBOS": get("add_bos_token")}
    ours, theirs = DIR / "smollm2.vocab", DIR / "smollm2.json"
    ours.write_text(json.dumps(vocab))
    theirs.write_text(json.dumps(smollm2_json(vocab)))
    return ours, theirs


def smollm2_json(vocab):
    added = [{"id": i, "content": t, "special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
             for i, t in enumerate(vocab["Tokens"]) if vocab["Types"][i] == 3]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(vocab["Tokens"])}, "merges": vocab["Merges"]},
    }


def all():
    yield Tiktoken()
    yield HuggingFace("gpt-oss tokenizer.json", DIR / "gptoss.json", DIR / "gptoss.json")
    yield HuggingFace("qwen3", DIR / "qwen3.json", DIR / "qwen3.json")
    ours, theirs = smollm2()
    yield HuggingFace("smollm2 GGUF", ours, theirs)
    yield HuggingFace("smollm2 tokenizer.json", theirs, theirs)
