"""Writes a trained state as a Hugging Face checkpoint and, with --check, proves
that transformers and the training model agree on it."""
import argparse
import json
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file

import data
import mxfp4
from harmony import branch_text
from model import Config, Model, Segment
from tokenizer import Encoder

HERE = pathlib.Path(__file__).resolve().parent
ATTENTION = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj"}


def tensors(model):
    """The tensors of models.md 1.4."""
    out = {"model.embed_tokens.weight": model.embed(), "model.norm.weight": model.norm, "lm_head.weight": model.head()}
    for i, layer in enumerate(model.layers):
        p = f"model.layers.{i}."
        out[p + "input_layernorm.weight"], out[p + "post_attention_layernorm.weight"] = layer.attn_norm, layer.ffn_norm
        for short, long in ATTENTION.items():
            linear = getattr(layer.attention, short)
            out[p + f"self_attn.{long}.weight"], out[p + f"self_attn.{long}.bias"] = linear.weight, linear.bias
        e = layer.experts
        out[p + "self_attn.sinks"] = layer.attention.sinks
        out[p + "mlp.router.weight"], out[p + "mlp.router.bias"] = e.router.weight, e.router.bias
        out[p + "mlp.experts.gate_up_proj_bias"], out[p + "mlp.experts.down_proj_bias"] = e.up_bias, e.down_bias
        for name, w in (("gate_up_proj", e.up), ("down_proj", e.down)):
            out[p + f"mlp.experts.{name}_blocks"], out[p + f"mlp.experts.{name}_scales"] = mxfp4.quantize(w)
    return {k: (v if v.dtype == torch.uint8 else v.detach().to(torch.bfloat16)).contiguous() for k, v in out.items()}


def stored(config, tensors):
    """The training model with exactly the stored values, in float32."""
    model = Model(config)
    with torch.no_grad():
        get = lambda name: tensors[name].float()
        model.embed.rows.copy_(get("model.embed_tokens.weight"))
        model.norm.copy_(get("model.norm.weight"))
        model.head.rows.copy_(get("lm_head.weight"))
        for i, layer in enumerate(model.layers):
            p, e = f"model.layers.{i}.", layer.experts
            layer.attn_norm.copy_(get(p + "input_layernorm.weight"))
            layer.ffn_norm.copy_(get(p + "post_attention_layernorm.weight"))
            for short, long in ATTENTION.items():
                linear = getattr(layer.attention, short)
                linear.weight.copy_(get(p + f"self_attn.{long}.weight"))
                linear.bias.copy_(get(p + f"self_attn.{long}.bias"))
            layer.attention.sinks.copy_(get(p + "self_attn.sinks"))
            e.router.weight.copy_(get(p + "mlp.router.weight"))
            e.router.bias.copy_(get(p + "mlp.router.bias"))
            e.up_bias.copy_(get(p + "mlp.experts.gate_up_proj_bias"))
            e.down_bias.copy_(get(p + "mlp.experts.down_proj_bias"))
            for name, w in (("gate_up_proj", e.up), ("down_proj", e.down)):
                w.copy_(mxfp4.dequantize(tensors[p + f"mlp.experts.{name}_blocks"], tensors[p + f"mlp.experts.{name}_scales"]))
    return model.eval()


def write(model, source, out):
    """source has tokenizer.json; out becomes the checkpoint."""
    out.mkdir(parents=True, exist_ok=True)
    encoder = Encoder(source / "tokenizer.json")
    save_file(tensors(model), out / "model.safetensors", metadata={"format": "pt"})
    if source != out:
        shutil.copy(source / "tokenizer.json", out)
    shutil.copy(HERE / "chat_template.jinja", out)
    c = encoder.control
    files = {
        "config.json": model.c.hugging_face(c),
        # Greedy: the model is too small for draws to help.
        "generation_config.json": {"bos_token_id": c["<|startoftext|>"], "eos_token_id": [c["<|return|>"], c["<|endoftext|>"], c["<|call|>"]],
                                   "pad_token_id": c["<|endoftext|>"], "do_sample": False},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|startoftext|>", "eos_token": "<|return|>",
                                  "pad_token": "<|endoftext|>", "model_max_length": model.c.max_len},
    }
    (out / "model.safetensors").chmod(0o644)  # the library makes it private
    for name, value in files.items():
        (out / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    return sum(f.stat().st_size for f in out.iterdir() if f.name in files or f.suffix in (".safetensors", ".jinja") or f.name == "tokenizer.json")


def sample_ids(encoder, tokens):
    """A few held-out conversations in a row, at most tokens ids."""
    ids = []
    for prompt, b in data.items(3, 1):
        ids += encoder(prompt + branch_text(b)[1])
    return (ids * (tokens // len(ids) + 1))[:tokens]


def write_golden(path, ids, logits, every):
    """Logits of the training model for the Go tests: every so many positions."""
    at = sorted({0, 1, 2, 127, 128, 129, *range(every - 1, len(ids), every), len(ids) - 1})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps({"origin": "_tools/tinymodel/export.py", "vocab": logits.shape[1], "positions": at, "ids": ids}) + "\n", encoding="utf-8")
    path.with_suffix(".f32").write_bytes(logits[at].numpy().astype("<f4").tobytes())


def follow(model, wanted, top_k):
    """From now on the routers of the model choose the experts that another one has chosen for
    the same tokens: wanted has its router logits, [token, expert] of each layer. Returns a list
    that gets, for each choice that would have been another one, the lead it would have had.
    A choice between experts that are level to the last bits of a float32 is a matter of the
    order of sums (models.md 5.2), but all that comes after it looks different."""
    leads = []

    def led(want):
        def choose(_, given, out):
            best, theirs = out.topk(top_k + 1, -1), want.topk(top_k, -1)
            differs = (best.indices[:, :top_k].sort(-1).values != theirs.indices.sort(-1).values).any(-1)
            leads.extend((best.values[differs, top_k - 1] - best.values[differs, top_k]).tolist())
            return torch.where(differs.unsqueeze(-1), want, out)
        return choose

    routers = [part for name, part in model.named_modules() if name.endswith(".router")]
    for router, want in zip(routers, wanted, strict=True):
        router.register_forward_hook(led(want))
    return leads


@torch.no_grad()
def check(config, directory, tokens, golden=None, small=None):
    """(Relative L2 distance between the logits of the training model and of transformers,
    both in float32 on the stored weights and with the experts that transformers chose; what
    follow returns). golden: a file for the logits of the training model, read by the Go
    comparison; small: the stem of two files for some of them, read by the Go tests."""
    import transformers
    ids = sample_ids(Encoder(directory / "tokenizer.json"), tokens)
    model = stored(config, load_file(directory / "model.safetensors"))
    run = lambda: model(torch.tensor(ids), [Segment(0, len(ids))])[0]
    if golden or small:
        ours = run()
    if golden:
        golden.write_bytes(json.dumps({"vocab": config.vocab, "ids": ids}).encode() + b"\n" + ours.numpy().astype("<f4").tobytes())
    if small:
        write_golden(small, ids, ours, 100)
    other = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", quantization_config=transformers.Mxfp4Config(dequantize=True))
    theirs = other(torch.tensor([ids]), output_router_logits=True)
    leads = follow(model, [r.reshape(len(ids), -1) for r in theirs.router_logits], config.top_k)
    far = (run() - theirs.logits[0]).norm() / theirs.logits[0].norm()
    return far.item(), leads


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--dir", type=pathlib.Path, required=True, help="has state.pt and tokenizer.json")
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--check", type=int, default=0, metavar="TOKENS", help="compare that many tokens with transformers and write OUT.logits for the Go comparison")
    p.add_argument("--golden", type=pathlib.Path, metavar="STEM", help="with --check: write STEM.json and STEM.f32 for the Go tests")
    o = p.parse_args()
    state = torch.load(o.dir / "state.pt", weights_only=True)
    config = Config(**state["config"])
    model = Model(config, Encoder(o.dir / "tokenizer.json").lower_case())
    model.load_state_dict(state["model"])
    size = write(model, o.dir, o.out)
    print(f"{o.out}: {size} bytes, step {state['step']}")
    if o.check:
        far, leads = check(config, o.out, o.check, pathlib.Path(str(o.out) + ".logits"), o.golden)
        print(f"logits of {o.check} tokens: relative L2 distance to transformers {far:.2g}; {len(leads)} choices of experts that were level were taken over")
        if far > 1e-4 or max(leads, default=0) > 1e-5:
            raise SystemExit(f"more than 1e-4 (models.md 5.2), or other experts by more than 1e-5 of a router's logit: {leads}")


if __name__ == "__main__":
    main()
