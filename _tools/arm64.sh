#!/usr/bin/env bash
# The tests of what differs on arm64, on emulated processors (Debian: qemu-user, installed where
# this runs as root): all kernels, the device, the runner, whole models and their golden logits.
# Instructions that a processor lacks end a test there, so each level is held to its own.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOARCH=arm64 CGO_ENABLED=0 EMULATED=1
if ! command -v qemu-aarch64 >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "arm64.sh: qemu-aarch64 is missing: install qemu-user (Debian), or run this as root there" >&2
    exit 1
  fi
  apt-get install -y -q qemu-user >/dev/null || { apt-get update -q && apt-get install -y -q qemu-user; } >/dev/null
fi

on() { # PROCESSOR FEATURES-OF-LINUX ARGUMENTS-OF-GO-TEST
  echo "== $1, which has: $2"
  ARM64_FEATURES=$2 go test -count=1 -short -timeout 30m -exec "qemu-aarch64 -cpu $1" "${@:3}"
}

kernels() {
  local quick='^Test(Levels|Tiles|Quantise|Dots|MulDoesNotAllocate|BF16Bits|VecLevelsAgree|NotFinite)$'
  on cortex-a72 'asimd' ./internal/cpu/kern -run "$quick"
  on neoverse-n1 'asimd asimddp' ./internal/cpu/kern -run "$quick"
  on max 'asimd asimddp i8mm bf16' ./internal/cpu/kern
}

# One type of keys and values and one family each: what differs is in the kernels.
models() {
  on max 'asimd asimddp i8mm bf16' ./internal/cpu -run '^Test(Device|Runner|SameOnVectorLevels)$/^(i8mm|gpt-oss)$/^(exact=false|i8mm|BF16)$/^(kv=BF16|BF16|exact=.*)$'
  on max 'asimd asimddp i8mm bf16' ./internal/e2e -run '^Test(TinyLevels|TinyLogits|Reference)$/^(i8mm|.*qwen3-wide-tiny[.].*)$'
}

go vet ./internal/cpu/... # and the packages are there, for both
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
kernels &
models
wait $!
echo "arm64: done in $SECONDS s"
