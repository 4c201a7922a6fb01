#!/usr/bin/env bash
# Measures package grammar and llguidance on one sample with one vocabulary, one after the
# other, and prints both. Needs the packages of requirements.txt.
# usage: [MASKBENCH=FOLDER] _tools/grammars/run.sh DIR
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$1 here=_tools/grammars
mkdir -p "$dir"
python "$here/sample.py" "$dir/sample.jsonl" "${MASKBENCH:-}"
go build -o "$dir/ours" "./$here/ours"
"$dir/ours" -vocab "$dir/vocabulary.json" "$dir/sample.jsonl" "$dir/ids.jsonl"
"$dir/ours" "$dir/sample.jsonl" "$dir/own.jsonl"
python "$here/llguidance_times.py" "$dir/vocabulary.json" "$dir/ids.jsonl" "$dir/peer.jsonl"
python "$here/compare.py" "$dir/own.jsonl" "$dir/peer.jsonl" | tee "$dir/result.txt"
