"""Cross-check: the GGUF form of every case in llama.cpp against the golden logits of transformers.

It proves that `ossian synth` writes GGUF as others read it. Needs llama-cpp-python==0.3.36 and numpy. llama.cpp rounds
the ends of the YaRN ramp, which gpt-oss does not (models.md 1.3), and multiplies MXFP4 with 8-bit activations, so
gpt-oss-tiny is far off by design: the distance grows with the position.
"""
import json
import pathlib
import subprocess
import tempfile

import llama_cpp
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["go", "build", "-o", f"{work}/ossian", "./cmd/ossian"], cwd=ROOT, check=True)
        for manifest in sorted((ROOT / "internal/ckpt/testdata/reference").glob("*-tiny.json")):
            golden = json.loads(manifest.read_text())
            file = f"{work}/{golden['preset']}.gguf"
            subprocess.run([f"{work}/ossian", "synth", golden["preset"], file, "--format", "gguf", "--type", "f32",
                            "--seed", str(golden["seed"])], check=True, capture_output=True)
            model = llama_cpp.Llama(file, n_ctx=2048, n_batch=2048, n_ubatch=2048, logits_all=True, verbose=False,
                                    type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32)
            model.eval(golden["ids"])
            got = np.array(model.scores)[golden["positions"]]
            want = np.fromfile(manifest.with_suffix(".f32"), "<f4").reshape(got.shape)
            each = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
            print(f"{golden['preset']}: relative L2 {np.linalg.norm(got - want) / np.linalg.norm(want):.2g}, "
                  f"first position {each[0]:.2g}, last {each[-1]:.2g}, argmax {(got.argmax(1) == want.argmax(1)).mean():.3f}")


if __name__ == "__main__":
    main()
