#!/usr/bin/env bash
# Runs servers of the official SDKs and of gpt-oss's reference, each over every transport that it
# has, and Ossian's client of the Model Context Protocol against them. Prints a table and fails if
# a check does. Needs go, node with npm and python3; packages come from their registries and stay
# in DIR. The reference needs python3.12 or later, and GPT_OSS, the folder gpt-oss-mcp-server of its
# repository; its rows are left out without.
# usage: [GPT_OSS=FOLDER] _tools/mcp/run.sh [DIR]
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p "${1:-models/mcp}"
dir=$(cd "${1:-models/mcp}" && pwd)
here=$PWD/_tools/mcp python=${PYTHON:-python3}

CGO_ENABLED=0 go build -o "$dir/mcp" ./_tools/mcp
new=$("$python" -c 'import sys; print(int(sys.version_info >= (3, 12)))')
for v in 1 2; do
  "$python" -m venv --without-pip "$dir/python-$v"
  if [ "$v" = 1 ] && [ "$new" = 0 ]; then
    grep '^mcp' "$here/requirements-1.txt" >"$dir/requirements.txt"
  else
    cp "$here/requirements-$v.txt" "$dir/requirements.txt"
  fi
  # Of their modules those are compiled that are used.
  "$python" -m pip --python "$dir/python-$v" install -q --no-compile --disable-pip-version-check -r "$dir/requirements.txt"
done
mkdir -p "$dir/node"
cp "$here/package.json" "$dir/node/"
npm install --prefix "$dir/node" --silent --no-package-lock --no-audit --no-fund

pid=
stop() { if [ -n "$pid" ]; then kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; pid=; fi; }
trap stop EXIT
free() { "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
status=0
: >"$dir/server.log"

# serve NAME KIND COMMAND... starts a server, whose last argument is a port, and checks it.
serve() {
  local name=$1 kind=$2 port
  shift 2
  port=$(free)
  "$@" "$port" >>"$dir/server.log" 2>&1 &
  pid=$!
  until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    kill -0 "$pid" || { tail "$dir/server.log" >&2; exit 1; }
    sleep 0.1
  done
  "$dir/mcp" "$name" "127.0.0.1:$port" "$kind" | tee -a "$dir/table.md" || status=1
  stop
}
command() { "$dir/mcp" "$1" "stdio:$2" plain | tee -a "$dir/table.md" || status=1; }

"$dir/mcp" | tee "$dir/table.md"
for v in 1 2; do
  name="Python SDK $(grep '^mcp' "$here/requirements-$v.txt" | cut -d= -f3)"
  for how in sse streamable-http json stateless; do
    serve "$name, $how" plain "$dir/python-$v/bin/python" "$here/server.py" "$how"
  done
  command "$name, stdio" "$dir/python-$v/bin/python $here/server.py stdio"
done
for how in sse streamable-http json stateless; do
  serve "TypeScript SDK 1, $how" plain node "$here/server1.mjs" "$dir/node" "$how"
done
command "TypeScript SDK 1, stdio" "node $here/server1.mjs $dir/node stdio"
for how in both modern; do
  serve "TypeScript SDK 2, $how" plain node "$here/server2.mjs" "$dir/node" "$how"
done
command "TypeScript SDK 2, stdio" "node $here/server2.mjs $dir/node stdio"
if [ -n "${GPT_OSS:-}" ] && [ "$new" = 1 ]; then
  export PYTHON_EXECUTION_BACKEND=dangerously_use_uv PATH="$dir/python-1/bin:$PATH"
  for how in sse streamable-http; do
    for kind in browser python; do
      serve "gpt-oss $kind, $how" "$kind" "$dir/python-1/bin/python" "$here/reference.py" "$GPT_OSS/${kind}_server.py" "$how"
    done
  done
else
  echo "the reference's servers are left out: they need GPT_OSS and python3.12" >&2
fi
exit "$status"
