#!/usr/bin/env bash
# Makes every kind of report with the built-in model and a scripted server that breaks off
# answers, and opens each in a headless Chromium (browser says what it checks). As root it
# installs Debian's chromium-headless-shell where there is no Chromium; the reports
# themselves ask nothing of a network. It begins with what README.md shows: the command
# there, whose report's head becomes DIR/report.png. To renew docs/pictures/report.png
# copy that, and the numbers of DIR/report.txt into README.md.
#
#   _tools/bench/reports.sh DIR [-chromium PROGRAM]
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p "${1:?usage: reports.sh DIR [-chromium PROGRAM]}"
dir=$(cd "$1" && pwd)
shift

find_chromium() { command -v chromium-headless-shell || command -v chromium || command -v google-chrome; }
if [ $# = 0 ]; then
  if ! find_chromium >/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
      echo "reports.sh: no Chromium here: install Debian's chromium-headless-shell, or name one with -chromium PROGRAM" >&2
      exit 1
    fi
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium-headless-shell >/dev/null
  fi
  set -- -chromium "$(find_chromium)"
fi

rm -rf "$dir"/sweeps "$dir"/*.html "$dir"/*.png
CGO_ENABLED=0 go build -o "$dir/ossian" ./cmd/ossian
"$dir/ossian" bench serve --num-prompts 64 --input-len 256 --output-len 64 --html "$dir/report.html" >"$dir/report.txt"
"$2" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,770 --screenshot="$dir/report.png" "file://$dir/report.html"
quiet=(--disable-tqdm --random-input-len 128 --random-output-len 32)
"$dir/ossian" bench serve --num-prompts 48 --request-rate 40 --num-runs 2 "${quiet[@]}" --save-result --result-dir "$dir" --result-filename run.json \
  --html "$dir/run.html" --plot-timeline --plot-dataset-stats
"$dir/ossian" bench sweep load --max 4 --num-prompts 8 --prompts-per-load 4 "${quiet[@]}" --output-dir "$dir/sweeps" --experiment-name e --html "$dir/load.html"
"$dir/ossian" bench sweep plot "$dir/sweeps/e" --var-x max_concurrency --html "$dir/sweep.html"

"$dir/ossian" bench scripted --port 0 --fault reset --fault-every 8 --fault-chunk 5 >"$dir/scripted.log" &
server=$!
trap 'kill $server' EXIT
until url=$(sed -n 's/^listening on //p' "$dir/scripted.log") && [ -n "$url" ]; do
  kill -0 $server
  sleep 0.05
done
# Not valid, so it ends with an error.
"$dir/ossian" bench serve --base-url "$url" --model scripted --tokenizer ossian-tiny --num-prompts 64 "${quiet[@]}" --html "$dir/failures.html" || [ -f "$dir/failures.html" ]

go run ./_tools/bench/browser -out "$dir" "$@" "$dir"/{run,failures,run.timeline,load,sweep}.html
