"""Trains ossian-tiny; see README.md. Can be stopped and started again at any time."""
import argparse
import dataclasses
import json
import os
import pathlib
import signal
import time

import torch

import copied
import data
import fast
import pack
from harmony import branch_text, prompt_text
from model import Config, Model, Segment, cross_entropy, losses
from optim import Optimizer
from tokenizer import Encoder

WARMUP = 80        # steps in which the rate rises
SHORT = 600        # steps with short conversations only
SHORT_LIMIT = 220  # tokens
LAST = 1 / 13      # share of the steps that make the last stretch; the next three are of those before it
FALL = 0.25        # share after which the rate falls
QUANTIZE = 0.8     # share after which the experts are seen through MXFP4
EASY = 0.25        # share after which only what is hard is learned
CHOICE = 3         # batches of which one is learned then
LAST_CHOICE = 6    # and in the last stretch, for what is wrong most rarely
LAST_RATE = 0.15   # rate, relative to its peak, from which it falls to nothing there
BALANCE = 0.01     # weight of the load balance loss
SIZES = ("hidden", "layers", "heads", "kv_heads", "head_dim", "inner", "experts", "top_k", "window")


def last_from(steps):
    """The step with which the last stretch begins."""
    return steps - round(LAST * steps)


def factor(step, steps):
    """Learning rate of a step relative to its peak."""
    last = last_from(steps)
    if step < WARMUP:
        return step / WARMUP
    if step >= last:
        return LAST_RATE * (steps - step) / (steps - last)
    return min(1, 0.02 + 0.98 * (1 - step / last) / (1 - FALL))


class Stream:
    """Batches as a pure function of the seed; its place is a group number."""

    def __init__(self, seed, encoder, size, start=0):
        self.seed, self.encoder, self.size, self.next = seed, encoder, size, start

    def groups(self):
        while True:
            g = next(data.groups(self.seed, "train", self.next))
            self.next += 1
            yield g

    def batch(self, limit):
        return pack.batch(self.groups(), self.encoder, self.size, limit)

    @torch.no_grad()
    def hard_batch(self, limit, model, choice):
        """Of that many batches what the model finds hardest. Nothing in the data is wrong or
        left to chance, so what is hard is what is not learned yet."""
        taken = pack.take(self.groups(), self.encoder, choice * self.size, limit)
        ids, segments, at, target = pack.lay(taken)
        logits, _ = model(ids, segments, at)
        return pack.lay(pack.hardest(taken, losses(logits, target).tolist(), self.size))


@torch.no_grad()
def heldout(model, encoder, seed, per_ability):
    """{ability: share of held-out turns that greedy decoding gets right to the
    last token}: every argmax along the wanted text must be the wanted token."""
    right, count = {}, {}
    for prompt, b in data.items(seed, per_ability):
        given, want = encoder(prompt), encoder(branch_text(b)[1])
        ids = torch.tensor(given + want[:-1])
        logits, _ = model(ids, [Segment(0, len(ids))], torch.arange(len(given) - 1, len(ids)))
        count[b.ability] = count.get(b.ability, 0) + 1
        right[b.ability] = right.get(b.ability, 0) + bool((logits.argmax(-1) == torch.tensor(want)).all())
    return {k: round(right[k] / count[k], 4) for k in count}


def save(path, **state):
    """An interruption leaves the old file or the new one."""
    torch.save(state, str(path) + ".new")
    os.replace(str(path) + ".new", path)


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--dir", type=pathlib.Path, required=True, help="has tokenizer.json; gets state.pt and log.jsonl")
    p.add_argument("--steps", type=int, default=8450)
    p.add_argument("--size", type=int, default=4096, help="tokens in a batch, about")
    p.add_argument("--longest", type=int, default=1024, help="tokens in a conversation; longer ones are left out")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--half", action=argparse.BooleanOptionalAction, default=True, help="multiply in bfloat16: faster on processors that have it")
    p.add_argument("--fast", action=argparse.BooleanOptionalAction, default=True, help="use fast.cpp where it can be compiled; its attention is in bfloat16, too")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--muon-rate", type=float, default=0.004)
    p.add_argument("--adam-rate", type=float, default=5e-4)
    p.add_argument("--log-every", type=int, default=20, help="steps")
    p.add_argument("--check-every", type=int, default=2500, help="steps between held-out checks")
    p.add_argument("--check-items", type=int, default=40, help="per ability")
    p.add_argument("--save-every", type=float, default=300, help="seconds")
    p.add_argument("--stop-at", type=int, default=0, help="step after which to end; training goes on at the next start, perhaps with other rates")
    for f in dataclasses.fields(Config):
        if f.name in SIZES:
            p.add_argument("--" + f.name.replace("_", "-"), type=int, default=f.default)
    return p.parse_args()


def main():
    o = options()
    if o.fast:
        fast.keep_memory()
    else:
        fast.LIBRARY = None
    torch.manual_seed(o.seed)
    torch.set_num_threads(o.threads)
    encoder = Encoder(o.dir / "tokenizer.json")
    copied.PIECES = encoder.pieces()
    model = Model(Config(vocab=encoder.tokenizer.get_vocab_size(), **{name: getattr(o, name) for name in SIZES}), encoder.lower_case())
    optimizer = Optimizer(model, o.muon_rate, o.adam_rate)
    state_file, step, start = o.dir / "state.pt", 0, 0
    if state_file.exists():
        state = torch.load(state_file, weights_only=True)
        if state["config"] != model.c.to_dict():
            raise SystemExit(f"{state_file} holds a model of other sizes: {state['config']}; remove it or give the same sizes")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, start = state["step"], state["next"]
    model.set_half(o.half)
    stream = Stream(o.seed, encoder, o.size, start)
    log = open(o.dir / "log.jsonl", "a", encoding="utf-8")

    def note(**entry):
        print(json.dumps(entry), file=log, flush=True)
        print(json.dumps(entry), flush=True)

    def keep():
        save(state_file, config=model.c.to_dict(), model=model.state_dict(), optimizer=optimizer.state_dict(), step=step, next=stream.next)

    began = saved = mark = time.monotonic()
    total = balance = tokens = 0
    note(parameters=sum(p.numel() for p in model.parameters()), step=step, steps=o.steps)
    last, stopped = last_from(o.steps), []
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, lambda *_: stopped.append(True))
    while step < (o.stop_at or o.steps) and not stopped:
        model.set_quantized(step >= QUANTIZE * last)
        limit = SHORT_LIMIT if step < SHORT else o.longest
        if step < EASY * last:
            ids, segments, at, target = stream.batch(limit)
        else:
            ids, segments, at, target = stream.hard_batch(limit, model, CHOICE if step < last else LAST_CHOICE)
        logits, b = model(ids, segments, at)
        loss = cross_entropy(logits, target)
        (loss + BALANCE * b).backward()
        optimizer.step(factor(step, o.steps))
        step += 1
        total, balance, tokens = total + loss.item(), balance + b.item(), tokens + ids.numel()
        now = time.monotonic()
        if step % o.log_every == 0:
            note(step=step, loss=round(total / o.log_every, 4), balance=round(balance / o.log_every, 3), tokens_per_s=round(tokens / (now - mark)), seconds=round(now - began))
            total = balance = tokens = 0
            mark = now
        if step % o.check_every == 0 or step == o.steps:
            note(step=step, heldout=heldout(model, encoder, o.seed, o.check_items))
            mark = time.monotonic()
        if now - saved > o.save_every:
            keep()
            saved = now
    keep()
    if stopped:
        raise SystemExit(f"stopped after step {step} of {o.steps}; the same command goes on")


if __name__ == "__main__":
    main()
