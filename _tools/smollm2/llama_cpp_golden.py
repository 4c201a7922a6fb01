"""Compute with llama.cpp what compare.go checks; writes llama_cpp.json beside this file.

Perplexity: the text is encoded without BOS, the whole of it is one context, and every
token but the first is predicted from all before it:
exp(-1/(n-1) * sum over i in 1..n-1 of ln p(token i | tokens 0..i-1)).
"""
import hashlib
import json
import pathlib
import sys

import llama_cpp
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MODEL = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[1] / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT = 4096
STEPS = 32  # greedy tokens per prompt, whatever they are


def load(**settings):
    return llama_cpp.Llama(str(MODEL), n_ctx=CONTEXT, logits_all=True, verbose=False, n_threads=1, n_threads_batch=1, **settings)


def log_softmax(logits):
    x = logits.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def nll(model, ids):
    """Natural-log loss of every token but the first, summed."""
    model.reset()
    model.eval(ids)
    p = log_softmax(model.scores[: len(ids) - 1])
    return float(-p[np.arange(len(ids) - 1), ids[1:]].sum())


def greedy(model, ids):
    model.reset()
    model.eval(ids)
    out, top = [], []
    for _ in range(STEPS):
        logits = model.scores[model.n_tokens - 1]
        order = np.argsort(-logits, kind="stable")[:5]
        out.append(int(order[0]))
        top.append([int(i) for i in order])
        model.eval([out[-1]])
    return out, top


def main():
    text = (HERE / "text.txt").read_bytes()
    model = load()
    ids = model.tokenize(text, add_bos=False, special=False)
    golden = {
        "origin": "_tools/smollm2/llama_cpp_golden.py",
        "llama_cpp_python": llama_cpp.__version__,
        "system": llama_cpp.llama_print_system_info().decode().strip(),
        "settings": f"n_ctx {CONTEXT}, one thread, everything else the default (F16 KV cache)",
        "model_sha256": hashlib.sha256(MODEL.read_bytes()).hexdigest(),
        "text_tokens": ids,
        "nll": nll(model, ids),
    }
    golden["perplexity"] = float(np.exp(golden["nll"] / (len(ids) - 1)))
    exact = nll(load(type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32), ids)
    golden["perplexity_f32_kv"] = float(np.exp(exact / (len(ids) - 1)))
    prompts = []
    for name, prompt in json.loads((HERE / "prompts.json").read_text()).items():
        prompt_ids = model.tokenize(prompt.encode(), add_bos=False, special=True)
        out, top = greedy(model, prompt_ids)
        text = model.detokenize(out, special=True).decode(errors="replace")
        prompts.append({"name": name, "prompt": prompt_ids, "greedy": out, "top5": top, "text": text})
        print(name, repr(text))
    golden["prompts"] = prompts
    lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in golden.items() if k != "prompts"]
    rows = ",\n".join("  " + json.dumps(p) for p in prompts)
    (HERE / "llama_cpp.json").write_text("{\n" + ",\n".join(lines) + ',\n "prompts": [\n' + rows + "\n ]\n}\n")
    print(len(golden["text_tokens"]), "tokens, perplexity", golden["perplexity"], "with F32 KV", golden["perplexity_f32_kv"])


if __name__ == "__main__":
    main()
