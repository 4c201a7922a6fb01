#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each, one after another.
# usage: _tools/fuzz.sh TIME [REGEXP of target names]
set -euo pipefail
cd "$(dirname "$0")/.."
time=$1 want=${2:-.}
grep -rlE --include='*_test.go' --exclude-dir='_*' '^func Fuzz' internal cmd | xargs -n1 dirname | sort -u | while read -r dir; do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | cut -c6- | grep -E "$want"); do
    echo "== $dir $target $time"
    go test -run "^\$" -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x ${PARALLEL:+-parallel $PARALLEL} "./$dir" </dev/null
  done
done
