"""Packs conversations into rows of equal length. A row holds trees: a prefix and
the conversations that continue it, each of which sees the prefix and itself."""
from dataclasses import dataclass

import torch

from harmony import branch_text, prompt_text

NONE = -1
MISSES = 12


@dataclass
class Piece:
    """A prefix, or a branch of the prefix before it."""
    ids: list
    first: int  # index in ids of the first token to learn; len(ids) = none


def encode(group, encoder, limit):
    """Pieces of a group: the prefix, then branches that fit into limit together with it."""
    prefix = encoder(prompt_text(group))
    pieces = [Piece(prefix, len(prefix))]
    for b in group.branches:
        given, produced = (encoder(t) for t in branch_text(b))
        if len(prefix) + len(given) + len(produced) <= limit:
            pieces.append(Piece(given + produced, len(given)))
    return pieces if len(pieces) > 1 else []


class Row:
    def __init__(self, length):
        self.length, self.ids, self.positions, self.doc, self.parent, self.learn, self.docs = length, [], [], [], [], [], 0

    def add(self, piece, parent, start):
        n = len(piece.ids)
        self.ids += piece.ids
        self.positions += range(start, start + n)
        self.doc += [self.docs] * n
        self.parent += [parent] * n
        self.learn += [i >= piece.first for i in range(n)]
        self.docs += 1
        return self.docs - 1

    def room(self):
        return self.length - len(self.ids)


def rows(groups, encoder, count, length, limit):
    """count rows filled from groups, which yields Group, first fit. A group that
    does not fit into one row is cut between branches and has its prefix in each of
    its rows. Ends when MISSES branches found no room; they are dropped."""
    out, missed = [Row(length) for _ in range(count)], 0
    while missed < MISSES:
        pieces = encode(next(groups), encoder, min(limit, length))
        parents = {}  # row -> its copy of the prefix
        for piece in pieces[1:]:
            prefix = pieces[0].ids
            fits = [k for k, row in enumerate(out) if len(piece.ids) + (0 if k in parents else len(prefix)) <= row.room()]
            if not fits:
                missed += 1
                continue
            k = min(fits, key=lambda k: (k not in parents, k))
            if k not in parents:
                parents[k] = out[k].add(pieces[0], NONE, 0)
            out[k].add(piece, parents[k], len(prefix))
    return out


def batch(rows, pad):
    """(ids, positions, allowed, at, target): target[i] is to be predicted at the flat place at[i]."""
    length = rows[0].length
    def table(name, fill):
        return torch.tensor([getattr(r, name) + [fill] * r.room() for r in rows])
    ids, positions, doc, parent, learn = table("ids", pad), table("positions", 0), table("doc", -2), table("parent", -3), table("learn", False)
    same = (doc.unsqueeze(2) == doc.unsqueeze(1)) | (parent.unsqueeze(2) == doc.unsqueeze(1))
    allowed = same & torch.ones(length, length, dtype=torch.bool).tril()
    flat = learn.flatten().nonzero().squeeze(1)
    return ids, positions, allowed, flat - 1, ids.flatten()[flat]
