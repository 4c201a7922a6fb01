"""Write golden logits of transformers for small synthetic checkpoints; see README.md."""
import hashlib
import json
import pathlib
import platform
import subprocess
import tempfile
from importlib.metadata import version

import gguf
import numpy as np
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "internal/ckpt/testdata/reference"
SEED = 1

# preset -> prompt length in tokens. Lengths go beyond the attention window (20 in
# gpt-oss-tiny) and beyond the original context of YaRN (1024, and 512 in
# qwen3-wide-tiny) and of Llama 3 scaling (512).
CASES = {
    "gpt-oss-tiny": 1300,
    "qwen3-tiny": 300,
    "qwen3-wide-tiny": 640,
    "qwen3moe-tiny": 300,
    "llama-tiny": 300,
    "llama3-tiny": 640,
    "llama-linear-tiny": 300,
}

# The preset that is also checked in every type that only GGUF has: the weights of
# the file, unpacked by gguf-py, in the transformers model.
TYPED = "qwen3-wide-tiny"
TYPES = ["q8_0", "q4_0", "q4_1", "q4_k", "q5_k", "q6_k", "mxfp4"]
NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def positions(n):
    """The beginning, both sides of window, block and context borders, and an even spread."""
    edges = [0, 1, 2, 3, 18, 19, 20, 21, 31, 32, 33, 63, 64, 65, 255, 256, 511, 512, 513, 1023, 1024, 1025, n - 1]
    return sorted({p for p in edges + list(range(0, n, n // 16)) if p < n})


def gguf_weights(path):
    weights = {}
    for t in gguf.GGUFReader(path).tensors:
        *layer, name, kind = t.name.split(".")
        prefix = f"model.layers.{layer[1]}." if layer else ""
        data = torch.tensor(gguf.quants.dequantize(t.data, t.tensor_type))
        weights[f"{prefix}{NAMES[name]}.{kind}"] = data.reshape(*(int(d) for d in reversed(t.shape)))
    return weights


def run(directory, ids, dtype, weights=None):
    quantized = "quantization_config" in json.loads((directory / "config.json").read_text())
    extra = {"quantization_config": transformers.Mxfp4Config(dequantize=True)} if quantized else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=dtype, attn_implementation="eager", **extra)
    if weights:
        model.load_state_dict(weights, strict=True)
    assert {p.dtype for p in model.parameters()} == {dtype}
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float().numpy()


def distance(truth, other):
    """Relative L2, mean KL(truth || other) in nats and argmax agreement over all positions."""
    def log_softmax(x):
        x = x.astype(np.float64)
        x = x - x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))
    p, q = log_softmax(truth), log_softmax(other)
    return {
        "relative_l2": float(np.linalg.norm(truth - other) / np.linalg.norm(truth)),
        "mean_kl": float((np.exp(p) * (p - q)).sum(-1).mean()),
        "argmax": float((truth.argmax(-1) == other.argmax(-1)).mean()),
    }


def synth(preset, out, *flags):
    subprocess.run([out.parent / "ossian", "synth", preset, out, "--seed", str(SEED), *flags], check=True)


def write(name, preset, weights, logits, at, ids, bf16=None):
    (OUT / f"{name}.f32").write_bytes(logits[at].astype("<f4").tobytes())
    manifest = {
        "origin": "_tools/reference/reference.py: transformers, eager attention, float32, CPU",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__,
                     "gguf": version("gguf"), "python": platform.python_version()},
        "preset": preset,
        "seed": SEED,
        "weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
        "vocab": logits.shape[1],
        "positions": at,
        "ids": ids,
    }
    if bf16 is not None:
        manifest["bfloat16"] = distance(logits, bf16)
        print(f"{name}: {len(ids)} tokens, {len(at)} positions; bfloat16 run: {manifest['bfloat16']}")
    lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in manifest.items()]
    (OUT / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def case(preset, length, work):
    directory = work / preset
    synth(preset, directory)
    vocab = json.loads((directory / "config.json").read_text())["vocab_size"]
    ids = np.random.default_rng(SEED).integers(0, vocab, length).tolist()
    write(preset, preset, directory / "model.safetensors", run(directory, ids, torch.float32), positions(length), ids,
          run(directory, ids, torch.bfloat16))
    if preset != TYPED:
        return
    for kind in TYPES:
        file = work / f"{preset}.{kind}.gguf"
        synth(preset, file, "--format", "gguf", "--type", kind)
        logits = run(directory, ids, torch.float32, gguf_weights(file))
        write(f"{preset}.{kind}", preset, file, logits, positions(length)[::3], ids)


def main():
    torch.manual_seed(0)
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["go", "build", "-o", f"{work}/ossian", "./cmd/ossian"], cwd=ROOT, check=True)
        for preset, length in CASES.items():
            case(preset, length, pathlib.Path(work))


if __name__ == "__main__":
    main()
