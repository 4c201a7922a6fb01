"""Packs conversations into flat batches. A batch holds trees: a prefix and the
conversations that continue it, each of which sees the prefix and itself."""
import random

import torch

from harmony import branch_text, prompt_text
from model import Segment

SLIPS = 0.08  # share of the answers with a slip


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


def take(groups, encoder, size, limit):
    """The next groups, encoded, until there are size tokens."""
    out, count = [], 0
    while count < size:
        prefix, branches = encode(next(groups), encoder, limit)
        if branches:
            out.append((prefix, branches))
            count += len(prefix) + sum(len(given) + len(produced) for given, produced, _ in branches)
    return out


def lay(taken):
    """(ids, segments, at, target) of encoded groups: target[i] is to be predicted at the
    place at[i]."""
    ids, segments, at, target = [], [], [], []
    for prefix, branches in taken:
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


def batch(groups, encoder, size, limit):
    """lay of the next groups with size tokens or a little more."""
    return lay(take(groups, encoder, size, limit))


def hardest(taken, losses, size):
    """Those branches of the groups whose worst token has the greatest loss, with their
    prefixes, up to size tokens. losses: of the targets of lay(taken)."""
    worst, n = [], 0
    for g, (prefix, branches) in enumerate(taken):
        for b, (_, _, learned) in enumerate(branches):
            worst.append((max(losses[n:n + sum(learned)]), g, b))
            n += sum(learned)
    kept, count = {}, 0
    for _, g, b in sorted(worst, reverse=True):
        prefix, branches = taken[g]
        more = sum(map(len, branches[b][:2])) + (0 if g in kept else len(prefix))
        if count + more <= size:
            kept.setdefault(g, []).append(branches[b])
            count += more
    return [(taken[g][0], branches) for g, branches in kept.items()]
