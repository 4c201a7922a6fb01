"""Packs conversations into rows of equal length. A row holds trees: a prefix and
the conversations that continue it, each of which sees the prefix and itself."""
from dataclasses import dataclass

import torch

from harmony import branch_text, prompt_text

NONE = -1


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


def rows(groups, encoder, length, limit):
    """Full rows, forever. groups yields Group; a group that does not fit into the
    open row is cut between branches and goes on in the next with its prefix again."""
    row = Row(length)
    for group in groups:
        pieces = encode(group, encoder, min(limit, length))
        if not pieces:
            continue
        prefix, parent = pieces[0], None
        for piece in pieces[1:]:
            need = len(piece.ids) + (len(prefix.ids) if parent is None else 0)
            if need > row.room():
                yield row
                row, parent = Row(length), None
            if parent is None:
                parent = row.add(prefix, NONE, 0)
            row.add(piece, parent, len(prefix.ids))


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
