#!/usr/bin/env bash
# Makes src/formulas.woff2 anew: brackets, roots and sums of DejaVu Math TeX Gyre 2.37 in all their
# sizes, and its constants for setting formulas. Letters stay those of the browser. Run it for
# another font or more characters; building the page does not need it.
#
#   _tools/web/font.sh DejaVuMathTeXGyre.ttf     # Debian: fonts-dejavu-extra
set -euo pipefail
font=$(realpath "${1:?usage: font.sh DejaVuMathTeXGyre.ttf}")
cd "$(dirname "$0")"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" -q install fonttools==4.68.0 brotli==1.2.1
# The space is there so that browsers take the sizes of brackets from this font.
"$tools/bin/pyftsubset" "$font" --flavor=woff2 --no-hinting --layout-features= --output-file=src/formulas.woff2 \
  --unicodes=20,28,29,5B,5D,7B-7D,AF,2016,203E,2190-2194,220F-2211,221A,222B-222E,22C0-22C3,2308-230B,23DE,23DF,27E8,27E9
