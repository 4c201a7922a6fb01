"""Write golden log probabilities of small EAGLE3 heads; see README.md.

A head is computed in plain torch, float32, from the published description of its architecture
(EAGLE-3, arXiv 2503.01840, and the configurations of published heads); the hidden states that it
reads are those of transformers. Its weights are numbers that anybody can make: value() below.
"""
import json
import math
import pathlib
import platform
import subprocess
import tempfile
import zlib

import numpy as np
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "internal/ckpt/eagle/eagletest/testdata"
PRESET, SEED, LENGTH, GUESSES = "qwen3-tiny", 1, 60, 4
POSITIONS = [0, 1, 14, 15, 16, 17, 40, LENGTH - 1]


def values(name, shape, mean, width):
    """Numbers between mean - width and mean + width, by a hash of name and place."""
    h = np.arange(math.prod(shape), dtype=np.uint64) * 2654435761 + zlib.crc32(name.encode())
    mask = np.uint64(0xffffffff)
    h &= mask
    h ^= h >> np.uint64(15)
    h = h * np.uint64(2246822519) & mask
    h ^= h >> np.uint64(13)
    h = h * np.uint64(3266489917) & mask
    h ^= h >> np.uint64(16)
    return torch.tensor((mean + width * (h.astype(np.float64) / 2**31 - 1)).astype(np.float32).reshape(shape))


def matrix(name, out, inner, times=1.0):
    return values(name, (out, inner), 0, times * 1.7 / math.sqrt(inner))


def norm_weight(name, n):
    return values(name, (n,), 1, 0.3)


def rms(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


class Head:
    def __init__(self, case, target):
        flat = dict(case["config"], **case["config"].get("eagle_config", {}))
        layer = case["config"].get("transformer_layer_config", flat)
        self.flags, self.target = flat, target
        self.eps, self.theta = layer["rms_norm_eps"], layer["rope_theta"]
        self.hidden, self.dim = layer["hidden_size"], layer["head_dim"]
        self.heads, self.kv = layer["num_attention_heads"], layer["num_key_value_heads"]
        vocab, wide = layer["vocab_size"], target.config.hidden_size
        self.out = flat.get("draft_vocab_size") or vocab
        self.layers = [i + case["offset"] for i in sorted(flat.get("eagle_aux_hidden_state_layer_ids", []))]
        n = max(len(self.layers), 1)
        m = lambda name, out, inner: matrix(name, out, inner)
        self.attn_norm, self.hidden_norm = norm_weight("input_layernorm", self.hidden), norm_weight("hidden_norm", self.hidden)
        self.ffn_norm, self.norm = norm_weight("post_attention_layernorm", self.hidden), norm_weight("norm", self.hidden)
        self.q, self.k = m("self_attn.q_proj", self.heads * self.dim, 2 * self.hidden), m("self_attn.k_proj", self.kv * self.dim, 2 * self.hidden)
        self.v, self.o = m("self_attn.v_proj", self.kv * self.dim, 2 * self.hidden), m("self_attn.o_proj", self.hidden, self.heads * self.dim)
        inner = layer["intermediate_size"]
        self.gate, self.up, self.down = m("mlp.gate_proj", inner, self.hidden), m("mlp.up_proj", inner, self.hidden), m("mlp.down_proj", self.hidden, inner)
        self.fc = m("fc", self.hidden, n * wide) if self.layers else None
        self.input_norm = norm_weight("input_norm", n * wide) if flat.get("norm_before_fc") else None
        self.fc_norm = [norm_weight(f"fc_norm.{i}", wide) for i in range(n)] if flat.get("fc_norm") else None
        embeddings = target.get_input_embeddings().weight
        self.embed = values("embed_tokens", (vocab, self.hidden), 0, 0.5) if case["embed"] else embeddings
        self.head = matrix("lm_head", self.out, self.hidden, 3) if case["head"] else target.get_output_embeddings().weight
        self.ids = torch.arange(self.out) * 3 + 1 if case["ids"] else torch.arange(self.out)

    def features(self, states, last):
        """states[b] is the residual stream after b layers, last the normalised state after all."""
        if not self.layers:
            return last
        parts = [states[b] for b in self.layers]
        if self.fc_norm:
            parts = [rms(x, w, self.eps) for x, w in zip(parts, self.fc_norm)]
        x = torch.cat(parts, -1)
        if self.input_norm is not None:
            x = rms(x, self.input_norm, self.eps)
        return x @ self.fc.T

    def rotate(self, x):
        """x is [positions, heads, dim]; pairs are (i, i + dim/2)."""
        half = self.dim // 2
        angle = torch.arange(x.shape[0], dtype=torch.float64)[:, None] * self.theta ** (-torch.arange(half, dtype=torch.float64) / half)
        cos, sin = angle.cos().float()[:, None], angle.sin().float()[:, None]
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, state, tokens):
        """The whole sequence: log probabilities and what the next step reads, by position."""
        n = len(tokens)
        normed = rms(state, self.hidden_norm, self.eps)
        both = torch.cat([rms(self.embed[tokens], self.attn_norm, self.eps), normed], -1)
        residual = normed if self.flags.get("norm_before_residual") else state
        q = self.rotate((both @ self.q.T).view(n, self.heads, self.dim))
        k = self.rotate((both @ self.k.T).view(n, self.kv, self.dim)).repeat_interleave(self.heads // self.kv, 1)
        v = (both @ self.v.T).view(n, self.kv, self.dim).repeat_interleave(self.heads // self.kv, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(self.dim)
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -math.inf)
        seen = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(n, -1)
        h = residual + seen @ self.o.T
        x = rms(h, self.ffn_norm, self.eps)
        h = h + (torch.nn.functional.silu(x @ self.gate.T) * (x @ self.up.T)) @ self.down.T
        normed = rms(h, self.norm, self.eps)
        return (normed @ self.head.T).log_softmax(-1), normed if self.flags.get("norm_output") else h


def run(case, target, ids):
    states = []
    hooks = [target.model.layers[0].register_forward_pre_hook(lambda _, args: states.append(args[0][0]))]
    for layer in target.model.layers:
        hooks.append(layer.register_forward_hook(lambda _, __, out: states.append((out[0] if isinstance(out, tuple) else out).view(len(ids), -1))))
    found = []
    hooks.append(target.model.norm.register_forward_hook(lambda _, __, out: found.append(out[0])))
    logits = target(torch.tensor([ids])).logits[0]
    for hook in hooks:
        hook.remove()
    head = Head(case, target)
    state, tokens = head.features(states, found[0]), ids[1:] + [int(logits[-1].argmax())]
    rows, guesses = [], []
    for step in range(GUESSES):
        logprobs, made = head.forward(state, torch.tensor(tokens))
        rows += [logprobs[p] for p in POSITIONS] if step == 0 else [logprobs[-1]]
        guesses.append(int(head.ids[logprobs[-1].argmax()]))
        state, tokens = torch.cat([state, made[-1:]]), tokens + guesses[-1:]
    return rows, guesses, tokens[LENGTH - 1]


def main():
    with tempfile.TemporaryDirectory() as work, torch.no_grad():
        work = pathlib.Path(work)
        subprocess.run(["go", "build", "-o", work / "ossian", "./cmd/ossian"], cwd=ROOT, check=True)
        subprocess.run([work / "ossian", "synth", PRESET, work / "model", "--seed", str(SEED)], check=True)
        target = transformers.AutoModelForCausalLM.from_pretrained(work / "model", dtype=torch.float32, attn_implementation="eager")
        ids = np.random.default_rng(SEED).integers(0, target.config.vocab_size, LENGTH).tolist()
        cases = []
        for case in json.loads((OUT / "cases.json").read_text()):
            rows, guesses, drawn = run(case, target, ids)
            (OUT / f"{case['name']}.f32").write_bytes(torch.stack(rows).numpy().astype("<f4").tobytes())
            cases.append({"name": case["name"], "drawn": drawn, "guesses": guesses})
            print(cases[-1])
        manifest = {"origin": "_tools/reference/eagle.py: plain torch beside transformers, float32, CPU",
                    "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "python": platform.python_version()},
                    "preset": PRESET, "seed": SEED, "positions": POSITIONS, "ids": ids, "cases": cases}
        lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in manifest.items()]
        (OUT / "golden.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
