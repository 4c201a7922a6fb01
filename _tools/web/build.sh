#!/usr/bin/env bash
# Makes internal/web/dist anew from src and the locked npm packages. With --check it fails where
# what is committed is something else, with --test it checks types and runs the tests of the
# sources; both pass with a word where npm is missing, for Ossian is built without it.
set -euo pipefail
cd "$(dirname "$0")"
if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
  [ $# -gt 0 ] || { echo "npm is needed to bundle the page" >&2; exit 1; }
  echo "the page is not checked: node and npm are missing"
  exit 0
fi
# Packages are fetched only where those that are there are not those of the lock file.
if ! cmp -s package-lock.json node_modules/.locked; then
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  cp package-lock.json node_modules/.locked
fi
case "${1:-}" in
--check) exec go run . -check ;;
--test)
  node_modules/.bin/tsc --noEmit
  exec go run . -test
  ;;
*) exec go run . ;;
esac
