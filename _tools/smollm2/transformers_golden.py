"""The figures of llama_cpp_golden.py from transformers: the same file, its weights
unpacked to float32, float32 arithmetic. Writes transformers.json beside this file.
It needs _tools/reference/requirements.txt and accelerate, which loads GGUF."""
import json
import pathlib
import sys

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
MODEL = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[1] / "models/SmolLM2-135M-Instruct.Q4_1.gguf"


def greedy(model, ids, steps):
    out, top, past, step = [], [], None, ids
    for _ in range(steps):
        result = model(torch.tensor([step]), past_key_values=past, use_cache=True)
        past = result.past_key_values
        top.append(result.logits[0, -1].topk(5).indices.tolist())
        out.append(top[-1][0])
        step = [out[-1]]
    return out, top


def main():
    llama = json.loads((HERE / "llama_cpp.json").read_text())
    model = transformers.AutoModelForCausalLM.from_pretrained(
        MODEL.parent, gguf_file=MODEL.name, dtype=torch.float32, attn_implementation="eager")
    golden = {
        "origin": "_tools/smollm2/transformers_golden.py",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }
    with torch.no_grad():
        ids = torch.tensor(llama["text_tokens"])
        logprobs = torch.log_softmax(model(ids[None]).logits[0, :-1].double(), -1)
        golden["nll"] = -logprobs.gather(1, ids[1:, None]).sum().item()
        golden["perplexity"] = float(torch.tensor(golden["nll"] / (len(ids) - 1)).double().exp())
        prompts = []
        for p in llama["prompts"]:
            out, top = greedy(model, p["prompt"], len(p["greedy"]))
            prompts.append({"name": p["name"], "greedy": out, "top5": top})
    lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in golden.items()]
    rows = ",\n".join("  " + json.dumps(p) for p in prompts)
    (HERE / "transformers.json").write_text("{\n" + ",\n".join(lines) + ',\n "prompts": [\n' + rows + "\n ]\n}\n")
    print("perplexity", golden["perplexity"])


if __name__ == "__main__":
    main()
