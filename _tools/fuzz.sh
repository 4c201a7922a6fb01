#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each: as many packages at a time as there
# are processors, a package's targets one after another, each with one worker (PARALLEL says how
# many). The tests of a package are built once for all its targets.
# usage: _tools/fuzz.sh TIME [REGEXP of target names]
set -euo pipefail
cd "$(dirname "$0")/.."

# Finds the packages and runs itself for each of them.
if [ "$1" != --package ]; then
  time=$1 want=${2:-.}
  grep -rlE --include='*_test.go' --exclude-dir='_*' '^func Fuzz' internal cmd | xargs -n1 dirname | sort -u |
    xargs -P "$(getconf _NPROCESSORS_ONLN)" -I{} ./_tools/fuzz.sh --package {} "$time" "$want"
  exit
fi

dir=$2 time=$3 want=$4
targets=$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | cut -c6- | grep -E "$want") || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -c -fuzz=. -o "$work/test" "./$dir"
found=$(go env GOCACHE)/fuzz/ossian/$dir # where go test -fuzz keeps inputs, too

fuzz() { # TARGET
  (cd "$dir" && "$work/test" -test.run "^\$" -test.fuzz "^$1\$" -test.fuzztime "$time" -test.fuzzminimizetime 10x \
    -test.fuzzcachedir "$found" -test.parallel "${PARALLEL:-1}" 2>&1 </dev/null) | tee "$work/log" | sed -u "s|^|$dir $1: |"
}

# At the end of the time a target can report the deadline itself as a failure (go.dev/issue/75804),
# on a busy machine again and again. It found nothing then, unless it wrote an input or a seed
# failed.
only_late() {
  grep -q '^ *context deadline exceeded$' "$work/log" && ! grep -qE 'Failing input written|^ +--- FAIL: Fuzz' "$work/log"
}

for target in $targets; do
  for try in 1 2 3; do
    fuzz "$target" && break
    only_late || exit 1
    echo "== $target found nothing and ended with its deadline, try $try of 3"
  done
done
