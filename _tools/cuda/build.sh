#!/usr/bin/env bash
# Compiles internal/cuda/kernels/*.cu to PTX, as sources.txt lists them, with pinned compilers.
# Needs python3 with pip, and g++ for the preprocessor; no GPU, no CUDA installation.
#
#   build.sh [-d DIR] [NAME...]   writes NAME.sm_ARCH.ptx (of all sources without a name), MANIFEST, and
#                                 ptx.zip, which is what the program embeds
#   build.sh [-d DIR] --check     fails where what it makes differs from what is committed
#
# DIR keeps the compilers (400 MB; models/cuda, or $CUDA_TOOLS) and is filled at the first run.
# Every product is assembled by two versions of ptxas: what one of them refuses ends the build.
# The table it prints has registers per thread, bytes of static shared memory, bytes of spilled
# registers (which should be 0), by the older assembler.
set -euo pipefail
tools=$(cd "$(dirname "$0")" && pwd)
kernels=$(cd "$tools/../../internal/cuda/kernels" && pwd)
dir=${CUDA_TOOLS:-$tools/../../models/cuda}
check= names=()
while [ $# -gt 0 ]; do
  case $1 in
    -d) dir=${2:?-d takes a directory}; shift 2 ;;
    --check) check=1; shift ;;
    -*) echo "build.sh: unknown option $1; known are -d DIR and --check" >&2; exit 2 ;;
    *) names+=("$(basename "${1%.cu}")"); shift ;;
  esac
done

# The compilers. Those of an existing folder may also lie apart, in 13 and 12.
if [ ! -d "$dir/nvidia" ] && [ ! -d "$dir/13/nvidia" ]; then
  echo "build.sh: fetching compilers into $dir" >&2
  mkdir -p "$dir"
  python3 -m pip install -q --no-deps --target "$dir" -r "$tools/requirements.txt"
fi
dir=$(cd "$dir" && pwd)
new=$dir/nvidia/cu13 old=$dir/nvidia/cuda_nvcc
[ -d "$dir/13/nvidia" ] && new=$dir/13/nvidia/cu13 old=$dir/12/nvidia/cuda_nvcc
# The headers of cuda_bf16.h lie where nvcc looks only in some versions of their package.
include=$new/include/cccl

# One set of flags for all. Without -fmad=false each assembler would fuse products and sums as it
# likes, and two kernels could not promise the same bits (cuda.md 2).
flags="-O3 -std=c++17 -fmad=false"
# The oldest PTX version that has what an architecture needs decides which drivers load it.
declare -A versions=([80]=7.1 [90a]=8.0 [100a]=8.6 [120a]=8.7)

# parts SOURCE prints the files of this folder that a source consists of, itself first.
parts() {
  local seen=" $1 " queue=("$1") file part
  while [ ${#queue[@]} -gt 0 ]; do
    file=${queue[0]} queue=("${queue[@]:1}")
    echo "$file"
    for part in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file"); do
      case $seen in *" $part "*) ;; *) seen+="$part " queue+=("$part") ;; esac
    done
  done
}

digest() { sha256sum "$1" | cut -d' ' -f1; }

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$kernels"
failed=0 compiled=0
[ ${#names[@]} = 0 ] || for name in "${names[@]}"; do
  grep -q "^$name\b" "$tools/sources.txt" || { echo "build.sh: _tools/cuda/sources.txt has no line for $name; it wants '$name 80', say" >&2; exit 2; }
done
while read -r name arch; do
  [ -e "$name.cu" ] || { echo "build.sh: _tools/cuda/sources.txt names $name; there is no internal/cuda/kernels/$name.cu" >&2; exit 2; }
  [ -n "$arch" ] && [ -n "${versions[$arch]:-}" ] || {
    echo "build.sh: _tools/cuda/sources.txt: '$name $arch' has none of the architectures ${!versions[*]}" >&2; exit 2; }
done < <(grep -v '^#' "$tools/sources.txt")
printf '%-32s %-24s %9s %7s %6s\n' product kernel registers shared spills
while read -r name arch; do
  product=$name.sm_$arch.ptx
  case " ${names[*]:-$name} " in *" $name "*) ;; *) continue ;; esac
  version=${versions[$arch]}
  # shellcheck disable=SC2086 # flags are words
  "$new/bin/nvcc" $flags -isystem "$include" -arch="compute_$arch" -ptx -o "$out/raw.ptx" "$name.cu"
  # Comments name the compiler's build and empty lines only cost bytes; hints which bytes of a wide load are
  # used would need a newer PTX version.
  sed -e '/^[[:space:]]*\/\//d' -e '/^[[:space:]]*$/d' -e '/^[[:space:]]*\.pragma "used_bytes_mask/d' -e "s/^\.version .*/.version $version/" "$out/raw.ptx" > "$out/$product"
  "$new/bin/ptxas" -arch="sm_$arch" -o /dev/null "$out/$product" 2> "$out/log" || { head -n 5 "$out/log" >&2; echo "$product: refused by ptxas 13.0" >&2; failed=1; }
  if "$old/bin/ptxas" -v -arch="sm_$arch" -o /dev/null "$out/$product" 2> "$out/log"; then
    # Lines of a kernel: its name in quotes; "... N bytes spill stores, M bytes spill loads"; "Used N
    # registers, ..., N bytes smem, ...".
    awk -v product="$product" '
      function before(what) { return match($0, "[0-9]+ " what) ? substr($0, RSTART) + 0 : 0 }
      /Compiling entry function/ { split($0, quoted, "\047"); kernel = quoted[2] }
      /spill stores/ { spills = before("bytes spill stores") }
      / registers/ { printf "%-32s %-24s %9d %7d %6d\n", product, kernel, before("registers"), before("bytes smem"), spills }' "$out/log"
  else
    head -n 5 "$out/log" >&2
    echo "$product: refused by ptxas 12.9" >&2
    failed=1
  fi
  compiled=$((compiled + 1))
  # A line of MANIFEST: the product and what it was made of.
  { printf '%s %s' "$product" "$(digest "$out/$product")"
    parts "$name.cu" | while read -r part; do printf ' %s %s' "$part" "$(digest "$part")"; done
    echo; } > "$out/$product.line"
done < <(grep -v '^#' "$tools/sources.txt")
[ $failed = 0 ] || exit 1

# MANIFEST is written whole: new lines of what was compiled, old ones of the rest.
{ echo "# Made by _tools/cuda/build.sh: which bytes each product was made of (SHA-256), and how. Where two"
  echo "# branches differ here, merge sources.txt and run it again."
  grep -v '^#' "$tools/requirements.txt" | sed 's/^/with /'
  echo "flags $flags"
  for arch in $(printf '%s\n' "${!versions[@]}" | sort -V); do echo "version $arch ${versions[$arch]}"; done
  while read -r name arch; do
    product=$name.sm_$arch.ptx
    if [ -e "$out/$product.line" ]; then cat "$out/$product.line"; else grep "^$product " MANIFEST || true; fi
  done < <(grep -v '^#' "$tools/sources.txt")
} > "$out/MANIFEST"

if [ -n "$check" ]; then
  for file in MANIFEST $(cd "$out" && ls ./*.sm_*.ptx); do
    cmp "$out/$file" "$file" || failed=1
  done
  for file in *.ptx; do
    name=${file%%.*} arch=${file##*.sm_}
    grep -q "^$name ${arch%.ptx}\$" "$tools/sources.txt" || { echo "$file: nothing in _tools/cuda/sources.txt makes it" >&2; failed=1; }
  done
  [ $failed = 0 ] || echo "kernels differ from the committed ones: run _tools/cuda/build.sh and commit" >&2
  exit $failed
fi
cp "$out"/*.sm_*.ptx .
cp "$out/MANIFEST" MANIFEST
(cd "$tools" && go run ./archive "$kernels")
echo "$compiled products, MANIFEST and ptx.zip written"
