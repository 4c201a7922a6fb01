#!/usr/bin/env bash
# Makes every kind of report with the built-in model and opens each in a headless Chromium
# (browser/main.go says what it checks). Nothing is asked of a network.
#
#   _tools/bench/reports.sh DIR [-chromium PROGRAM]
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p "${1:?usage: reports.sh DIR [-chromium PROGRAM]}"
dir=$(cd "$1" && pwd)
shift
rm -rf "$dir/sweeps"
CGO_ENABLED=0 go build -o "$dir/ossian" ./cmd/ossian
"$dir/ossian" bench serve --num-prompts 64 --request-rate 40 --num-runs 2 --disable-tqdm --save-result --result-dir "$dir" --result-filename run.json \
  --html "$dir/run.html" --plot-timeline --plot-dataset-stats
"$dir/ossian" bench sweep load --max 4 --num-prompts 8 --output-dir "$dir/sweeps" --experiment-name e --html "$dir/load.html" --disable-tqdm
"$dir/ossian" bench sweep plot "$dir/sweeps/e" --var-x max_concurrency --html "$dir/sweep.html"
go run ./_tools/bench/browser -out "$dir" "$@" "$dir"/{run,run.timeline,load,sweep}.html
