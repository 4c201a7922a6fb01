"""Writes logits.golden: what transformers makes of the tiny models, in float64.

    go test ./internal/model/modeltest -run Transformers -dump /tmp/tiny
    python internal/model/modeltest/testdata/logits.py /tmp/tiny > internal/model/modeltest/testdata/logits.golden
"""

import json
import sys

import torch
import transformers as hf

torch.set_default_dtype(torch.float64)
POSITIONS = [0, 1, 7, 8, 33, 59]
COMMON = dict(vocab_size=199, hidden_size=96, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
              max_position_embeddings=512, attn_implementation="eager", experts_implementation="eager")
PLAIN = dict(rope_type="default", rope_theta=10000.0)


def load(name):
    with open(f"{sys.argv[1]}/{name}.json") as f:
        d = json.load(f)
    return d["ids"], {k: torch.tensor(v["data"]).reshape(v["shape"]) for k, v in d["params"].items()}


def state(p, layers, experts):
    s = {"model.embed_tokens.weight": p["embed"], "model.norm.weight": p["norm"], "lm_head.weight": p.get("head", p["embed"])}
    for i in range(layers):
        a, b = f"layers.{i}.", f"model.layers.{i}."
        s[b + "input_layernorm.weight"] = p[a + "attn_norm"]
        s[b + "post_attention_layernorm.weight"] = p[a + "ffn_norm"]
        for x in "qkvo":
            s[b + f"self_attn.{x}_proj.weight"] = p[a + x]
            if a + x + "_bias" in p:
                s[b + f"self_attn.{x}_proj.bias"] = p[a + x + "_bias"]
        for ours, theirs in ("q_norm", "q_norm.weight"), ("k_norm", "k_norm.weight"), ("sinks", "sinks"):
            if a + ours in p:
                s[b + "self_attn." + theirs] = p[a + ours]
        if a + "router" in p:
            experts(s, p, a, b + "mlp.")
        else:
            s[b + "mlp.gate_proj.weight"], s[b + "mlp.up_proj.weight"] = p[a + "up"][0::2], p[a + "up"][1::2]
            s[b + "mlp.down_proj.weight"] = p[a + "down"]
    return s


def qwen_experts(s, p, a, b):
    s[b + "gate.weight"] = p[a + "router"]
    s[b + "experts.gate_up_proj"] = torch.cat([p[a + "up"][:, 0::2], p[a + "up"][:, 1::2]], 1)
    s[b + "experts.down_proj"] = p[a + "down"]


def gptoss_experts(s, p, a, b):
    s[b + "router.weight"], s[b + "router.bias"] = p[a + "router"], p[a + "router_bias"]
    for ours, theirs in ("up", "gate_up_proj"), ("down", "down_proj"):
        s[b + "experts." + theirs] = p[a + ours].transpose(1, 2).contiguous()
        s[b + f"experts.{theirs}_bias"] = p[a + ours + "_bias"]


def show(name, model, layers, experts=None):
    ids, p = load(name)
    s = state(p, layers, experts)
    assert set(s) == set(model.state_dict()), set(s) ^ set(model.state_dict())
    model.load_state_dict(s)
    with torch.no_grad():
        logits = model.double().eval()(torch.tensor([ids])).logits[0]
    for i in POSITIONS:
        print(name, i, *(f"{v:.7g}" for v in logits[i].tolist()[:10]))


def moe(dense, renorm):
    return hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(
        intermediate_size=320, moe_intermediate_size=160, num_experts=8, num_experts_per_tok=3, norm_topk_prob=renorm,
        num_hidden_layers=2, rms_norm_eps=1e-6, mlp_only_layers=dense, decoder_sparse_step=1, rope_parameters=PLAIN, **COMMON))


def llama(tied, rope):
    return hf.LlamaForCausalLM(hf.LlamaConfig(
        intermediate_size=160, num_hidden_layers=2, rms_norm_eps=1e-5, tie_word_embeddings=tied, rope_parameters=rope, **COMMON))


print(f"# Made by logits.py with transformers {hf.__version__} and torch {torch.__version__.split('+')[0]} in float64.")
print("# Model, position, logits of ids 0 to 9.")
show("gptoss", hf.GptOssForCausalLM(hf.GptOssConfig(
    intermediate_size=160, num_local_experts=8, num_experts_per_tok=4, num_hidden_layers=4, sliding_window=8,
    layer_types=["sliding_attention", "full_attention"] * 2, rms_norm_eps=1e-5, tie_word_embeddings=False,
    rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, original_max_position_embeddings=4096,
                         beta_fast=32.0, beta_slow=1.0, truncate=False), **COMMON)), 4, gptoss_experts)
show("qwen3", hf.Qwen3ForCausalLM(hf.Qwen3Config(
    intermediate_size=160, num_hidden_layers=2, rms_norm_eps=1e-6, tie_word_embeddings=True, rope_parameters=PLAIN, **COMMON)), 2)
show("qwen3moe", moe([0], True), 2, qwen_experts)
show("qwen3moe_no_renorm", moe([], False), 2, qwen_experts)
show("llama", llama(False, PLAIN), 2)
show("llama3", llama(True, dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=32,
                                low_freq_factor=1.0, high_freq_factor=4.0)), 2)
