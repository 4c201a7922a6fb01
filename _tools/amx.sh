#!/usr/bin/env bash
# The tests of what differs with AMX, on processors without it: all kernels, the device and the
# runner, with instructions for tiles done by _tools/amx in their place. Needs a
# processor with AVX-512, and leave to trace programs; where that is missing it says so and ends
# well, for nothing can be shown there. Elsewhere tests that meet no such instruction are a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
if [ "$(uname -sm)" != "Linux x86_64" ] || ! grep -qw avx512_vnni /proc/cpuinfo; then
  echo "amx: nothing was tested: this machine has no AVX-512, or no Linux"
  exit 0
fi
if grep -qw amx_bf16 /proc/cpuinfo; then
  echo "amx: this processor has AMX: go test ./internal/cpu/... ./internal/e2e tests it"
  exit 0
fi
go build -o bin/amx ./_tools/amx
rm -f bin/amx.test

on() { # PACKAGE ARGUMENTS-OF-TEST
  echo "== $1"
  go test -c -o bin/amx.test "$1"
  (cd "$1" && "$OLDPWD/bin/amx" "$OLDPWD/bin/amx.test" -test.short "${@:2}")
}

rc=0
said=$(on ./internal/cpu/kern -test.run '^TestMulGated$' 2>&1) || rc=$?
if [ $rc = 125 ] && [[ $said == *"operation not permitted"* ]]; then
  echo "amx: nothing was tested: programs may not be traced here ($said)"
  exit 0
fi
on ./internal/cpu/kern -test.skip '^TestLevels$' # which asks what the machine itself has
on ./internal/cpu -test.run '^Test(Device|Runner|SameOnVectorLevels|InfiniteValue)$'
rm bin/amx.test
echo "amx: done in $SECONDS s"
