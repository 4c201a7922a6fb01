#!/usr/bin/env bash
# Runs the tests of the page in a headless Chromium. As root it installs Debian's
# chromium-headless-shell where no browser is found; axe-core, which looks for what keeps people
# out, comes from npm into DIR and stays there. Further arguments go to the tests.
#
#   _tools/web/browsertest/run.sh DIR [-run NAME] [-update-screenshots]
set -euo pipefail
mkdir -p "${1:?usage: run.sh DIR [FLAGS]}"
dir=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")"

find_browser() { command -v "${BROWSER:-chromium-headless-shell}" || command -v chromium || command -v chromium-browser || command -v google-chrome; }
if ! find_browser >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium-headless-shell >/dev/null
fi
axe=axe-core@4.14.1
if command -v npm >/dev/null && ! [ -f "$dir/node_modules/axe-core/axe.min.js" ]; then
  npm install --prefix "$dir" --no-save --ignore-scripts --no-audit --no-fund --loglevel=error "$axe"
fi
[ -f "$dir/node_modules/axe-core/axe.min.js" ] && export AXE="$dir/node_modules/axe-core"
exec go test -count=1 -timeout 30m . -patience 5m -keep "$dir" "$@"
