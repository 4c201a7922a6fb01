"""Packs conversations into flat batches. A batch holds trees: a prefix and the
conversations that continue it, each of which sees the prefix and itself."""
import torch

from harmony import branch_text, prompt_text
from model import Segment


def encode(group, encoder, limit):
    """(prefix ids, [(given ids, produced ids)]) with the branches of at most limit tokens."""
    prefix = encoder(prompt_text(group))
    branches = [tuple(encoder(t) for t in branch_text(b)) for b in group.branches]
    return prefix, [b for b in branches if len(prefix) + len(b[0]) + len(b[1]) <= limit]


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
        for given, produced in branches:
            start = len(ids)
            ids += given + produced
            segments.append(Segment(start, len(ids), first, len(prefix)))
            at += range(start + len(given) - 1, len(ids) - 1)
            target += produced
    return torch.tensor(ids), segments, torch.tensor(at), torch.tensor(target)
