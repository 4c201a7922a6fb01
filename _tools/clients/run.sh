#!/usr/bin/env bash
# Builds ossian, serves ossian-tiny from it and runs published clients against it, and
# Codex CLI and Claude Code against models that play scripts. Prints a line per check and fails if one
# fails. Needs go, python3 and npm; packages come from their registries and stay in DIR.
# usage: _tools/clients/run.sh [DIR]
set -euo pipefail
cd "$(dirname "$0")/../.."
python_versions="2.54.0 3.52.0"
python_agents=0.24.0           # with the last of these
python_anthropic=2.14.0
python_litellm=1.110.2         # with the openai-python that it asks for
node_clients="openai-6 openai" # versions are in package.json
mkdir -p "${1:-models/clients}"
dir=$(cd "${1:-models/clients}" && pwd)
here=_tools/clients key=sesame

CGO_ENABLED=0 go build -o "$dir/ossian" ./cmd/ossian
CGO_ENABLED=0 go build -o "$dir/scripted" "./$here/scripted"
go -C "$here/go" build -o "$dir/openai-go" .

# A virtual environment with packages. Of their modules those are compiled that are used.
environment() { # FOLDER PACKAGES...
  "${PYTHON:-python3}" -m venv --without-pip "$1"
  "${PYTHON:-python3}" -m pip --python "$1" install -q --no-compile --disable-pip-version-check "${@:2}"
}
for v in $python_versions; do environment "$dir/python-$v" "openai==$v"; done
environment "$dir/python-$v" "openai==$v" "openai-agents==$python_agents" "anthropic==$python_anthropic"
environment "$dir/litellm" "litellm==$python_litellm"
mkdir -p "$dir/node"
cp "$here/package.json" "$dir/node/"
npm install --prefix "$dir/node" --silent --no-package-lock --no-audit --no-fund

pids=()
stop() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; }
trap stop EXIT

# start NAME COMMAND... starts a server on a free port and sets url once its model is loaded.
start() {
  local log=$dir/$1.log pid
  shift
  : >"$log" # before the loop below reads that of an earlier run
  "$@" 2>>"$log" &
  pid=$!
  pids+=("$pid")
  until grep -q 'model loaded' "$log"; do
    kill -0 "$pid" 2>/dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.05
  done
  url=$(sed -n 's/^listening on //p' "$log")
}
start open "$dir/ossian" serve --port 0 && open=$url
start keyed "$dir/ossian" serve --port 0 --api-key "$key" && keyed=$url
start scripted "$dir/scripted" "$here/scripted/codex.txt" && scripted=$url
start claude "$dir/scripted" "$here/scripted/claude.txt" && claude=$url

start tools "$dir/scripted" "$here/scripted/tools.txt" "$here/scripted/site" && tools=$url

status=0
run() { "$@" | tee -a "$dir/result.txt" || status=1; }
: >"$dir/result.txt"
for v in $python_versions; do run "$dir/python-$v/bin/python" "$here/openai_python.py" "$open" "$keyed" "$key"; done
for c in $node_clients; do run node "$here/openai_node.mjs" "$dir/node" "$c" "$open" "$keyed" "$key"; done
run "$dir/litellm/bin/python" "$here/litellm_python.py" "$open" "$keyed" "$key"
run "$dir/openai-go" "$open" "$keyed" "$key"
run "$dir/python-$v/bin/python" "$here/agents_python.py" "$open"
run node "$here/agents_node.mjs" "$dir/node" "$open"
for v in $python_versions; do run "$dir/python-$v/bin/python" "$here/tools_python.py" "$tools"; done
for c in $node_clients; do run node "$here/tools_node.mjs" "$dir/node" "$c" "$tools"; done
run "$dir/openai-go" "$tools"
run node "$here/codex.mjs" "$dir/node" "$scripted"
run "$dir/python-$v/bin/python" "$here/anthropic_python.py" "$open" "$keyed" "$key"
run node "$here/anthropic_node.mjs" "$dir/node" "$open"
run node "$here/claude.mjs" "$dir/node" "$claude"
run "$dir/python-$v/bin/python" "$here/documents.py" "$open" "$dir/node" README.md docs/use/*.md

for pid in "${pids[@]}"; do
  kill "$pid"
  wait "$pid" || { echo "a server ended with status $?" >&2; status=1; }
done
pids=()
echo "$(grep -c ' pass$' "$dir/result.txt" || true) checks passed, $(grep -c ' fail$' "$dir/result.txt" || true) failed"
exit "$status"
