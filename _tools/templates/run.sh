#!/usr/bin/env bash
# Fetches public chat templates into a folder and compares internal/jinja with
# jinja2 on all of them; fails if any pair differs. With HF=1 also prints how
# @huggingface/jinja does. Needs the packages of README.md.
# usage: _tools/templates/run.sh DIR
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$1 here=_tools/templates talks=internal/jinja/testdata/conversations.json
count=183 # templates that collect.py pins
if [ "$(find "$dir" -name '*.jinja' 2>/dev/null | wc -l)" -ne $count ]; then
  mkdir -p "$dir" && rm -f "$dir"/*.jinja
  python "$here/collect.py" "$dir" >/dev/null
fi
python "$here/jinja2_render.py" "$dir" "$talks" "$dir/reference.jsonl"
go run "./$here/render" "$dir" "$talks" "$dir/own.jsonl"
python "$here/compare.py" "$dir/reference.jsonl" "$dir/own.jsonl" | tee "$dir/result.txt"
if [ "${HF:-}" = 1 ]; then
  (cd "$here" && npm install --silent)
  node "$here/hf_render.mjs" "$dir" "$talks" "$dir/hf.jsonl"
  echo "@huggingface/jinja:" && python "$here/compare.py" "$dir/reference.jsonl" "$dir/hf.jsonl" | tail -n 1
fi
grep -q "^$count templates, .* 0 different\$" "$dir/result.txt"
