"""The gpt-oss architecture for training on a CPU; models.md 1.2 names every step."""
import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

import mxfp4


@dataclass(frozen=True)
class Config:
    vocab: int
    hidden: int = 192
    layers: int = 6
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 32
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


def norm(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
        self.q, self.k, self.v, self.o = nn.Linear(c.hidden, q), nn.Linear(c.hidden, kv), nn.Linear(c.hidden, kv), nn.Linear(q, c.hidden)
        self.sinks = nn.Parameter(torch.zeros(c.heads))

    def forward(self, x, cos, sin, mask):
        c, (b, n, _) = self.c, x.shape
        q = rotate(self.q(x).view(b, n, c.heads, c.head_dim), cos, sin)
        k = rotate(self.k(x).view(b, n, c.kv_heads, c.head_dim), cos, sin)
        v = self.v(x).view(b, n, c.kv_heads, c.head_dim)
        # The sink becomes an ordinary key of a longer head: one more component, 1
        # in every query and 0 in every key but the sink's, and a value of zeros.
        scale = c.head_dim ** -0.5
        group = c.heads // c.kv_heads
        q = F.pad(q, (0, 1), value=1.0).transpose(1, 2)
        k = F.pad(k.repeat_interleave(group, 2), (0, 1)).transpose(1, 2)
        sink = F.pad((self.sinks / scale).view(1, -1, 1, 1), (c.head_dim, 0)).expand(b, -1, -1, -1)
        v = F.pad(v.repeat_interleave(group, 2), (0, 1)).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, torch.cat([k, sink], 2), F.pad(v, (0, 0, 0, 1)), attn_mask=mask, scale=scale)
        return self.o(a[..., :-1].transpose(1, 2).reshape(b, n, -1))


def rotate(x, cos, sin):
    """x [batch, tokens, heads, dim], pairs (i, i+dim/2)."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Experts(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.quantized = c, False
        self.router = nn.Linear(c.hidden, c.experts)
        self.up = nn.Parameter(torch.randn(c.experts, 2 * c.inner, c.hidden) * c.hidden ** -0.5)  # rows gate0, up0, gate1, ...
        self.up_bias = nn.Parameter(torch.zeros(c.experts, 2 * c.inner))
        self.down = nn.Parameter(torch.randn(c.experts, c.hidden, c.inner) * c.inner ** -0.5)
        self.down_bias = nn.Parameter(torch.zeros(c.experts, c.hidden))

    def forward(self, x):
        """(output, load balance loss)"""
        c, shape = self.c, x.shape
        x = x.reshape(-1, c.hidden)
        logits = self.router(x)
        best, ids = logits.topk(c.top_k, -1)
        weights = best.softmax(-1)
        up, down = self.up, self.down
        if self.quantized:
            up, down = mxfp4.Straight.apply(up), mxfp4.Straight.apply(down)
        order = ids.flatten().argsort()
        counts = torch.bincount(ids.flatten(), minlength=c.experts)
        rows = order // c.top_k
        out = []
        # unbind, not indexing: the gradient of an index is a whole tensor of zeros.
        weighted = zip(x.index_select(0, rows).split(counts.tolist()), up.unbind(), self.up_bias.unbind(), down.unbind(), self.down_bias.unbind())
        for part, w1, b1, w2, b2 in weighted:
            gate, lift = F.linear(part, w1, b1).unflatten(1, (c.inner, 2)).unbind(2)
            gate, lift = gate.clamp(max=c.limit), lift.clamp(-c.limit, c.limit)
            out.append(F.linear(gate * torch.sigmoid(c.alpha * gate) * (lift + 1), w2, b2))
        y = torch.zeros_like(x).index_add(0, rows, torch.cat(out) * weights.flatten()[order].unsqueeze(1))
        share = counts.float() / counts.sum()
        return y.view(shape), c.experts * (share * logits.softmax(-1).mean(0)).sum()


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.eps = c.eps
        self.attn_norm, self.ffn_norm = nn.Parameter(torch.ones(c.hidden)), nn.Parameter(torch.ones(c.hidden))
        self.attention, self.experts = Attention(c), Experts(c)

    def forward(self, x, cos, sin, mask):
        x = x + self.attention(norm(x, self.attn_norm, self.eps), cos, sin, mask)
        y, balance = self.experts(norm(x, self.ffn_norm, self.eps))
        return x + y, balance


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embed = nn.Parameter(torch.randn(c.vocab, c.hidden) * 0.5)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.norm = nn.Parameter(torch.ones(c.hidden))
        self.head = nn.Parameter(torch.randn(c.vocab, c.hidden) * 0.02)
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
        for layer in self.layers:
            layer.experts.quantized = on

    def forward(self, ids, positions, allowed, at=None):
        """ids, positions [B, L]; allowed [B, L, L] says which earlier token a token
        may see. Returns (logits at the flat places at, or everywhere; balance loss)."""
        near = (positions.unsqueeze(2) - positions.unsqueeze(1)) < self.c.window
        masks = [additive(allowed & near), additive(allowed)]
        cos, sin = self.cos[positions].unsqueeze(2), self.sin[positions].unsqueeze(2)
        x, balance = F.embedding(ids, self.embed), 0.0
        for i, layer in enumerate(self.layers):
            x, b = layer(x, cos, sin, masks[0 if self.c.windowed(i) else 1])
            balance = balance + b
        x = x.flatten(0, 1)
        if at is not None:
            x = x.index_select(0, at)
        return F.linear(norm(x, self.norm, self.c.eps), self.head), balance / self.c.layers


def additive(allowed):
    """[B, 1, L, L+1]: 0 where attention is allowed and for the sink, else -inf."""
    mask = torch.zeros(allowed.shape).masked_fill_(~allowed, -math.inf)
    return F.pad(mask, (0, 1)).unsqueeze(1)


def causal(n):
    """positions and allowed of one plain sequence."""
    return torch.arange(n).unsqueeze(0), torch.ones(1, n, n, dtype=torch.bool).tril()
