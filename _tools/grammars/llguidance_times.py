"""Measures llguidance on a sample with ids, as ours/main.go measures package grammar.

usage: llguidance_times.py VOCABULARY SAMPLE RESULTS
"""

import json
import sys
from time import thread_time_ns as now

import llguidance
import llguidance.numpy as masks
import tiktoken
import tiktoken_ext.openai_public as public


class Words:
    """A vocabulary as llguidance.TokenizerWrapper wants it: bytes by id."""

    def __init__(self, texts):
        self.special_token_ids = [i for i, t in enumerate(texts) if not t]
        self.tokens = [bytes.fromhex(t) if t else b"<|%d|>" % i for i, t in enumerate(texts)]
        self.eos_token_id = self.special_token_ids[-1]
        self.bos_token_id = None

        # The splitting pattern is tiktoken's; the ranks are the ids.
        public.load_tiktoken_bpe = lambda *_, **__: {}
        ranks = {bytes.fromhex(t): i for i, t in enumerate(texts) if t}
        self.encoding = tiktoken.Encoding("o200k", pat_str=public.o200k_base()["pat_str"], mergeable_ranks=ranks, special_tokens={})

    def __call__(self, text):
        """Encodes texts that are forced: of these masks have the token that a model would write."""
        if isinstance(text, bytes):
            text = text.decode("utf-8", errors="replace")
        return self.encoding.encode(text, disallowed_special=())


def measure(line, tokenizer, mask):
    out = {"name": line["name"], "compile": 0, "masks": [], "steps": [], "refused": 0, "taken": 0}
    schema = json.dumps(line["schema"])
    since = now()
    try:
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema, {"whitespace_flexible": True})
        first = llguidance.LLMatcher(tokenizer, grammar)
        error = first.get_error() if first.is_error() else ""
    except ValueError as e:
        error = str(e)
    out["compile"] = now() - since
    if error:
        out["error"] = error
        return out
    for text in line["texts"]:
        matcher = first.deep_copy()
        admitted = True
        for token in text.get("ids") or []:
            since = now()
            masks.fill_next_token_bitmask(matcher, mask)
            out["masks"].append(now() - since)
            admitted = bool(mask[0, token // 32] >> (token % 32) & 1) and not matcher.is_error()
            if not admitted:
                break
            since = now()
            matcher.consume_token(token)
            out["steps"].append(now() - since)
        if matcher.is_error():
            out["failed"] = matcher.get_error()
        admitted = admitted and matcher.is_accepting()
        out["refused"] += text["valid"] and not admitted
        out["taken"] += admitted and not text["valid"]
    return out


def main():
    vocabulary, sample, results = sys.argv[1:]
    with open(vocabulary) as f:
        texts = json.load(f)
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Words(texts)))
    mask = masks.allocate_token_bitmask(1, len(texts))
    with open(sample) as lines, open(results, "w") as out:
        for line in lines:
            out.write(json.dumps(measure(json.loads(line), tokenizer, mask)) + "\n")


if __name__ == "__main__":
    main()
