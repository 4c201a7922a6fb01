"""Weights to begin a run with: those of another run, or of a checkpoint, perhaps
of a smaller model, whose answers the larger one has until it learns more."""
import dataclasses
import json

import torch
from safetensors.torch import load_file

from export import stored
from model import Config

SIZES = ("layers", "kv_heads")


def weights(path, wanted):
    """The state of a model of the wanted Config, from a state.pt or the folder of a
    checkpoint."""
    if path.is_dir():
        config = Config.of_hugging_face(json.loads((path / "config.json").read_text()))
        state = stored(config, load_file(path / "model.safetensors")).state_dict()
    else:
        saved = torch.load(path, weights_only=True)
        config, state = Config(**saved["config"]), saved["model"]
    if dataclasses.replace(config, **{n: getattr(wanted, n) for n in SIZES}) != wanted:
        raise SystemExit(f"{path} has the sizes {config.to_dict()}; only {' and '.join(SIZES)} may differ")
    return grown(state, config, wanted)


def grown(state, config, wanted):
    """The state of a model with more layers and key heads and the same logits. A new
    pair of layers stands in the middle, reads as the pair before it does and adds
    nothing yet; of a key head there are several equal ones."""
    new, heads = (wanted.layers - config.layers) // 2, wanted.kv_heads // config.kv_heads
    if new < 0 or (wanted.layers - config.layers) % 2 or heads * config.kv_heads != wanted.kv_heads:
        raise SystemExit(f"a model grows by pairs of layers and to a multiple of its {config.kv_heads} key heads")
    middle = config.layers // 4 * 2 + 2  # after a full layer
    source = [*range(middle), *[middle - 2, middle - 1] * new, *range(middle, config.layers)]
    out = {name: v for name, v in state.items() if not name.startswith("layers.")}
    for i, old in enumerate(source):
        for name, v in state.items():
            if not name.startswith(f"layers.{old}."):
                continue
            part = name.split(".", 2)[2]
            if part.startswith(("attention.k.", "attention.v.")):
                v = v.unflatten(0, (config.kv_heads, -1)).repeat_interleave(heads, 0).flatten(0, 1)
            if middle <= i < middle + 2 * new and part in ("attention.o.weight", "attention.o.bias", "experts.down", "experts.down_bias"):
                v = torch.zeros_like(v)
            out[f"layers.{i}.{part}"] = v
    return out
