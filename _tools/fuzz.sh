#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each, one after another.
# usage: _tools/fuzz.sh TIME [REGEXP of target names]
set -euo pipefail
cd "$(dirname "$0")/.."
time=$1 want=${2:-.}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fuzz() { # DIRECTORY TARGET
  go test -run "^\$" -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 10x ${PARALLEL:+-parallel $PARALLEL} "./$1" </dev/null | tee "$log"
}

# At the end of the time the go command can report the deadline itself as a
# failure (go.dev/issue/75804), on a busy machine again and again. It found nothing
# then, unless it wrote an input or a seed failed.
only_late() {
  grep -q '^ *context deadline exceeded$' "$log" && ! grep -qE 'Failing input written|^ +--- FAIL: Fuzz' "$log"
}

grep -rlE --include='*_test.go' --exclude-dir='_*' '^func Fuzz' internal cmd | xargs -n1 dirname | sort -u | while read -r dir; do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | cut -c6- | grep -E "$want"); do
    echo "== $dir $target $time"
    for try in 1 2 3; do
      fuzz "$dir" "$target" && break
      only_late || exit 1
      echo "== $target found nothing and ended with its deadline, try $try of 3"
    done
  done
done
