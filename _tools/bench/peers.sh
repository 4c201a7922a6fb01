#!/usr/bin/env bash
# Side by side: `ossian bench serve` and vLLM's own clients measure the same scripted server
# and the same live one in turns, and what each reports is printed as Markdown.
#
#   _tools/bench/peers.sh DIR [FLAGS]     see _tools/bench/peers; 25 minutes without flags
#
# What it makes in DIR, once (400 MB): the wheel of vllm from the Python package
# registry, without its dependencies. Both of its clients are taken out of it unchanged:
#   wheel/vllm/benchmarks   the Python client. It runs in a virtual environment with the
#                           packages that it uses itself (aiohttp numpy tqdm regex
#                           transformers); peers/vllm_client.py stands in for the engine.
#   wheel/vllm/vllm-rs      the compiled client, `vllm bench serve` with
#                           VLLM_USE_RUST_FRONTEND=1.
# All send the same prompts, so the live server keeps no prefixes. Everything is asked of
# loopback.
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
CGO_ENABLED=0 go build -o "$dir/ossian" ./cmd/ossian
exec go run ./_tools/bench/peers -dir "$dir" "$@"
