#!/usr/bin/env bash
# Runs every code generator. With --check it fails if what a generator writes
# differs from what is committed, and leaves the tree as it was.
set -euo pipefail
cd "$(dirname "$0")/../internal/cpu/kern"
files="kern_amd64.s kern_amd64.go dispatch_amd64.go kern_arm64.s kern_arm64.go dispatch_arm64.go"
committed=$(mktemp -d)
trap 'rm -rf "$committed"' EXIT
cp $files "$committed"
(cd _gen && go run . -out ../kern_amd64.s -stubs ../kern_amd64.go -pkg kern -dispatch ../dispatch_amd64.go)
(cd _gen && go run ./arm64 -out ../kern_arm64.s -stubs ../kern_arm64.go -dispatch ../dispatch_arm64.go)
[ "${1:-}" = --check ] || exit 0
status=0
for f in $files; do
  cmp "$committed/$f" "$f" || status=1
  cp "$committed/$f" "$f"
done
[ $status = 0 ] || echo "generated files differ from the committed ones: run _tools/generate.sh and commit" >&2
exit $status
