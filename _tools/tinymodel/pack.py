"""Packs conversations into flat batches. A batch holds trees: a prefix and the
conversations that continue it, each of which sees the prefix and itself."""
import random

import torch

from harmony import branch_text, prompt_text
from model import Segment

SLIPS = 0.15  # share of the answers with a slip


def slip(r, given, produced, first_control):
    """(tokens that the model did say, whether each is to be learned): now and then a few
    of them come again, once or some times, or one comes from elsewhere, and the answer goes
    on as if nothing had happened. So a model learns to leave a loop."""
    learned = [True] * len(produced)
    if r.random() >= SLIPS or len(produced) < 12:
        return produced, learned
    i = r.randrange(8, len(produced) - 2)
    n = min(r.choice((1, 2, 3, 4, 6, 8, 12, 20)), i)
    extra = produced[i - n:i] * r.choice((1, 1, 2, 3, 5)) if r.random() < 0.8 else [r.choice(given)]
    if any(t >= first_control for t in extra):
        return produced, learned
    return produced[:i] + extra + produced[i:], learned[:i] + [False] * len(extra) + learned[i:]


def encode(group, encoder, limit):
    """(prefix ids, [(given ids, produced ids, whether each is learned)]) with the
    branches of at most limit tokens."""
    prefix, out = encoder(prompt_text(group)), []
    for b in group.branches:
        given, produced = (encoder(t) for t in branch_text(b))
        learned = [True] * len(produced)
        if b.ability != "arithmetic":
            produced, learned = slip(random.Random(repr(given + produced)), given, produced, encoder.control["<|startoftext|>"])
        if len(prefix) + len(given) + len(produced) <= limit:
            out.append((given, produced, learned))
    return prefix, out


def batch(groups, encoder, size, limit):
    """(ids, segments, at, target) of the next groups until there are size tokens;
    target[i] is to be predicted at the place at[i]."""
    ids, segments, at, target = [], [], [], []
    while len(ids) < size:
        prefix, branches = encode(next(groups), encoder, limit)
        if not branches:
            continue
        first = len(ids)
        ids += prefix
        segments.append(Segment(first, len(ids)))
        for given, produced, learned in branches:
            start = len(ids)
            ids += given + produced
            segments.append(Segment(start, len(ids), first, len(prefix)))
            for i, (token, wanted) in enumerate(zip(produced, learned), start + len(given) - 1):
                if wanted:
                    at.append(i)
                    target.append(token)
    return torch.tensor(ids), segments, torch.tensor(at), torch.tensor(target)
