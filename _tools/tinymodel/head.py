"""Trains an EAGLE3 head on ossian-tiny, the model inside the program, for tests of acceptance.

    python _tools/tinymodel/head.py OUT

It reads the model's last state and shares its embedding and output matrix, so that its file is
small. It learns what the model would say in the conversations that the model was trained on. Needs
requirements.txt, transformers and safetensors; takes some minutes on one core. What comes out
depends on versions and machines: a test holds the acceptance of the file that is committed.
"""
import json
import math
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

from data import groups
from harmony import branch_text, prompt_text

ROOT = pathlib.Path(__file__).resolve().parents[2]
HIDDEN, HEADS, KV, DIM, INNER, EPS, THETA = 192, 2, 1, 32, 48, 1e-5, 10000.0
LENGTH, CONVERSATIONS, BATCH, STEPS, AHEAD = 224, 700, 12, 900, 3


def rms(x, weight):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS) * weight


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        matrix = lambda out, inner, scale=1.0: torch.nn.Parameter(torch.randn(out, inner) * scale / math.sqrt(inner))
        ones = lambda: torch.nn.Parameter(torch.ones(HIDDEN))
        self.input_layernorm, self.hidden_norm, self.post_attention_layernorm, self.norm = ones(), ones(), ones(), ones()
        self.q, self.k, self.v = matrix(HEADS * DIM, 2 * HIDDEN), matrix(KV * DIM, 2 * HIDDEN), matrix(KV * DIM, 2 * HIDDEN)
        self.o, self.gate, self.up, self.down = matrix(HIDDEN, HEADS * DIM, 0.1), matrix(INNER, HIDDEN), matrix(INNER, HIDDEN), matrix(HIDDEN, INNER, 0.1)

    def rotate(self, x):
        half = DIM // 2
        angle = torch.arange(x.shape[1])[:, None] * THETA ** (-torch.arange(half) / half)
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, state, embedded):
        n, length, _ = state.shape
        both = torch.cat([rms(embedded, self.input_layernorm), rms(state, self.hidden_norm)], -1)
        q = self.rotate((both @ self.q.T).view(n, length, HEADS, DIM)).transpose(1, 2)
        k = self.rotate((both @ self.k.T).view(n, length, KV, DIM)).transpose(1, 2).repeat_interleave(HEADS // KV, 1)
        v = (both @ self.v.T).view(n, length, KV, DIM).transpose(1, 2).repeat_interleave(HEADS // KV, 1)
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, length, -1)
        h = state + seen @ self.o.T
        x = rms(h, self.post_attention_layernorm)
        return h + (torch.nn.functional.silu(x @ self.gate.T) * (x @ self.up.T)) @ self.down.T

    def tensors(self):
        own = {"midlayer.input_layernorm": self.input_layernorm, "midlayer.hidden_norm": self.hidden_norm,
               "midlayer.post_attention_layernorm": self.post_attention_layernorm, "norm": self.norm,
               "midlayer.self_attn.q_proj": self.q, "midlayer.self_attn.k_proj": self.k, "midlayer.self_attn.v_proj": self.v,
               "midlayer.self_attn.o_proj": self.o, "midlayer.mlp.gate_proj": self.gate, "midlayer.mlp.up_proj": self.up, "midlayer.mlp.down_proj": self.down}
        return {f"{name}.weight": t.detach().to(torch.bfloat16).contiguous() for name, t in own.items()}


def texts(tokenizer):
    """Conversations of at most LENGTH ids, filled up with 0, and which of these the model says."""
    rows, says = [], []
    encode = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]
    branches = ((group, branch) for group in groups(7, "train") for branch in group.branches)
    for group, branch in branches:
        given, produced = branch_text(branch)
        before, after = encode(prompt_text(group) + given), encode(produced)
        fill = LENGTH - len(before) - len(after)
        if fill >= 0:
            rows.append(before + after + [0] * fill)
            says.append([False] * len(before) + [True] * len(after) + [False] * fill)
        if len(rows) == CONVERSATIONS:
            return torch.tensor(rows), torch.tensor(says)


def main():
    out = pathlib.Path(sys.argv[1])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    source = ROOT / "internal/tiny/ossian-tiny"
    target = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, attn_implementation="eager",
                                                               quantization_config=transformers.Mxfp4Config(dequantize=True)).eval()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(source / "tokenizer.json"))
    embed, matrix = target.get_input_embeddings().weight.detach(), target.get_output_embeddings().weight.detach()
    with torch.no_grad():
        rows, says = texts(tokenizer)
        states = []
        for part in rows.split(40):
            states.append(target.model(part).last_hidden_state.to(torch.bfloat16))
            print("read", len(states) * 40, "of", len(rows), flush=True)
        states = torch.cat(states)
    head = Head()
    best = torch.optim.AdamW(head.parameters(), lr=2e-3, weight_decay=0.01)
    plan = torch.optim.lr_scheduler.OneCycleLR(best, 3e-3, STEPS)
    for step in range(STEPS):
        pick = torch.randint(len(rows), (BATCH,))
        ids, state, said = rows[pick], states[pick].float(), says[pick]
        made, loss, right = state[:, :LENGTH - 2], 0, []
        for ahead in range(AHEAD):  # the head's own states, as when it goes on alone
            made = head(made if ahead == 0 else made[:, :-1], embed[ids[:, 1 + ahead:LENGTH - 1]])
            counts = said[:, 2 + ahead:]  # the ids to be guessed, by what the target makes of those before
            guessed, want = rms(made, head.norm)[counts] @ matrix.T, state[:, 1 + ahead:LENGTH - 1][counts] @ matrix.T
            loss = loss + 0.8 ** ahead * torch.nn.functional.kl_div(guessed.log_softmax(-1), want.log_softmax(-1), log_target=True, reduction="batchmean")
            right.append((guessed.argmax(-1) == want.argmax(-1)).float().mean().item())
        best.zero_grad()
        loss.backward()
        best.step()
        plan.step()
        if step % 50 == 0:
            print(step, round(loss.item(), 3), [round(r, 3) for r in right], flush=True)
    out.mkdir(parents=True, exist_ok=True)
    save_file(head.tensors(), out / "model.safetensors")
    config = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_attention_heads": HEADS,
              "num_key_value_heads": KV, "head_dim": DIM, "num_hidden_layers": 1, "rms_norm_eps": EPS, "rope_theta": THETA, "max_position_embeddings": 4096,
              "vocab_size": len(embed), "torch_dtype": "bfloat16", "eagle_config": {"use_aux_hidden_state": False}}
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")


if __name__ == "__main__":
    main()
