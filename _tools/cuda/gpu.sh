#!/usr/bin/env bash
# One run on a machine with a GPU, a driver and nothing else: no Go, no network. At most ten
# minutes; every phase has a limit, a phase that fails is followed by the next one, and a table of
# all phases ends it. It changes no clocks and resets nothing.
#
#   _tools/cuda/gpu.sh pack FOLDER       here: the programs and this script, and FOLDER.tar.xz of them
#   FOLDER/gpu.sh run OUT                there: results in OUT, the table on standard output
#
# Settings of run, in the environment: DEVICE=cuda:N, or emu for the emulator; MODELS="gpt-oss-20b
# qwen3-8b", presets of ossian synth, made with random weights in WORK (a folder with room for them:
# /dev/shm, else the one for temporary files, else OUT); SIZE=small for a run that only shows that
# everything works; TOTAL=570 seconds; POINTS="1:1000:128", rows, input and output of latencies of the
# first model.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() { sed -n 's/^# \{0,1\}//; 2,14p' "${BASH_SOURCE[0]}"; exit 2; }

# pack FOLDER: programs of the tree around this script, without tables for debuggers. Machine code
# travels, so the folder and its archive are held to a size.
pack() {
  local folder=$1
  mkdir -p "$folder" || exit 1
  folder=$(cd "$folder" && pwd)
  export CGO_ENABLED=0 GOFLAGS=-trimpath
  cd "$here/../.." &&
    go build -tags cuda -ldflags '-s -w' -o "$folder/ossian" ./cmd/ossian &&
    go build -tags cuda -ldflags '-s -w' -o "$folder/card" ./_tools/cuda/card &&
    go test -c -tags cuda -ldflags '-s -w' -o "$folder/cuda.test" ./internal/cuda &&
    mkdir -p "$folder/e2e" && go test -c -tags cuda,card -ldflags '-s -w' -o "$folder/e2e/e2e.test" ./internal/e2e &&
    git rev-parse HEAD >"$folder/commit" || { echo "gpu.sh: not packed" >&2; exit 1; }
  git diff --quiet HEAD || echo "with changes that are not committed" >>"$folder/commit"
  rm -rf "$folder/testdata" "$folder/ckpt"
  mkdir -p "$folder/ckpt/testdata" && cp -r internal/ckpt/testdata/reference "$folder/ckpt/testdata/" || exit 1 # where e2e.test looks
  test -d internal/cuda/testdata && cp -r internal/cuda/testdata "$folder/testdata"
  cp "$here/gpu.sh" "$folder/"
  tar -C "$(dirname "$folder")" -c "$(basename "$folder")" | xz -T0 -6 >"$folder.tar.xz" || exit 1
  local size
  size=$(stat -c %s "$folder.tar.xz")
  echo "$folder.tar.xz: $size bytes"
  if test "$size" -gt 35000000; then
    echo "gpu.sh: more than 35 MB" >&2
    exit 1
  fi
}

rows=() # of the table: phase, seconds, result, remark

# phase NAME LIMIT COMMAND...: runs a command, its output in OUT/NAME.log, and notes how it went. It
# returns its status. A command may leave a remark for the table in OUT/NAME.remark.
phase() {
  local name=$1 limit=$2 began=$SECONDS status result remark=
  shift 2
  local left=$((total - SECONDS))
  if test $left -lt 3; then
    rows+=("$name|0|skipped|no time is left")
    return 1
  fi
  test "$limit" -gt "$left" && limit=$left
  timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1
  status=$?
  case $status in
    0) result=ok ;;
    77) result=skipped ;;
    124 | 137) result="over its limit" ;;
    *) result="failed ($status)" ;;
  esac
  if test -s "$out/$name.remark"; then
    remark=$(head -c 200 "$out/$name.remark" | tr '\n|' '  ')
    rm -f "$out/$name.remark"
  elif test $status -ne 0; then
    remark=$(grep -v '^ *$' "$out/$name.log" | tail -n 1 | head -c 160 | tr '|' ' ')
  fi
  rows+=("$name|$((SECONDS - began))|$result|$remark")
  return $status
}

# machine: what nvidia-smi and the kernel say, before or after everything else.
machine() { # BEFORE|AFTER
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,pstate,clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw,memory.used --format=csv
  else
    echo "nvidia-smi is not there"
  fi
  uname -sr
  grep -m 1 'model name' /proc/cpuinfo
  head -n 1 /proc/meminfo
}

# cards: the card measured, with an empty cache of compiled modules and with a full one.
cards() {
  rm -rf "$CUDA_CACHE_PATH"
  local bytes=$((1 << 30))
  test $small = 1 && bytes=$((1 << 16))
  "$programs/card" -device "$device" -bytes $bytes -json "$out/card.json" -modules "$out/modules-cold.csv" &&
    "$programs/card" -device "$device" -bytes $bytes -json "$out/card-again.json" -modules "$out/modules-warm.csv" || return
  # The time of a module is in each row of its kernels.
  load() { awk -F, 'NR > 1 && !seen[$1 $2]++ { sum += $4 } END { printf "%.0f", sum }' "$1"; }
  # figure NAME of a group: the second word of its line.
  figure() { grep -A 4 "\"$1\": {" "$out/card.json" | grep -m 1 "per_s\"" | tr -dc '0-9.'; }
  echo "read $(figure read_by_kernel | cut -d . -f 1) GB/s, mma $(figure mma_bf16 | cut -d . -f 1) TFLOP/s; modules $(load "$out/modules-cold.csv") ms cold, $(load "$out/modules-warm.csv") ms warm; $(grep -o '"name": "[^"]*"' "$out/card.json" | head -n 1 | cut -d '"' -f 4)" >"$out/cards.remark"
}

# tests: the suites of kernels, devices and runners, on this card. What counts accesses, and what
# breaks a context on purpose, is for the emulator. Digests of what was computed go to a file.
tests() { # NUMBER of the run
  export OSSIAN_CARD=${device%%:*} OSSIAN_DIGESTS=$out/digests-$1.txt
  test "$device" = "${device#*:}" || export CUDA_VISIBLE_DEVICES=${device#*:}
  rm -f "$OSSIAN_DIGESTS"
  local only='^Test(AddNorm|Attend|Device|Embed|Expert|GLU|Invariance|Linear|Measure|Narrow|Picks|Pools|Rotate|Route|Runner|Sample|SelectRows|Store|Warpgroups)'
  test $small = 1 && only='^Test(GLU|Narrow|Rotate)$'
  cd "$programs" && ./cuda.test -test.v -test.timeout 10m -test.run "$only" -test.skip '(Counters|Faults|Plan|Refuses|Scratch|Traffic)$' || return
  echo "$(grep -c '^ *--- PASS' "$out/tests-$1.log") tests passed" >"$out/tests-$1.remark"
}

# conformance: what single instructions compute, recorded. The files belong in
# internal/cuda/emu/testdata/conformance, where tests hold the emulator to them.
conformance() {
  export OSSIAN_CARD=${device%%:*} OSSIAN_CONFORMANCE=$out/conformance
  test "$device" = "${device#*:}" || export CUDA_VISIBLE_DEVICES=${device#*:}
  cd "$programs" && ./cuda.test -test.v -test.run '^TestConformance$' || return
  echo "$(ls "$OSSIAN_CONFORMANCE" | wc -l) recordings" >"$out/conformance.remark"
}

# golden: logits of tiny models of all families against transformers', on this card.
golden() {
  export OSSIAN_CARD=${device%%:*}
  test "$device" = "${device#*:}" || export CUDA_VISIBLE_DEVICES=${device#*:}
  local only='^TestCUDAReference$'
  test $small = 1 && only='^TestCUDAReference$/^llama-tiny$'
  cd "$programs/e2e" && ./e2e.test -test.v -test.timeout 10m -test.run "$only" || return
  echo "$(grep -c '^ *--- PASS: TestCUDAReference/' "$out/golden.log") models within the distance of transformers in bf16" >"$out/golden.remark"
}

# texts: perplexity of the built-in model, twice on the card and once on processors. All digits that
# are printed must be equal on the card; elsewhere they are about the same.
texts() {
  local text=$work/text count=512
  test $small = 1 && count=12
  for i in $(seq 1 400); do echo "The sum of $i and $((i * 7)) is $((i * 8)), and this is line $i of a text."; done >"$text"
  "$programs/ossian" perplexity ossian-tiny "$text" --tokens $count --device "$device" | tee "$out/text-1.txt" &&
    "$programs/ossian" perplexity ossian-tiny "$text" --tokens $count --device "$device" | tee "$out/text-2.txt" &&
    "$programs/ossian" perplexity ossian-tiny "$text" --tokens $count --device cpu | tee "$out/text-cpu.txt" || return
  awk '{ print $6 }' "$out/text-1.txt" "$out/text-cpu.txt" | tr '\n' ' ' | awk '{ printf "nll/token %s on the card, %s on processors", $1, $2 }' >"$out/texts.remark"
  cmp "$out/text-1.txt" "$out/text-2.txt"
}

# bits: what two runs on the card computed, digest by digest.
bits() {
  if ! test -s "$out/digests-1.txt"; then
    echo "the tests write no digests" >"$out/bits.remark"
    return 77
  fi
  echo "$(wc -l <"$out/digests-1.txt") digests" >"$out/bits.remark"
  diff <(sort "$out/digests-1.txt") <(sort "$out/digests-2.txt") # tests end in any order
}

# kernels: times of kernels at shapes of models, by the card's own events.
kernels() {
  export OSSIAN_CARD=${device%%:*} OSSIAN_KERNELS=$out/kernels.csv
  test "$device" = "${device#*:}" || export CUDA_VISIBLE_DEVICES=${device#*:}
  cd "$programs" && ./cuda.test -test.v -test.timeout 10m -test.run '^TestKernelTimes$' || return
  awk -F, 'NR > 1 && $8 > read { read = $8 } NR > 1 && $10 > rate { rate = $10 } END { printf "%d rows, at most %.0f GB/s and %.1f TFLOP/s", NR - 1, read, rate }' "$OSSIAN_KERNELS" >"$out/kernels.remark"
}

# synth PRESET: a checkpoint with random weights, which are never zeros.
synth() { "$programs/ossian" synth "$1" "$work/$1"; }

# latency PRESET ROWS INPUT OUTPUT: one batch. latency-PRESET-ROWS-INPUT-OUTPUT.json is the result.
latency() {
  local name="latency-$1-$2-$3-$4"
  "$programs/ossian" bench latency "$work/$1" --device "$device" --batch-size "$2" --input-len "$3" --output-len "$4" --max-model-len $(($3 + $4 + 16)) \
    --max-num-seqs "$2" --packed-weights off --no-verify --num-iters-warmup 1 --num-iters 3 --output-json "$out/$name.json" || return
  grep -E '^(Prefill|Decode):' "$out/$name.log" | cut -d '(' -f 1 | tr '\n' ' ' >"$out/$name.remark"
}

# throughput PRESET PROMPTS INPUT OUTPUT: many prompts at once.
throughput() {
  local name="throughput-$1-$2-$3-$4"
  "$programs/ossian" bench throughput "$work/$1" --device "$device" --dataset-name random --num-prompts "$2" --input-len "$3" --output-len "$4" --random-range-ratio 0.5 \
    --max-model-len $((2 * ($3 + $4) + 16)) --max-num-seqs $(($2 < 256 ? $2 : 256)) --packed-weights off --no-verify --output-json "$out/$name.json" || return
  grep -E '^Throughput' "$out/$name.log" >"$out/$name.remark"
}

# models: the first preset at all points, those that follow at some, as each point loads the model anew.
# What is made is removed again, so that the next one fits.
models() {
  local model point limit=45
  for model in ${MODELS:-$default_models}; do
    if phase "synth-$model" 90 "${BASH_SOURCE[0]}" part synth "$model"; then
      for point in $points; do
        phase "latency-$model-${point//:/-}" $limit "${BASH_SOURCE[0]}" part latency "$model" ${point//:/ }
      done
      phase "throughput-$model-${many//:/-}" 90 "${BASH_SOURCE[0]}" part throughput "$model" ${many//:/ }
    fi
    rm -rf "${work:?}/$model"
    points="1:1000:128 32:1000:128 1:2048:1"
  done
}

# sanitizer: the smallest case of the device suite under NVIDIA's checker, where that is installed.
sanitizer() {
  local tool
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
  if test -z "$tool" || test "$device" = emu; then
    echo "compute-sanitizer is not here" >"$out/sanitizer.remark"
    return 77
  fi
  export OSSIAN_CARD=cuda
  cd "$programs" && for check in memcheck racecheck; do
    "$tool" --tool $check --error-exitcode 1 ./cuda.test -test.run '^Test(GLU|Narrow|Embed|Route|Linear)$' || return
  done
}

# roomy: the first of some folders in which a model of 14 GB can be made, else the one with most room.
# Containers often have a /dev/shm of 64 MB.
roomy() {
  local folder free most=0 best=/tmp
  for folder in /dev/shm "${TMPDIR:-/tmp}" "${out:-.}"; do
    free=$(df -Pk "$folder" 2>/dev/null | awk 'NR == 2 { print $4 }')
    test "${free:-0}" -gt "$most" && most=$free best=$folder
    test "${free:-0}" -gt 20000000 && break
  done
  echo "$best"
}

# settings: what all phases share; they run as children of this script, so that a limit ends all of one.
settings() {
  device=${DEVICE:-cuda} small=0 programs=$here total=${TOTAL:-570}
  work=${WORK:-$(roomy)}/ossian-gpu
  export WORK=${work%/ossian-gpu}
  # Modules that the driver has compiled, for all phases: a process of its own that finds none begins
  # with some seconds of compiling, and the home folder may not be there or not be writable.
  export CUDA_CACHE_PATH=$work/cache
  default_models="gpt-oss-20b qwen3-8b"
  points=${POINTS:-} # rows, input and output of latencies
  test -n "$points" || points="1:1000:128 8:1000:128 32:1000:128 128:1000:128 1:8000:32 1:128:1 1:2048:1 1:32000:1"
  many=1000:256:128
  if test "${SIZE:-}" = small; then
    small=1 default_models=gpt-oss-tiny points="1:4:2 2:4:2" many=2:4:2
  fi
}

# run OUT: all phases.
run() {
  mkdir -p "$1" || exit 1
  out=$(cd "$1" && pwd)
  export out
  settings
  mkdir -p "$work" || exit 1
  trap 'rm -rf "${work:?}"' EXIT
  local me=${BASH_SOURCE[0]}
  cp "$programs/commit" "$out/" 2>/dev/null
  phase before 10 "$me" part machine
  phase cards 60 "$me" part cards
  phase texts 60 "$me" part texts
  phase conformance 20 "$me" part conformance
  phase tests-1 75 "$me" part tests 1
  phase tests-2 75 "$me" part tests 2
  phase golden 45 "$me" part golden
  phase bits 10 "$me" part bits
  phase kernels 120 "$me" part kernels
  models
  phase sanitizer 60 "$me" part sanitizer
  phase after 10 "$me" part machine
  {
    printf '%-42s %7s  %-16s %s\n' phase seconds result remark
    local row name took result remark
    for row in "${rows[@]}"; do
      IFS='|' read -r name took result remark <<<"$row"
      printf '%-42s %7s  %-16s %s\n' "$name" "$took" "$result" "$remark"
    done
  } | tee "$out/table.txt"
  ! grep -qE '(failed|over its limit)' "$out/table.txt"
}

case "${1:-}" in
  pack) test $# -eq 2 || usage; pack "$2" ;;
  run) test $# -eq 2 || usage; run "$2" ;;
  part) # one phase, in a process of its own: gpu.sh part NAME ARGUMENTS
    settings
    shift
    "$@"
    ;;
  *) usage ;;
esac
