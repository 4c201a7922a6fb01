"""The gpt-oss architecture for training on a CPU; models.md 1.2 names every step."""
import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

import fast
import mxfp4


@dataclass(frozen=True)
class Segment:
    """Tokens [start, end) of a flat batch, which see themselves and, before them,
    the prefix of that many tokens from prefix_start on."""
    start: int
    end: int
    prefix_start: int = 0
    prefix: int = 0

    @property
    def length(self):
        return self.end - self.start

    def within(self, window):
        """The segment without the part of its prefix that is window or more before it."""
        prefix = min(self.prefix, window - 1)
        return Segment(self.start, self.end, self.prefix_start + self.prefix - prefix, prefix)

    def fields(self):
        return self.start, self.end, self.prefix_start, self.prefix

    def keys(self, x, last):
        """What the segment sees of x [heads, N, dim], and last."""
        own = x[:, self.start:self.end]
        return torch.cat([x[:, self.prefix_start:self.prefix_start + self.prefix], own, last] if self.prefix else [own, last], 1)

    def add(self, x, gradient):
        """The reverse of keys; drops the last."""
        x[:, self.prefix_start:self.prefix_start + self.prefix] += gradient[:, :self.prefix]
        x[:, self.start:self.end] += gradient[:, self.prefix:-1]


@dataclass(frozen=True)
class Config:
    vocab: int
    hidden: int = 192
    layers: int = 8
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    inner: int = 192
    experts: int = 8
    top_k: int = 2
    window: int = 128
    eps: float = 1e-5
    rope_base: float = 150000.0
    yarn_factor: float = 4.0
    yarn_original: int = 1024
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    limit: float = 7.0
    alpha: float = 1.702

    def windowed(self, layer):
        return layer % 2 == 0

    @property
    def max_len(self):
        return int(self.yarn_factor * self.yarn_original)

    def hugging_face(self, control):
        """config.json; control maps names of control tokens to ids."""
        return {
            "model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "torch_dtype": "bfloat16",
            "hidden_act": "silu", "attention_bias": True, "tie_word_embeddings": False,
            "num_hidden_layers": self.layers, "hidden_size": self.hidden, "intermediate_size": self.inner,
            "vocab_size": self.vocab, "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim, "max_position_embeddings": self.max_len, "rms_norm_eps": self.eps,
            "num_local_experts": self.experts, "num_experts_per_tok": self.top_k, "experts_per_token": self.top_k,
            "layer_types": ["sliding_attention" if self.windowed(i) else "full_attention" for i in range(self.layers)],
            "sliding_window": self.window, "swiglu_limit": self.limit, "rope_theta": self.rope_base,
            "initial_context_length": self.yarn_original,
            "rope_scaling": {"rope_type": "yarn", "factor": self.yarn_factor, "original_max_position_embeddings": self.yarn_original,
                             "beta_fast": self.beta_fast, "beta_slow": self.beta_slow, "truncate": False},
            "bos_token_id": control["<|startoftext|>"], "eos_token_id": control["<|return|>"], "pad_token_id": control["<|endoftext|>"],
            "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": [
                "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]},
        }

    def to_dict(self):
        return asdict(self)


def frequencies(c):
    """(inverse frequencies, factor on cos and sin): models.md 1.3, bounds not rounded."""
    d, base = c.head_dim, c.rope_base
    bound = lambda turns: d * math.log(c.yarn_original / (turns * 2 * math.pi)) / (2 * math.log(base))
    low, high = max(bound(c.beta_fast), 0), min(bound(c.beta_slow), d - 1)
    i = torch.arange(d // 2, dtype=torch.float64)
    f = base ** (-2 * i / d)
    ramp = ((i - low) / (high - low)).clamp(0, 1)
    return f * (1 - ramp) + f / c.yarn_factor * ramp, 0.1 * math.log(c.yarn_factor) + 1


class Places:
    """Where the tokens of a flat batch stand: their segments, cos and sin [N, dim/2] of
    their positions."""

    def __init__(self, segments, cos, sin):
        positions = torch.cat([torch.arange(s.prefix, s.prefix + s.length) for s in segments])
        self.segments, self.cos, self.sin, self.masks = segments, cos[positions], sin[positions], {}
        self.table = torch.tensor([s.fields() for s in segments])

    def within(self, window):
        """(segments, mask) for TreeAttention."""
        if window not in self.masks:
            place = torch.arange(max(s.prefix + s.length for s in self.segments))
            distance = place.unsqueeze(1) - place
            mask = torch.zeros(distance.shape).masked_fill_((distance < 0) | (distance >= window), -math.inf)
            self.masks[window] = [s.within(window) for s in self.segments], mask
        return self.masks[window]


def norm(x, weight, eps):
    if fast.LIBRARY and x.shape[-1] % 16 == 0:
        return fast.Norm.apply(x, weight, eps)
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


class TreeAttention(torch.autograd.Function):
    """Softmax attention with sinks over the segments of a flat batch. Forward and
    backward are written out, for a segment's few keys fit into the cache where a
    mask over the whole batch would not. Each sink is one more key, whose score is
    the sink and whose value is zero."""

    @staticmethod
    def forward(ctx, q, k, v, sinks, segments, mask):
        """q [N, heads, dim], already scaled; k, v [N, kv_heads, dim]; sinks [heads];
        mask [L, L], 0 or -inf at [position, position seen]."""
        (n, heads, dim), kv = q.shape, k.shape[1]
        q = q.reshape(n, kv, heads // kv, dim).permute(1, 2, 0, 3).contiguous()
        k, v = k.transpose(0, 1).contiguous(), v.transpose(0, 1).contiguous()
        column, zero = sinks.view(kv, -1, 1), k.new_zeros(kv, 1, dim)
        out, kept = torch.empty_like(q), []
        for s in segments:
            keys, values, queries = s.keys(k, zero), s.keys(v, zero), q[:, :, s.start:s.end].flatten(1, 2)
            scores = torch.bmm(queries, keys.mT).unflatten(1, (heads // kv, -1))
            scores[..., :-1] += mask[s.prefix:s.prefix + s.length, :s.prefix + s.length]
            scores[..., -1] = column
            p = scores.softmax(-1)
            out[:, :, s.start:s.end] = torch.bmm(p.flatten(1, 2), values).unflatten(1, (heads // kv, -1))
            kept.append(p)
        ctx.save_for_backward(q, k, v, zero, *kept)
        ctx.segments = segments
        return out.permute(2, 0, 1, 3).reshape(n, heads, dim)

    @staticmethod
    def backward(ctx, gradient):
        q, k, v, zero, *kept = ctx.saved_tensors
        kv, group, n, dim = q.shape
        gradient = gradient.reshape(n, kv, group, dim).permute(1, 2, 0, 3).contiguous()
        dq, dk, dv, dsinks = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v), q.new_zeros(kv, group)
        for s, p in zip(ctx.segments, kept):
            g = gradient[:, :, s.start:s.end].flatten(1, 2)
            s.add(dv, torch.bmm(p.flatten(1, 2).mT, g))
            dp = torch.bmm(g, s.keys(v, zero).mT).view_as(p)
            ds = torch._softmax_backward_data(dp, p, -1, p.dtype)
            dsinks += ds[..., -1].sum(-1)
            ds = ds.flatten(1, 2)
            dq[:, :, s.start:s.end] = torch.bmm(ds, s.keys(k, zero)).unflatten(1, (group, -1))
            s.add(dk, torch.bmm(ds.mT, q[:, :, s.start:s.end].flatten(1, 2)))
        return dq.permute(2, 0, 1, 3).reshape(n, kv * group, dim), dk.transpose(0, 1), dv.transpose(0, 1), dsinks.flatten(), None, None


class Half(torch.autograd.Function):
    """x w^T with the factors and the results in bfloat16, forward and backward."""

    @staticmethod
    def forward(ctx, x, w):
        x, w, n = half(x), w.bfloat16(), len(x)
        ctx.save_for_backward(x, w)
        return (x @ w.mT)[:n].float()

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        g = half(gradient)
        return (g @ w)[:len(gradient)].float(), (g.mT @ x).float()


def half(x):
    """x in bfloat16 with rows of zeros up to a multiple of 128: the library compiles
    a program for every shape it meets, which takes longer than to run it."""
    out = x.new_empty(-(-len(x) // 128) * 128, x.shape[1], dtype=torch.bfloat16)
    out[:len(x)] = x
    out[len(x):] = 0
    return out


def linear(x, w, b, in_half):
    if not in_half:
        return F.linear(x, w, b)
    if fast.LIBRARY and x.shape[1] % 16 == 0 and len(b) % 16 == 0:
        return fast.Linear.apply(x, w, b)
    return Half.apply(x, w) + b


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.half = c, False
        q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
        self.q, self.k, self.v, self.o = nn.Linear(c.hidden, q), nn.Linear(c.hidden, kv), nn.Linear(c.hidden, kv), nn.Linear(q, c.hidden)
        self.sinks = nn.Parameter(torch.zeros(c.heads))

    def forward(self, x, places, window):
        c, n, parts = self.c, x.shape[0], (self.q, self.k, self.v)
        all = linear(x, torch.cat([m.weight for m in parts]), torch.cat([m.bias for m in parts]), self.half)
        q, k, v = (y.view(n, -1, c.head_dim) for y in all.split([len(m.bias) for m in parts], -1))
        if self.half and fast.fits(c):
            y = fast.TreeAttention.apply(q, k, v, self.sinks, places.cos, places.sin, places.table, window)
        else:
            q, k = (rotate(y, places.cos.unsqueeze(1), places.sin.unsqueeze(1)) for y in (q, k))
            y = TreeAttention.apply(q * c.head_dim ** -0.5, k, v, self.sinks, *places.within(window))
        return linear(y.flatten(1), self.o.weight, self.o.bias, self.half)


def rotate(x, cos, sin):
    """x [tokens, heads, dim], pairs (i, i+dim/2)."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Experts(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.quantized, self.half = c, False, False
        self.router = nn.Linear(c.hidden, c.experts)
        self.up = nn.Parameter(torch.randn(c.experts, 2 * c.inner, c.hidden) * c.hidden ** -0.5)  # rows gate0, up0, gate1, ...
        self.up_bias = nn.Parameter(torch.zeros(c.experts, 2 * c.inner))
        self.down = nn.Parameter(torch.randn(c.experts, c.hidden, c.inner) * c.inner ** -0.5)
        self.down_bias = nn.Parameter(torch.zeros(c.experts, c.hidden))

    def forward(self, x):
        """(output, load balance loss)"""
        c = self.c
        logits = self.router(x)
        best, ids = logits.topk(c.top_k, -1)
        weights = best.softmax(-1)
        up, down = self.up, self.down
        if self.quantized:
            up, down = mxfp4.Straight.apply(up), mxfp4.Straight.apply(down)
        counts = torch.bincount(ids.flatten(), minlength=c.experts)
        mixed = fast.Experts.apply if self.half and fast.fits(c) else self.mixed
        y = mixed(x, ids, weights, up, self.up_bias, down, self.down_bias, c.alpha, c.limit)
        share = counts.float() / counts.sum()
        return y, c.experts * (share * logits.softmax(-1).mean(0)).sum()

    def mixed(self, x, ids, weights, up, up_bias, down, down_bias, alpha, limit):
        """As fast.Experts."""
        order = ids.flatten().argsort()
        counts = torch.bincount(ids.flatten(), minlength=len(up))
        rows = order // ids.shape[1]
        out = []
        # unbind, not indexing: the gradient of an index is a whole tensor of zeros.
        weighted = zip(x.index_select(0, rows).split(counts.tolist()), up.unbind(), up_bias.unbind(), down.unbind(), down_bias.unbind())
        for part, w1, b1, w2, b2 in weighted:
            gate, lift = linear(part, w1, b1, self.half).unflatten(1, (-1, 2)).unbind(2)
            gate, lift = gate.clamp(max=limit), lift.clamp(-limit, limit)
            out.append(linear(gate * torch.sigmoid(alpha * gate) * (lift + 1), w2, b2, self.half))
        return torch.zeros_like(x).index_add(0, rows, torch.cat(out) * weights.flatten()[order].unsqueeze(1))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.eps = c.eps
        self.attn_norm, self.ffn_norm = nn.Parameter(torch.ones(c.hidden)), nn.Parameter(torch.ones(c.hidden))
        self.attention, self.experts = Attention(c), Experts(c)

    def forward(self, x, places, window):
        x = x + self.attention(norm(x, self.attn_norm, self.eps), places, window)
        y, balance = self.experts(norm(x, self.ffn_norm, self.eps))
        return x + y, balance


class Table(nn.Module):
    """A row [hidden] for every token. lower: ids as Encoder.lower_case gives them. The row
    of a capitalised token is that of the lower-case one and what all of them have more: so
    Rename is known to be rename without having been seen. Without lower each has its own."""

    def __init__(self, c, std, lower=None):
        super().__init__()
        own = torch.arange(c.vocab)
        lower = own if lower is None else torch.tensor(lower)
        used, index = lower.unique(return_inverse=True)
        self.rows, self.capital = nn.Parameter(torch.randn(len(used), c.hidden) * std), nn.Parameter(torch.randn(c.hidden) * std)
        self.register_buffer("index", index, persistent=False)
        self.register_buffer("capitalised", (lower != own).float().unsqueeze(1), persistent=False)

    def forward(self):
        """[vocab, hidden]"""
        return F.embedding(self.index, self.rows) + self.capitalised * self.capital


class Model(nn.Module):
    def __init__(self, c, lower=None):
        super().__init__()
        self.c = c
        self.embed, self.head = Table(c, 0.5, lower), Table(c, 0.02, lower)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.norm = nn.Parameter(torch.ones(c.hidden))
        f, m = frequencies(c)
        angle = torch.arange(c.max_len, dtype=torch.float64).unsqueeze(1) * f
        self.register_buffer("cos", (angle.cos() * m).float(), persistent=False)
        self.register_buffer("sin", (angle.sin() * m).float(), persistent=False)
        for layer in self.layers:  # the residual stream starts as the embedding
            for w in (layer.attention.o.weight, layer.experts.down):
                nn.init.normal_(w, std=0.02 / math.sqrt(2 * c.layers))
        for name, p in self.named_parameters():
            if name.endswith(("q.bias", "k.bias", "v.bias", "o.bias", "router.bias")):
                nn.init.zeros_(p)

    def set_quantized(self, on):
        """Whether the experts are seen through MXFP4."""
        for layer in self.layers:
            layer.experts.quantized = on

    def set_half(self, on):
        """Whether the layers multiply in bfloat16: faster on processors that have it."""
        for layer in self.layers:
            layer.attention.half = layer.experts.half = on

    def forward(self, ids, segments, at=None):
        """ids [N]; segments cover them. Returns (logits at the places at, or
        everywhere; balance loss)."""
        places = Places(segments, self.cos, self.sin)
        x, balance = F.embedding(ids, self.embed()), 0.0
        for i, layer in enumerate(self.layers):
            x, b = layer(x, places, self.c.window if self.c.windowed(i) else self.c.max_len)
            balance = balance + b
        if at is not None:
            x = x.index_select(0, at)
        return F.linear(norm(x, self.norm, self.c.eps), self.head()), balance / self.c.layers


def cross_entropy(logits, target):
    """The mean over the rows of logits [N, vocab], which may be overwritten."""
    return fast.CrossEntropy.apply(logits, target) if fast.LIBRARY else F.cross_entropy(logits, target)


def losses(logits, target):
    """Of each row of logits [N, vocab], which may be overwritten; without gradients."""
    return fast.losses(logits, target) if fast.LIBRARY else F.cross_entropy(logits, target, reduction="none")
